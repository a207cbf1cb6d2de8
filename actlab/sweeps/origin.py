"""Starting from trained weights: the origin of a run is a workdir of ours or a Hugging Face directory.

An origin may have another activation than the run. Its change of the mean output can be folded into the next bias.
"""

import dataclasses
import pathlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from actlab import activations, config as config_lib, models
from actlab.config import Config, ModelConfig, SwapConfig
from actlab.data import tokenizers
from actlab.data.tokenizer_kinds import Tokenizer
from actlab.errors import UserError
from actlab.files import at_colon, digest, read_json, sha256
from actlab.models.layers import Hidden
from actlab.models.model import Params
from actlab.sweeps import trained
from actlab.training.checkpoint import newest_seal
from actlab.training.losses import Examples
from actlab.training.program_spec import ProgramSpec
from actlab.workdir.records import MANIFEST

FIELD = "config.finetune.from_checkpoint"
HEADS = ("pooler", "classifier", "head", "head_norm", "output_bias", "output")  # may be drawn from the seed
FOLD_TOKENS = 2**14  # over which the mean change of a swap is taken


class Origin(NamedTuple):
    """A trained model: its fields, its tokenizer if that is known, and functions of its weights.

    `load` reads the parameters, with a description of them; `digest` tells these weights from others at the same place.
    """

    name: str
    model: ModelConfig
    swap: SwapConfig
    tokenizer: Tokenizer | None
    load: Callable[[], tuple[Params, str]]
    digest: Callable[[], str]
    bare: bool = False  # whether it has no head, so that there are hidden units but no logits
    model_type: str | None = None  # in transformers, of a Hugging Face directory
    text_ids: tuple[Any, Any] | None = None  # the ids that begin and end a text there

    @property
    def headless(self) -> bool:
        """Whether it predicts no tokens: it is bare, or a classifier."""
        return self.bare or self.model.n_classes > 0


def of(config: Config) -> Origin | None:
    """The origin of a run, None if all parameters are drawn from the seed; they are not read yet.

    A field in braces in the path, such as `{seed}`, stands for the run's own value.

    Raises:
        UserError: for a folder that is neither a workdir with a checkpoint nor a Hugging Face directory.
    """
    if not config.finetune.from_checkpoint:
        return None
    name = name_of(config)
    path, _, run = at_colon(name)
    folder = trained.with_runs(pathlib.Path(path))
    if (folder / MANIFEST).is_file():
        return _ours(name, folder, run or None)
    if _is_hugging_face(folder):
        return _theirs(name, folder)
    if not folder.exists():
        raise UserError(f"{FIELD}={name!r} does not exist: train it first, or name another checkpoint.")
    raise UserError(
        f"{FIELD}={name!r} is neither a trained workdir of actlab.main nor a Hugging Face directory: name one of these."
    )


def name_of(config: Config) -> str:
    """The checkpoint that a run names, with fields in braces filled in; raises UserError for an unknown field."""
    values = config_lib.flat(config)

    def value(match: re.Match[str]) -> str:
        config_lib.require_path(match[1])
        return str(values[match[1]])

    return re.sub(r"\{([^{}]*)\}", value, config.finetune.from_checkpoint)


def digests(configs: Iterable[Config], done: bool = False) -> dict[str, str]:
    """The digest of each origin that runs have, by its name; of runs that are done only of those that are still there.

    Raises:
        UserError: as `of`.
    """
    found = {}
    for name, config in {name_of(one): one for one in configs if one.finetune.from_checkpoint}.items():
        try:
            start = of(config)
            found |= {name: start.digest()} if start else {}
        except UserError:
            if not done:
                raise
    return found


def adopt(config: Config, origin: Origin | None) -> Config:
    """The config with its open model fields taken from the origin."""
    if origin is None:
        return config
    open_fields = [name for name, value in vars(config.model).items() if value is None]
    return config_lib.replace(config, **{f"model.{name}": getattr(origin.model, name) for name in open_fields})


def require_fitting(config: Config, origin: Origin, tokenizer: Tokenizer) -> None:
    """Raises UserError for the first field in which the origin's parameters do not match a resolved config."""
    ours, theirs = dataclasses.asdict(config.model), dataclasses.asdict(origin.model)
    for name in ours:
        adaptable = f"model.{name}" in config_lib.paths("adaptable")
        if name == "use_bias" and ours[name]:  # biases that the origin lacks begin at zero
            continue
        if not adaptable and None not in (ours[name], theirs[name]) and ours[name] != theirs[name]:
            raise _differs(f"model.{name}", repr(ours[name]), repr(theirs[name]), origin)
    n_ids = config.model.vocab_size
    if n_ids is not None and tokenizer.vocab_size > n_ids:
        raise UserError(
            f"config.data.tokenizer={config.data.tokenizer!r} has {tokenizer.vocab_size:,} tokens, but "
            f"{FIELD}={origin.name!r} has {n_ids:,}: name the tokenizer that it was trained with."
        )
    if config.model.context > origin.model.context:
        most = origin.model.context
        raise _differs("model.context", config.model.context, f"{most}", origin, f"set it to {most} or less")
    for name, classes in (("head_activation", 0), ("pooler_activation", config.model.n_classes)):
        if config.model.n_classes == origin.model.n_classes == classes and ours[name] != theirs[name]:
            raise _differs(f"model.{name}", repr(ours[name]), repr(theirs[name]), origin)
    before, after = _activations(origin.model, origin.swap), _activations(config.model, config.finetune.swap)
    wanted = config.finetune.swap
    exchanged = _resolved([wanted.from_, wanted.to]) if wanted.blocks else []
    for index, (theirs_have, ours_have) in enumerate(zip(before, after, strict=True)):
        if theirs_have != ours_have and [theirs_have, ours_have] != exchanged:
            fix = "set the same value, exchange it by config.finetune.swap"
            raise _differs(f"model.activation (block {index})", repr(ours_have), repr(theirs_have), origin, fix)
    if origin.tokenizer is not None and origin.tokenizer.hash != tokenizer.hash:
        raise _differs("data.tokenizer", repr(config.data.tokenizer), f"another, {origin.tokenizer.name!r}", origin)
    if origin.tokenizer is None and tokenizer.name.startswith("bpe:"):
        raise UserError(
            f"config.data.tokenizer={tokenizer.name!r} is learned from the text, but {FIELD}={origin.name!r} was "
            "trained with another, which it does not hold: put its tokenizer.json there, or name it, for example gpt2 "
            "or bytes."
        )


def given(spec: ProgramSpec) -> tuple[list[Params], list[str]] | None:
    """The parameters that each lane takes from its origin, and sentences that name the origins; None without origin.

    Raises:
        UserError: for an origin without a sound checkpoint.
    """
    if not spec.config.finetune.from_checkpoint:
        return None
    pairs = [_lane(spec, config) for config in spec.configs]
    return [params for params, _ in pairs], list(dict.fromkeys(words for _, words in pairs))


def _lane(spec: ProgramSpec, config: Config) -> tuple[Params, str]:
    origin = of(config)
    assert origin is not None
    params, words = origin.load()
    if config.model.use_bias and not origin.model.use_bias:
        params = _with_zero_biases(spec.model, params)
    if config.finetune.fold:
        model = dataclasses.replace(origin.model, use_bias=config.model.use_bias)
        before = models.build(model, swap=origin.swap)
        # Heads that it lacks are zeros, which change no hidden unit.
        zeros = jax.tree.map(lambda leaf: np.zeros(leaf.shape, np.float32), models.shapes(before))
        heads = {name: part for name, part in zeros.items() if name not in params}
        params = folded(before, spec.model, params | heads, *_batches(spec, config))
        params = {name: part for name, part in params.items() if name not in heads}
    kept, drawn = _fitted(spec.model, params)
    return kept, f"{words}; drawn from the seed: {', '.join(drawn) or 'nothing'}"


def _with_zero_biases(model: models.Model, params: Params) -> Params:
    """The parameters of the same function with the biases that a model has beside them."""
    wanted = models.shapes(model)

    def filled(shapes: Any, part: Any) -> Any:
        if not isinstance(shapes, Mapping):
            return part
        zeros = {"bias": np.zeros(shapes["bias"].shape, np.float32)} if "bias" in shapes and "bias" not in part else {}
        return {name: filled(shapes.get(name, {}), value) for name, value in part.items()} | zeros

    return {name: filled(wanted.get(name, {}), value) for name, value in params.items()}


def _batches(spec: ProgramSpec, config: Config) -> tuple[Array, Callable[[Array, Array], Examples]]:
    """The rows of a run's first batches, FOLD_TOKENS tokens or more, and the function that makes examples of them."""
    n_batches = -(-FOLD_TOKENS // (config.data.batch_size * config.model.context))
    rows_NBW = np.stack([spec.feed.batch(config.seed, step, slice(None)) for step in range(n_batches)])
    key = jax.random.key(config.seed)
    return jnp.asarray(rows_NBW), lambda rows, step: spec.objective.training(rows, jax.random.fold_in(key, step))


def _fitted(model: models.Model, params: Params) -> tuple[Params, list[str]]:
    """The parameters that a model can take over, and the names of its heads that are missing among them.

    Raises:
        UserError: for mismatched parameters outside the heads.
    """
    wanted = models.shapes(model)
    shapes = lambda tree: jax.tree.map(lambda leaf: tuple(leaf.shape), tree)
    kept = {name: part for name, part in params.items() if shapes(part) == shapes(wanted.get(name))}
    # A shorter context takes the first positions.
    if "position_embedding" in wanted and "position_embedding" not in kept:
        rows = len(wanted["position_embedding"]["embedding"])
        kept["position_embedding"] = {"embedding": params["position_embedding"]["embedding"][:rows]}
    drawn = [name for name in wanted if name not in kept]
    lost = [name for name in [*drawn, *params] if name not in kept and name not in HEADS]
    if lost:
        raise UserError(
            f"{FIELD}: mismatched parameters, {lost[0]} is missing in one model or has other shapes: name a model of "
            "the same kind."
        )
    return kept, sorted(drawn)


def _ours(name: str, folder: pathlib.Path, run: str | None) -> Origin:
    try:
        found = trained.find(folder, run)
    except trained.SeveralRunsError as error:
        n, first = len(error.names), error.names[0]
        raise UserError(
            f"{FIELD}={name!r} holds {n} runs: name one of them after a colon, for example {name}:{first}."
        ) from error
    except UserError as error:
        raise UserError(f"{FIELD}={name!r}: {error}") from error

    def load() -> tuple[Params, str]:
        whole = trained.load(folder, run)
        return whole.params, f"{name}, step {whole.step}"

    def of_seal() -> str:
        seal = newest_seal(folder / "checkpoints" / found.part)
        if seal is None:
            raise UserError(f"{FIELD}={name!r} holds no sound checkpoint: train it first, or name another workdir.")
        return sha256(seal)

    return Origin(name, found.config.model, found.config.finetune.swap, found.tokenizer, load, of_seal)


def _theirs(name: str, folder: pathlib.Path) -> Origin:
    from actlab.interop import huggingface  # needs safetensors, an extra

    opened = huggingface.open_directory(folder)
    held = tokenizers.name_in(folder)
    tokenizer = tokenizers.make(held, folder, ()) if held else None
    load = lambda: (opened.load().params, name)
    of_weights = lambda: digest([sha256(file) for file in sorted(folder.glob("*.safetensors"))])
    kind = opened.family.model_type
    return Origin(name, opened.config, SwapConfig(), tokenizer, load, of_weights, opened.bare, kind, opened.text_ids)


def _is_hugging_face(folder: pathlib.Path) -> bool:
    try:
        return "model_type" in read_json(folder / "config.json", "")
    except UserError:
        return False


def _activations(model: ModelConfig, swapped: SwapConfig) -> list[str]:
    return _resolved([swapped.to] * swapped.blocks + [model.activation] * (model.n_layers - swapped.blocks))


def _resolved(names: Iterable[str]) -> list[str]:
    """The names of the catalogue in place of aliases."""
    return [activations.get(name).name for name in names]


def _differs(path: str, ours: object, theirs: object, origin: Origin, fix: str = "set the same value") -> UserError:
    return UserError(
        f"config.{path}={ours}, but {FIELD}={origin.name!r} was trained with {theirs}: {fix}, or name another "
        "checkpoint."
    )


def folded(
    before: models.Model,
    after: models.Model,
    params: Params,
    rows_NBW: Int[Array, "N B W"],
    examples_of: Callable[[Array, Array], Examples],
) -> Params:
    """The parameters of `before`, with biases that keep the mean output of the blocks that `after` swaps.

    For a block in which f becomes g, with z the units' inputs in `before` and W the down projection [F, D],

        bias <- bias + E[f(z) - g(z)] W

    In a gated block f(z) and g(z) are multiplied by the value path.

    The mean is over the real tokens of N batches; `examples_of` makes examples of a batch's rows and number. It is
    exact for the inputs that a block had before: if several blocks are swapped, the later ones see changed inputs.
    """
    pairs = {
        index: (before.spec.of_block(index).activation, after.spec.of_block(index).activation)
        for index in range(before.spec.n_layers)
    }
    changed = {index: pair for index, pair in pairs.items() if pair[0] != pair[1]}
    if not changed:
        return params

    def sums(batch: tuple[Array, Array]) -> tuple[Array, dict[int, Array]]:
        examples = examples_of(*batch)
        _, _, hidden = before.hidden(params, examples.tokens, real_BL=examples.real)
        counted_T = (jnp.asarray(examples.counted) > 0).reshape(-1).astype(jnp.float32)
        shifts = {index: _shift(hidden[index], *pair, counted_T) for index, pair in changed.items()}
        return counted_T.sum(), shifts

    # lax.map compiles one program; called eagerly, the model would dispatch hundreds of operations.
    with jax.default_matmul_precision("float32"):
        parts = jax.lax.map(sums, (rows_NBW, jnp.arange(len(rows_NBW))))
    counts, shifts = jax.tree.map(lambda part: np.asarray(part, np.float64).sum(axis=0), parts)
    return params | {
        f"block_{index}": _with_bias(params[f"block_{index}"], shift / counts) for index, shift in shifts.items()
    }


def _shift(units: Hidden, name: str, other: str, counted_T: Float[Array, "T"]) -> Float[Array, "F"]:
    """Sum of f(z) - g(z) over the counted tokens, for each unit."""

    def outputs(record: activations.Activation) -> Array:
        out_TF = record.fn(units.z_TF.astype(jnp.float32))
        return out_TF if units.v_TF is None else out_TF * record.value_fn(units.v_TF.astype(jnp.float32))

    change_TF = outputs(activations.get(name)) - outputs(activations.get(other))
    return (change_TF * counted_T[:, None]).sum(axis=0)


def _with_bias(block: Params, shift_F: Float[np.ndarray, "F"]) -> Params:
    feed_forward = block["feed_forward"]
    down = feed_forward["down"]
    bias_D = np.asarray(down["bias"] + shift_F @ np.asarray(down["kernel"], np.float64), np.float32)
    return block | {"feed_forward": feed_forward | {"down": down | {"bias": bias_D}}}
