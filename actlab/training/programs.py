"""Programs: runs that compile to the same code train together, their arrays stacked on a leading lane axis.

The only place that jits training, maps over lanes, donates buffers or shards arrays. What one lane computes stands in
step.py and probing.py, as pure functions.
"""

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float32, Int32

from actlab import config as config_lib
from actlab.config import Config
from actlab.models import Model
from actlab.models.model import Params
from actlab.probes import spans
from actlab.training import devices, probing, step as steps
from actlab.training.losses import Examples, macro_f1
from actlab.training.objectives import NEXT_TOKEN, NextToken, Objective
from actlab.training.step import Lane

_EVALUATED = 8192  # tokens of small batches that are evaluated at a time, at most (experiments/performance/tried.md)


def lane_of(config: Config) -> Lane:
    """The lane of a single run."""
    return Lane(*config_lib.traced(config).values())


class Scores(NamedTuple):
    """Scores of each lane on a split: mean loss in nats per target, share of targets ranked first.

    A classifier also has the mean of F1 over classes, see losses.macro_f1.
    """

    loss: Float[np.ndarray, "R"]
    accuracy: Float[np.ndarray, "R"] | None
    macro_f1: Float[np.ndarray, "R"] | None = None


class Functions(NamedTuple):
    """The compiled functions of a program over R lanes; those that are never called are never compiled."""

    init: Any  # (seeds [R]) -> state
    train: Any  # (state, lanes, rows [R, S, B, W], n_steps) -> (state, metrics [R, S]); the state is donated
    evaluate: Any  # (params, examples [N, B, ...]) -> steps.Evaluated, losses [R, N, B, K]
    probe: Any  # (lanes, state, batch [B, ...], 1) -> {name: [R]}
    curvature: Any  # (params, batch [B, ...], 1) -> {name: [R]}
    census: Any  # (params, validation [N, B, ...]) -> dead units [R, layers, F]


@dataclasses.dataclass(frozen=True)
class Program:
    """Compiled functions, the traced fields of R lanes that they are called with, and where arrays lie.

    The state belongs to the caller. Its buffers are donated to every call of `train`, which returns the next state:
    parameters and moments are in memory once, not twice.
    """

    functions: Functions
    lanes: Lane  # of arrays [R] on the devices
    mesh: jax.sharding.Mesh
    rows_shape: tuple[int, ...]  # [R, S, B, W] of one call's rows
    abstract_state: steps.TrainState  # shapes, dtypes and shardings, for restoring

    @property
    def n_lanes(self) -> int:
        """The number of lanes, R."""
        return self.rows_shape[0]

    def compile(self) -> "Program":
        """This program with `train` compiled ahead of time, so that its first call is as fast as the others."""
        return dataclasses.replace(self, functions=self.functions._replace(train=self.lower("train").compile()))

    def lower(self, name: str, examples: Examples | None = None) -> jax.stages.Lowered:
        """One of the functions for the shapes it is called with: what a compiler is given. Nothing is computed.

        All but `train` and `init` take `examples`, of which only shapes and dtypes count: batches [N, B, ...], or one
        batch for `probe` and `curvature`.
        """
        axes = (devices.BATCH,) if name in ("probe", "curvature") else (None, devices.BATCH)
        given = _described(examples, devices.sharding(self.mesh, *axes))
        number = jax.ShapeDtypeStruct((), np.int32, sharding=devices.sharding(self.mesh))
        rows = jax.ShapeDtypeStruct(self.rows_shape, np.int32, sharding=_rows_sharding(self.mesh))
        state, params = self.abstract_state, self.abstract_state.params
        arguments: dict[str, tuple[Any, ...]] = {
            "init": (self.lanes.seed,),
            "train": (state, self.lanes, rows, number),
            "evaluate": (params, given),
            "probe": (self.lanes, state, given, number),
            "curvature": (params, given, number),
            "census": (params, given),
        }
        return getattr(self.functions, name).lower(*arguments[name])

    def with_lanes(self, lanes: Sequence[Lane]) -> "Program":
        """The same functions for as many other lanes: nothing is compiled again."""
        if len(lanes) != self.n_lanes:
            raise ValueError(f"{len(lanes)} lanes, but the program was built for {self.n_lanes}")
        return dataclasses.replace(self, lanes=jax.device_put(_columns(lanes), devices.sharding(self.mesh, "lane")))

    def init(self, given: Sequence[Params] | None = None) -> steps.TrainState:
        """Every lane at step 0, drawn from its seed; `given` holds each lane's parameters that replace drawn ones."""
        state = self.functions.init(self.lanes.seed)
        if given is None:
            return state
        leaves = [dict(jax.tree_util.tree_leaves_with_path(params)) for params in given]

        def filled(path: Any, drawn_R: Array) -> Array:
            if not any(path in lane for lane in leaves):
                return drawn_R
            arrays = [lane[path] if path in lane else drawn_R[index] for index, lane in enumerate(leaves)]
            return jax.device_put(np.stack([np.asarray(array) for array in arrays]), drawn_R.sharding)

        return state._replace(params=jax.tree_util.tree_map_with_path(filled, state.params))

    def rows(self, fetch: Callable[[slice, slice], Int32[np.ndarray, "r K b W"]]) -> Int32[Array, "R S B W"]:
        """Training rows on the devices; `fetch` is called with a slice of lanes and a slice of the batch.

        Each process fetches only the rows of its own devices.
        """
        fetch_shard = lambda index: fetch(index[0], index[2])
        sharding = _rows_sharding(self.mesh)
        # This transfer is intended, whatever transfer guard the caller has set.
        with jax.transfer_guard_host_to_device("allow"):
            return jax.make_array_from_callback(self.rows_shape, sharding, fetch_shard, dtype=np.int32)

    def train(
        self, state: steps.TrainState, rows_RSBW: Int32[Array, "R S B W"], n_steps: int
    ) -> tuple[steps.TrainState, steps.Metrics]:
        """The first `n_steps` updates on S batches per lane, and metrics [R, S], of which the first n_steps count.

        A lane whose loss is not finite is frozen after that update; its metrics end there.
        """
        return self.functions.train(state, self.lanes, rows_RSBW, self._scalar(n_steps))

    def evaluate(
        self, state: steps.TrainState, pieces: Sequence[Examples]
    ) -> tuple[Scores, Float32[np.ndarray, "R N B K"]]:
        """Scores of each lane over pieces, each of batches [n, B] of weighted targets, and weight times loss of each.

        Pieces of one shape share a compiled function. Targets are added up in float64.
        """
        return self.scores([self.evaluation(state, piece) for piece in pieces], pieces)

    def evaluation(self, state: steps.TrainState, piece: Examples) -> steps.Evaluated:
        """Starts an evaluation of batches [n, B]; `scores` waits for it. The device works on it meanwhile."""
        return self.functions.evaluate(state.params, self._put_batches(piece))

    def scores(
        self, evaluations: Sequence[steps.Evaluated], pieces: Sequence[Examples]
    ) -> tuple[Scores, Float32[np.ndarray, "R N B K"]]:
        """What `evaluate` returns, of the evaluations of pieces."""
        found = jax.device_get(evaluations)
        losses_RNBK, hits_RN, confusion_RNCC = jax.tree.map(lambda *parts: np.concatenate(parts, axis=1), *found)
        total = math.fsum(piece.weights.sum(dtype=np.float64) for piece in pieces)
        scores = Scores(
            losses_RNBK.sum(axis=(1, 2, 3), dtype=np.float64) / total,
            None if hits_RN is None else hits_RN.sum(axis=1, dtype=np.float64) / total,
            None if confusion_RNCC is None else macro_f1(confusion_RNCC.sum(axis=1, dtype=np.float64)),
        )
        return scores, losses_RNBK

    def probe(self, state: steps.TrainState, batch: Examples) -> dict[str, Float[np.ndarray, "R"]]:
        """Activity and gradients of each lane on one batch; see probing.probe_step."""
        return jax.device_get(self.functions.probe(self.lanes, state, self._put_batch(batch), self._scalar(1)))

    def curvature(self, state: steps.TrainState, batch: Examples) -> dict[str, Float[np.ndarray, "R"]]:
        """Top eigenvalues of each lane on one batch; see probing.curvature_step."""
        return jax.device_get(self.functions.curvature(state.params, self._put_batch(batch), self._scalar(1)))

    def census(self, state: steps.TrainState, validation: Examples) -> Bool[np.ndarray, "R layers F"]:
        """Which hidden units of each lane are dead on the counted tokens of batches [N, B]; see probing.census."""
        return jax.device_get(self.functions.census(state.params, self._put_batches(validation)))

    def _put_batch(self, batch: Examples) -> Examples:
        return jax.device_put(batch, devices.sharding(self.mesh, devices.BATCH))

    def _put_batches(self, batches: Examples) -> Examples:
        return jax.device_put(batches, devices.sharding(self.mesh, None, devices.BATCH))

    def _scalar(self, value: int) -> Array:
        # Put on the devices explicitly: the loop's transfer guard forbids implicit transfers.
        return jax.device_put(np.int32(value), devices.sharding(self.mesh))


def build(
    model: Model,
    config: Config,
    lanes: Sequence[Lane],
    objective: Objective = NEXT_TOKEN,
    target: Sequence[Any] | None = None,
) -> Program:
    """The program of lanes that share every static field; those are read from `config`, traced fields from `lanes`.

    With `target`, devices of a topology that need not be here, it can be lowered and compiled, but not run.

    Raises:
        UserError: if the devices cannot be divided as `config.devices` asks.
    """
    if model.spec.kind == "encoder" and isinstance(objective, NextToken):
        raise ValueError("an encoder sees the next token: it needs another objective")
    mesh = devices.make_mesh(config.devices, len(lanes), config.data.batch_size, target)
    model = model.on(devices.sharding(mesh, devices.BATCH), config.devices.remat)
    lanes_R = (_described if target else jax.device_put)(_columns(lanes), devices.sharding(mesh, "lane"))

    over_lanes = functools.partial(_over_lanes, config, mesh)
    init = over_lanes(steps.init_state, model, config, name="init")
    abstract_state = jax.eval_shape(init, lanes_R.seed)
    shardings, whole = devices.state_shardings(mesh, abstract_state), devices.sharding(mesh)
    alone = devices.maps_lanes(config, mesh) and mesh.shape["lane"] == 1
    train = over_lanes(_train, model, config, objective, alone, name="train", n_shared=1, mapped=_in_place)
    evaluate = over_lanes(_evaluate, model, objective.counts_hits, name="evaluate", n_shared=1)
    # Probes are functions of their own, so that training costs the same with and without them.
    probe_step = functools.partial(probing.probe_step, model, config)
    curvature_step = functools.partial(probing.curvature_step, model)
    probe = over_lanes(_reproducible, probe_step, name="probe", n_shared=2)
    curvature = over_lanes(_reproducible, curvature_step, name="curvature", n_shared=2)
    census = over_lanes(probing.census, model, name="census", n_shared=1)
    platform, init_options, train_options = mesh.devices.flat[0].platform, {}, {}
    if platform == "cpu":
        # By default XLA writes vectors of 256 bits, also where a CPU has 512; where it has fewer this changes nothing.
        train_options = {"xla_cpu_prefer_vector_width": 512}
        # It runs once: a third less to compile, and the same numbers as fast.
        init_options = {"xla_backend_optimization_level": 1}
    elif devices.kernels_together(platform, mesh.size, config.devices.remat):
        train_options = {"xla_gpu_command_buffer_scheduling_mode": "CONCURRENT"}
    functions = Functions(
        # The state comes out as it goes in: parameters are drawn where they will lie, and a donated buffer is used
        # again only for an output of the same sharding.
        init=jax.jit(init, out_shardings=shardings, compiler_options=init_options),
        train=jax.jit(train, donate_argnums=0, out_shardings=(shardings, whole), compiler_options=train_options),
        evaluate=jax.jit(evaluate, out_shardings=whole),
        probe=jax.jit(probe, out_shardings=whole),
        curvature=jax.jit(curvature, out_shardings=whole),
        census=jax.jit(census, out_shardings=whole),
    )
    width = objective.width(model.spec.context)
    rows_shape = (len(lanes), boundary(config, 0), config.data.batch_size, width)
    return Program(functions, lanes_R, mesh, rows_shape, jax.tree.map(_described, abstract_state, shardings))


def boundary(config: Config, step: int) -> int:
    """The step at which the call that begins at `step` ends, where something else is due.

    It depends on the step alone, so that a resume repeats it. No call has more steps than the first, from 0.
    """
    train = config.train
    all_spans = (train.steps_per_call, train.eval_every, train.checkpoint_every, *spans(train))
    return min(train.n_steps, *((step // span + 1) * span for span in all_spans))


def _columns(lanes: Sequence[Lane]) -> Lane:
    columns = [np.array(values) for values in zip(*lanes, strict=True)]
    # Arrays, not Python numbers: a constant in the program would compile it again for every learning rate.
    return Lane(*(values_R.astype(np.int32 if values_R.dtype.kind == "i" else np.float32) for values_R in columns))


def _described(arrays: Any, sharding: jax.sharding.NamedSharding) -> Any:
    """Shapes, dtypes and shardings in place of arrays: a function compiled for other shardings refuses its inputs."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), arrays)


def _rows_sharding(mesh: jax.sharding.Mesh) -> jax.sharding.NamedSharding:
    return devices.sharding(mesh, "lane", None, devices.BATCH)


def _one_by_one(one: Callable[..., Any], *lanewise: Any) -> Any:
    return jax.lax.map(lambda lane: one(*lane), lanewise)


def _in_place(one: Callable[..., Any], state_R: Any, *lanewise: Any) -> Any:
    """As _one_by_one, of a function (state, ...) -> (state, result); new states take the place of the old ones.

    A map holds both: at 30M six lanes took 3.3 GB beside the state, where 1.2 GB do.
    """

    def turn(states_R: Any, given: Any) -> Any:
        r, *lane = given
        state = jax.tree.map(lambda leaf_R: jax.lax.dynamic_index_in_dim(leaf_R, r, keepdims=False), states_R)
        state, result = one(state, *lane)
        put = lambda leaf_R, leaf: jax.lax.dynamic_update_index_in_dim(leaf_R, leaf, r, axis=0)
        return jax.tree.map(put, states_R, state), result

    n_lanes = len(jax.tree.leaves(state_R)[0])
    return jax.lax.scan(turn, state_R, (jnp.arange(n_lanes), *lanewise))


def _over_lanes(
    config: Config,
    mesh: jax.sharding.Mesh,
    function: Callable[..., Any],
    *static: Any,
    name: str,
    n_shared: int = 0,
    mapped: Callable[..., Any] = _one_by_one,
) -> Any:
    """`function` of one lane over a leading axis of lanes, which lies on the lane axis of the mesh.

    All arguments have that axis but for the first, `static`, and the last `n_shared`, which every lane is given whole.
    Where lanes are not side by side, `mapped` goes over them. Profiles and the compilation cache call it `name`.
    """

    def over_lanes(*args: Any) -> Any:
        lanewise, shared = args[: len(args) - n_shared], args[len(args) - n_shared :]
        one = lambda *lane: function(*static, *lane, *shared)
        one_by_one = functools.partial(mapped, one)
        with jax.default_matmul_precision(devices.product_precision(config)):
            if not devices.maps_lanes(config, mesh):
                return jax.vmap(one, spmd_axis_name="lane")(*lanewise)
            n_groups = mesh.shape["lane"]
            if n_groups == 1:
                return one_by_one(*lanewise)
            # Side by side over the devices, one after the other on each: no lane crosses devices.
            split = jax.tree.map(lambda leaf: leaf.reshape(n_groups, -1, *leaf.shape[1:]), lanewise)
            merge = lambda leaf: leaf.reshape(-1, *leaf.shape[2:])
            return jax.tree.map(merge, jax.vmap(one_by_one, spmd_axis_name="lane")(*split))

    over_lanes.__name__ = over_lanes.__qualname__ = name
    return over_lanes


def _train(
    model: Model,
    config: Config,
    objective: Objective,
    alone: bool,
    state: Any,
    lane: Lane,
    rows_SBW: Array,
    n_steps: Array,
) -> Any:
    """`n_steps` updates of one lane, fewer if it diverges.

    Where it loops `alone`, the loop ends there. Lanes side by side share a loop, which would ask all devices in every
    step whether one of their lanes goes on; there a diverged lane is kept as it is instead.

    A loop with a traced bound, not a scan: one compiled function serves calls of any length up to K. So where a run
    stops, evaluates or saves changes no bit of what it computes. Two lengths compiled apart may round differently.
    """

    def goes_on(carry: Any) -> Array:
        i, state, _ = carry
        return (i < n_steps) & ~state.diverged if alone else i < n_steps

    def update(carry: Any) -> Any:
        i, state, metrics = carry
        next_state, new = steps.train_step(model, config, lane, state, rows_SBW[i], objective)
        if not alone:
            next_state = jax.tree.map(lambda old, new: jnp.where(state.diverged, old, new), state, next_state)
            new = jax.tree.map(lambda one: jnp.where(state.diverged, 0.0, one), new)
        return i + 1, next_state, jax.tree.map(lambda all_S, one: all_S.at[i].set(one), metrics, new)

    # Places beyond n_steps, or after a divergence, stay 0; the loop reads none of them.
    empty = steps.Metrics(*(jnp.zeros(rows_SBW.shape[0], jnp.float32) for _ in steps.Metrics._fields))
    return jax.lax.while_loop(goes_on, update, (jnp.int32(0), state, empty))[1:]


def _evaluate(model: Model, counts_hits: bool, params: Any, examples: Examples) -> steps.Evaluated:
    """Small batches [N, B] are evaluated several at a time, as [M, B G]: small products are slow."""
    n_batches, n_rows, length = examples.tokens.shape
    # As many as take no more memory than training, which keeps the logits, their gradient, and three arrays [T, F] and
    # fifteen [T, D] of every layer; an evaluation has those of one layer at a time.
    spec = model.spec
    logits, layer = 2 * spec.vocab_size, 3 * spec.d_hidden + 15 * spec.d_model
    fits = (logits + spec.n_layers * layer) // (logits + layer)
    most = max(1, min(fits, n_batches, _EVALUATED // (n_rows * length)))
    # Of numbers above half of that the one with the fewest batches, those added to fill the last group included.
    n_groups, n_together = min(
        ((-(-n_batches // each), each) for each in range(most // 2 + 1, most + 1)),
        key=lambda one: (math.prod(one), *one),
    )

    def together(array: Array) -> Array:  # the rows of a device stay on it
        added = n_groups * n_together - n_batches  # without weight
        padded = jnp.pad(array, [(0, added), *((0, 0) for _ in array.shape[1:])])
        grouped = padded.reshape(n_groups, n_together, *array.shape[1:]).swapaxes(1, 2)
        return grouped.reshape(n_groups, n_rows * n_together, *array.shape[2:])

    batches = jax.tree.map(together, examples)
    found = jax.lax.map(lambda batch: steps.eval_step(model, params, batch, counts_hits), batches)
    losses = found.losses.reshape(n_groups, n_rows, n_together, -1).swapaxes(1, 2)
    return found._replace(losses=losses.reshape(n_groups * n_together, n_rows, -1)[:n_batches])


def _reproducible(function: Callable[..., Any], *args: Any) -> Any:
    """`function` of all arguments but the last, to the bit the same for any number of mapped lanes.

    The last argument is the number 1: the function runs in a loop of that many turns. Without a loop XLA dissolves a
    map over a single lane and then splits sums among threads, which changes their last bits. XLA does not know this
    loop's bound, and the barrier hides that the inputs are the same in every turn.
    """
    *inputs, once = args
    function = jax.jit(function, inline=True)  # traced once, for its shapes and for the loop

    def turn(number: Any, _: Any) -> Any:
        return function(*jax.lax.optimization_barrier((number, tuple(inputs)))[1])

    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, *inputs))
    return jax.lax.fori_loop(0, once, turn, empty)
