"""What a time budget can show, before it is spent."""

import dataclasses
from collections.abc import Mapping

from actlab.adaptive import judgement
from actlab.console import counted, duration
from actlab.errors import UserError

# Standard deviation of differences paired by seed, in nats per byte, before any are known: ReLU less GELU at 0.12M
# parameters, fan_in, at the three best rates of experiments/initialisation.
TYPICAL_SD = 0.006
# Seeds beyond the fewest that a budget should buy: 7 seeds of a pair find 44 standard deviations, 10 find 2.3.
SPARE_SEEDS = 3


@dataclasses.dataclass(frozen=True)
class Forecast:
    """How many runs the search for the learning rates has left, and how many seeds the rest of the budget judges by.

    `run_seconds` is what a run takes, by width; `n_tests` share the 5%; `first_look` is the fewest seeds that can
    decide anything, `advised` a budget that trains SPARE_SEEDS more. `sd` is the largest standard deviation of the
    differences between the seeds there are, in `unit`, None before the first look; `typical` whether TYPICAL_SD is for
    such models. `allowance` is the most by which a loss may lie above that at its activation's best rate, as far as it
    is bounded; 0 before the rates are fixed. `is_over` says that more seeds would decide nothing.
    """

    budget: float
    spent: float
    n_activations: int
    run_seconds: Mapping[int, float]
    search_runs: float
    seeds: int
    first_look: int
    advised: float
    n_tests: int
    unit: str
    sd: float | None
    typical: bool
    allowance: float
    is_over: bool

    @property
    def run(self) -> float:
        """Seconds of a run at the config's own width, the first."""
        return next(iter(self.run_seconds.values()))

    def require_enough(self) -> None:
        """Refuses a budget with which nothing can be decided.

        Raises:
            UserError: naming one that is long enough.
        """
        if self.seeds >= self.first_look:
            return
        given, n_widths = duration(self.budget), len(self.run_seconds)
        advice = f"give --budget={duration(self.advised)}, which is enough for {self.first_look + SPARE_SEEDS} seeds"
        if n_widths > 1:
            seed = self.n_activations * sum(self.run_seconds.values())
            raise UserError(
                f"--budget={given} is too short for --scales={n_widths}: a seed of {self.n_activations} activations at "
                f"{n_widths} widths takes about {duration(seed)}, and fewer than {self.first_look} seeds decide "
                f"nothing, whatever the difference; {advice}, or fewer scales."
            )
        raise UserError(
            f"--budget={given} is too short: a run takes about {duration(self.run)}, and a comparison of "
            f"{self.n_activations} activations needs the search for their learning rates and {self.first_look} seeds "
            f"or more; {advice}, or take a smaller model."
        )

    def lines(self) -> list[str]:
        """What the command prints of it."""
        words = duration(self.budget)
        if self.spent >= self.budget and not self.is_over:
            return [f"budget      {words} are used up ({duration(self.spent)} in all): continue with a larger --budget"]
        if 0 < self.spent < self.budget:
            words += f", of which {duration(self.spent)} are used"
        if self.search_runs:
            words += (
                f": once compiled, a run takes about {duration(self.run)}; the search for learning rates about "
                f"{counted(round(self.search_runs), 'run')}, {duration(self.search_runs * self.run)}"
            )
        found = [f"budget      {words}"]
        where = ""
        if len(self.run_seconds) > 1:
            where = " at each width"
            took = ", ".join(f"{duration(seconds)} at {width}" for width, seconds in self.run_seconds.items())
            found.append(f"widths      {', '.join(map(str, self.run_seconds))}: a run takes about {took}")
        if self.is_over:
            then = "more seeds would decide nothing further"
        elif self.seeds < self.first_look:
            then = f"too little time is left for {self.first_look} seeds{where}, the fewest that can decide anything"
        else:
            then = f"then about {self.seeds} seeds of each activation{where}: differences above {self._detectable()}"
        found.append(f"            {then}")
        if self.allowance and not self.is_over:
            more = f"where a rate may be off its best, a difference must be larger, by up to {self.allowance:.2g}"
            found.append(f"            {more} {self.unit}")
        return found

    def _detectable(self) -> str:
        """The difference that the seeds find with 80% power."""
        least = judgement.detectable(max(self.seeds, self.first_look), 1.0, self.n_tests)
        if self.sd is not None:
            return (
                f"{least * self.sd:.2g} {self.unit} would be found with 80% power, if their standard deviation stays "
                f"{self.sd:.2g}"
            )
        if self.typical:
            return (
                f"{least * TYPICAL_SD:.2g} nats/byte would be found with 80% power, if their standard deviation is as "
                f"in our studies, {TYPICAL_SD:g}"
            )
        return f"{least:.1f} standard deviations of a difference paired by seed would be found with 80% power"
