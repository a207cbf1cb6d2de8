"""Studies settle what waits for them, and nothing else."""

import io
import json
import pathlib

import pytest
from rich.console import Console

from actlab import claims
from actlab.analysis import protocol, verdicts
from actlab.analysis.results import Result
from actlab.claims import claim
from actlab.claims.claim import Arm, Reading, Verdict
from actlab.errors import UserError

COMMITTED = pathlib.Path(__file__).parents[2] / "experiments"


def write(folder, study, content):
    (folder / study).mkdir(parents=True, exist_ok=True)
    (folder / study / "verdicts.json").write_text(content if isinstance(content, str) else json.dumps(content))


def settle(folder, id):
    return claims.examine((claims.get(id),), folder)[0][1]


def entry(verdict, evidence="measured."):
    return {"verdict": verdict, "evidence": evidence}


@pytest.mark.parametrize("folder", ["empty", "missing"])
def test_without_a_file_there_is_no_verdict(tmp_path, folder):
    (tmp_path / "empty").mkdir()
    assert settle(tmp_path / folder, "B07").verdict is Verdict.OPEN


def test_a_study_settles_an_open_claim_and_is_named(tmp_path):
    write(tmp_path, "seeds", {"claims": {"B07": entry("true", "0.018 +- 0.004 nats, 6 seeds.")}})
    finding = settle(tmp_path, "B07")
    assert finding.verdict is Verdict.TRUE
    (arm,) = finding.readings[0].arms
    assert "0.018 +- 0.004 nats" in arm.numbers and "experiments/seeds" in arm.where
    assert settle(tmp_path, "B08").verdict is Verdict.OPEN


def test_a_study_settles_what_was_unsupported(tmp_path):
    write(tmp_path, "cost", {"claims": {"B20": entry("false")}})
    assert settle(tmp_path, "B20").verdict is Verdict.FALSE


def test_a_study_adds_to_a_computed_verdict_and_does_not_overturn_it(tmp_path):
    write(tmp_path, "cost", {"claims": {"A50": entry("true", "3.5 times, measured.")}})
    finding = settle(tmp_path, "A50")
    assert finding.verdict is Verdict.FALSE and "3.5 times, measured." in finding.readings[0].arms[0].numbers


def test_what_can_happen_is_refuted_only_where_it_happens_nowhere(tmp_path):
    for words, verdict in (
        (("refuted", "undecided"), Verdict.UNDECIDED),
        (("refuted", "refuted"), Verdict.REFUTED),
        (("refuted", "supported"), Verdict.SUPPORTED),
    ):
        for study, word in zip(("one", "two"), words, strict=True):
            write(tmp_path, study, {"claims": {"A38": entry(word)}})
        assert settle(tmp_path, "A38").verdict is verdict


def test_studies_that_disagree_make_a_claim_mixed(tmp_path):
    write(tmp_path, "one", {"claims": {"B19": entry("true", "first.")}})
    write(tmp_path, "two", {"claims": {"B19": entry("false", "second.")}})
    finding = settle(tmp_path, "B19")
    assert finding.verdict is Verdict.MIXED and finding.verdict.words == "mixed at this scale"
    assert [arm.numbers for arm in finding.readings[0].arms] == ["first.", "second."]
    write(tmp_path, "two", {"claims": {"B19": entry("true", "second.")}})
    assert settle(tmp_path, "B19").verdict is Verdict.TRUE


@pytest.mark.parametrize(
    ("arms", "together"),
    [
        ("supported", "supported"),
        ("supported supported", "supported"),
        ("supported refuted", "mixed"),
        ("supported equivalent undecided", "mixed"),
        ("true false", "mixed"),
        ("supported undecided", "undecided"),
        ("equivalent undecided", "undecided"),
        ("refuted undecided", "refuted"),
        ("refuted equivalent", "refuted"),
        ("mixed undecided", "mixed"),
    ],
)
def test_arms_have_one_verdict_mixed_only_if_they_contradict_each_other(arms, together):
    assert Reading("loss", tuple(Arm("here", Verdict(word), "") for word in arms.split())).verdict == together


GRID = {  # seed 1 to 5; GELU is better with warmup and worse without, at its own best rate as at 1e-3
    ("relu", "0"): (1.00, 1.01, 1.02, 1.03, 1.04),
    ("gelu", "0"): (1.50, 1.52, 1.51, 1.53, 1.55),
    ("relu", "20"): (1.00, 1.01, 1.02, 1.03, 1.04),
    ("gelu", "20"): (0.90, 0.92, 0.91, 0.94, 0.93),
}
HIGH = 0.4  # more, at 1e-2


def run_of(name, rate, warmup, seed, loss, **fields):
    values = {
        "data": "words",
        "tokenizer": "bytes",
        "steps": 100,
        "tokens": 1000,
        "parameters": 5,
        "status": "finished",
    }
    place = {"run": f"{name}-{rate}-{warmup}-{seed}", "activation": name, "learning_rate": rate, "seed": seed}
    numbers = {"steps": 100, "tokens": 1000, "parameters": 5, "flops_per_token": 1.0}
    losses = {"initial_loss": 5.0, "final_loss": loss}
    return Result(**(values | place | numbers | losses | {"axes": (("optimizer.warmup_steps", warmup),)} | fields))


def study(folder, name, claims_of, **fields):
    """Decides claims on GRID at two rates; `fields` of all runs at 1e-2."""
    runs = [
        run_of(activation, rate, warmup, seed, loss + more, **(fields if more else {}))
        for (activation, warmup), losses in GRID.items()
        for rate, more in ((1e-3, 0), (1e-2, HIGH))
        for seed, loss in enumerate(losses, 1)
    ]
    (folder / name).mkdir(parents=True)
    verdicts.write(folder / name / "verdicts.json", (), verdicts.decide(claims_of, runs))


def test_each_arm_has_its_own_verdict_and_numbers(tmp_path):
    study(tmp_path, "seeds", {"B07": protocol.lower("gelu", "relu", at=1e-3)})
    finding = settle(tmp_path, "B07")
    without, warm = finding.readings[0].arms
    assert (finding.verdict, without.verdict, warm.verdict) == ("mixed", "refuted", "supported")
    assert "warmup_steps=0" in without.where and "+0.5020" in without.numbers
    assert "warmup_steps=20" in warm.where and "-0.1000" in warm.numbers
    printed = io.StringIO()
    Console(file=printed, width=500).print(claim.full(claims.get("B07"), finding))
    for arm in (without, warm):
        assert f"- {arm.where}: {arm.verdict}. {arm.numbers}" in printed.getvalue()


def test_an_arm_states_all_of_its_tests_and_quantities_are_read_apart(tmp_path):
    high = protocol.lower("gelu", "relu", at=1e-2)
    lower = protocol.lower("gelu", "relu", at=1e-3)
    study(tmp_path, "rates", {"B08": (lower, high, protocol.lower("relu", "gelu", at=1e-2))})
    (losses,) = settle(tmp_path, "B08").readings
    assert [arm.verdict for arm in losses.arms] == ["refuted", "refuted"]
    study(tmp_path, "both", {"B19": (lower, protocol.lower("gelu", "relu", of=protocol.SENSITIVITY))})
    finding = settle(tmp_path, "B19")
    assert [reading.of for reading in finding.readings] == ["loss", "lr_sensitivity"]
    assert finding.readings[0].verdict == "mixed" and finding.verdict is Verdict.MIXED


def test_folders_of_a_study_are_arms_and_those_that_wait_for_runs_are_none(tmp_path):
    study(tmp_path, "seeds", {"B07": protocol.lower("gelu", "relu", at=1e-3)})
    study(tmp_path, "seeds/longer", {"B07": protocol.lower("gelu", "relu", at=1e-2)})
    study(tmp_path, "seeds/wider", {"B07": protocol.lower("gelu", "relu", at=1e-2)}, status="waiting")
    study(tmp_path, "seeds/none", {"B07": protocol.lower("gelu", "relu", at=1e-1)})
    arms = settle(tmp_path, "B07").readings[0].arms
    assert [arm.where.partition(",")[0] for arm in arms] == ["experiments/seeds"] * 2 + ["experiments/seeds/longer"] * 2


def test_an_arm_of_which_tests_wait_is_refuted_or_undecided(tmp_path):
    tests = protocol.lower("gelu", "relu", at=1e-3), protocol.lower("gelu", "relu", at=1e-2)
    study(tmp_path, "seeds", {"B07": tests}, status="waiting")
    assert [arm.verdict for arm in settle(tmp_path, "B07").readings[0].arms] == ["refuted", "undecided"]


def test_a_claim_that_holds_at_one_place_and_is_level_at_another_is_mixed(tmp_path, monkeypatch):
    monkeypatch.setitem(GRID, ("relu", "0"), GRID["gelu", "0"])
    study(tmp_path, "seeds", {"B07": protocol.lower("gelu", "relu", at=1e-3)})
    finding = settle(tmp_path, "B07")
    assert [arm.verdict for arm in finding.readings[0].arms] == ["equivalent", "supported"]
    assert finding.verdict is Verdict.MIXED


def test_every_test_that_was_made_of_a_committed_claim_is_part_of_a_printed_arm():
    entries = [json.loads(path.read_text())["claims"] for path in COMMITTED.glob("*/verdicts.json")]
    decided = tuple(claims.get(id) for id in sorted({id for one in entries for id in one}))
    found = {claim.id: finding.readings for claim, finding in claims.examine(decided, COMMITTED)}
    for one in entries:
        for id, entry in one.items():
            where = " ".join(arm.where for reading in found[id] for arm in reading.arms)
            tests = [] if isinstance(entry["evidence"], str) else [entry["evidence"], *entry["evidence"]["other_tests"]]
            assert all(test["scale"] in where for test in tests if test["p_holm"] is not None), id


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ([], "not a JSON object"),
        ({"claims": []}, 'no object "claims"'),
        ({"claims": {"B77": entry("true")}}, "claims.B77"),
        ({"claims": {"A05": entry("false")}}, "without an experiment"),
        ({"claims": {"B07": "true"}}, 'give "verdict" and "evidence"'),
        ({"claims": {"B07": {"verdict": "true"}}}, 'give "verdict" and "evidence"'),
        ({"claims": {"B07": entry("treu")}}, "did you mean 'true'"),
        ({"claims": {"B07": entry(None)}}, "claims.B07.verdict"),
        ({"claims": {"B07": entry("true", " ")}}, "claims.B07.evidence"),
        ({"claims": {"B07": entry("true", 3)}}, "claims.B07.evidence"),
        ({"claims": {"B07": entry("true", {})}}, "write it again"),
    ],
)
def test_a_malformed_file_is_a_fault_of_the_user(tmp_path, content, words):
    write(tmp_path, "study", content)
    with pytest.raises(UserError, match=words):
        settle(tmp_path, "A01")


def test_a_folder_in_the_file_s_place_is_a_fault_of_the_user(tmp_path):
    (tmp_path / "study" / "verdicts.json").mkdir(parents=True)
    with pytest.raises(UserError, match="is not a regular file"):
        settle(tmp_path, "A01")
