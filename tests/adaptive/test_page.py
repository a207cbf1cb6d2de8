"""The figure of a comparison's page."""

import itertools
import math
import re

import pytest

from actlab.adaptive import page
from actlab.adaptive.judgement import PairState
from actlab.analysis.effects import Verdict

LETTER = 7  # pixels of a digit of 13 pixels, at least


@pytest.mark.parametrize(
    ("low", "high"), [(0.05, 0.075), (-0.3, -0.2), (-0.002, 0.001), (0.001, math.inf), (-1.0, 2.0)]
)
def test_the_numbers_below_the_figure_do_not_overlap_and_one_is_zero(low, high):
    mean = (low + high) / 2 if math.isfinite(high) else low + 0.01
    pair = PairState("tanh", "gelu", Verdict.UNDECIDED, mean, low, high, 9, None, 0.0, 0.0, low, high)
    svg = page._figure([("tanh less gelu", pair)], 0.0025)
    numbers = sorted(
        (float(x), text) for x, text in re.findall(r'<text x="([\d.]+)" y="[\d.]+" text-anchor="middle">([^<]*)', svg)
    )
    assert "0.000" in [text for _, text in numbers] and len(numbers) >= 2
    for (left, before), (right, after) in itertools.pairwise(numbers):
        assert right - left > LETTER * (len(before) + len(after)) / 2, (before, after)
