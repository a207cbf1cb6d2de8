"""A cohort: runs that compile to one program, their arrays stacked on a leading lane axis.

The only place that jits training, maps over lanes or donates.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float32, Int, Int32

from actlab.config import Config
from actlab.models import Model
from actlab.training import step as steps
from actlab.training.optimizer import Hyperparameters

Over = Literal["map", "vmap"]


class Lane(NamedTuple):
    """The traced fields of one run."""

    seed: int
    learning_rate: float
    weight_decay: float


def lane_of(config: Config) -> Lane:
    """The lane of a single run."""
    return Lane(config.seed, config.optimizer.learning_rate, config.optimizer.weight_decay)


def fastest_over() -> Over:
    """Lanes one after the other on CPU, where batched products are slow (1.6 times), side by side elsewhere."""
    return "map" if jax.default_backend() == "cpu" else "vmap"


class Cohort:
    """Compiled functions over R lanes; the state is the caller's, its buffers are donated to every training call."""

    def __init__(self, model: Model, config: Config, lanes: Sequence[Lane], over: Over | None = None):
        self.n_lanes = len(lanes)
        self._steps_per_call = config.train.steps_per_call
        self._seeds = np.array([lane.seed for lane in lanes], np.int32)
        self._hyper = Hyperparameters(
            jnp.array([lane.learning_rate for lane in lanes], jnp.float32),
            jnp.array([lane.weight_decay for lane in lanes], jnp.float32),
        )
        lanewise = functools.partial(_over_lanes, over=over or fastest_over())
        self._init = jax.jit(lanewise(functools.partial(steps.init_state, model, config)))
        self._train: Any = jax.jit(_train_lanes(model, config, lanewise), donate_argnums=0)
        self._evaluate = jax.jit(_evaluate_lanes(model, lanewise))

    def init(self) -> steps.TrainState:
        """Every lane at step 0."""
        return self._init(jax.device_put(self._seeds))

    def abstract_state(self) -> steps.TrainState:
        """Shapes and dtypes of the state, for restoring."""
        return jax.eval_shape(self._init, self._seeds)

    def compile(self, windows_RKBL: Int32[np.ndarray, "R K B L1"]) -> None:
        """Compiles training for windows of this shape ahead of time, so that the first call is as fast as the rest."""
        shape = jax.ShapeDtypeStruct(windows_RKBL.shape, windows_RKBL.dtype)
        self._train = self._train.lower(self.abstract_state(), self._hyper, shape, np.int32(0)).compile()

    def train(
        self, state: steps.TrainState, windows_RKBL: Int32[np.ndarray, "R K B L1"], n_steps: int
    ) -> tuple[steps.TrainState, steps.Metrics]:
        """The first `n_steps` updates on K batches per lane, and metrics [R, K], of which the first n_steps count."""
        return self._train(state, self._hyper, jax.device_put(windows_RKBL), _scalar(n_steps))

    def evaluate(
        self,
        state: steps.TrainState,
        windows_NBL: Int32[np.ndarray, "N B L1"],
        weights_NBL: Float32[np.ndarray, "N B L"],
    ) -> Float[np.ndarray, "R"]:
        """Mean next-token loss of each lane over weighted windows, in nats per token; summed in float64."""
        sums_RN = jax.device_get(self._evaluate(state.params, *jax.device_put((windows_NBL, weights_NBL))))
        return np.asarray(sums_RN, np.float64).sum(axis=1) / weights_NBL.sum(dtype=np.float64)


def _scalar(value: int) -> Array:
    """An int32 scalar put on the device explicitly, as the transfer guard wants it."""
    return jax.device_put(np.int32(value))


def _over_lanes(function: Callable[..., Any], over: Over) -> Callable[..., Any]:
    if over == "vmap":
        return jax.vmap(function)
    return lambda *args: jax.lax.map(lambda lane: function(*lane), args)


def _train_lanes(model: Model, config: Config, lanewise: Callable[..., Any]) -> Callable[..., Any]:
    def train(state: Any, hyper: Any, windows_RKBL: Int[Array, "R K B L1"], n_steps: Int[Array, ""]) -> Any:
        # A loop with a traced bound, not a scan: one program serves calls of any length up to K, so that where a run
        # stops, evaluates or saves changes no bit of what it computes.
        def train_lane(state: Any, hyper: Any, windows_KBL: Any) -> Any:
            def body(i: Array, carry: Any) -> Any:
                state, metrics = carry
                state, new = steps.train_step(model, config, hyper, state, windows_KBL[i])
                return state, jax.tree.map(lambda all_K, one: all_K.at[i].set(one), metrics, new)

            empty = steps.Metrics(*(jnp.zeros(windows_KBL.shape[0], jnp.float32) for _ in steps.Metrics._fields))
            return jax.lax.fori_loop(0, n_steps, body, (state, empty))

        return lanewise(train_lane)(state, hyper, windows_RKBL)

    return train


def _evaluate_lanes(model: Model, lanewise: Callable[..., Any]) -> Callable[..., Any]:
    def evaluate(params: Any, windows_NBL: Any, weights_NBL: Any) -> Any:
        def evaluate_lane(params: Any) -> Any:
            return jax.lax.map(lambda batch: steps.eval_step(model, params, *batch), (windows_NBL, weights_NBL))

        return lanewise(evaluate_lane)(params)

    return evaluate
