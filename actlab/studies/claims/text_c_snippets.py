"""Text C: its code snippets, done again in numpy."""

import functools
import math

import numpy as np
from jaxtyping import Float

from actlab.studies.claims import curves
from actlab.studies.claims.claim import Finding, claim, graded

PI = 3.14159  # as the snippet has it
Z = np.linspace(-6, 6, 12_001)  # its step, 0.001, holds -1, 0 and 1
AGREES = 1e-5  # covers the snippet's short pi
N_DRAWS, N_BATCH, N_IN, N_OUT = 4000, 5, 10, 20


@functools.cache
def layer_outputs() -> dict[str, Float[np.ndarray, "draw unit"]]:
    """Pre-activations of two layers Linear(10, 20), one for each activation, on 5 standard normal inputs they share.

    Drawn anew 4,000 times; weights and biases are uniform on +-1/sqrt(10), torch.nn.Linear's default.
    """
    rng = np.random.default_rng(0)
    bound = 1 / math.sqrt(N_IN)
    x = rng.standard_normal((N_DRAWS, N_BATCH, N_IN))

    def layer() -> np.ndarray:
        weights = rng.uniform(-bound, bound, (N_DRAWS, N_IN, N_OUT))
        return (x @ weights + rng.uniform(-bound, bound, (N_DRAWS, 1, N_OUT))).reshape(N_DRAWS, -1)

    return {"tanh": layer(), "gelu": layer()}


def width(name: str) -> Float[np.ndarray, "draw"]:
    """Largest minus least output in each draw. GELU falls left of its minimum, so that all outputs are evaluated."""
    z = layer_outputs()[name]
    chunks = np.array_split(z.reshape(-1), 4)
    return np.ptp(np.concatenate([curves.value(name, chunk) for chunk in chunks]).reshape(z.shape), axis=1)


@claim("C20", "numeric", "Its first snippet shows that GELU's outputs span a wider range than tanh's.")
def _wider_range() -> Finding:
    gelu, tanh = width("gelu"), width("tanh")
    share = float(np.mean(gelu > tanh))
    error = math.sqrt(share * (1 - share) / N_DRAWS)
    evidence = (
        f"Of {N_DRAWS:,} draws of that code (pre-activations of standard deviation "
        f"{layer_outputs()['gelu'].std():.3f}) GELU's range is wider in {share:.1%} (standard error {error:.1%}); "
        f"mean widths: tanh {tanh.mean():.3g}, GELU {gelu.mean():.3g}."
    )
    return Finding(graded(share > 0.95, share > 0.5), evidence)


@claim("C22", "code", "The second snippet's gradient of tanh(x w + b) with respect to w is right.")
def _tanh_gradient() -> Finding:
    x, w, b = 2.0, 0.5, 0.1
    snippet = (1 - math.tanh(x * w + b) ** 2) * x
    autodiff = float(curves.slope("tanh", x * w + b)) * x
    evidence = f"At x = 2, w = 0.5, b = 0.1: (1 - tanh^2(x w + b)) x = {snippet:.6g}, autodiff {autodiff:.6g}."
    return Finding(graded(abs(snippet - autodiff) < AGREES), evidence)


def gate(z: np.ndarray) -> np.ndarray:
    """The snippet's (1 + tanh(sqrt(2/pi) (z + 0.044715 z^3))) / 2."""
    return 0.5 * (1 + np.tanh(math.sqrt(2 / PI) * (z + 0.044715 * z**3)))


@claim("C23", "code", "The second snippet's forward pass is GELU of the linear layer.")
def _gelu_forward() -> Finding:
    x, b = 2.0, 0.1
    z = x * np.linspace(-3, 3, 2001) + b
    snippet, true = x * gate(z), curves.value("gelu_tanh", z)
    apart = float(np.max(np.abs(snippet - true)))
    evidence = (
        "It multiplies the gate of x w + b with the raw x instead of x w + b: with x = 2, b = 0.1 and w in [-3, 3] "
        f"it is off by up to {apart:.3g}."
    )
    return Finding(graded(apart < AGREES), evidence)


def snippet_derivative(z: np.ndarray) -> np.ndarray:
    """The snippet's gate plus (1 - tanh^2 u) u' / 2; the second term misses a factor z."""
    steep = math.sqrt(2 / PI) * (1 + 3 * 0.044715 * z**2)
    return gate(z) + 0.5 * (1 - (2 * gate(z) - 1) ** 2) * steep


@claim("C24", "code", "The second snippet's derivative is that of GELU's tanh form.")
def _gelu_derivative() -> Finding:
    snippet, true = snippet_derivative(Z), curves.slope("gelu_tanh", Z)
    error = np.abs(snippet - true)
    worst = int(np.argmax(error))
    at = {z: int(np.argmin(np.abs(Z - z))) for z in (-1.0, 0.0, 1.0)}
    short_pi = math.sqrt(2 / PI) - math.sqrt(2 / math.pi)
    evidence = (
        f"Its second term misses the factor z: off by up to {error[worst]:.4f} (at z = {Z[worst]:.3f}); at 0 it "
        f"gives {snippet[at[0.0]]:.6f} instead of {true[at[0.0]]:.6g}, at -1 {snippet[at[-1.0]]:.4f} instead of "
        f"{true[at[-1.0]]:.4f}; at 1 it is right within {error[at[1.0]]:.1g}. pi cut to 3.14159 moves sqrt(2/pi) by "
        f"{short_pi:.2g}."
    )
    return Finding(graded(error[worst] < AGREES), evidence)
