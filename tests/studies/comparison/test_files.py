"""verdicts.json: the same for the same table, and what it leaves alone."""

import json

import pytest

from actlab.errors import UserError
from actlab.studies import claims
from actlab.studies.claims import verdicts
from actlab.studies.comparison import compare
from actlab.studies.comparison.files import write


@pytest.fixture
def compared(tables):
    rows = [
        tables.row(name, rate, seed, 1.0 + seed / 97 + (name == "relu") * seed / 10, seconds=6.0 + (name == "relu"))
        for name in ("gelu", "relu")
        for rate in (1e-3, 1e-2)
        for seed in (1, 2, 3)
    ]
    return compare(tables.read(rows))


def test_equal_tables_give_equal_bytes(compared, tmp_path):
    write(tmp_path / "a.json", compared)
    write(tmp_path / "b.json", compared)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    content = json.loads((tmp_path / "a.json").read_text())
    view = content["comparisons"][0]["views"]["parameters"]
    assert view["ranking"][0]["activation"] == "gelu" and view["pairs"][0]["own_best"]["seeds"] == 3
    assert content["claims"] == {}
    p = view["pairs"][0]["own_best"]["p_t"]
    assert 0 < p < 1 and p == float(f"{p:.9g}") != compared[0].main.pairs[0].own_best.effect.p


def test_claims_stay_and_are_still_read_by_the_ledger(compared, tmp_path):
    path = tmp_path / "seeds" / "verdicts.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"claims": {"B07": {"verdict": "true", "evidence": "six seeds."}}}))
    write(path, compared)
    settled = verdicts.read(tmp_path, claims.CLAIMS)
    assert settled["B07"][0].verdict == "true"
    assert json.loads(path.read_text())["comparisons"]


@pytest.mark.parametrize("text", ["not json", "[]", '{"claims": []}'])
def test_a_file_of_another_kind_is_not_overwritten(compared, tmp_path, text):
    path = tmp_path / "verdicts.json"
    path.write_text(text)
    with pytest.raises(UserError, match="is there and n"):
        write(path, compared)
    assert path.read_text() == text


def test_a_place_that_cannot_be_written_is_the_users_to_mend(compared, tmp_path):
    with pytest.raises(UserError, match="cannot be written"):
        write(tmp_path / "nowhere" / "verdicts.json", compared)
