"""comparison.json: which calls go on with a workdir, and which are refused."""

import dataclasses

import pytest

from actlab.adaptive import record
from actlab.adaptive.search import BestRate
from actlab.config import Config, replace
from actlab.errors import UserError

NAMES = ("relu", "tanh")


@pytest.fixture
def begun(tmp_path):
    """A workdir with the record of a comparison at two widths."""
    rates = {"relu": BestRate(0.01, "", 0.5), "tanh": BestRate(0.02, "2 of 2 runs failed", float("inf"), True)}
    one = record.Record(NAMES, Config(), 2, rates, 0.0, {64: 1.5, 128: 3.0})
    one.write(tmp_path, spent=7.0, budget=60.0)
    return tmp_path, dataclasses.replace(one, spent=7.0)


@pytest.mark.parametrize("scales", [None, 2])
@pytest.mark.parametrize("names", [NAMES, NAMES[::-1]])
def test_the_same_call_goes_on_with_what_is_known(begun, names, scales):
    workdir, known = begun
    assert record.begin(workdir, names, Config(), scales) == (known, True)


def test_a_new_folder_begins_and_one_of_a_single_width_may_be_given_more(tmp_path):
    new = record.Record(NAMES, Config(), 1)
    assert record.begin(tmp_path, NAMES, Config(), None) == (new, False)
    new.write(tmp_path, spent=0.0, budget=60.0)
    assert record.begin(tmp_path, NAMES, Config(), 1) == (new, True)
    assert record.begin(tmp_path, NAMES, Config(), 3) == (dataclasses.replace(new, scales=3), False)


@pytest.mark.parametrize(
    ("names", "changes", "scales", "told"),
    [
        (("relu", "gelu"), {}, None, "compares relu, tanh"),
        (NAMES, {"seed": 3}, None, "config.seed is 1337 there and 3 here"),
        (NAMES, {}, 1, "has --scales=2, not 1"),
        (NAMES, {}, 3, "has --scales=2, not 3"),
    ],
)
def test_another_call_is_refused(begun, names, changes, scales, told):
    with pytest.raises(UserError, match=f"{told}.*choose another workdir"):
        record.begin(begun[0], names, replace(Config(), **changes), scales)
