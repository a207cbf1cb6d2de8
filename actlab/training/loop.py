"""The loop: trains a program from its newest checkpoint to its last step. Evaluates, probes, logs, saves, stops."""

import functools
import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Bool, Float

from actlab import activations
from actlab.callbacks import Callback, ResumeContext
from actlab.config import Config
from actlab.data.rows import NO_DOCUMENT
from actlab.probes import is_due, spans
from actlab.probes.activity import silent_rate_bound
from actlab.training.checkpoint import Checkpoints
from actlab.training.losses import Examples
from actlab.training.program_spec import Feed
from actlab.training.programs import Program, Scores, boundary
from actlab.training.step import Evaluated, Metrics
from actlab.workdir import documents
from actlab.workdir.records import Row, Workdir
from actlab.workdir.traces import StepBuffer, Steps, dead_row, read_steps

# What is due of probes: a row's values for each lane, empty if nothing is; the units that a census found dead.
Probed = tuple[list[dict[str, float]], Bool[np.ndarray, "R layers F"] | None]


class Call(NamedTuple):
    """A call of the training program: from one step to another, its metrics on the device."""

    first: int
    end: int
    metrics: Metrics
    seconds: float | None = None  # that it took, where it had ended before the next one began


def has_ended(call: Call) -> bool:
    """Whether the device is done with a call."""
    return all(array.is_ready() for array in jax.tree.leaves(call.metrics))


class Loop:
    """Trains a part of a workdir in one session; `run` is called once."""

    def __init__(
        self,
        config: Config,
        program: Program,
        names: Sequence[str],
        feed: Feed,
        workdir: Workdir,
        callbacks: Sequence[Callback],
    ):
        self._config, self._program, self._names = config, program, names
        self._feed, self._workdir, self._callbacks = feed, workdir, callbacks
        self._prober = Prober(config, program, feed.validation)
        self._steps = StepBuffer(names)
        self._alive = np.ones(len(names), bool)  # lanes that have not diverged
        self._tokens_per_step = config.data.batch_size * config.model.context
        self._seconds = 0.0  # of training, over all sessions
        self._mark = 0.0  # when they were last added up
        self._saved = 0  # the newest step that is checkpointed

    def run(
        self,
        checkpoints: Checkpoints,
        restored: tuple[Any, int],
        stop: Callable[[], bool],
        until: int | None = None,
    ) -> tuple[Any, int, bool]:
        """Trains to the end, to the divergence of every lane, or until `stop()`; returns (state, step, stopped).

        `restored` is the state and step to start from; at step 0 the state may be None: drawn from the seeds. `until`
        is a step before the end to pause at, where the call that reaches it ends.
        """
        state, step = restored
        waiting: list[Call] = []  # a call whose metrics are not yet logged
        n_steps, train = self._config.train.n_steps, self._config.train
        last = min(n_steps, until or n_steps)
        try:
            self._begin(step)
            if step == 0:
                state = self._program.init() if state is None else state
                # The device evaluates while the host traces the probes.
                evaluation = self._program.evaluation(state, self._feed.validation)
                probed = self._prober.measure(state, 0)
                self._evaluate(evaluation, 0)
                self._probe(probed, 0)
            # An implicit transfer would wait for the device in every call; all transfers below are explicit.
            with jax.transfer_guard("disallow"):
                # stop() comes last: it is collective, and processes agree on the other conditions.
                while step < last and self._alive.any() and not stop():
                    if waiting and has_ended(waiting[0]):
                        # A GPU's loop asks the host at every step whether to go on, so that the dispatch returns when
                        # the call has ended. Its time, which is added up when it is logged, is not the next one's.
                        waiting = [waiting[0]._replace(seconds=self._elapsed())]
                    end = boundary(self._config, step)
                    # Always the rows of a longest call: with one shape of rows all calls share one compiled function.
                    span = range(step, step + self._program.rows_shape[1])
                    rows = self._program.rows(functools.partial(self._feed.train, span))
                    state, metrics = self._program.train(state, rows, end - step)
                    # The device works on this call while the host logs the one before. So a divergence is seen one
                    # call late, which costs nothing: the compiled loop has frozen the lane at once.
                    call, step = Call(step, end, metrics), end
                    evaluate = step % train.eval_every == 0 or step == n_steps
                    save = step % train.checkpoint_every == 0 or step == n_steps
                    if evaluate or save or any(step % interval == 0 for interval in spans(train)):
                        # What follows must know which lanes are alive, and a checkpoint must not precede its rows.
                        self._log([*waiting, call])
                        waiting = []
                    else:
                        self._log(waiting)
                        waiting = [call]
                    if evaluate and self._alive.any():
                        self._evaluate(self._program.evaluation(state, self._feed.validation), step)
                    if step == n_steps and self._alive.any():
                        self._test(state, step)
                    if self._alive.any():
                        self._probe(self._prober.measure(state, step), step)
                    if save and self._alive.any():
                        self._save(checkpoints, step, state)
                    checkpoints.seal_finished()
                self._log(waiting)
            stopped = step < n_steps and bool(self._alive.any())
            # Orbax refuses to save a step twice.
            if stopped and step != self._saved:
                self._save(checkpoints, step, state)
            # If the last lane has diverged, nothing was saved since: its last steps are still in memory.
            self._flush()
            # Before the caller writes results.csv: a run that counts as finished has a sealed checkpoint.
            checkpoints.close()
            return state, step, stopped
        finally:
            for callback in self._callbacks:
                callback.on_end()

    def _begin(self, step: int) -> None:
        """Opens the files where the session continues, and takes over what earlier sessions left."""
        before = [row for row in self._workdir.metrics() if row["run"] in self._names]
        kept = self._workdir.begin(step, self._names)
        traces = self._workdir.traces()
        dropped = [row for row in before if not step or row["step"] > step]
        resumed = ResumeContext(kept, dropped, [read_steps(traces, name) for name in self._names])
        for callback in self._callbacks:
            callback.on_begin(resumed)
        self._alive[[self._names.index(row["run"]) for row in kept if "status" in row]] = False
        self._saved = step
        # Not the time of dropped rows: their steps are taken again.
        self._seconds = max((row["seconds"] for row in kept), default=0.0)
        self._mark = time.perf_counter()

    def _evaluate(self, evaluation: Evaluated, step: int) -> None:
        """Appends a row of the validation loss for each lane that is alive."""
        scores, _ = self._program.scores([evaluation], [self._feed.validation])
        self._score(step, "validation", scores)
        for callback in self._callbacks:
            callback.on_evaluation(step, scores.loss)

    def _test(self, state: Any, step: int) -> None:
        """Evaluates the test set: once in a run, after its last step, since nothing may be chosen by it."""
        scores, losses_RMBK = self._program.evaluate(state, self._feed.test)
        self._score(step, "test", scores)
        of_target_MBK, n_documents = self._feed.test_documents, self._feed.test_documents.max() + 1
        weights_MBK = np.concatenate([piece.weights for piece in self._feed.test])
        counted_MBK = (of_target_MBK != NO_DOCUMENT) & (weights_MBK > 0)
        documents_T = of_target_MBK[counted_MBK]
        targets_D = np.bincount(documents_T, minlength=n_documents)
        rows = []
        for lane in np.flatnonzero(self._alive).tolist():
            nats_D = np.bincount(documents_T, losses_RMBK[lane][counted_MBK], n_documents)
            rows.append(documents.row(self._names[lane], step, nats_D, targets_D))
        self._workdir.append_traces(rows)

    def _score(self, step: int, split: str, scores: Scores) -> None:
        """Appends a row for each lane that is alive; one whose loss is not finite has diverged."""
        self._elapsed()
        rows = []
        for lane in np.flatnonzero(self._alive).tolist():
            self._alive[lane] = math.isfinite(scores.loss[lane])
            values = {name: float(array[lane]) for name, array in scores._asdict().items() if array is not None}
            rows.append(self._row(lane, step, split, values))
        self._append(rows)

    def _probe(self, probed: Probed, step: int) -> None:
        """Appends a row of what was measured at `step` for each lane that is alive."""
        values, dead_RUF = probed
        alive = np.flatnonzero(self._alive).tolist()
        if values:
            self._elapsed()
            self._append([self._row(lane, step, "probe", values[lane]) for lane in alive])
        if dead_RUF is not None:
            self._workdir.append_traces([dead_row(self._names[lane], step, dead_RUF[lane]) for lane in alive])

    def _log(self, calls: Sequence[Call]) -> None:
        """Appends the rows of calls, whose speed is that of all of them together."""
        if calls:
            on_host = [jax.device_get(call.metrics) for call in calls]
            n_steps = calls[-1].end - calls[0].first
            known = [call.seconds for call in calls if call.seconds is not None]
            seconds = sum(known) + (self._elapsed() if len(known) < len(calls) else 0.0)
            speed = n_steps * self._tokens_per_step * int(self._alive.sum()) / seconds
            for call, metrics in zip(calls, on_host, strict=True):
                self._log_call(call.first, call.end, metrics, speed)

    def _log_call(self, first: int, end: int, metrics: Any, speed: float) -> None:
        """Appends rows of a call's logged steps; a lane whose loss is not finite gets one last row and is out."""
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
        for callback in self._callbacks:
            callback.on_steps(end, taken, speed)

    def _trace(self, first: int, n_steps: int, metrics: Any) -> Mapping[int, Steps]:
        """Keeps and returns every step of each lane that is alive, up to and with the one at which it diverges."""
        lanes = {}
        for lane in np.flatnonzero(self._alive).tolist():
            diverged = np.flatnonzero(~np.isfinite(metrics.loss[lane, :n_steps]))
            taken = int(diverged[0]) + 1 if len(diverged) else n_steps
            lanes[lane] = Steps(metrics.loss[lane, :taken], metrics.grad_norm[lane, :taken])
            self._steps.add(lane, first + taken, *lanes[lane])
        return lanes

    def _save(self, checkpoints: Checkpoints, step: int, state: Any) -> None:
        # Rows first: a checkpoint must never be newer than the rows, which a resume cuts back to its step.
        self._flush()
        self._saved = step
        checkpoints.save(step, state, self._workdir.sealed())
        self._elapsed()  # saving must not count towards the next call

    def _flush(self) -> None:
        self._workdir.append_traces(self._steps.take())
        self._workdir.sync()

    def _append(self, rows: Sequence[Row]) -> None:
        self._workdir.append_metrics(rows)
        for callback in self._callbacks:
            callback.on_rows(rows)

    def _row(self, lane: int, step: int, split: str, values: dict[str, float], speed: float | None = None) -> Row:
        row: Row = {"run": self._names[lane], "step": step, "split": split, **values}
        if not self._alive[lane]:
            row["status"] = "diverged"
        if speed is not None:
            row["tokens_per_second"] = speed
        return {**row, "seconds": round(self._seconds, 3)}

    def _elapsed(self) -> float:
        """Seconds since the last call of this method, which are added to the run's total."""
        now = time.perf_counter()
        elapsed, self._mark = now - self._mark, now
        self._seconds += elapsed
        return elapsed


class Prober:
    """Runs the probes that are due, on the validation set: on its first batch, or on all of it for the census."""

    def __init__(self, config: Config, program: Program, validation: Examples):
        self._train, self._program = config.train, program
        self._validation = validation
        # A dead unit (D4) is defined by the unit's own slope; an activation of whole vectors has none.
        self._counts_dead = activations.get(config.model.activation).elementwise

    def measure(self, state: Any, step: int) -> Probed:
        """What is due at `step`."""
        found: list[dict[str, Any]] = []
        first_batch = (state, jax.tree.map(lambda batches: batches[0], self._validation))
        if is_due(self._train, self._train.probe_every, step):
            found.append(self._program.probe(*first_batch))
        if is_due(self._train, self._train.curvature_every, step):
            found.append(self._program.curvature(*first_batch))
        dead_RUF = None
        if self._counts_dead and is_due(self._train, self._train.census_every, step):
            dead_RUF = self._program.census(state, self._validation)
            found.append(self._counted(dead_RUF))
        columns = {name: array for part in found for name, array in part.items()}
        lanes = range(self._program.n_lanes) if found else ()
        return [{name: float(array[lane]) for name, array in columns.items()} for lane in lanes], dead_RUF

    def _counted(self, dead_RUF: Bool[np.ndarray, "R layers F"]) -> dict[str, Float[np.ndarray, "R"]]:
        """Shares of dead units, and a bound on how often a unit fires that did not fire on these tokens."""
        shares_RU = dead_RUF.mean(axis=2)
        n_tokens = int(self._validation.counted.sum(dtype=np.float64))
        return {
            "dead_fraction": shares_RU.mean(axis=1),
            "dead_rate_bound": np.full(len(shares_RU), silent_rate_bound(n_tokens)),
            **{f"layer_{index}/dead_fraction": shares_R for index, shares_R in enumerate(shares_RU.T)},
        }
