"""The activations that come with actlab, in the order in which they are listed."""

from actlab.activations import expressions
from actlab.activations.exponential_units import XIELU_THETA, celu, elu, selu, xielu
from actlab.activations.gaussian import draw_gelu, gelu, gelu2, gelu_centred, gelu_scale
from actlab.activations.mish import mish
from actlab.activations.polynorm import POLYNORM_THETA, polynorm
from actlab.activations.record import Activation
from actlab.activations.rectifiers import (
    hard_sigmoid,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    leaky_relu2,
    prelu,
    relu,
    relu2,
    relu6,
)
from actlab.activations.sigmoidal import penalized_tanh, sigmoid, softplus, softsign, tanh
from actlab.activations.swish import gelu_tanh, gelu_tanh_jax, quick_gelu, silu, swish

# Wide enough for any use; their squares and inverses are still float32 numbers.
_SLOPE = {"slope": (-1e15, 1e15)}
_ALPHA = {"alpha": (1e-15, 1e15)}
_GELU_TANH = r"\tfrac{x}{2}(1 + \tanh(\sqrt{2/\pi}(x + 0.044715 x^3)))"
_SHAZEER = "Shazeer 2020, arXiv:2002.05202"

RECTIFIERS = (
    Activation("identity", identity, "x", "definition", aliases=("linear",), exact=expressions.identity),
    Activation("relu", relu, r"\max(0, x)", "Nair and Hinton 2010", exact=expressions.relu),
    Activation(
        "leaky_relu",
        leaky_relu,
        r"x \text{ if } x > 0 \text{ else } a x",
        "Maas et al. 2013",
        parameters={"slope": 0.01},
        domain=_SLOPE,
        exact=expressions.leaky_relu,
    ),
    Activation(
        "prelu",
        prelu,
        r"x \text{ if } x > 0 \text{ else } a x, a \text{ learned}",
        "He et al. 2015, arXiv:1502.01852",
        theta={"slope": 0.25},
        exact=expressions.leaky_relu,
    ),
    Activation("relu6", relu6, r"\min(\max(0, x), 6)", "Krizhevsky 2010", exact=expressions.relu6),
    Activation(
        "relu2",
        relu2,
        r"\max(0, x)^2",
        "So et al. 2021, arXiv:2109.08668, section 3",
        aliases=("squared_relu", "relu_squared"),
        exact=expressions.relu2,
    ),
    Activation(
        "leaky_relu2",
        leaky_relu2,
        r"x^2 \text{ if } x > 0 \text{ else } a^2 x^2",
        "modded-nanogpt, github.com/KellerJordan/modded-nanogpt",
        parameters={"slope": 0.5},
        domain=_SLOPE,
        exact=expressions.leaky_relu2,
    ),
    Activation(
        "hard_tanh",
        hard_tanh,
        r"\min(\max(-1, x), 1)",
        "Collobert 2004",
        aliases=("hardtanh",),
        exact=expressions.hard_tanh,
    ),
    Activation(
        "hard_sigmoid",
        hard_sigmoid,
        r"\min(\max(0, x + 3), 6) / 6",
        "Howard et al. 2019, arXiv:1905.02244, section 5.2",
        aliases=("hardsigmoid",),
        exact=expressions.hard_sigmoid,
    ),
    Activation(
        "hard_swish",
        hard_swish,
        r"x \min(\max(0, x + 3), 6) / 6",
        "Howard et al. 2019, arXiv:1905.02244, section 5.2",
        aliases=("hardswish", "hard_silu"),
        exact=expressions.hard_swish,
    ),
)
SIGMOIDS = (
    Activation("tanh", tanh, r"\tanh x", "definition", exact=expressions.tanh),
    Activation(
        "penalized_tanh",
        penalized_tanh,
        r"\tanh x \text{ if } x > 0 \text{ else } a \tanh x",
        "Xu et al. 2016, arXiv:1602.05980",
        parameters={"slope": 0.25},
        domain=_SLOPE,
        exact=expressions.penalized_tanh,
    ),
    Activation(
        "sigmoid",
        sigmoid,
        r"\sigma(x) = 1 / (1 + e^{-x})",
        "definition",
        aliases=("logistic",),
        exact=expressions.sigmoid,
    ),
    Activation("softplus", softplus, r"\log(1 + e^x)", "Dugas et al. 2001", exact=expressions.softplus),
    Activation(
        "softsign",
        softsign,
        r"x / (1 + |x|)",
        "Bergstra et al. 2009",
        aliases=("soft_sign",),
        exact=expressions.softsign,
    ),
)
EXPONENTIAL_UNITS = (
    Activation(
        "elu",
        elu,
        r"x \text{ if } x > 0 \text{ else } \alpha (e^x - 1)",
        "Clevert et al. 2015, arXiv:1511.07289",
        parameters={"alpha": 1.0},
        domain=_ALPHA,
        exact=expressions.elu,
    ),
    Activation(
        "celu",
        celu,
        r"x \text{ if } x > 0 \text{ else } \alpha (e^{x/\alpha} - 1)",
        "Barron 2017, arXiv:1704.07483",
        parameters={"alpha": 1.0},
        domain=_ALPHA,
        exact=expressions.celu,
    ),
    Activation(
        "selu",
        selu,
        r"\lambda x \text{ if } x > 0 \text{ else } \lambda \alpha (e^x - 1)",
        "Klambauer et al. 2017, arXiv:1706.02515",
        exact=expressions.selu,
    ),
    Activation(
        "xielu",
        xielu,
        r"a_p x^2 + x/2 \text{ if } x > 0 \text{ else } a_n (e^x - 1 - x) + x/2",
        "Huang and Schlag 2024, arXiv:2411.13010",
        theta=XIELU_THETA,
        exact=expressions.xielu,
    ),
)
SELF_GATED = (
    Activation(
        "gelu",
        gelu,
        r"x \Phi(x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        aliases=("gelu_exact", "gelu_erf", "gelu_none"),
        exact=expressions.gelu,
    ),
    Activation(
        "gelu_scale",
        gelu_scale,
        r"x \Phi(x / s)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2, with sigma = s",
        parameters={"s": 1.0},
        domain={"s": (0.0, 1e15)},
        exact=expressions.gelu_scale,
    ),
    Activation(
        "gelu_tanh",
        gelu_tanh,
        _GELU_TANH,
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        aliases=("gelu_new", "gelu_pytorch_tanh", "gelu_approximate"),
        exact=expressions.gelu_tanh,
    ),
    Activation(
        "gelu_tanh_jax",
        gelu_tanh_jax,
        _GELU_TANH,
        "jax.nn.gelu(approximate=True), with its rounding",
        exact=expressions.gelu_tanh,
    ),
    Activation(
        "quick_gelu",
        quick_gelu,
        r"x \sigma(1.702 x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        aliases=("gelu_quick",),
        exact=expressions.quick_gelu,
    ),
    Activation(
        "gelu2",
        gelu2,
        r"(x \Phi(x))^2",
        "So et al. 2021, arXiv:2109.08668",
        aliases=("squared_gelu",),
        exact=expressions.gelu2,
    ),
    Activation(
        "gelu_centred",
        gelu_centred,
        r"x \Phi(x) - 1 / (2 \sqrt{\pi})",
        "ours: gelu less its mean over N(0, 1)",
        exact=expressions.gelu_centred,
    ),
    Activation(
        "stochastic_gelu",
        gelu,
        r"x B, B \sim \mathrm{Bernoulli}(\Phi(x)); \text{ evaluated as } x \Phi(x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        exact=expressions.gelu,
        draw=draw_gelu,
    ),
    Activation(
        "silu",
        silu,
        r"x \sigma(x)",
        "Elfwing et al. 2017, arXiv:1702.03118",
        aliases=("swish_1", "swish1"),
        exact=expressions.silu,
    ),
    Activation(
        "swish",
        swish,
        r"x \sigma(\beta x), \beta \text{ learned}",
        "Ramachandran et al. 2017, arXiv:1710.05941, section 5",
        theta={"beta": 1.0},
        exact=expressions.swish,
    ),
    Activation("mish", mish, r"x \tanh(\log(1 + e^x))", "Misra 2019, arXiv:1908.08681", exact=expressions.mish),
)
VECTOR_VALUED = (
    Activation(
        "polynorm",
        polynorm,
        r"\sum_{k=1}^{3} w_{3-k} x^k / \mathrm{rms}(x^k) + b",
        "Zhuo et al. 2024, arXiv:2411.03884",
        theta=POLYNORM_THETA,
        elementwise=False,
        exact=expressions.polynorm,
    ),
)
GATED = (
    Activation("glu", sigmoid, r"\sigma(xW) \odot xV", _SHAZEER, gated=True, exact=expressions.sigmoid),
    Activation("bilinear", identity, r"xW \odot xV", _SHAZEER, gated=True, exact=expressions.identity),
    Activation("reglu", relu, r"\max(0, xW) \odot xV", _SHAZEER, gated=True, exact=expressions.relu),
    Activation("geglu", gelu, r"\mathrm{gelu}(xW) \odot xV", _SHAZEER, gated=True, exact=expressions.gelu),
    Activation(
        "geglu_tanh",
        gelu_tanh,
        r"\mathrm{gelu\_tanh}(xW) \odot xV",
        _SHAZEER + "; Gemma",
        gated=True,
        exact=expressions.gelu_tanh,
    ),
    Activation("swiglu", silu, r"\mathrm{silu}(xW) \odot xV", _SHAZEER, gated=True, exact=expressions.silu),
    Activation(
        "drelu",
        relu,
        r"\max(0, xW) \odot \max(0, xV)",
        "Song et al. 2024, arXiv:2406.05955, section 3",
        gated=True,
        value_fn=relu,
        exact=expressions.relu,
        value_exact=expressions.relu,
    ),
)
RECORDS = (*RECTIFIERS, *SIGMOIDS, *EXPONENTIAL_UNITS, *SELF_GATED, *VECTOR_VALUED, *GATED)
