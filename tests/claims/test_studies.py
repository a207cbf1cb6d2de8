"""Studies settle what waits for them, and nothing else."""

import json

import pytest

from actlab import claims
from actlab.claims.claim import Verdict
from actlab.errors import UserError


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
    assert "0.018 +- 0.004 nats" in finding.evidence and "experiments/seeds" in finding.source
    assert settle(tmp_path, "B08").verdict is Verdict.OPEN


def test_a_study_settles_what_was_unsupported(tmp_path):
    write(tmp_path, "cost", {"claims": {"B20": entry("false")}})
    assert settle(tmp_path, "B20").verdict is Verdict.FALSE


def test_a_study_adds_to_a_computed_verdict_and_does_not_overturn_it(tmp_path):
    write(tmp_path, "cost", {"claims": {"A50": entry("true", "3.5 times, measured.")}})
    finding = settle(tmp_path, "A50")
    assert finding.verdict is Verdict.FALSE and "3.5 times, measured." in finding.evidence


def test_studies_that_disagree_leave_the_claim_open(tmp_path):
    write(tmp_path, "one", {"claims": {"B19": entry("true", "first.")}})
    write(tmp_path, "two", {"claims": {"B19": entry("false", "second.")}})
    finding = settle(tmp_path, "B19")
    assert finding.verdict is Verdict.OPEN
    assert "first." in finding.evidence and "second." in finding.evidence
    write(tmp_path, "two", {"claims": {"B19": entry("true", "second.")}})
    assert settle(tmp_path, "B19").verdict is Verdict.TRUE


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "is not JSON"),
        ([], 'no object "claims"'),
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
    with pytest.raises(UserError, match="is not JSON"):
        settle(tmp_path, "A01")
