"""A comparison: activations, a config and a time budget, trained until each pair is decided or the time is over.

The workdir holds `comparison.json` (what is asked, the rates once they are fixed, the time spent), and two workdirs of
growing sweeps: `search`, whose seeds choose each activation's learning rate, and `judgement`, whose seeds are compared
at these rates. What to train next is a function of their results (search.py, judgement.py), so a comparison goes on
where it was stopped, and a larger budget adds seeds to those that are there.
"""

import contextlib
import dataclasses
import itertools
import json
import math
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from rich.console import Console

from actlab import config as config_lib
from actlab.adaptive import judgement, search
from actlab.adaptive.answer import BLOCK, Answer, Measured, duration
from actlab.adaptive.judgement import PairState
from actlab.adaptive.search import Found, Progress
from actlab.analysis import results as results_lib
from actlab.analysis.effects import Verdict
from actlab.analysis.results import Result
from actlab.callbacks import Callback
from actlab.callbacks.terminal import Shown
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.sweeps import plan, session, trained
from actlab.training.loop import StopSignal
from actlab.workdir import manifest
from actlab.workdir.records import Workdir

FILE = "comparison.json"
SEARCH_SEED = 1001  # the first seed of the search; the judgement begins with 1
PLACES = "model.activation, optimizer.learning_rate"  # the axis of both sweeps
# Standard deviation of differences paired by seed, in nats per byte, before any are known: ReLU less GELU at 0.12M
# parameters, fan_in, at the three best rates of experiments/initialisation.
TYPICAL_SD = 0.006
Place = tuple[str, float]  # activation and learning rate


@dataclasses.dataclass(frozen=True)
class Forecast:
    """What a budget can show: seconds of a run, of the search, and how many seeds are left to judge by."""

    run: float
    search: float
    seeds: int
    least: float  # the smallest budget that can decide anything, in seconds


class Comparison:
    """One call of the command on a workdir; `run` is called once.

    Raises:
        UserError: for a config with a sweep, fewer than two activations, or a workdir of another comparison.
    """

    def __init__(
        self,
        config: Config,
        activations: Sequence[str],
        workdir: pathlib.Path,
        budget: float,
        command: Sequence[str],
        console: Console,
        show: Callable[[Answer], None] = lambda answer: None,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._clock, self._began = clock, clock()
        if config.sweep:
            raise UserError("config.sweep is set: a comparison makes its own sweeps; leave the sweep out of --config.")
        if len(set(activations)) < 2 or len(set(activations)) < len(activations):
            raise UserError(f"activations {', '.join(activations)}: name two or more, each once.")
        # Evaluated and saved where the search may stop a run; nothing else is measured.
        quarter = -(-config.train.n_steps // search.RUNGS)
        changes = {f"train.{name}_every": 0 for name in ("probe", "curvature", "census")}
        changes |= {"train.eval_every": quarter, "train.checkpoint_every": quarter}
        self._config = config_lib.replace(config, **changes)
        self._quarter = quarter
        self._activations = tuple(activations)
        self._n_pairs = math.comb(len(activations), 2)
        self._path, self._budget, self._command = workdir, budget, [*command]
        self._console, self._show = console, show
        self._quiet = Console(quiet=True)
        self._compiled: dict[Any, Any] = {}
        self._known = self._begin()
        self._trained = 0.0  # runs' worth of steps in this session, and the seconds they took
        self._seconds = 0.0

    def run(self, stop: StopSignal) -> Answer:
        """Searches, judges, and returns the answer as far as it came; it is also written into the workdir."""
        if not self._known.get("run_seconds"):
            self._known["run_seconds"] = self._calibrated()
        self._tell_forecast()
        self._save()
        while not self._known["rates"] and self._search(stop):
            pass
        while self._known["rates"] and self._judge(stop):
            pass
        answer = self.answer(stop.received or 0)
        self._save()
        write_atomically(self._path / "answer.json", json.dumps(answer.as_dict(), indent=2) + "\n")
        return answer

    def answer(self, signal: int = 0) -> Answer:
        """What the seeds so far say."""
        runs = self._results("judgement")
        losses, failed = self._losses(runs)
        states = judgement.judge(losses, self._margin(runs), self._allowances(), failed) if losses else ()
        parts = []
        for name in self._activations:
            found = (self._known["rates"] or {}).get(name, {})
            values = losses.get(name, np.zeros(0))
            mean = float(values.mean()) if len(values) else math.nan
            n_failed = int(failed[name].sum()) if name in failed else 0
            parts.append(Measured(name, found.get("rate"), found.get("unresolved", ""), mean, len(values), n_failed))
        forecast = self._forecast()
        return Answer(
            activations=tuple(parts),
            pairs=states,
            unit=self._unit(runs),
            margin=self._margin(runs),
            scale=self._scale(runs),
            spent=self._spent(),
            budget=self._budget,
            block_seconds=forecast.run * len(self._activations),
            sds=self._sds(losses),
            first_look=judgement.first_look(self._n_pairs),
            searched=self._searched(),
            workdir=self._path,
            signal=signal,
        )

    # What is known, and what it costs.

    def _begin(self) -> dict[str, Any]:
        """Reads comparison.json, or starts it."""
        asked = {"activations": list(self._activations), "config": json.loads(config_lib.to_json(self._config))}
        file = self._path / FILE
        if not file.is_file():
            return {**asked, "rates": None, "spent": 0.0, "run_seconds": None}
        known = json.loads(file.read_text())
        if known["activations"] != asked["activations"]:
            raise UserError(
                f"--workdir={self._path} compares {', '.join(known['activations'])}: name these activations in this "
                "order, or choose another workdir."
            )
        theirs = config_lib.from_json(json.dumps(known["config"]))
        if path := config_lib.first_difference(self._config, theirs):
            ours, other = (config_lib.flat(one)[path] for one in (self._config, theirs))
            raise UserError(
                f"--workdir={self._path} belongs to another comparison: config.{path} is {other!r} there and {ours!r} "
                "here; choose another workdir."
            )
        return known

    def _save(self) -> None:
        self._path.mkdir(parents=True, exist_ok=True)
        known = {**self._known, "spent": self._spent(), "budget": self._budget}
        write_atomically(self._path / FILE, json.dumps(known, indent=2) + "\n")

    def _spent(self) -> float:
        return self._known["spent"] + self._clock() - self._began

    def _left(self) -> float:
        return self._budget - self._spent()

    def _calibrated(self) -> float:
        """Seconds of a run, by a few updates of the first activation."""
        prepared = session.prepare(self._console, self._swept([(self._activations[0], 1.0)], [1]))
        return plan.make(prepared.specs)[0].seconds

    def _run_seconds(self) -> float:
        """Seconds of a run: of those that were trained, with all that goes with them, or the calibration's."""
        known = self._trained >= 1 and self._seconds > 0
        return self._seconds / self._trained if known else self._known["run_seconds"]

    def _forecast(self) -> Forecast:
        run, n = self._run_seconds(), len(self._activations)
        searched = self._known["rates"] is not None
        of_search = 0.0 if searched else max(search.expected_runs() * n * run - self._known["spent"], 0.0)
        first = judgement.first_look(self._n_pairs)
        seeds = int(max(0.0, self._left() - of_search) / (run * n)) + len(self._seeds_judged())
        return Forecast(run, of_search, seeds, self._spent() + of_search + 1.1 * first * n * run)

    def _tell_forecast(self) -> None:
        """Says what the budget can show.

        Raises:
            UserError: if it cannot show anything.
        """
        forecast, n = self._forecast(), len(self._activations)
        first = judgement.first_look(self._n_pairs)
        if forecast.seeds < first and not (self._path / "search").is_dir():
            raise UserError(
                f"--budget={duration(self._budget)} is too short: a run takes about {duration(forecast.run)}, so that "
                f"{forecast.seeds} seeds of {n} activations are left after the search for their learning rates, and "
                f"fewer than {first} decide nothing, whatever the difference; give --budget={duration(forecast.least)} "
                "or more, or a smaller model."
            )
        if self._known["rates"] is None:
            runs = search.expected_runs() * n
            self._console.print(
                f"budget      {duration(self._budget)}: a run takes about {duration(forecast.run)}; the search for "
                f"learning rates about {runs:.0f} runs, {duration(forecast.search)}"
            )
        least = judgement.detectable(max(forecast.seeds, first), 1.0, self._n_pairs)
        shown, spread = f"{least:.1f} standard deviations of a difference paired by seed", ""
        if self._config.model.kind == "decoder":
            shown = f"{least * TYPICAL_SD:.3f} nats/byte"
            spread = f", if their standard deviation is as in our studies, {TYPICAL_SD:g}"
        self._console.print(
            f"            then about {forecast.seeds} seeds of each activation: differences above {shown} would be "
            f"found with 80% power{spread}"
        )

    # The two stages. Each returns whether it goes on.

    def _search(self, stop: StopSignal) -> bool:
        known = self._searched()
        wanted: dict[str, dict[float, int]] = {}
        found: dict[str, Found] = {}
        start = self._config.optimizer.learning_rate
        for name in self._activations:
            following = search.next_tasks(known[name], start)
            if isinstance(following, Found):
                found[name] = following
            else:
                wanted[name] = {task.rate: task.rung for task in following}
        if not wanted:
            if all(math.isinf(one.allowance) for one in found.values()):
                raise UserError(
                    f"at the learning rates that were tried ({self._path}/search/results.csv), runs of "
                    f"{', '.join(found)} diverge or end no better than predicting each token from the one before: "
                    "train longer, --config.train.n_steps=NUMBER, or take another model."
                )
            # Written before the first fresh seed: nothing that judges has chosen them.
            self._known["rates"] = {name: dataclasses.asdict(one) for name, one in found.items()}
            self._save()
            shutil.rmtree(self._path / "search" / "checkpoints", ignore_errors=True)
            for name, one in found.items():
                why = f", not resolved: {one.unresolved}" if one.unresolved else ""
                self._console.print(f"rate        {name} {one.rate:g}{why}")
            return False
        cost = sum(
            (rung - (known[name][rate].rung if rate in known[name] else 0)) / search.RUNGS
            for name, rates in wanted.items()
            for rate, rung in rates.items()
        )
        if self._is_over(cost * search.SEEDS * self._run_seconds()):
            return False
        seeds = range(SEARCH_SEED, SEARCH_SEED + search.SEEDS)
        goals = {
            _name(name, rate, seed): min(rung * self._quarter, self._config.train.n_steps)
            for name, rates in wanted.items()
            for rate, rung in rates.items()
            for seed in seeds
        }
        places = [(name, rate) for name, rates in wanted.items() for rate in rates]
        going = self._train("search", places, seeds, goals, cost * search.SEEDS, stop)
        for name, rates in self._searched().items():
            tried = "  ".join(
                f"{rate:g} {'failed' if any(one.failed) else f'{statistics.fmean(one.losses):.4f}'}"
                + ("" if one.rung == search.RUNGS else f" at {one.rung}/{search.RUNGS}")
                for rate, one in sorted(rates.items())
            )
            if name in wanted:
                self._console.print(f"search      {name}: {tried}")
        return going

    def _judge(self, stop: StopSignal) -> bool:
        seeds = self._seeds_judged()
        states = self.answer().pairs
        if states and not any(self._is_open(pair) for pair in states):
            return False
        places = [(name, one["rate"]) for name, one in self._known["rates"].items()]
        if self._is_over(BLOCK * len(places) * self._run_seconds()):
            return False
        seeds = range(1, len(seeds) + BLOCK + 1)
        goals = {_name(*place, seed): self._config.train.n_steps for place in places for seed in seeds}
        going = self._train("judgement", places, seeds, goals, BLOCK * len(places), stop)
        self._show(self.answer())
        return going

    def _is_open(self, pair: PairState) -> bool:
        """Whether more seeds may decide a pair. Of two activations without a resolved rate nothing can be known."""
        allowed = self._allowances()
        unbounded = math.isinf(allowed[pair.first]) and math.isinf(allowed[pair.second])
        return pair.verdict == Verdict.UNDECIDED and not unbounded

    def _is_over(self, seconds: float) -> bool:
        """Whether what comes next does not fit into the budget."""
        return self._left() < seconds

    def _train(
        self,
        stage: str,
        places: Sequence[Place],
        seeds: Sequence[int],
        goals: Mapping[str, int],
        worth: float,
        stop: StopSignal,
    ) -> bool:
        """Trains runs of a stage's sweep, which grows to these places and seeds, up to their goals.

        Returns whether they came there; `worth` is what they take, in runs.
        """
        begin = self._clock()
        records = Workdir(self._path / stage)
        file = records.path / "config.json"
        known = dict(config_lib.load(file).sweep)[PLACES] if file.is_file() else ()
        prepared = session.prepare(self._quiet, self._swept([*dict.fromkeys([*known, *places])], seeds))
        manifest.require_same_data(records, prepared.tokens.name, prepared.tokens.fingerprint)
        computed = trained.function_values(one for spec in prepared.specs for one in spec.configs)
        trained.require_same_functions(records, computed)
        with contextlib.closing(records):
            records.open(prepared.config, extend=True)
            begun = set(itertools.chain.from_iterable(manifest.parts(records).values()))
            # A part for each rate, so that the search can stop it alone; all of an activation's share one program.
            groups: dict[Place, list[str]] = {}
            for run in prepared.runs:
                if run.name not in begun:
                    place = (run.config.model.activation, run.config.optimizer.learning_rate)
                    groups.setdefault(place, []).append(run.name)
            data, parts = session.description(prepared.tokens), list(groups.values())
            manifest.begin(records, data, self._command, parts, computed, planned=True)
            training = session.Session(prepared, records, self._quiet, self._compiled)
            with _Status(self._console) as display:
                stopped = training.train(goals, stop, display)[1]
        if not stopped:
            self._trained += worth
            self._seconds += self._clock() - begin
        self._save()
        return not stopped

    def _swept(self, places: Sequence[Place], seeds: Sequence[int]) -> Config:
        return config_lib.replace(self._config, sweep=((PLACES, tuple(places)), ("seed", tuple(seeds))))

    # What the two stages have found.

    def _results(self, stage: str) -> list[Result]:
        path = self._path / stage
        return results_lib.read([path]) if (path / results_lib.FILE).is_file() else []

    def _searched(self) -> dict[str, dict[float, Progress]]:
        """By activation and rate, what the search seeds have done; a rate whose seeds are not even yet waits."""
        found: dict[str, dict[float, Progress]] = {name: {} for name in self._activations}
        groups: dict[Place, list[Result]] = {}
        for run in self._results("search"):
            groups.setdefault((run.activation, run.learning_rate), []).append(run)
        for (name, rate), runs in groups.items():
            if len(runs) < search.SEEDS:
                continue
            # Evaluated at the end of each quarter, so that the last loss is that of the last whole one.
            rung = min(search.RUNGS if run.done else run.steps // self._quarter for run in runs)
            if rung == 0:
                continue
            losses = tuple(math.nan if run.status == "diverged" else run.final_loss for run in runs)
            # Before the end a loss above the trivial one may yet fall.
            failed = tuple(bool(run.failed) if rung == search.RUNGS else not run.learned for run in runs)
            found[name][rate] = Progress(rung, losses, failed)
        return found

    def _seeds_judged(self) -> list[int]:
        """The fresh seeds, in order, of which every activation is trained to its end."""
        done: dict[str, set[int]] = {name: set() for name in self._activations}
        for run in self._results("judgement"):
            if run.done:
                done[run.activation].add(run.seed)
        whole = set.intersection(*done.values())
        return list(itertools.takewhile(lambda seed: seed in whole, itertools.count(1)))

    def _losses(
        self, runs: Sequence[Result]
    ) -> tuple[dict[str, Float64[np.ndarray, "n"]], dict[str, Bool[np.ndarray, "n"]]]:
        """Test losses by activation on the seeds that all have, and which runs failed: those carry the trivial loss."""
        seeds, of = self._seeds_judged(), {(run.activation, run.seed): run for run in runs}
        if not seeds:
            return {}, {}
        losses, failed = {}, {}
        for name in self._activations:
            mine = [of[name, seed] for seed in seeds]
            losses[name] = np.array([_value(run) * self._per_byte(run) for run in mine])
            failed[name] = np.array([bool(run.failed) for run in mine])
        return losses, failed

    def _per_byte(self, run: Result) -> float:
        """What takes a loss per token to one per byte of text, if tokens are predicted one after the other."""
        if run.objective != "next_token" or run.tokenizer == "bytes":  # in which a mark of end is a byte
            return 1.0
        assert run.bytes_per_token is not None
        return 1 / run.bytes_per_token

    def _unit(self, runs: Sequence[Result]) -> str:
        return "nats/byte" if not runs or runs[0].objective == "next_token" else runs[0].unit

    def _margin(self, runs: Sequence[Result]) -> float:
        return results_lib.MARGINS[runs[0].objective if runs else "next_token"]

    def _allowances(self) -> dict[str, float]:
        return {name: one["allowance"] for name, one in (self._known["rates"] or {}).items()}

    def _scale(self, runs: Sequence[Result]) -> str:
        return results_lib.scale_of(runs, ()) if runs else ""

    def _sds(self, losses: Mapping[str, Float64[np.ndarray, "n"]]) -> dict[tuple[str, str], float]:
        pairs = itertools.combinations(losses, 2)
        return {
            pair: float((losses[pair[0]] - losses[pair[1]]).std(ddof=1)) for pair in pairs if len(losses[pair[0]]) > 1
        }


def _value(run: Result) -> float:
    """A run's test loss, or the trivial one if it failed; without one, the loss that it began with."""
    if not run.failed:
        assert run.test_loss is not None
        return run.test_loss
    return run.initial_loss if run.trivial_loss is None else run.trivial_loss


def _name(activation: str, rate: float, seed: int) -> str:
    return f"{activation}-lr{rate!r}-seed{seed}"


class _Status:
    """A line on the terminal that says what is training; nothing in a file."""

    def __init__(self, console: Console):
        self._status = console.status("") if console.is_terminal else None

    def __enter__(self) -> "_Status":
        if self._status:
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._status:
            self._status.stop()

    def program(self, shown: Shown, step: int, peak: float | None) -> Callback:
        """See session.Displayed."""
        return _Steps(self._status, shown)


class _Steps(Callback):
    def __init__(self, status: Any, shown: Shown):
        self._status, self._shown = status, shown

    def on_steps(self, step: int, taken: Any, tokens_per_second: float) -> None:
        """Updates the line."""
        if self._status:
            names = ", ".join(self._shown.names)
            self._status.update(f"training {names}: step {step}/{self._shown.n_steps}")
