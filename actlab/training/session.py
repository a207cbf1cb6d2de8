"""A session: one call of the command on one workdir, from a config to its result."""

import dataclasses
import pathlib
import signal
import types
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from actlab import config as config_lib
from actlab import data, models
from actlab.config import Config
from actlab.data import batches
from actlab.data.cache import TokenCache
from actlab.errors import UserError
from actlab.training import generation, manifest
from actlab.training.checkpoint import Checkpoints
from actlab.training.cohort import Cohort, lane_of
from actlab.training.display import Display
from actlab.training.loop import Feed, Loop
from actlab.training.records import Row, Workdir
from actlab.training.results import result_row


@dataclasses.dataclass(frozen=True)
class Setting:
    """All of a run that is known before it trains."""

    config: Config
    model: models.Model
    tokens: TokenCache
    costs: models.Costs
    feed: Feed
    floor: float | None

    @property
    def name(self) -> str:
        """The run's name in its records."""
        config = self.config
        return f"{config.model.activation}-lr{config.optimizer.learning_rate:g}-seed{config.seed}"


class StopSignal:
    """Turns SIGTERM and SIGINT into a question the loop may ask, while the context is open."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether a signal has come."""
        return self.received is not None

    def __enter__(self) -> "StopSignal":
        for number in (signal.SIGTERM, signal.SIGINT):
            self._before[number] = signal.signal(number, self._receive)
        return self

    def _receive(self, number: int, frame: types.FrameType | None) -> None:
        self.received = number
        # A second one is not waited for.
        signal.signal(number, self._before[number])

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def run(config: Config, label: str, workdir: pathlib.Path | None, command: list[str]) -> int:
    """Trains the config's run, or goes on with it, or says that it is done; returns the exit code.

    `label` names the default workdir, runs/LABEL-FINGERPRINT.

    Raises:
        UserError: for whatever the user can mend.
    """
    console = Console(highlight=False, soft_wrap=True)
    if workdir:
        # What can be known is told before any work is spent on the data.
        Workdir(workdir).check(config)
        if _say_if_done(console, Workdir(workdir)):
            return 0
    setting = prepare(config, console)
    path = workdir or pathlib.Path("runs") / f"{label}-{config_lib.fingerprint(setting.config)[:8]}"
    records = Workdir(path)
    records.check(setting.config)
    if _say_if_done(console, records):
        return 0
    manifest.require_same_data(records, setting.tokens)
    records.open(setting.config)
    try:
        return _train(setting, records, console, command)
    except OSError as error:
        raise UserError(
            f"--workdir={path} cannot be written any more ({error.strerror or error}): make room, then run the same "
            "command, which goes on from the last checkpoint."
        ) from error
    finally:
        records.close()


def prepare(config: Config, console: Console) -> Setting:
    """Opens the data, resolves what the config left open, builds the model; prints the header of the run."""
    known = models.build(dataclasses.replace(config.model, vocab_size=config.model.vocab_size or 2))
    name = data.resolve_name(config.data.name, config.data.dir)
    chosen = f", chosen by auto for data.dir={config.data.dir!r}" if config.data.name == "auto" else ""
    console.print(f"data        {name}{chosen}")
    tokens = data.open_tokens(
        name,
        config.data.dir,
        config.data.tokenizer,
        n_stories=config.data.n_stories,
        context=config.model.context,
        vocab_size=config.model.vocab_size,
    )
    config = _resolve(config, tokens, known.spec.d_ff)
    model = models.build(config.model, jnp.dtype(config.train.dtype))
    feed, floor = _feed(config, tokens)
    setting = Setting(config, model, tokens, models.costs(model), feed, floor)
    _print_header(console, setting)
    return setting


def _resolve(config: Config, tokens: TokenCache, d_ff: int) -> Config:
    vocab_size = config.model.vocab_size or -(-tokens.vocab_size // 64) * 64
    return config_lib.replace(config, **{"data.name": tokens.name, "model.vocab_size": vocab_size, "model.d_ff": d_ff})


def _feed(config: Config, tokens: TokenCache) -> tuple[Feed, float | None]:
    """The data of the one lane, with the floor of its validation set in nats per token."""
    context, batch_size = config.model.context, config.data.batch_size

    def train(first: int, n_steps: int) -> np.ndarray:
        windows = [
            batches.train_batch(
                tokens.train.tokens, context=context, batch_size=batch_size, seed=config.seed, step=step
            )
            for step in range(first, first + n_steps)
        ]
        return np.stack(windows)[None]

    train(0, 1)  # raises, before a workdir is made, if the text is shorter than a window
    windows, weights, n_documents = batches.validation_set(
        tokens.validation, context=context, n_tokens=config.train.eval_tokens
    )
    fill = -len(windows) % batch_size
    windows = np.concatenate([windows, np.repeat(windows[:1], fill, axis=0)])
    weights = np.concatenate([weights, np.zeros((fill, context), np.float32)])
    shape = (-1, batch_size)
    feed = Feed(train, windows.reshape(*shape, context + 1), weights.reshape(*shape, context))
    return feed, batches.bayes_loss(tokens, n_documents)


def _train(setting: Setting, records: Workdir, console: Console, command: list[str]) -> int:
    config = setting.config
    cohort = Cohort(setting.model, config, [lane_of(config)])
    checkpoints = Checkpoints(records.path / "checkpoints", config.train.keep_checkpoints)
    state, step, notes = checkpoints.restore_latest(cohort.abstract_state())
    for note in notes:
        console.print(f"warning     {note}")
    manifest.add_session(records, setting.tokens, command, step, notes)
    setting.tokens.tokenizer.save(records.path / "tokenizer")
    console.print(f"workdir     {records.path}" + (f", going on from step {step}" if step else ""))
    with StopSignal() as stop, Display(console, config.train.n_steps, step, setting.floor) as display:
        cohort.compile(setting.feed.train(step, config.train.steps_per_call))
        loop = Loop(config, cohort, [setting.name], setting.feed, records, display)
        state, step, stopped = loop.run(checkpoints, (state, step), stop)
    row = result_row(config, setting.name, records.metrics(), setting.costs, setting.floor, step)
    records.write_results([row])
    if stopped:
        console.print(f"stopped at step {step}; the same command goes on from there")
        return 128 + (stop.received or signal.SIGTERM)
    if row["status"] == "finished":
        _print_sample(console, setting, state)
    _print_result(console, row, records.path, row["status"])
    return 0


def _say_if_done(console: Console, records: Workdir) -> bool:
    done = [row for row in records.results() if row["status"] != "stopped"]
    if done:
        _print_result(console, done[0], records.path, "was done before; nothing to do")
    return bool(done)


def _print_header(console: Console, setting: Setting) -> None:
    spec, costs, meta = setting.model.spec, setting.costs, setting.tokens.meta
    console.print(
        f"            {meta.n_documents['train']:,} training documents, {meta.n_tokens['train']:,} tokens "
        f"({meta.tokenizer}), fingerprint {setting.tokens.fingerprint[:12]}"
    )
    mismatch = f" instead of {spec.d_ff} ({costs.gated_mismatch:+.2%} weights)" if spec.d_hidden != spec.d_ff else ""
    console.print(
        f"model       {spec.activation}, {spec.n_layers} layers, d_model {spec.d_model}, {spec.n_heads} heads, "
        f"feed-forward {spec.d_hidden}{mismatch}, context {spec.context}, vocabulary {spec.vocab_size}"
    )
    console.print(
        f"parameters  {costs.parameters:,} ({costs.non_embedding:,} without embeddings); "
        f"{costs.flops_per_token / 1e6:,.1f} MFLOP per token, forward and backward"
    )
    console.print(f"floor       {_floor_words(setting)}")


def _floor_words(setting: Setting) -> str:
    if setting.floor is None:
        return "unknown: nobody knows the entropy of this text"
    return (
        f"{setting.floor:.4f} nats/token: the exact Bayes loss of the validation stories "
        f"(entropy {setting.tokens.entropy_nats:.1f} nats per story)"
    )


def _print_sample(console: Console, setting: Setting, state: Any) -> None:
    params = jax.tree.map(lambda array_R: array_R[0], state.params)
    text = generation.write_text(setting.model, params, setting.tokens.tokenizer, seed=setting.config.seed)
    console.rule("a sample")
    console.print(text, markup=False)
    console.rule()


def _print_result(console: Console, row: Row, path: pathlib.Path, what: str) -> None:
    console.print(f"run         {row['run']}: {what}")
    if row["status"] == "finished":
        above = float(row["final_loss"]) - float(row["floor"])
        floor = "" if above != above else f"; floor {float(row['floor']):.4f}, {above:.4f} above it"
        console.print(
            f"validation  {float(row['final_loss']):.4f} nats/token after {row['steps']} steps "
            f"(best {float(row['best_loss']):.4f} at step {row['best_step']}){floor}"
        )
    else:
        console.print(f"            the loss was no longer finite at step {row['steps']}: that is its result")
    console.print(f"results     {path}/results.csv, {path}/metrics.jsonl")
