"""A cohort: runs that compile to one program, their arrays stacked on a leading lane axis.

The only place that jits training, maps over lanes, donates or shards.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Int32

from actlab.config import Config
from actlab.models import Model
from actlab.models.model import Params
from actlab.training import classes, layout, probing
from actlab.training import step as steps
from actlab.training.losses import Examples
from actlab.training.objectives import NEXT_TOKEN, NextToken, Objective
from actlab.training.optimizer import Hyperparameters


class Lane(NamedTuple):
    """The traced fields of one run."""

    seed: int
    learning_rate: float
    weight_decay: float


def lane_of(config: Config) -> Lane:
    """The lane of a single run."""
    return Lane(config.seed, config.optimizer.learning_rate, config.optimizer.weight_decay)


class Scores(NamedTuple):
    """Of each lane on the validation set: mean loss in nats per target, share of targets found likeliest.

    A classifier's also have the mean over classes of F1, see classes.macro_f1.
    """

    loss: Float[np.ndarray, "R"]
    accuracy: Float[np.ndarray, "R"] | None
    macro_f1: Float[np.ndarray, "R"] | None = None


class Cohort:
    """Compiled functions over R lanes; the state is the caller's, its buffers are donated to every training call.

    `config` gives the static fields; where the lanes differ, `lanes` counts.
    """

    def __init__(self, model: Model, config: Config, lanes: Sequence[Lane], objective: Objective = NEXT_TOKEN):
        if model.spec.kind == "encoder" and isinstance(objective, NextToken):
            raise ValueError("an encoder sees the next token: it needs another objective")
        self.n_lanes = len(lanes)
        self.mesh = layout.mesh(config.devices, self.n_lanes, config.data.batch_size)
        batch = (config.data.batch_size, objective.width(model.spec.context))
        self._rows_shape = (self.n_lanes, config.train.steps_per_call, *batch)
        self._seeds = np.array([lane.seed for lane in lanes], np.int32)
        lanewise, whole = layout.lanewise(self.mesh), layout.whole(self.mesh)
        traced = ([lane.learning_rate for lane in lanes], [lane.weight_decay for lane in lanes])
        traced = (*(np.array(values, np.float32) for values in traced), self._seeds)
        self._hyper = Hyperparameters(*jax.device_put(traced, lanewise))
        over_lanes = functools.partial(_over_lanes, by_map=maps_lanes(config), groups=self.mesh.shape["lane"])
        init = over_lanes(functools.partial(steps.init_state, model, config))
        exactly = functools.partial(_with_precision, config)
        self._abstract_state = _with_shardings(self.mesh, jax.eval_shape(init, self._seeds))
        shardings = jax.tree.map(lambda leaf: leaf.sharding, self._abstract_state)
        self._init = jax.jit(init, out_shardings=shardings)
        self._train: Any = jax.jit(
            exactly(_train_lanes(model, config, objective, over_lanes)),
            donate_argnums=0,
            out_shardings=(shardings, whole),
        )
        evaluate = _evaluate_lanes(model, over_lanes, objective.counts_hits)
        self._evaluate = jax.jit(exactly(evaluate), out_shardings=whole)
        # Programs of their own, compiled when first called: what is not probed costs nothing, in training or elsewhere.
        self._probe = jax.jit(exactly(_probe_lanes(model, config, over_lanes)), out_shardings=whole)
        self._curvature = jax.jit(exactly(_curvature_lanes(model, over_lanes)), out_shardings=whole)
        self._census = jax.jit(exactly(_census_lanes(model, over_lanes)), out_shardings=whole)

    def init(self, given: Sequence[Params] | None = None) -> steps.TrainState:
        """Every lane at step 0: parameters that are `given` for each lane, by name, and the others from its seed."""
        state = self._init(jax.device_put(self._seeds, layout.lanewise(self.mesh)))
        if given is None:
            return state
        leaves = [dict(jax.tree_util.tree_leaves_with_path(params)) for params in given]

        def filled(path: Any, drawn_R: Array) -> Array:
            if path not in leaves[0]:
                return drawn_R
            return jax.device_put(np.stack([np.asarray(lane[path]) for lane in leaves]), drawn_R.sharding)

        return state._replace(params=jax.tree_util.tree_map_with_path(filled, state.params))

    def abstract_state(self) -> steps.TrainState:
        """Shapes, dtypes and shardings of the state, for restoring."""
        return self._abstract_state

    def compile(self) -> Any:
        """Compiles training ahead of time, so that the first call is as fast as the rest; returns the program."""
        rows = jax.ShapeDtypeStruct(self._rows_shape, np.int32, sharding=layout.rows(self.mesh))
        self._train = self._train.lower(self._abstract_state, self._hyper, rows, self._scalar(0)).compile()
        return self._train

    def rows(self, fetch: Callable[[slice, slice], Int32[np.ndarray, "r K b W"]]) -> Int32[Array, "R K B W"]:
        """Training rows on the devices; `fetch` gives those of some lanes and rows of the batch.

        Of many processes each asks for the rows of its own devices only.
        """

        def part(place: Any) -> Int32[np.ndarray, "r K b W"]:
            return fetch(place[0], place[2])

        # Putting them there is what is meant; a caller's transfer guard is not about that.
        with jax.transfer_guard_host_to_device("allow"):
            return jax.make_array_from_callback(self._rows_shape, layout.rows(self.mesh), part, dtype=np.int32)

    def train(
        self, state: steps.TrainState, rows_RKBW: Int32[Array, "R K B W"], n_steps: int
    ) -> tuple[steps.TrainState, steps.Metrics]:
        """The first `n_steps` updates on K batches per lane, and metrics [R, K], of which the first n_steps count.

        A lane whose loss is not finite is frozen after that update; its metrics end there.
        """
        return self._train(state, self._hyper, rows_RKBW, self._scalar(n_steps))

    def evaluate(self, state: steps.TrainState, validation: Examples) -> Scores:
        """Of each lane over batches [N, B] of weighted targets; summed in float64."""
        on_device = jax.device_put(validation, layout.validation(self.mesh))
        loss_RN, hits_RN, confusion_RNCC = jax.device_get(self._evaluate(state.params, on_device))
        total = validation.weights.sum(dtype=np.float64)

        def mean(sums_RN: Any) -> Float[np.ndarray, "R"]:
            return np.asarray(sums_RN, np.float64).sum(axis=1) / total

        return Scores(
            mean(loss_RN),
            None if hits_RN is None else mean(hits_RN),
            None if confusion_RNCC is None else classes.macro_f1(np.asarray(confusion_RNCC, np.float64).sum(axis=1)),
        )

    def probe(self, state: steps.TrainState, batch: Examples) -> dict[str, Float[np.ndarray, "R"]]:
        """Activity and gradients of each lane on one batch; see probing.probe_step."""
        on_device = jax.device_put(batch, layout.validation_batch(self.mesh))
        return jax.device_get(self._probe(state, self._hyper, on_device, self._scalar(1)))

    def curvature(self, state: steps.TrainState, batch: Examples) -> dict[str, Float[np.ndarray, "R"]]:
        """Top eigenvalues of each lane on one batch; see probing.curvature_step."""
        on_device = jax.device_put(batch, layout.validation_batch(self.mesh))
        return jax.device_get(self._curvature(state.params, on_device, self._scalar(1)))

    def census(self, state: steps.TrainState, validation: Examples) -> Bool[np.ndarray, "R layers F"]:
        """Which hidden units of each lane are dead on the counted tokens of batches [N, B]; see probing.census."""
        return jax.device_get(self._census(state.params, jax.device_put(validation, layout.validation(self.mesh))))

    def _scalar(self, value: int) -> Array:
        """An int32 scalar put on the devices explicitly, as the transfer guard wants it."""
        return jax.device_put(np.int32(value), layout.whole(self.mesh))


def maps_lanes(config: Config) -> bool:
    """Lanes one after the other on CPU, where batched products are slow (1.6 times), side by side elsewhere."""
    by = config.devices.lanes_by
    return by == "map" or (by == "auto" and jax.default_backend() == "cpu")


def compute_dtype(config: Config) -> np.dtype:
    """The dtype of arrays in matrix products; tensorfloat32 is float32 in memory."""
    return jnp.dtype("float32" if config.train.dtype == "tensorfloat32" else config.train.dtype)


def product_precision(config: Config) -> str:
    """How exact float32 products are: a GPU or TPU left alone rounds their inputs."""
    return "tensorfloat32" if config.train.dtype == "tensorfloat32" else "float32"


def _with_precision(config: Config, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with float32 products as exact as `train.dtype` says."""

    @functools.wraps(function)
    def traced(*args: Any) -> Any:
        with jax.default_matmul_precision(product_precision(config)):
            return function(*args)

    return traced


def _with_shardings(mesh: jax.sharding.Mesh, state: Any) -> Any:
    place = lambda leaf, sharding: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)  # noqa: E731
    return jax.tree.map(place, state, layout.of_state(mesh, state))


def _over_lanes(function: Callable[..., Any], by_map: bool, groups: int) -> Callable[..., Any]:
    """`function` of one lane over a leading lane axis, which lies on `groups` devices."""
    if not by_map:
        return jax.vmap(function)
    one_by_one = lambda *args: jax.lax.map(lambda lane: function(*lane), args)  # noqa: E731
    if groups == 1:
        return one_by_one

    def by_groups(*args: Any) -> Any:
        # Side by side over the devices, one after the other on each: no lane crosses devices.
        split = jax.tree.map(lambda leaf: leaf.reshape(groups, -1, *leaf.shape[1:]), args)
        merge = lambda leaf: leaf.reshape(-1, *leaf.shape[2:])  # noqa: E731
        return jax.tree.map(merge, jax.vmap(one_by_one)(*split))

    return by_groups


def _train_lanes(
    model: Model, config: Config, objective: Objective, over_lanes: Callable[..., Any]
) -> Callable[..., Any]:
    def train(state: Any, hyper: Any, rows_RKBW: Int[Array, "R K B W"], n_steps: Int[Array, ""]) -> Any:
        # A loop with a traced bound, not a scan: one program serves calls of any length up to K, so that where a run
        # stops, evaluates or saves changes no bit of what it computes.
        def train_lane(state: Any, hyper: Any, rows_KBW: Any) -> Any:
            def goes_on(carry: Any) -> Array:
                i, state, _ = carry
                return (i < n_steps) & ~state.diverged

            def update(carry: Any) -> Any:
                i, state, metrics = carry
                state, new = steps.train_step(model, config, hyper, state, rows_KBW[i], objective)
                return i + 1, state, jax.tree.map(lambda all_K, one: all_K.at[i].set(one), metrics, new)

            empty = steps.Metrics(*(jnp.zeros(rows_KBW.shape[0], jnp.float32) for _ in steps.Metrics._fields))
            return jax.lax.while_loop(goes_on, update, (jnp.int32(0), state, empty))[1:]

        return over_lanes(train_lane)(state, hyper, rows_RKBW)

    return train


def _evaluate_lanes(model: Model, over_lanes: Callable[..., Any], counts_hits: bool) -> Callable[..., Any]:
    def evaluate(params: Any, validation: Examples) -> Any:
        def evaluate_lane(params: Any) -> Any:
            return jax.lax.map(lambda batch: steps.eval_step(model, params, batch, counts_hits), validation)

        return over_lanes(evaluate_lane)(params)

    return evaluate


def _probe_lanes(model: Model, config: Config, over_lanes: Callable[..., Any]) -> Callable[..., Any]:
    step = _alike(functools.partial(probing.probe_step, model, config))

    def probe(state: Any, hyper: Any, batch: Examples, once: Int[Array, ""]) -> Any:
        return over_lanes(lambda state, hyper: step(once, hyper, state, batch))(state, hyper)

    return probe


def _curvature_lanes(model: Model, over_lanes: Callable[..., Any]) -> Callable[..., Any]:
    step = _alike(functools.partial(probing.curvature_step, model))

    def curvature(params: Any, batch: Examples, once: Int[Array, ""]) -> Any:
        return over_lanes(lambda params: step(once, params, batch))(params)

    return curvature


def _alike(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, to the bit the same for any number of mapped lanes, in a loop of `once` = 1 turns.

    XLA dissolves a map over one lane and then splits sums among threads, which it does not within a loop. It cannot
    know this loop's bound, nor, for the barrier, that a turn's inputs do not depend on its number.
    """

    def in_a_loop(once: Int[Array, ""], *inputs: Any) -> Any:
        def turn(number: Any, _: Any) -> Any:
            return function(*jax.lax.optimization_barrier((number, inputs))[1])

        empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(function, *inputs))
        return jax.lax.fori_loop(0, once, turn, empty)

    return in_a_loop


def _census_lanes(model: Model, over_lanes: Callable[..., Any]) -> Callable[..., Any]:
    def census(params: Any, validation: Examples) -> Any:
        return over_lanes(lambda params: probing.census(model, params, validation))(params)

    return census
