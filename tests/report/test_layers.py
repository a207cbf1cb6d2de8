"""What the probes saw: the names that they write, means over seeds, D6 from the censuses."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from actlab.probes import activity, gradients
from actlab.report import distributions, layers
from actlab.report.study import read
from actlab.studies.survival import permanently_dead

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
    assert len(rows) == 3 and cube[200][1]["D2 negative pre-activations"] == pytest.approx(expected)


def test_d6_is_what_stays_dead(study):
    cube = layers.measured(study)["", "gelu", 1e-3]
    runs = [run for run in study.runs if run.activation == "gelu"]
    shares = [permanently_dead(run.censuses.dead_PLF)[1].mean(axis=1) for run in runs]
    found = [cube[40][layer]["D6 permanently dead units"] for layer in (0, 1)]
    np.testing.assert_allclose(found, np.mean(shares, axis=0))


def test_gradient_norms_are_those_of_the_last_fifth(study):
    rows = distributions.gradient_rows(study)
    tail = np.concatenate([run.steps.grad_norm_S[-80:] for run in study.runs[:3]]).astype(np.float64)
    assert rows[0][:3] == ["", "relu", "0.001"] and rows[0][-1] == 240
    np.testing.assert_allclose(rows[0][3:8], np.quantile(tail, (0.01, 0.25, 0.5, 0.75, 0.99)))


def test_moments_are_of_the_last_probe_and_curvature_of_all(study):
    rows = distributions.activation_rows(study)
    assert len(rows) == 2 * 2 * 2  # activations, sides, layers
    assert rows[0][6] == pytest.approx(-0.2) and rows[0][7] == pytest.approx(1.5)
    eigenvalues = [row for row in distributions.curvature_rows(study) if row[1] == "relu" and row[4] == "Hessian"]
    assert [row[5] for row in eigenvalues] == list(range(40, 401, 40))
    assert eigenvalues[-1][6] == pytest.approx(25.0)
