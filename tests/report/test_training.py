"""Training curves: means over spans, bands over seeds, spikes and divergences."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from actlab.report import charts, training
from actlab.report.page import Figure
from actlab.report.study import read
from actlab.workdir import traces


@pytest.fixture(scope="module")
def found(study):
    return read([study])


def test_a_point_is_the_mean_since_the_previous_point(found, six):
    steps_N, curves = training.training(found)
    run, loss_N = curves[0]
    assert len(steps_N) <= 200 and steps_N[-1] == 2000
    first, second = int(steps_N[0]), int(steps_N[1])
    assert loss_N[0] == pytest.approx(run.steps.loss_S[:first].mean(), rel=1e-6)
    assert loss_N[1] == pytest.approx(run.steps.loss_S[first:second].mean(), rel=1e-6)
    # Every step counts once.
    sizes_N = np.diff(np.concatenate([[0], steps_N]))
    assert (loss_N * sizes_N).sum() == pytest.approx(run.steps.loss_S.sum(), rel=1e-6)
    assert 200 < len(training.training(read([six]))[0]) <= 600


def test_a_run_that_ended_has_no_points_after(found):
    steps_N, curves = training.training(found)
    ended = next(one for one in curves if one.run.status == "diverged")
    assert np.isnan(ended.loss_N[steps_N > 600]).all() and np.isfinite(ended.loss_N[steps_N < 400]).all()


def test_a_band_spans_its_seeds(found):
    _, curves = training.validation(found)
    bands = training.bands(curves)
    assert len(bands) == 20
    band = bands[2]
    mine = [one.loss_N for one in curves if (one.run.condition, one.run.activation, one.run.learning_rate) == band.cell]
    assert len(mine) == 6
    np.testing.assert_allclose(band.low_N, np.min(mine, axis=0))
    np.testing.assert_allclose(band.mean_N, np.mean(mine, axis=0))
    np.testing.assert_allclose(band.high_N, np.max(mine, axis=0))


def test_spikes_and_divergences_are_marked_where_they_are(found):
    marks, n_spikes = training.marks(found)
    ends = [mark for mark in marks if mark.kind == "diverged"]
    spikes = [mark for mark in marks if mark.kind == "spike"]
    assert len(ends) == 6 and {mark.step for mark in ends} == {500}
    assert 0 < len(spikes) <= 1000 and len(spikes) <= n_spikes
    mine = [mark.step for mark in spikes if mark.run is found.runs[0]]
    assert set(mine) <= set(range(1071, 2001, 97))
    assert n_spikes == sum(int(run.row["spikes"]) for run in found.runs)
    ended = next(run for run in found.runs if run.status == "diverged")
    lost = ended.steps._replace(loss_S=np.append(ended.steps.loss_S[:-1], np.nan))
    _, n_lost = training.marks(dataclasses.replace(found, runs=(dataclasses.replace(ended, steps=lost),)))
    assert n_lost == traces.summary(lost.loss_S, lost.grad_norm_S)["spikes"] > 0


def test_without_traces_curves_come_from_the_logged_rows(workdirs, six, tmp_path):
    study = read([workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")])
    _, curves = training.training(study)
    logged = [row["loss"] for row in study.runs[0].metrics if row["split"] == "train"]
    drawn = curves[0].loss_N
    np.testing.assert_allclose(drawn[np.isfinite(drawn)], logged)
    assert training.marks(study) == ([], 0)


def test_a_cell_with_one_evaluation_has_no_line(found):
    steps_N, curves = training.validation(found)
    first = lambda curve: curve._replace(loss_N=np.where(steps_N > steps_N[0], np.nan, curve.loss_N))
    begun = [first(curve) if curve.run.learning_rate == 3e-3 else curve for curve in curves]
    drawn = {row[0] for row in training._rows(found, steps_N, begun, "v") if row[1] == "band"}
    assert len(drawn) == 16  # of 20 cells, four at that rate


def test_a_band_ends_where_a_seed_diverges(found):
    steps_N, curves = training.validation(found)
    (band,) = [one for one in training.bands(curves) if one.cell == ("warmup_steps=0", "relu", 1e-2)]
    assert sum(one.run.status == "diverged" for one in curves if one.run.learning_rate == 1e-2) == 6
    assert np.isfinite(band.mean_N[steps_N <= 400]).all() and np.isnan(band.mean_N[steps_N > 500]).all()


def test_runs_evaluated_at_both_ends_alone_have_no_section_of_curves():
    study = read([pathlib.Path(__file__).parents[2] / "experiments/post_activation_norm"])
    assert training.validation(study)[0].size == 2, "at step 0 and at the end"
    assert training.section(study, charts.Shown(study)) == []


def only(path, keep):
    """Of the metrics of a workdir, the rows that `keep` accepts."""
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows if keep(row)))
    return read([path])


def test_a_page_does_not_begin_with_losses_that_make_no_curve(workdirs, six, tmp_path):
    path = workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")
    study = only(path, lambda row: row["split"] == "train" or row["step"] in (0, 400))
    (section,) = training.section(study, charts.Shown(study))
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    assert {row[2] for row in figure.data["points"].rows} == {"t"}
    assert list(figure.files) == ["training_curves"]


def test_a_figure_says_of_the_runs_that_it_draws_what_they_are(workdirs, six, tmp_path):
    path = workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")
    study = only(path, lambda row: row["run"].startswith("relu"))
    (section,) = training.section(study, charts.Shown(study))
    (figure,) = [block for block in section.blocks if isinstance(block, Figure)]
    assert {row[2] for row in figure.data["curves"].rows} == {"relu"}


def test_a_log_axis_has_round_numbers_near_all_losses_and_no_place_for_zero(found):
    assert {0.02, 0.05, 1.5} <= set(charts.log_ticks([0.0, 0.021, 1.4]))
    wide = charts.log_ticks([0.5, 4e10])
    assert {1.0, 1e10} <= set(wide) and len(wide) == 13
    for low, high in ((0.79, 0.97), (4.8, 6.2), (1.0, 1.999), (3e5, 3.0001e5)):
        narrow = charts.log_ticks([low, high])
        assert 4 <= len(narrow) <= 10 and low <= narrow[0] <= narrow[-1] <= high, narrow
        assert np.ptp(np.diff(narrow)) < 1e-9 * high
    assert charts.log_ticks([0.0, -1.0, np.inf]) == [] and 1.5 in charts.log_ticks([1.5])
    steps_N, curves = training.validation(found)
    none = [curve._replace(loss_N=np.where(steps_N > 500, 0.0, curve.loss_N)) for curve in curves]
    rows = list(training._rows(found, steps_N, none, "v"))
    assert rows and all(row[3] <= 500 and row[4] > 0 for row in rows)
