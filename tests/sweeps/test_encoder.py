"""An encoder through a whole session: the same path as a decoder, with a unit of its own."""

import csv
import json

import numpy as np
import pytest

from actlab.analysis import results as results_lib
from actlab.analysis.conditions import conditions
from actlab.errors import UserError
from actlab.sweeps import trained
from actlab.training import generation


def test_a_sweep_of_encoders_leaves_what_one_of_decoders_leaves(pretrained):
    rows = list(csv.DictReader((pretrained / "results.csv").read_text().splitlines()))
    assert [row["run"] for row in rows] == [f"gelu-lr0.001-seed{seed}" for seed in (1, 2)]
    assert all(row["objective"] == "masked_token" and row["floor"] == "nan" for row in rows)
    lines = [json.loads(line) for line in (pretrained / "metrics.jsonl").read_text().splitlines()]
    validation = [line for line in lines if line["split"] == "validation"]
    assert len(validation) == 2 * 4 and all(0 <= line["accuracy"] <= 1 for line in validation)
    assert rows[0]["dead_fraction"] != "nan"
    first = [line["loss"] for line in validation if line["step"] == 0]
    assert np.allclose(first, np.log(2048), rtol=0.05)


def test_its_newest_checkpoint_is_read_back_and_asked_for_no_text(pretrained):
    run = trained.load(pretrained, "gelu-lr0.001-seed2")
    assert run.model.spec.kind == "encoder" and run.step == 12
    with pytest.raises(UserError, match="config.model.kind='encoder'"):
        generation.write_text(run.model, run.params, run.tokenizer)


def test_its_losses_are_not_compared_with_a_decoders(pretrained, tmp_path):
    text = (pretrained / "results.csv").read_text()
    (tmp_path / "results.csv").write_text(text.replace("masked_token", "next_token"))
    assert {result.objective for result in results_lib.read([pretrained])} == {"masked_token"}
    with pytest.raises(UserError, match="the table mixes objective masked_token .* and next_token"):
        conditions(results_lib.read([pretrained, tmp_path / "results.csv"]))
