"""Curves: means over spans, bands over seeds, spikes and divergences where they are."""

import numpy as np
import pytest

from actlab.report import curves
from actlab.report.study import read


@pytest.fixture(scope="module")
def found(study):
    return read([study])


def test_a_point_is_the_mean_since_the_point_before(found):
    steps_N, all_curves = curves.training(found)
    run, loss_N = all_curves[0]
    assert len(steps_N) <= 200 and steps_N[-1] == 2000
    first, second = int(steps_N[0]), int(steps_N[1])
    assert loss_N[0] == pytest.approx(run.steps.loss_S[:first].mean(), rel=1e-6)
    assert loss_N[1] == pytest.approx(run.steps.loss_S[first:second].mean(), rel=1e-6)
    # All steps count once.
    sizes_N = np.diff(np.concatenate([[0], steps_N]))
    assert (loss_N * sizes_N).sum() == pytest.approx(run.steps.loss_S.sum(), rel=1e-6)


@pytest.mark.parametrize(("runs", "most"), [(1, 600), (120, 200)])
def test_a_page_has_no_more_points_than_it_can_hold(found, six, runs, most):
    study = found if runs == 120 else read([six])
    steps_N, all_curves = curves.training(study)
    assert len(steps_N) <= min(most, 600) and all(len(one.loss_N) == len(steps_N) for one in all_curves)


def test_a_run_that_ended_has_no_points_after(found):
    steps_N, all_curves = curves.training(found)
    ended = next(one for one in all_curves if one.run.status == "diverged")
    assert np.isnan(ended.loss_N[steps_N > 600]).all() and np.isfinite(ended.loss_N[steps_N < 400]).all()


def test_a_band_spans_its_seeds(found):
    _, all_curves = curves.validation(found)
    bands = curves.bands(all_curves)
    assert len(bands) == 20
    band = bands[2]
    mine = [
        one.loss_N for one in all_curves if (one.run.condition, one.run.activation, one.run.learning_rate) == band.lane
    ]
    assert len(mine) == 6
    np.testing.assert_allclose(band.low_N, np.min(mine, axis=0))
    np.testing.assert_allclose(band.mean_N, np.mean(mine, axis=0))
    np.testing.assert_allclose(band.high_N, np.max(mine, axis=0))


def test_spikes_and_ends_are_marked_where_they_are(found):
    marks, n_spikes = curves.marks(found)
    ends = [mark for mark in marks if mark.kind == "diverged"]
    spikes = [mark for mark in marks if mark.kind == "spike"]
    assert len(ends) == 6 and {mark.step for mark in ends} == {500}
    assert 0 < len(spikes) <= 1000 and len(spikes) <= n_spikes
    mine = [mark.step for mark in spikes if mark.run is found.runs[0]]
    planted = set(range(1071, 2001, 97))
    assert set(mine) <= planted
    assert n_spikes == sum(int(run.cells["spikes"]) for run in found.runs)


def test_without_traces_curves_come_from_the_logged_rows(workdirs, six, tmp_path):
    study = read([workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")])
    steps_N, all_curves = curves.training(study)
    logged = [row["loss"] for row in study.runs[0].metrics if row["split"] == "train"]
    drawn = all_curves[0].loss_N
    np.testing.assert_allclose(drawn[np.isfinite(drawn)], logged)
    assert curves.marks(study) == ([], 0)
