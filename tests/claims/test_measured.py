"""Readings computed from tables with a planted truth, and from the committed tables by other arithmetic."""

import csv
import dataclasses
import pathlib

import numpy as np
import pytest
from scipy import stats

from actlab import claims
from actlab.claims import claim, measured, relu_vs_gelu
from actlab.claims.claim import Verdict
from actlab.workdir import records

COMMITTED = pathlib.Path(__file__).parents[2] / "experiments"
FIXED = {
    **dict.fromkeys(("data", "tokenizer"), "bytes"),
    **dict.fromkeys(("steps", "tokens", "parameters", "flops_per_token"), 100),
    "status": "finished",
    "initial_loss": 6.0,
}
NOISE = (0.0, 0.01, -0.01, 0.005, -0.005, 0.0)  # of the seeds


def table(folder, cells, *, axis="optimizer.warmup_steps", at=0, spread=NOISE, **columns):
    """Writes results.csv with a run per seed; cells are {(activation, rate): mean loss, or a loss for each seed}."""
    rows = [
        {
            **FIXED,
            "run": f"{name}-{rate}-{seed}-{at}",
            "activation": name,
            "learning_rate": rate,
            "seed": seed,
            "final_loss": loss,
            axis: at,
            **{key: of(name, loss) for key, of in columns.items()},
        }
        for (name, rate), losses in cells.items()
        for seed, loss in enumerate(losses if isinstance(losses, tuple) else [losses + one for one in spread], 1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "results.csv"
    held = list(csv.DictReader(path.read_text().splitlines())) if path.exists() else []
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows([*held, *rows])


def of(id, folder):
    return tuple(measured.READINGS[id](folder))


def settle(id, folder):
    return claims.examine((claims.get(id),), folder)[0][1]


@pytest.mark.parametrize("id", measured.READINGS)
def test_without_a_table_there_is_no_reading(tmp_path, id):
    assert of(id, tmp_path) == ()


def test_robustness_to_high_rates_is_that_to_rates_above_the_best(tmp_path):
    # GELU loses far more below the best rate, and less above it.
    losses = {("relu", 1e-4): 1.1, ("relu", 1e-3): 1.0, ("relu", 1e-2): 2.0}
    losses |= {("gelu", 1e-4): 5.0, ("gelu", 1e-3): 1.0, ("gelu", 1e-2): (1.5, 1.52, 1.49, 1.51, 1.48, 1.5)}
    table(tmp_path / measured.DECODER, losses)
    assert settle("B12", tmp_path).verdict == "supported"
    (arm,) = of("B12", tmp_path)[0].arms
    assert "at 0.01: -0.5" in arm.numbers
    losses["gelu", 1e-2] = (2.5, 2.52, 2.49, 2.51, 2.48, 2.5)
    (tmp_path / measured.DECODER / "results.csv").unlink()
    table(tmp_path / measured.DECODER, losses)
    assert settle("B12", tmp_path).verdict == "refuted"


def test_an_arm_on_another_text_changes_more_than_one_thing(tmp_path):
    folder, cells = tmp_path / measured.DECODER, {("relu", 1e-3): 1.0, ("gelu", 1e-3): 1.1}
    table(folder, cells)
    table(folder / "gain", cells)
    table(folder / "larger", cells, data=lambda *_: "story_grammar")
    (reading,) = of("B07", tmp_path)
    assert ["gain" in arm.where for arm in reading.arms] == [True]


def test_a_stand_in_of_a_study_is_printed_and_does_not_decide(tmp_path):
    losses = {("relu", 1e-3): 1.0, ("relu", 1e-2): 2.0, ("gelu", 1e-3): 1.0}
    table(tmp_path / measured.DECODER, {**losses, ("gelu", 1e-2): (2.5, 2.52, 2.49, 2.51, 2.48, 2.5)})
    content = '{"claims": {"B12": {"verdict": "supported", "evidence": "over all rates."}}}'
    (tmp_path / measured.DECODER / "verdicts.json").write_text(content)
    finding = settle("B12", tmp_path)
    assert finding.verdict == "refuted" and [reading.decides for reading in finding.readings] == [False, True]
    later = "by a reading chosen after the runs"
    assert later in str(claim._verdict(claims.get("B12"), finding))
    (tmp_path / measured.DECODER / "results.csv").unlink()
    finding = settle("B12", tmp_path)
    assert finding.verdict == "supported" and later not in str(claim._verdict(claims.get("B12"), finding))


def test_a_verdict_that_an_earlier_reading_gives_alone_does_not_rest_on_a_later_one():
    told = []
    both = Verdict.SUPPORTED, Verdict.REFUTED
    for tested in ((Verdict.UNDECIDED,), (Verdict.MIXED,), (Verdict.SUPPORTED,), both):
        *earlier, later = (claim.Reading("", (claim.Arm("", one, ""),)) for one in (*tested, Verdict.MIXED))
        readings = *earlier, dataclasses.replace(later, afterwards=True)
        finding = claims._with_readings(claim.Finding(Verdict.OPEN, ""), readings)
        told.append((finding.verdict, "chosen after the runs" in str(claim._verdict(claims.get("B20"), finding))))
    assert told == [(Verdict.MIXED, rests) for rests in (True, False, True, False)]


def test_the_size_of_a_gap_is_a_multiple_of_the_text_s(tmp_path, monkeypatch):
    table(tmp_path / measured.DECODER, {("relu", 1e-4): 1.0, ("gelu", 1e-4): (1.08, 1.1, 1.08, 1.1, 1.08, 1.1)})
    (reading,) = of("B06", tmp_path)
    assert "9.0 times the text's -0.01" in reading.arms[0].numbers
    assert reading.verdict == "refuted" and not reading.decides
    monkeypatch.setitem(relu_vs_gelu.LOSS, "gelu", (1.21, 0.85, 1.09))
    (reading,) = of("B06", tmp_path)
    assert "1.0 times the text's -0.09" in reading.arms[0].numbers and reading.verdict == "undecided"


@pytest.mark.parametrize(
    ("relu", "steps", "gelu", "verdict", "share"),
    [
        (1.0, 50, 2.0, "supported", 0.5),
        (2.5, 100, 2.0, "refuted", 2.0),
        (2.0, 100, 2.0, "equivalent", 1.0),
        (2.02, 100, 2.0, "equivalent", 1.02),
        (2.08, 100, 2.0, "refuted", 1.09),
    ],
)
def test_faster_is_fewer_steps_to_the_same_loss(tmp_path, relu, steps, gelu, verdict, share):
    """Curves are straight lines from 3 to the final loss at step 100, but that ReLU may be at 2 earlier."""

    def curve(name, loss):
        return f"0:3 {steps}:2 100:{loss}" if name == "relu" and steps < 100 else f"0:3 100:{loss}"

    losses = {("relu", 1e-3): relu, ("gelu", 1e-3): gelu, ("relu", 3e-3): gelu, ("gelu", 3e-3): relu}
    table(tmp_path / measured.DECODER, losses, spread=(0.0, 1e-3, -1e-3), curve=curve)
    (arm,) = of("B20", tmp_path)[0].arms  # 3e-3 is no low rate
    assert arm.verdict == verdict and f"needs {share:.2f} of GELU's steps" in arm.numbers


@pytest.mark.parametrize(
    ("gelu", "verdict"),
    [
        ((1.02, 1.03, 1.01, 1.025, 1.015, 1.022), "supported"),
        ((0.98, 0.99, 0.97, 0.985, 0.975, 0.982), "refuted"),
        ((1.0, 1.01, 0.99, 1.005, 0.995, 1.002), "refuted"),  # equal is not worse
        ((1.5, 0.5, 1.2, 0.8, 1.3, 0.9), "undecided"),
    ],
)
def test_what_is_no_worse_at_the_other_s_best_rate_needs_no_tuning_of_its_own(tmp_path, gelu, verdict):
    # At 4e-3, where GELU is far better than anywhere, tanh is not at its best.
    losses = {("tanh", 2e-3): 1.0, ("tanh", 4e-3): 1.2, ("gelu", 2e-3): gelu, ("gelu", 4e-3): 0.1}
    table(tmp_path / measured.ENCODER, losses, axis="model.norm_position", at="post")
    (reading,) = of("C19", tmp_path)
    assert reading.verdict == verdict and "at 0.002" in reading.arms[0].numbers


def test_level_is_supported_by_equality_and_refuted_beyond_the_margin(tmp_path):
    for warmup, gelu in ((0, (1.0, 1.0101, 0.9901, 1.005, 0.995, 1.002)), (32, 1.1), (64, 1.1)):
        relu = (1.0, 1.01, 0.99, 1.005, 0.995, 1.002) if warmup != 64 else (1.2, 0.9, 1.1, 1.0, 1.4, 0.8)
        table(tmp_path / measured.DECODER, {("relu", 1e-3): relu, ("gelu", 1e-3): gelu}, at=warmup)
    reading, *_ = of("B13", tmp_path)
    assert [arm.verdict for arm in reading.arms] == ["supported", "refuted", "undecided"]
    assert reading.verdict == "mixed"


def test_follow_up_arms_are_told_beside_the_study_as_it_is_with_its_longest_warmup(tmp_path):
    study = tmp_path / measured.DECODER
    table(study, {("relu", 1e-3): 1.0, ("gelu", 1e-3): 5.0})
    table(study, {("relu", 1e-3): 1.0, ("gelu", 1e-3): 1.25}, at=32)
    table(study / "longer", {("relu", 1e-3): 1.0, ("gelu", 1e-3): 1.0625}, at=64)
    table(study / "waits", {("relu", 1e-3): 1.0}, at=32)
    (reading,) = of("B07", tmp_path)
    (arm,) = reading.arms
    assert arm.where.startswith(f"experiments/{measured.DECODER}/longer") and arm.verdict == "refuted"
    assert "+0.2500 as it is, changed by -0.1875" in arm.numbers and not reading.decides


def test_a_rate_with_a_run_that_waits_is_left_out(tmp_path):
    losses = {("relu", 1e-4): 1.0, ("gelu", 1e-4): 1.1, ("relu", 1e-3): 1.0, ("gelu", 1e-3): 1.1}
    table(tmp_path / measured.DECODER, losses)
    path = tmp_path / measured.DECODER / "results.csv"
    rows = path.read_text().splitlines()
    waits = next(index for index, row in enumerate(rows) if "gelu-0.0001-3-" in row)
    rows[waits] = rows[waits].replace("finished", "waiting")
    path.write_text("\n".join(rows) + "\n")
    assert of("B06", tmp_path) == () and of("B13", tmp_path)


def committed(study, **where):
    """Final losses by activation, rate and seed, read by csv alone."""
    found = {}
    for row in csv.DictReader((COMMITTED / study / "results.csv").read_text().splitlines()):
        if all(row[name] == value for name, value in where.items()) and row["status"] == "finished":
            place = row["activation"], float(row["learning_rate"])
            found.setdefault(place, {})[row["seed"]] = float(row["final_loss"])
    return {place: np.array([losses[seed] for seed in sorted(losses)]) for place, losses in found.items()}


def arm_of(id, of_reading, *words):
    readings = [one for one in of(id, COMMITTED) if of_reading in one.of]
    (arm,) = (arm for reading in readings for arm in reading.arms if all(word in arm.where for word in words))
    return arm


@pytest.mark.parametrize("warmup", ["0", "32"])
def test_the_committed_rows_give_the_printed_ratio_and_excess(warmup):
    losses = committed(measured.DECODER, **{measured.WARMUP: warmup})
    gap = (losses["relu", 1e-4] - losses["gelu", 1e-4]).mean()
    assert f"{gap / -0.01:.1f} times the text's" in arm_of("B06", "far apart", f"warmup_steps={warmup}").numbers
    best = {name: min((of.mean(), rate) for (one, rate), of in losses.items() if one == name)[1] for name, _ in losses}
    high = [rate for name, rate in losses if name == "relu" and rate > max(best.values())]
    excess = {name: sum(losses[name, rate] for rate in high) / len(high) - losses[name, best[name]] for name in best}
    found = f"{(excess['gelu'] - excess['relu']).mean():+.4f} (95%"
    assert found in arm_of("B12", "above the best", f"warmup_steps={warmup}").numbers


def test_a_table_that_does_not_sweep_warmup_has_none(tmp_path):
    rows = list(csv.DictReader((COMMITTED / measured.DECODER / "results.csv").read_text().splitlines()))
    rows = [{k: v for k, v in row.items() if k != measured.WARMUP} for row in rows if row[measured.WARMUP] == "0"]
    (tmp_path / measured.DECODER).mkdir()
    (tmp_path / measured.DECODER / "results.csv").write_bytes(records.table(rows))
    (place,) = measured.places(tmp_path, measured.DECODER)
    assert place.warmup == 0 and list(measured.size_of_the_gap(1e-4, tmp_path))


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_the_committed_rows_give_the_printed_p_at_the_best_rate_of_tanh(norm):
    tests = {}
    for one in ("post", "pre"):
        losses = committed(measured.ENCODER, **{"model.norm_position": one})
        best = min((of.mean(), rate) for (name, rate), of in losses.items() if name == "tanh")[1]
        difference = losses["gelu", best] - losses["tanh", best]
        tests[one] = stats.ttest_1samp(difference, 0.005, alternative="less").pvalue
    refuted = tests[norm] * (2 if tests[norm] == min(tests.values()) else 1) <= 0.05
    arm = arm_of("C19", "tanh", f"norm_position={norm}")
    assert (arm.verdict == "refuted") == refuted
