"""The activations that come with actlab, in the order in which they are listed.

To add one: write its function and its exact formula in the file of its family, and a record here. Names and aliases are
literals, because the command line reads them from this file before it imports jax. Its tests are a formula for mpmath
in tests/activations/test_accuracy.py and its bounds in tests/activations/test_properties.py.
"""

from actlab.activations import gaussian, polynomial, saturating, swish
from actlab.activations.definition import Activation

# Wide enough for any use; their squares and inverses are still float32 numbers.
_SLOPE = {"slope": (-1e15, 1e15)}
_ALPHA = {"alpha": (1e-15, 1e15)}
_GELU_TANH = r"\tfrac{x}{2}(1 + \tanh(\sqrt{2/\pi}(x + 0.044715 x^3)))"
_SHAZEER = "Shazeer 2020, arXiv:2002.05202"

RECTIFIERS = (
    Activation(
        "identity", polynomial.identity, "x", "definition", aliases=("linear",), exact=polynomial.exact_identity
    ),
    Activation("relu", polynomial.relu, r"\max(0, x)", "Nair and Hinton 2010", exact=polynomial.exact_relu),
    Activation(
        "leaky_relu",
        polynomial.leaky_relu,
        r"x \text{ if } x > 0 \text{ else } a x",
        "Maas et al. 2013",
        parameters={"slope": 0.01},
        domain=_SLOPE,
        exact=polynomial.exact_leaky_relu,
    ),
    Activation(
        "prelu",
        polynomial.prelu,
        r"x \text{ if } x > 0 \text{ else } a x, a \text{ learned}",
        "He et al. 2015, arXiv:1502.01852",
        theta={"slope": 0.25},
        exact=polynomial.exact_leaky_relu,
    ),
    Activation("relu6", polynomial.relu6, r"\min(\max(0, x), 6)", "Krizhevsky 2010", exact=polynomial.exact_relu6),
    Activation(
        "relu2",
        polynomial.relu2,
        r"\max(0, x)^2",
        "So et al. 2021, arXiv:2109.08668, section 3",
        aliases=("squared_relu", "relu_squared"),
        exact=polynomial.exact_relu2,
    ),
    Activation(
        "leaky_relu2",
        polynomial.leaky_relu2,
        r"x^2 \text{ if } x > 0 \text{ else } a^2 x^2",
        "modded-nanogpt, github.com/KellerJordan/modded-nanogpt",
        parameters={"slope": 0.5},
        domain=_SLOPE,
        exact=polynomial.exact_leaky_relu2,
    ),
    Activation(
        "hard_tanh",
        polynomial.hard_tanh,
        r"\min(\max(-1, x), 1)",
        "Collobert 2004",
        aliases=("hardtanh",),
        exact=polynomial.exact_hard_tanh,
    ),
    Activation(
        "hard_sigmoid",
        polynomial.hard_sigmoid,
        r"\min(\max(0, x + 3), 6) / 6",
        "Howard et al. 2019, arXiv:1905.02244, section 5.2",
        aliases=("hardsigmoid",),
        exact=polynomial.exact_hard_sigmoid,
    ),
    Activation(
        "hard_swish",
        polynomial.hard_swish,
        r"x \min(\max(0, x + 3), 6) / 6",
        "Howard et al. 2019, arXiv:1905.02244, section 5.2",
        aliases=("hardswish", "hard_silu"),
        exact=polynomial.exact_hard_swish,
    ),
)
SIGMOIDS = (
    Activation("tanh", saturating.tanh, r"\tanh x", "definition", exact=saturating.exact_tanh),
    Activation(
        "penalized_tanh",
        saturating.penalized_tanh,
        r"\tanh x \text{ if } x > 0 \text{ else } a \tanh x",
        "Xu et al. 2016, arXiv:1602.05980",
        parameters={"slope": 0.25},
        domain=_SLOPE,
        exact=saturating.exact_penalized_tanh,
    ),
    Activation(
        "sigmoid",
        saturating.sigmoid,
        r"\sigma(x) = 1 / (1 + e^{-x})",
        "definition",
        aliases=("logistic",),
        exact=saturating.exact_sigmoid,
    ),
    Activation("softplus", saturating.softplus, r"\log(1 + e^x)", "Dugas et al. 2001", exact=saturating.exact_softplus),
    Activation(
        "softsign",
        saturating.softsign,
        r"x / (1 + |x|)",
        "Bergstra et al. 2009",
        aliases=("soft_sign",),
        exact=saturating.exact_softsign,
    ),
)
EXPONENTIAL_UNITS = (
    Activation(
        "elu",
        saturating.elu,
        r"x \text{ if } x > 0 \text{ else } \alpha (e^x - 1)",
        "Clevert et al. 2015, arXiv:1511.07289",
        parameters={"alpha": 1.0},
        domain=_ALPHA,
        exact=saturating.exact_elu,
    ),
    Activation(
        "celu",
        saturating.celu,
        r"x \text{ if } x > 0 \text{ else } \alpha (e^{x/\alpha} - 1)",
        "Barron 2017, arXiv:1704.07483",
        parameters={"alpha": 1.0},
        domain=_ALPHA,
        exact=saturating.exact_celu,
    ),
    Activation(
        "selu",
        saturating.selu,
        r"\lambda x \text{ if } x > 0 \text{ else } \lambda \alpha (e^x - 1)",
        "Klambauer et al. 2017, arXiv:1706.02515",
        exact=saturating.exact_selu,
    ),
    Activation(
        "xielu",
        saturating.xielu,
        r"a_p x^2 + x/2 \text{ if } x > 0 \text{ else } a_n (e^x - 1 - x) + x/2",
        "Huang and Schlag 2024, arXiv:2411.13010",
        theta=saturating.XIELU_THETA,
        exact=saturating.exact_xielu,
    ),
)
SELF_GATED = (
    Activation(
        "gelu",
        gaussian.gelu,
        r"x \Phi(x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        aliases=("gelu_exact", "gelu_erf", "gelu_none"),
        exact=gaussian.exact_gelu,
    ),
    Activation(
        "gelu_scale",
        gaussian.gelu_scale,
        r"x \Phi(x / s)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2, with sigma = s",
        parameters={"s": 1.0},
        domain={"s": (0.0, 1e15)},
        exact=gaussian.exact_gelu_scale,
    ),
    Activation(
        "gelu_tanh",
        swish.gelu_tanh,
        _GELU_TANH,
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        aliases=("gelu_new", "gelu_pytorch_tanh", "gelu_approximate"),
        exact=swish.exact_gelu_tanh,
    ),
    Activation(
        "gelu_tanh_jax",
        swish.gelu_tanh_jax,
        _GELU_TANH,
        "jax.nn.gelu(approximate=True), with its rounding",
        exact=swish.exact_gelu_tanh,
    ),
    Activation(
        "quick_gelu",
        swish.quick_gelu,
        r"x \sigma(1.702 x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        aliases=("gelu_quick",),
        exact=swish.exact_quick_gelu,
    ),
    Activation(
        "gelu2",
        gaussian.gelu2,
        r"(x \Phi(x))^2",
        "So et al. 2021, arXiv:2109.08668",
        aliases=("squared_gelu",),
        exact=gaussian.exact_gelu2,
    ),
    Activation(
        "gelu_centred",
        gaussian.gelu_centred,
        r"x \Phi(x) - 1 / (2 \sqrt{\pi})",
        "ours: gelu less its mean over N(0, 1)",
        exact=gaussian.exact_gelu_centred,
    ),
    Activation(
        "stochastic_gelu",
        gaussian.gelu,
        r"x B, B \sim \mathrm{Bernoulli}(\Phi(x)); \text{ evaluated as } x \Phi(x)",
        "Hendrycks and Gimpel 2016, arXiv:1606.08415, section 2",
        exact=gaussian.exact_gelu,
        draw=gaussian.draw_gelu,
    ),
    Activation(
        "silu",
        swish.silu,
        r"x \sigma(x)",
        "Elfwing et al. 2017, arXiv:1702.03118",
        aliases=("swish_1", "swish1"),
        exact=swish.exact_silu,
    ),
    Activation(
        "swish",
        swish.swish,
        r"x \sigma(\beta x), \beta \text{ learned}",
        "Ramachandran et al. 2017, arXiv:1710.05941, section 5",
        theta={"beta": 1.0},
        exact=swish.exact_swish,
    ),
    Activation("mish", swish.mish, r"x \tanh(\log(1 + e^x))", "Misra 2019, arXiv:1908.08681", exact=swish.exact_mish),
)
VECTOR_VALUED = (
    Activation(
        "polynorm",
        polynomial.polynorm,
        r"\sum_{k=1}^{3} w_{3-k} x^k / \mathrm{rms}(x^k) + b",
        "Zhuo et al. 2024, arXiv:2411.03884",
        theta=polynomial.POLYNORM_THETA,
        elementwise=False,
        exact=polynomial.exact_polynorm,
    ),
)
GATED = (
    Activation("glu", saturating.sigmoid, r"\sigma(xW) \odot xV", _SHAZEER, gated=True, exact=saturating.exact_sigmoid),
    Activation("bilinear", polynomial.identity, r"xW \odot xV", _SHAZEER, gated=True, exact=polynomial.exact_identity),
    Activation("reglu", polynomial.relu, r"\max(0, xW) \odot xV", _SHAZEER, gated=True, exact=polynomial.exact_relu),
    Activation("geglu", gaussian.gelu, r"\mathrm{gelu}(xW) \odot xV", _SHAZEER, gated=True, exact=gaussian.exact_gelu),
    Activation(
        "geglu_tanh",
        swish.gelu_tanh,
        r"\mathrm{gelu\_tanh}(xW) \odot xV",
        _SHAZEER + "; Gemma",
        gated=True,
        exact=swish.exact_gelu_tanh,
    ),
    Activation("swiglu", swish.silu, r"\mathrm{silu}(xW) \odot xV", _SHAZEER, gated=True, exact=swish.exact_silu),
    Activation(
        "drelu",
        polynomial.relu,
        r"\max(0, xW) \odot \max(0, xV)",
        "Song et al. 2024, arXiv:2406.05955, section 3",
        gated=True,
        value_fn=polynomial.relu,
        exact=polynomial.exact_relu,
        value_exact=polynomial.exact_relu,
    ),
)
RECORDS = (*RECTIFIERS, *SIGMOIDS, *EXPONENTIAL_UNITS, *SELF_GATED, *VECTOR_VALUED, *GATED)
