"""The fit of the scale study finds a planted power law, and says when a size does not follow it."""

import pathlib
import re

import numpy as np
import pytest
import scripts
from scipy import stats

FOLDER = pathlib.Path(__file__).parents[2] / "experiments/scale"
FIT = scripts.load(FOLDER / "fit.py")
DIFFERENCES = scripts.load(FOLDER / "differences.py")
BELOW, NEXT = FIT.WIDTHS[:4], FIT.PREDICTED[0]
SIZES = {width: 48 * width**2 for width in (*BELOW, NEXT)}


def planted(noise, seed=0):
    rng = np.random.default_rng(seed)
    return {width: 30.0 * SIZES[width] ** -0.4 * np.exp(rng.normal(0, noise, 5)) for width in BELOW}


def test_a_power_law_without_noise_is_found_exactly():
    found, _ = FIT.fit(planted(0.0), NEXT)
    assert (found["a"], found["b"]) == pytest.approx((30.0, 0.4), rel=1e-9)
    assert found["next"] == pytest.approx(30.0 * SIZES[NEXT] ** -0.4, rel=1e-9)
    assert found["next_low"] == pytest.approx(found["next_high"], rel=1e-6)


def test_intervals_of_prediction_hold_the_next_size_as_often_as_they_say():
    truth = 30.0 * SIZES[NEXT] ** -0.4
    found = [FIT.fit(planted(0.05, seed), NEXT)[0] for seed in range(100)]
    held = sum(one["next_low"] <= truth <= one["next_high"] for one in found)
    assert held >= 93
    assert all(one["b_low"] < one["b"] < one["b_high"] for one in found)


def test_a_difference_of_slopes_is_within_its_interval_as_often_as_it_says():
    pairs = [(planted(0.05, seed), planted(0.05, seed + 500)) for seed in range(100)]
    apart = [FIT.interval(FIT.fit(one, NEXT)[1] - FIT.fit(other, NEXT)[1]) for one, other in pairs]
    assert 90 <= sum(low <= 0 <= high for low, high in apart) < 100


def test_a_bend_widens_the_interval_of_prediction():
    bent = {width: values * (1.2 if width == 64 else 1.0) for width, values in planted(0.0).items()}
    found, _ = FIT.fit(bent, NEXT)
    assert found["next_high"] > 1.2 * found["next_low"]


def test_a_prediction_is_judged_when_every_seed_of_it_is_there():
    below = {width: {"gelu": values, "relu": values} for width, values in planted(0.02).items()}
    whole, short = np.full(5, 0.13), np.full(4, 0.13)
    cases = [({"gelu": whole, "relu": short}, {"gelu"}), ({"gelu": whole, "relu": whole}, {"gelu", "relu"})]
    for measured, judged in cases:
        rows, _ = FIT.predicted(below, NEXT, FIT.complete(measured))
        assert {row["activation"] for row in rows if row["measured"] is not None} == judged
        found = [row["holds"] for row in rows if row["measured"] is not None]
        assert found == [row["next_low"] <= 0.13 <= row["next_high"] for row in rows if row["measured"] is not None]


def test_the_figure_is_of_the_largest_width_that_was_trained():
    rows = [{"width": width, "measured": measured} for width, measured in ((128, 0.06), (160, None), (256, None))]
    assert FIT.latest(rows) == rows[:1] and FIT.latest(rows[1:]) == rows[1:2]
    assert FIT.latest([*rows, {"width": 160, "measured": 0.05}])[-1] == {"width": 160, "measured": 0.05}


def test_an_activation_that_lacks_a_width_below_has_no_prediction_and_that_is_said(capsys):
    below = {width: {"gelu": values, "relu": values} for width, values in planted(0.02).items()}
    del below[BELOW[-1]]["gelu"]
    rows, slopes = FIT.predicted(below, NEXT, {})
    assert [row["activation"] for row in rows] == list(slopes) == ["relu"]
    assert re.search(rf"gelu.*{BELOW[-1]}", capsys.readouterr().out)


@pytest.mark.parametrize("trained", [False, True])
def test_the_figure_has_what_was_predicted_beside_what_was_measured(trained):
    excess = planted(0.02) | ({NEXT: np.full(5, 0.13)} if trained else {})
    row = {"width": NEXT, "activation": "gelu"} | FIT.fit({width: excess[width] for width in BELOW}, NEXT)[0]
    row |= {"measured": 0.13 if trained else None}
    data = FIT.figure([row], {width: {"gelu": values} for width, values in excess.items()}).data
    assert [point[1] for point in data["points"].rows] == [SIZES[width] for width in excess]
    assert data["predicted"].rows == [("gelu", row["next_low"], row["next"], row["next_high"])]
    assert data["measured"].rows == ([("gelu", 0.13)] if trained else [])
    parts = [("fit", BELOW[0]), ("fit", BELOW[-1]), ("beyond", BELOW[-1]), ("beyond", NEXT)]
    assert [line[1:3] for line in data["lines"].rows] == [(part, SIZES[width]) for part, width in parts]
    assert data["lines"].rows[-1][-1] == pytest.approx(row["next"])  # the line goes through what it predicts


def test_the_tables_of_differences_are_what_the_rows_say():
    page, excess = (FOLDER / "README.md").read_text(), DIFFERENCES.measured()
    assert re.findall(r"(?:^\| .*\n)+", page[page.index("From width 96 on") :], re.MULTILINE) == [
        f"{table}\n" for table in DIFFERENCES.tables(excess)
    ]
    relu, gelu = (list(excess[128, 0.0056][name].values()) for name in ("relu", "gelu"))
    paired = stats.ttest_rel(relu, gelu)
    told = "{:.4f} ({:.4f} to {:.4f})".format(np.mean(relu) - np.mean(gelu), *paired.confidence_interval())
    assert f"| 128 | 5.6e-3 | {told} |" in page


def test_a_difference_is_of_the_seeds_of_both_and_says_how_many():
    one, other = {1: 0.3, 2: 0.5, 3: 0.9}, {2: 0.1, 1: 0.1, 4: 7.0}
    assert DIFFERENCES.difference(one, {}) == "" and DIFFERENCES.difference(one, {3: 1.0}) == "-0.1000, 1"
    assert DIFFERENCES.difference(one, other).startswith("0.3000 (") and DIFFERENCES.difference(one, other).endswith(
        "), 2"
    )
    assert DIFFERENCES.rate_text(0.0056) == "5.6e-3" and DIFFERENCES.rate_text(0.01) == "1e-2"
