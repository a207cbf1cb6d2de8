"""The formula of a record, which is LaTeX, as text that a page shows without a library."""

import re

_WORDS = {
    r"\alpha": "α",
    r"\beta": "β",
    r"\lambda": "λ",
    r"\sigma": "σ",
    r"\pi": "π",
    r"\Phi": "Φ",
    r"\odot": "⊙",
    r"\sim": "∼",
    r"\sum": "∑",
    r"\max": "max",
    r"\min": "min",
    r"\tanh": "tanh",
    r"\log": "log",
}
_RAISED = str.maketrans("0123456789+-=()kx", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ᵏˣ")
_LOWERED = str.maketrans("0123456789+-=()knp", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₖₙₚ")
_RULES = (
    (r"\\(?:text|mathrm)\{([^{}]*)\}", r"\1"),
    (r"\\t?frac\{([^{}]*)\}\{([^{}]*)\}", r"\1/\2 "),
    (r"\\sqrt\{([^{}]*)\}", r"√(\1)"),
)


def plain(formula: str) -> str:
    r"""A formula in plain characters: \tfrac{x}{2}, x^2 and e^{-x} are x/2, x² and e⁻ˣ. What is unknown stays."""
    text = formula.replace(r"\_", "_\0")  # a name's underscore lowers nothing
    for pattern, replacement in _RULES:
        text = re.sub(pattern, replacement, text)
    for word, character in _WORDS.items():
        text = re.sub(re.escape(word) + r"(?![A-Za-z])", character, text)
    text = re.sub(r"\^(?:\{([^{}]*)\}|(\w))", lambda found: _raised(found[1] or found[2]), text)
    text = re.sub(r"_(?!\0)(?:\{([^{}]*)\}|(\w))", lambda found: _lowered(found[1] or found[2]), text)
    return " ".join(text.replace("\0", "").split())


def _raised(text: str) -> str:
    raised = text.translate(_RAISED)
    return raised if all(character not in text for character in raised) else f"^({text})"


def _lowered(text: str) -> str:
    lowered = text.translate(_LOWERED)
    return lowered if all(character not in text for character in lowered) else f"_({text})"
