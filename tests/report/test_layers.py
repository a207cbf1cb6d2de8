"""Probes and censuses: names of measures, means over seeds, D6, survival of units."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab.analysis.survival import kaplan_meier, permanently_dead
from actlab.probes import activity, gradients
from actlab.report import charts, layers
from actlab.report.page import Controls, Figure, Text
from actlab.report.study import read
from actlab.workdir.traces import Censuses

LATER = {"dead_fraction", "permanently_dead"}  # of the census


def test_the_measures_are_those_that_the_probes_write():
    shapes = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((5, 8), (5, 8), (5, 8), (8, 4), (5,))]
    written = set(jax.eval_shape(activity.layer, *shapes))
    block = {"feed_forward": {"up": jnp.ones(2)}, "attention": {"q": jnp.ones(2)}}
    groups = gradients.groups({"block_0": block})
    written |= {f"{group.removeprefix('layer_0/')}/grad_norm" for group in groups}
    assert set(layers.METRICS.values()) - LATER <= written


@pytest.fixture(scope="module")
def study(six):
    return read([six])


def test_a_cell_is_the_mean_over_seeds(study):
    cubes = layers.measured(study)
    assert set(cubes) == {("", "relu", 1e-3), ("", "gelu", 1e-3)}
    cube = cubes["", "relu", 1e-3]
    rows = [row for run in study.runs[:3] for row in run.probes() if row["step"] == 200]
    expected = np.mean([row["layer_1/negative_fraction"] for row in rows])
    assert len(rows) == 3 and cube[200][1]["negative pre-activations (D2)"] == pytest.approx(expected)


def test_d6_is_what_stays_dead(study):
    cube = layers.measured(study)["", "gelu", 1e-3]
    runs = [run for run in study.runs if run.activation == "gelu"]
    shares = [permanently_dead(run.censuses.dead_PLF)[1].mean(axis=1) for run in runs]
    found = [cube[40][layer]["permanently dead units (D6)"] for layer in (0, 1)]
    np.testing.assert_allclose(found, np.mean(shares, axis=0))


def test_gradient_norms_are_those_of_the_last_fifth(study):
    rows = layers.gradient_rows(study)
    tail = np.concatenate([run.steps.grad_norm_S[-80:] for run in study.runs[:3]]).astype(np.float64)
    assert rows[0][:3] == ["", "relu", "0.001"] and rows[0][-1] == 240
    np.testing.assert_allclose(rows[0][3:8], np.quantile(tail, (0.01, 0.25, 0.5, 0.75, 0.99)))


def test_moments_are_of_the_last_probe_and_curvature_of_all(study):
    rows = layers.activation_rows(study)
    assert len(rows) == 2 * 2 * 2  # activations, sides, layers
    assert rows[0][6] == pytest.approx(-0.2) and rows[0][7] == pytest.approx(1.5)
    eigenvalues = [row for row in layers.curvature_rows(study) if row[1] == "relu" and row[4] == "Hessian"]
    assert [row[5] for row in eigenvalues] == list(range(40, 401, 40))
    assert eigenvalues[-1][6] == pytest.approx(25.0)


def with_censuses(study, *censuses):
    runs = [dataclasses.replace(run, censuses=one) for run, one in zip(study.runs, censuses, strict=False)]
    return dataclasses.replace(study, runs=tuple(runs))


def census(*dead_PLF):
    return Censuses(np.array([100, 200, 300]), np.array(dead_PLF, bool))


# Of four units one is dead from step 100 on, one from 200 on, one dead at 200 only, one never.
ONE_LAYER = ([1, 0, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0])


def test_a_curve_falls_where_units_die_for_good(study):
    found = layers.survival_rows(with_censuses(study, census(*([row] for row in ONE_LAYER))))
    assert [row[:5] for row in found[:2]] == [["", "relu", "0.001", "learning rate 0.001", "all"]] * 2
    together = [(step, share) for *_, layer, step, share, _, _ in found if layer == "all"]
    assert together == [(0, 1.0), (100, 0.75), (200, 0.5), (300, 0.5)]
    assert all(row[7] <= row[6] <= row[8] for row in found) and found[0][7:] == [1.0, 1.0]


def test_layers_are_told_apart_and_seeds_are_not(study):
    lives, dies = [0, 0, 0, 0], [1, 1, 1, 1]
    first = census([lives, dies], [lives, dies], [lives, dies])
    second = census([lives, lives], [lives, lives], [lives, lives])
    found = layers.survival_rows(with_censuses(study, first, second))
    last = {row[4]: row[6] for row in found}
    assert last == {"all": 0.75, "0": 1.0, "1": 0.5}


def test_with_too_many_points_layers_stand_together(study, monkeypatch):
    monkeypatch.setattr(layers, "_MOST_ROWS", 10)
    found = layers.survival_rows(study)
    assert {row[4] for row in found} == {"all"}


def test_the_rows_are_the_library_s_over_the_seeds_of_a_cell(study):
    curve = kaplan_meier([run.censuses for run in study.runs if run.activation == "gelu"])
    found = [row for row in layers.survival_rows(study) if row[1] == "gelu" and row[4] == "all" and row[5]]
    np.testing.assert_allclose([row[6] for row in found], curve.share_E[curve.steps_E > 0])


def blocks(study, best=()):
    (found,) = layers.section(study, charts.Shown(study), best)
    return found.blocks


def test_the_section_draws_survival_where_units_die(study):
    controls, figure = blocks(study)[-2:]
    assert isinstance(controls, Controls) and controls.items[0].options == ("all", "0", "1")
    assert isinstance(figure, Figure) and figure.name == "survival-figure" and "relu at 0.001 0." in figure.words()
    nobody = blocks(with_censuses(study, census([[0]], [[1]], [[0]])))[-1]
    assert isinstance(nobody, Text) and nobody.words.startswith("No unit was dead")
    assert "No unit" not in blocks(with_censuses(study, *[None] * 6))[-1].words


def test_the_end_of_a_measure_is_the_last_step_that_has_it(study):
    """A census may come after the last probe, as where a run was stopped."""
    cells, first = layers.measured(study), "negative pre-activations (D2)"
    later = {cell: {**cube, 10_000: {0: {"permanently dead units (D6)": 0.0}}} for cell, cube in cells.items()}
    told = [layers._heat_maps(study, charts.Shown(study), one, [first], first).words() for one in (cells, later)]
    assert told[0] == told[1] and "relu" in told[0]


def test_heat_maps_are_of_best_rates_on_one_scale(study):
    (heat,) = [block for block in blocks(study, {("", "relu", 1e-3)}) if isinstance(block, Figure)][:1]
    rows = heat.data["points"].rows
    assert {row[3] for row in rows} == {"relu, 0.001", "gelu, 0.001"}, "gelu has no best rate, so all of its own"
    other = {("", "relu", 3e-3), ("", "gelu", 1e-3)}
    (heat,) = [block for block in blocks(study, other) if isinstance(block, Figure)][:1]
    assert {row[3] for row in heat.data["points"].rows} == {"gelu, 0.001"}
    assert layers._ends("dead units (D4)", [0.0, 0.1]) == (0.0, 1.0)
    assert layers._ends("mean output", [0.5, None, -0.25]) == (-0.25, 0.5)
    low, high = layers._ends("mean output", [0.0, 0.0])
    assert low == 0.0 < high, "one value has one colour, at the end of the scale"
