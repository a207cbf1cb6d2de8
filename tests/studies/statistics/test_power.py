"""Power against the published table and against simulation."""

import numpy as np
import pytest
from scipy import stats

from actlab.errors import UserError
from actlab.studies.statistics import paired_power, paired_resolution, t_test, two_sample_resolution


@pytest.mark.parametrize(
    ("n", "dz", "d"), [(3, 3.26, 3.07), (5, 1.68, 2.02), (6, 1.43, 1.80), (8, 1.16, 1.51), (10, 1.00, 1.33)]
)
def test_the_difference_that_n_seeds_resolve(n, dz, d):
    assert paired_resolution(n) == pytest.approx(dz, abs=0.0055)
    assert two_sample_resolution(n) == pytest.approx(d, abs=0.0055)
    assert paired_power(n, paired_resolution(n)) == pytest.approx(0.8)
    assert paired_power(n, paired_resolution(n, alpha=0.05 / 37), 0.05 / 37) == pytest.approx(0.8)


def test_planted_differences_are_found_at_the_predicted_rate():
    rng = np.random.default_rng(0)
    for n, dz in ((3, 2.0), (6, 1.2)):
        found = sum(t_test(rng.normal(dz, 1, n)) <= 0.05 for _ in range(2000))
        assert stats.binomtest(found, 2000, paired_power(n, dz)).pvalue > 1e-3


def test_no_difference_is_found_at_the_level_of_the_test():
    assert paired_power(5, 0.0) == pytest.approx(0.05) == pytest.approx(paired_power(5, 1e-6), abs=1e-6)


def test_other_powers_and_many_seeds():
    # Of many seeds d is (z_.975 + z_power) sqrt(2 / n).
    assert two_sample_resolution(2000, 0.9) == pytest.approx((1.959964 + 1.281552) * (2 / 2000) ** 0.5, rel=1e-3)
    assert paired_resolution(5, 0.9) > paired_resolution(5, 0.8) > paired_resolution(5, 0.5)


@pytest.mark.parametrize("resolution", [paired_resolution, two_sample_resolution])
def test_one_seed_resolves_nothing(resolution):
    assert resolution(2) > 5
    with pytest.raises(UserError, match="n=1 seeds"):
        resolution(1)
