"""A comparison: activations, a config and a time budget, trained until each pair is decided or the time is over.

The workdir holds `comparison.json` (what is asked, the rates once they are fixed, the time spent), and workdirs of
growing sweeps: `search`, whose seeds choose each activation's learning rate, and `judgement`, whose seeds are compared
at these rates; with scales, also `judgement-WIDTH` at further widths. What to train next is a function of their results
(outcomes.py, search.py, judgement.py), so a comparison goes on where it was stopped, and a larger budget adds seeds to
those that are there.
"""

import bisect
import contextlib
import itertools
import json
import math
import pathlib
import shutil
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from actlab import config as config_lib
from actlab.adaptive import judgement, outcomes, page, record, search
from actlab.adaptive.answer import Answer, Candidate, Width
from actlab.adaptive.forecast import SPARE_SEEDS, Forecast
from actlab.adaptive.judgement import BLOCK, PairState
from actlab.adaptive.outcomes import Judged
from actlab.adaptive.search import BestRate
from actlab.analysis.effects import Verdict
from actlab.callbacks.terminal import StatusLine
from actlab.config import Config, sweep
from actlab.console import WarningsOnly
from actlab.data import TokenCache
from actlab.errors import UserError
from actlab.files import write_atomically
from actlab.sweeps import functions, plan, session
from actlab.training.signals import StopSignal
from actlab.workdir import integrity, manifest
from actlab.workdir.records import JUDGED, Workdir

SEARCH_SEED = 1_000_000  # seeds of the search begin here above the config's own, with which the judgement begins
AXIS = "model.activation, optimizer.learning_rate"  # the axis of both sweeps
Cell = tuple[str, float]  # activation and learning rate
# What a loss must be lower than, see data.rows.Scored.
_TRIVIAL = {
    "next_token": "predicting each token from the one before",
    "masked_token": "predicting tokens without context",
    "classification": "predicting the shares of the classes",
}


class _NoRatesError(UserError):
    """The search has ended and found no rate to judge at."""


class SequentialComparison:
    """One call of the command on a workdir, of two or more different activations; `run` is called once.

    `scales` is the number of widths, the config's own and its doublings; None is the workdir's, or 1.

    Raises:
        UserError: for a config with a sweep, scales without mup, or a workdir of another comparison.
    """

    def __init__(
        self,
        config: Config,
        activations: Sequence[str],
        workdir: pathlib.Path,
        budget: float,
        command: Sequence[str],
        console: Console,
        show: Callable[[Answer, int], None] = lambda answer, width: None,
        clock: Callable[[], float] = time.monotonic,
        scales: int | None = None,
    ):
        self._clock, self._began = clock, clock()
        if config.sweep:
            raise UserError("config.sweep is set, but a comparison makes its own sweeps: leave it out.")
        if config.seed > (most := 2**31 - 1 - SEARCH_SEED - search.SEEDS):
            raise UserError(
                f"config.seed={config.seed} leaves no seeds for the search, which lie {SEARCH_SEED:,} above it: lower "
                f"it to {most:,} or less."
            )
        # Evaluated and saved where the search may stop a run; nothing else is measured.
        quarter = -(-config.train.n_steps // search.RUNGS)
        changes = {f"train.{name}_every": 0 for name in ("probe", "curvature", "census")}
        changes |= {"train.eval_every": quarter, "train.checkpoint_every": quarter}
        self._config = config_lib.replace(config, **changes)
        self._quarter = quarter
        self._n_pairs = math.comb(len(activations), 2)
        self._path, self._budget, self._command = workdir, budget, [*command]
        self._console, self._show = console, show
        self._quiet = WarningsOnly(console)
        self._compiled: dict[Any, Any] = {}
        self._tokens: TokenCache | None = None
        self._known, self._begun = record.begin(workdir, activations, self._config, scales)
        self._activations = self._known.activations
        self._configs = _widened(self._config, self._known.scales)
        self._width = config.model.d_model
        # By width, runs' worth of steps in this session, and the seconds they took, where nothing was compiled.
        self._trained, self._seconds = (dict.fromkeys(self._configs, 0.0) for _ in range(2))

    def run(self, stop: StopSignal) -> Answer:
        """Searches, judges, and returns the answer as far as it came, which answer.json and index.html have too."""
        with contextlib.closing(Workdir(self._path)) as folder:
            exists = self._path.is_dir()
            if exists:
                folder.lock()
            forecast = self._prepare(stop)
            if not exists:  # only now, so that what is refused leaves no folder
                folder.lock()
            return self._run(forecast, stop)

    def _prepare(self, stop: StopSignal) -> Forecast:
        """Mends and checks what is there, and tells what the budget is enough for."""
        self._mend(stop)
        for folder in ("search", *map(self._stage, self._configs)):
            configs = (config_lib.replace(self._config, **{"model.activation": name}) for name in self._activations)
            functions.require_same_own(Workdir(self._path / folder, writes=False), configs)
        for width in self._configs:
            if width not in self._known.run_seconds:
                self._known.run_seconds[width] = self._calibrated(width)
        forecast = self._forecast()
        if not self._begun:
            forecast.require_enough()
        return forecast

    def _run(self, forecast: Forecast, stop: StopSignal) -> Answer:
        try:
            if not self._known.rates:
                self._fix_rates()  # of a search that has ended, before seeds are promised
            for line in [f"data        {self._config.data.name}", *forecast.lines()]:
                self._console.print(line)
            self._save()
            while not self._known.rates and self._search(stop):
                pass
        except _NoRatesError as error:  # the search ended without rates: what an earlier session wrote holds no longer
            self._write(self.answer(obstacle=str(error)))
            raise
        while self._known.rates and self._judge(stop):
            pass
        answer = self.answer(stop.received or 0)
        self._write(answer)
        return answer

    def _write(self, answer: Answer) -> None:
        self._save()
        write_atomically(self._path / "answer.json", json.dumps(answer.as_dict(), indent=2) + "\n")
        write_atomically(self._path / "index.html", page.render(answer, self._command))

    def answer(self, signal: int = 0, obstacle: str = "") -> Answer:
        """What the seeds so far say; `obstacle` is why there will be none."""
        judged = self._judged()
        base = judged[self._width]
        widths = {width: self._states(one, width) for width, one in judged.items()}
        parts = []
        for name in self._activations:
            found = (self._known.rates or {}).get(name)
            rate, unresolved = (found.rate, found.unresolved) if found else (None, "")
            mean = float(base.losses[name].mean()) if base.seeds else math.nan
            n_failed = int(base.failed[name].sum()) if base.seeds else 0
            parts.append(Candidate(name, rate, unresolved, mean, base.seeds, n_failed))
        pairs = tuple(itertools.combinations(self._activations, 2))
        return Answer(
            activations=tuple(parts),
            pairs=widths[self._width],
            unit=base.unit,
            margin=base.margin,
            scale=base.scale,
            spent=self._spent(),
            budget=self._budget,
            block_seconds=self._block_seconds(widths),
            sds={pair: sd for pair in pairs if (sd := base.sd(*pair)) is not None},
            first_look=judgement.first_look(self._n_pairs),
            searched=self._searched(),
            workdir=self._path,
            signal=signal,
            widths=tuple(Width(width, one.scale, widths[width], tuple(one.unlucky)) for width, one in judged.items()),
            trends=self._trends(judged),
            obstacle=obstacle,
        )

    # What is known, and what it costs.

    def _mend(self, stop: StopSignal) -> None:
        """Makes anew what a kill or a damaged disk took of the stages' tables, before they are read.

        Raises:
            UserError: for a stage without its config.json.
        """
        # Once the rates are fixed the search decides nothing any more, and its checkpoints are gone.
        stages = [] if self._known.rates else [(self._width, "search")]
        for width, stage in [*stages, *((width, self._stage(width)) for width in self._configs)]:
            records = Workdir(self._path / stage, writes=False)
            if not integrity.check(records).problems:
                continue
            file = records.path / "config.json"
            config = config_lib.load(file) if file.is_file() else Config()
            cells = {run.name: _cell(run.config) for run in sweep.expand(config)}
            parts, ended = manifest.parts(records), records.manifest().get("ended", {})
            if not set(itertools.chain.from_iterable(parts.values())) <= cells.keys():
                raise UserError(f"{file} is lost, or not as it was written: restore it, or choose another workdir.")
            goals = {cells[parts[part][0]]: one["step"] for part, one in ended.items()}
            if not self._train(stage, width, goals, dict(config.sweep)["seed"], 0.0, stop):
                raise KeyboardInterrupt

    def _save(self) -> None:
        self._known.write(self._path, self._spent(), self._budget)

    def _spent(self) -> float:
        return self._known.spent + self._clock() - self._began

    def _left(self) -> float:
        return self._budget - self._spent()

    def _calibrated(self, width: int) -> float:
        """Seconds of a run, by a few updates of the first activation; all are prepared, to refuse what cannot be."""
        prepared = self._prepared(width, [(name, 1.0) for name in self._activations], [1])
        return plan.make(prepared.specs[:1])[0].seconds

    def _run_seconds(self, width: int) -> float:
        """Mean wall time of a run so far, with all its overhead; before the first run, the calibration's estimate."""
        known = self._trained[width] >= 1 and self._seconds[width] > 0
        return self._seconds[width] / self._trained[width] if known else self._known.run_seconds[width]

    def _block_seconds(self, widths: Mapping[int, Sequence[PairState]]) -> float:
        """Seconds of one more seed of every activation; widths with open pairs take their seeds in turn."""
        open_ones = {width for width, pairs in widths.items() if any(one.verdict == Verdict.UNDECIDED for one in pairs)}
        return len(self._activations) * sum(map(self._run_seconds, open_ones | {self._width}))

    def _forecast(self) -> Forecast:
        known, judged = self._known, self._judged()
        run_seconds, n = {width: self._run_seconds(width) for width in self._configs}, len(self._activations)
        quarters = sum(one.rung for rates in self._searched().values() for one in rates.values())
        searched = quarters / search.RUNGS * search.SEEDS
        to_search = 0.0 if known.rates else max(search.EXPECTED_RUNS * n - searched, 1.0)
        base, done = judged[self._width], {width: one.seeds for width, one in judged.items()}

        def cost(seeds: int) -> float:
            return n * sum(max(seeds - had, 0) * run_seconds[width] for width, had in done.items())

        searching, fewest = to_search * run_seconds[self._width], min(done.values())
        # With fewer nothing can be decided, at every width if there are several.
        first = judgement.first_look(self._n_tests())
        seeds = bisect.bisect_right(range(10_000), self._left() - searching, lo=fewest, key=cost) - 1
        pairs = itertools.combinations(self._activations, 2)
        return Forecast(
            budget=self._budget,
            spent=known.spent,
            n_activations=n,
            run_seconds=run_seconds,
            search_runs=to_search,
            seeds=max(seeds, fewest),
            first_look=first,
            advised=self._spent() + searching + 1.1 * cost(first + SPARE_SEEDS),
            n_tests=self._n_tests(),
            unit=base.unit,
            sd=max(base.sd(*pair) or 0.0 for pair in pairs) if base.seeds >= first else None,
            typical=self._config.model.kind == "decoder",
            allowance=max(filter(math.isfinite, self._allowances().values()), default=0.0),
            is_over=bool(known.rates) and not self._wanting(done),
        )

    def _n_tests(self) -> int:
        """Tests of the pairs; of several widths, those of the further ones and of the trends, which share 5%."""
        return len(self._configs) * self._n_pairs

    # The two stages. Each returns whether it goes on.

    def _following(self) -> dict[str, tuple[search.Task, ...] | BestRate]:
        """What the search of each activation trains next, or what it found."""
        known, start, n = self._searched(), self._config.optimizer.learning_rate, len(self._activations)
        return {name: search.next_tasks(known[name], start, n) for name in self._activations}

    def _search(self, stop: StopSignal) -> bool:
        if self._fix_rates():
            return False
        known, following = self._searched(), self._following()
        wanted = {
            name: {task.rate: task.rung for task in tasks}
            for name, tasks in following.items()
            if not isinstance(tasks, BestRate)
        }
        cost = sum(
            (rung - (known[name][rate].rung if rate in known[name] else 0)) / search.RUNGS
            for name, rates in wanted.items()
            for rate, rung in rates.items()
        )
        if self._left() < cost * search.SEEDS * self._run_seconds(self._width):
            return False
        seeds = range(self._config.seed + SEARCH_SEED, self._config.seed + SEARCH_SEED + search.SEEDS)
        goals = {
            (name, rate): min(rung * self._quarter, self._config.train.n_steps)
            for name, rates in wanted.items()
            for rate, rung in rates.items()
        }
        going = self._train("search", self._width, goals, seeds, cost * search.SEEDS, stop)
        for name, rates in self._searched().items():
            tried = "  ".join(f"{rate:g} {_told(one)}" for rate, one in sorted(rates.items()))
            if name in wanted and tried:
                self._console.print(f"search      {name}, {outcomes.unit_of(self._config.objective)}: {tried}")
        return going

    def _fix_rates(self) -> bool:
        """Whether the search has ended. It then fixes the rates, which no seed of the judgement has chosen.

        Raises:
            _NoRatesError: if there is no rate to judge at.
        """
        found = {name: one for name, one in self._following().items() if isinstance(one, BestRate)}
        if len(found) < len(self._activations):
            return False
        if all(math.isinf(one.allowance) for one in found.values()):
            start, table = self._config.optimizer.learning_rate, f"{self._path}/search/results.csv"
            if at_edge := [name for name, one in found.items() if one.at_edge]:
                raise _NoRatesError(
                    f"the best learning rates of {', '.join(at_edge)} lie beyond those that were tried around "
                    f"config.optimizer.learning_rate={start:g} ({table}): choose another workdir and begin at "
                    "a better rate, --config.optimizer.learning_rate=NUMBER."
                )
            raise _NoRatesError(
                f"no learning rate can be chosen for {', '.join(found)}: at those that were tried, or beside the best "
                f"of them, runs diverge or end no better than {_TRIVIAL[self._config.objective]} ({table}); train "
                "longer, --config.train.n_steps=NUMBER, or take another model."
            )
        self._known.rates = found
        self._save()
        shutil.rmtree(self._path / "search" / "checkpoints", ignore_errors=True)
        for name, one in found.items():
            why = f", not resolved: {one.unresolved}" if one.unresolved else ""
            self._console.print(f"rate        {name} {one.rate:g}{why}")
        return True

    def _judge(self, stop: StopSignal) -> bool:
        """Trains a block of seeds at a width that needs them, the one with the fewest first."""
        goals = {(name, one.rate): self._config.train.n_steps for name, one in (self._known.rates or {}).items()}
        seeds = {width: one.seeds for width, one in self._judged().items()}
        fits = lambda width: self._left() >= BLOCK * len(goals) * self._run_seconds(width)
        width = next(filter(fits, sorted(self._wanting(seeds), key=lambda one: (seeds[one], one))), None)
        if width is None:
            return False
        fresh = range(self._config.seed, self._config.seed + seeds[width] + BLOCK)
        going = self._train(self._stage(width), width, goals, fresh, float(BLOCK * len(goals)), stop)
        self._show(self.answer(), width)
        return going

    def _wanting(self, seeds: Mapping[int, int]) -> set[int]:
        """Widths at which more seeds may decide something; for a trend, those that have the fewest."""
        answer = self.answer()
        is_open = lambda pair: pair.is_open(answer.margin)
        wanting = {one.width for one in answer.widths if not seeds[one.width] or any(map(is_open, one.pairs))}
        if any(map(is_open, answer.trends)):
            wanting |= {width for width, n in seeds.items() if n == min(seeds.values())}
        return wanting

    def _train(
        self,
        stage: str,
        width: int,
        goals: Mapping[Cell, int],
        seeds: Sequence[int],
        worth: float,
        stop: StopSignal,
    ) -> bool:
        """Trains runs of a stage's sweep, which grows to these cells and seeds, up to each cell's step.

        Returns whether they came there; `worth` is what they take, in runs.
        """
        begin, n_compiled = self._clock(), len(self._compiled)
        records = Workdir(self._path / stage)
        file = records.path / "config.json"
        known = dict(config_lib.load(file).sweep)[AXIS] if file.is_file() else ()
        prepared = self._prepared(width, [*dict.fromkeys([*known, *goals])], seeds)
        computed, origins = prepared.require_same(records)
        with records.writing(), contextlib.closing(records):
            records.open(prepared.config, extend=True)
            begun = session.begun(records)
            # A part for each rate, so that the search can stop it alone; all of an activation's share one program.
            groups: dict[Cell, list[str]] = {}
            steps: dict[str, int] = {}
            for run in prepared.runs:
                cell = _cell(run.config)
                if run.name not in begun:
                    groups.setdefault(cell, []).append(run.name)
                if cell in goals:
                    steps[run.name] = goals[cell]
            data, parts = session.description(prepared.tokens), list(groups.values())
            manifest.begin(records, prepared.config, data, self._command, parts, computed, origins, planned=True)
            training = session.Session(prepared, records, self._quiet, self._compiled)
            with StatusLine(self._console) as display:
                stopped = training.train(steps, stop, display)[1]
        # The first runs of a program wait until it is compiled, which says nothing of what the next ones take.
        if not stopped and worth and len(self._compiled) == n_compiled:
            self._trained[width] += worth
            self._seconds[width] += self._clock() - begin
            self._known.run_seconds[width] = self._run_seconds(width)  # what the next session counts with
        self._save()
        return not stopped

    def _prepared(self, width: int, cells: Sequence[Cell], seeds: Sequence[int]) -> session.Prepared:
        axes = ((AXIS, tuple(cells)), ("seed", tuple(seeds)))
        prepared = session.prepare(self._quiet, config_lib.replace(self._configs[width], sweep=axes), self._tokens)
        self._tokens = prepared.tokens
        return prepared

    # What the stages have found.

    def _stage(self, width: int) -> str:
        return JUDGED if width == self._width else f"{JUDGED}-{width}"

    def _searched(self) -> dict[str, dict[float, search.Progress]]:
        """What the search has tried; nothing if that was damaged after it was over."""
        if self._known.rates and integrity.check(Workdir(self._path / "search", writes=False)).problems:
            return {name: {} for name in self._activations}
        return outcomes.searched(self._path / "search", self._activations, self._quarter)

    def _judged(self) -> dict[int, Judged]:
        known = self._activations, self._config.seed, self._config.objective
        return {width: outcomes.judged(self._path / self._stage(width), *known) for width in self._configs}

    def _allowances(self) -> dict[str, float]:
        return {name: one.allowance for name, one in (self._known.rates or {}).items()}

    def _states(self, judged: Judged, width: int) -> tuple[PairState, ...]:
        """Pairs at the config's width share their 5%; further widths share another with the trends."""
        if not judged.seeds:
            return ()
        n_tests = self._n_pairs if width == self._width else self._n_tests()
        return judgement.judge(judged.losses, judged.margin, self._allowances(), judged.failed, n_tests)

    def _trends(self, judged: Mapping[int, Judged]) -> tuple[PairState, ...]:
        if len(judged) == 1 or not all(one.seeds for one in judged.values()):
            return ()
        losses, failed = [one.losses for one in judged.values()], [one.failed for one in judged.values()]
        return judgement.trends(losses, judged[self._width].margin, self._allowances(), failed, self._n_tests())


def _widened(config: Config, scales: int) -> dict[int, Config]:
    """The config at its own width and its doublings, with heads and layers of the same shape.

    Raises:
        UserError: for several widths without mup, since a learning rate holds at its own width only.
    """
    if scales < 1:
        raise UserError(f"--scales={scales}: give the number of widths, 1 or more.")
    if scales > 1 and config.model.parametrization != "mup":
        raise UserError(
            f"--scales={scales} carries the learning rates to other widths, which takes mup, but "
            f"config.model.parametrization is {config.model.parametrization}: set it to mup, and config.model.init to "
            "fan_in."
        )
    found = {}
    for factor in (2**step for step in range(scales)):
        sizes = {name: getattr(config.model, name) for name in ("d_model", "n_heads", "n_kv_heads", "d_ff", "d_hidden")}
        changes = {f"model.{name}": factor * size for name, size in sizes.items() if size is not None}
        found[factor * config.model.d_model] = config_lib.replace(config, **changes)
    return found


def _told(tried: search.Progress) -> str:
    """The mean loss of a rate's search seeds, how many of them failed, and how far they have come."""
    mean, n_failed = statistics.fmean(tried.losses), sum(tried.failed)
    words = "diverged" if math.isnan(mean) else f"{mean:.4f}"
    words += f" ({n_failed} of {len(tried.failed)} failed)" if n_failed else ""
    return words + ("" if tried.rung == search.RUNGS else f" at {tried.rung}/{search.RUNGS}")


def _cell(config: Config) -> Cell:
    return config.model.activation, config.optimizer.learning_rate
