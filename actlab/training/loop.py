"""The loop: drives a cohort from its newest checkpoint to its last step. Evaluates, logs, saves, stops when told."""

import dataclasses
import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int32

from actlab.config import Config
from actlab.training.checkpoint import Checkpoints
from actlab.training.cohort import Cohort
from actlab.training.losses import Examples
from actlab.training.prober import Prober, spans
from actlab.training.records import Row, Workdir
from actlab.training.step import Metrics
from actlab.training.traces import StepBuffer, Steps, dead_row, read_steps
from actlab.training.watcher import Past, Watcher


@dataclasses.dataclass(frozen=True)
class Feed:
    """The data of a cohort: rows of the batch of a seed and step, the seeds of its lanes, the validation set."""

    batch: Callable[[int, int, slice], Int32[np.ndarray, "b W"]]  # (seed, step, rows)
    seeds: tuple[int, ...]
    validation: Examples  # of batches [N, B]

    def train(self, steps: range, lanes: slice, rows: slice) -> Int32[np.ndarray, "r K b W"]:
        """Training rows of some lanes and some rows of the batch."""
        # Lanes of one seed read the same rows.
        of_seed = {seed: np.stack([self.batch(seed, step, rows) for step in steps]) for seed in set(self.seeds[lanes])}
        return np.stack([of_seed[seed] for seed in self.seeds[lanes]])


def boundary(config: Config, step: int) -> int:
    """Where the call that begins at `step` ends: a function of the step alone, so that a resume repeats it."""
    train = config.train
    all_spans = (train.steps_per_call, train.eval_every, train.checkpoint_every, *spans(train))
    return min(train.n_steps, *((step // span + 1) * span for span in all_spans))


class Loop:
    """One session of training on a workdir; `run` is called once."""

    def __init__(
        self,
        config: Config,
        cohort: Cohort,
        names: Sequence[str],
        feed: Feed,
        workdir: Workdir,
        watchers: Sequence[Watcher],
    ):
        self._config, self._cohort, self._names = config, cohort, names
        self._feed, self._workdir, self._watchers = feed, workdir, watchers
        self._prober = Prober(config, cohort, feed.validation)
        self._steps = StepBuffer(names)
        self._alive = np.ones(len(names), bool)
        self._tokens_per_step = config.data.batch_size * config.model.context
        self._seconds = 0.0
        self._mark = 0.0
        self._saved = 0

    def run(
        self, checkpoints: Checkpoints, restored: tuple[Any, int], stop: Callable[[], bool]
    ) -> tuple[Any, int, bool]:
        """Trains to the end, to the divergence of every lane, or until `stop()`; returns (state, step, stopped).

        What was restored at step 0 is where to start from, None where all is drawn from the seeds.
        """
        try:
            return self._run(checkpoints, restored, stop)
        finally:
            for watcher in self._watchers:
                watcher.on_end()

    def _run(
        self, checkpoints: Checkpoints, restored: tuple[Any, int], stop: Callable[[], bool]
    ) -> tuple[Any, int, bool]:
        state, step = restored
        kept = self._begin(step)
        self._seconds = max((row["seconds"] for row in kept), default=0.0)
        self._alive[[self._names.index(row["run"]) for row in kept if "status" in row]] = False
        self._saved = step
        self._mark = time.perf_counter()
        if step == 0:
            state = self._cohort.init() if state is None else state
            self._evaluate(state, 0)
            self._probe(state, 0)
        waiting: tuple[int, int, Metrics] | None = None
        n_steps, train = self._config.train.n_steps, self._config.train
        with jax.transfer_guard("disallow"):
            while step < n_steps and self._alive.any() and not stop():
                end = boundary(self._config, step)
                span = range(step, step + train.steps_per_call)
                rows = self._cohort.rows(functools.partial(self._feed.train, span))
                state, metrics = self._cohort.train(state, rows, end - step)
                # The device works on this call while the host writes down the one before.
                self._log(waiting)
                waiting, step = (step, end, metrics), end
                evaluate = step % train.eval_every == 0 or step == n_steps
                save = step % train.checkpoint_every == 0 or step == n_steps
                if evaluate or save or any(step % span == 0 for span in spans(train)):
                    self._log(waiting)
                    waiting = None
                loss = self._evaluate(state, step) if evaluate and self._alive.any() else None
                self._probe(state, step)
                if save and self._alive.any():
                    self._save(checkpoints, step, state, loss)
                checkpoints.seal_finished()
            self._log(waiting)
        stopped = step < n_steps and bool(self._alive.any())
        if stopped and step != self._saved:
            self._save(checkpoints, step, state, None)
        self._flush()
        checkpoints.close()
        return state, step, stopped

    def _begin(self, step: int) -> list[Row]:
        """Opens the files where the session goes on; returns the rows that are kept."""
        before = [row for row in self._workdir.metrics() if row["run"] in self._names]
        kept = self._workdir.begin(step, self._names)
        traces = self._workdir.traces()
        dropped = [row for row in before if not step or row["step"] > step]
        past = Past(kept, dropped, [read_steps(traces, name) for name in self._names])
        for watcher in self._watchers:
            watcher.on_begin(past)
        return kept

    def _append(self, rows: Sequence[Row]) -> None:
        self._workdir.append_metrics(rows)
        for watcher in self._watchers:
            watcher.on_rows(rows)

    def _save(self, checkpoints: Checkpoints, step: int, state: Any, loss: Float[np.ndarray, "R"] | None) -> None:
        self._flush()
        self._saved = step
        checkpoints.save(step, state, None if loss is None else float(loss[self._alive].mean()))

    def _flush(self) -> None:
        self._workdir.append_traces(self._steps.take())
        self._workdir.sync()

    def _elapsed(self) -> float:
        """Seconds since the last call; added to the run's total, over all its sessions."""
        now = time.perf_counter()
        elapsed, self._mark = now - self._mark, now
        self._seconds += elapsed
        return elapsed

    def _log(self, waiting: tuple[int, int, Metrics] | None) -> None:
        """Rows of a call's logged steps; a lane whose loss is not finite gets one last row and is out."""
        if waiting is None:
            return
        first, end, on_device = waiting
        metrics: Any = jax.device_get(on_device)
        speed = (end - first) * self._tokens_per_step * int(self._alive.sum()) / self._elapsed()
        taken = self._trace(first, end - first, metrics)
        rows = []
        for index, step in enumerate(range(first + 1, end + 1)):
            for lane in np.flatnonzero(self._alive).tolist():
                finite = math.isfinite(metrics.loss[lane, index])
                if not finite:
                    self._alive[lane] = False
                if not finite or step % self._config.train.log_every == 0 or step == self._config.train.n_steps:
                    values = {name: float(array[lane, index]) for name, array in metrics._asdict().items()}
                    rows.append(self._row(lane, step, "train", values, round(speed, 1)))
        self._append(rows)
        for watcher in self._watchers:
            watcher.on_steps(end, taken, speed)

    def _trace(self, first: int, n_steps: int, metrics: Any) -> Mapping[int, Steps]:
        """Keeps and returns every step of the lanes that are alive, the one at which a lane diverges included."""
        lanes = {}
        for lane in np.flatnonzero(self._alive).tolist():
            diverged = np.flatnonzero(~np.isfinite(metrics.loss[lane, :n_steps]))
            taken = int(diverged[0]) + 1 if len(diverged) else n_steps
            lanes[lane] = Steps(metrics.loss[lane, :taken], metrics.grad_norm[lane, :taken])
            self._steps.add(lane, first + taken, *lanes[lane])
        return lanes

    def _probe(self, state: Any, step: int) -> None:
        """A row for each lane that is alive, of what is due at `step`."""
        if not self._alive.any():
            return
        found = self._prober.measure(state, step)
        alive = np.flatnonzero(self._alive).tolist()
        if found.values:
            self._elapsed()
            self._append([self._row(lane, step, "probe", found.values[lane], None) for lane in alive])
        if found.dead_RUF is not None:
            self._workdir.append_traces([dead_row(self._names[lane], step, found.dead_RUF[lane]) for lane in alive])

    def _evaluate(self, state: Any, step: int) -> Float[np.ndarray, "R"]:
        scores = self._cohort.evaluate(state, self._feed.validation)
        loss = scores.loss
        self._elapsed()
        rows = []
        for lane in np.flatnonzero(self._alive).tolist():
            self._alive[lane] = math.isfinite(loss[lane])
            values = {name: float(array[lane]) for name, array in scores._asdict().items() if array is not None}
            rows.append(self._row(lane, step, "validation", values, None))
        self._append(rows)
        for watcher in self._watchers:
            watcher.on_evaluation(step, loss)
        return loss

    def _row(self, lane: int, step: int, split: str, values: dict[str, float], speed: float | None) -> Row:
        row: Row = {"run": self._names[lane], "step": step, "split": split, **values}
        if not self._alive[lane]:
            row["status"] = "diverged"
        if speed is not None:
            row["tokens_per_second"] = speed
        return {**row, "seconds": round(self._seconds, 3)}
