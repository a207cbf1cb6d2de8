"""The studies under experiments/: their configs, their claims, and verdicts that their tables give again."""

import csv
import json
import math
import pathlib
import shutil

import numpy as np
import pytest
import scripts

from actlab import activations, claims, config as config_lib
from actlab.analysis import protocol
from actlab.analysis.protocol import Contrast
from actlab.cli import verdict
from actlab.config import sweep
from actlab.errors import UserError

ROOT = pathlib.Path(__file__).parents[2] / "experiments"
STUDIES = sorted(path.parent.name for path in ROOT.glob("*/study.py"))
VERDICTS = sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.glob("**/verdicts.json"))


def module_of(name, file="study.py"):
    return scripts.load(ROOT / name / file)


@pytest.mark.parametrize("path", sorted(set(ROOT.glob("**/*.py")) - set(ROOT.glob("*/study.py"))), ids=str)
def test_scripts_beside_the_studies_can_be_loaded(path):
    assert scripts.load(path).__doc__


def contrasts_of(module):
    for id, entry in getattr(module, "CLAIMS", {}).items():
        yield from ((id, contrast) for contrast in ((entry,) if isinstance(entry, Contrast) else entry))


def config_of(name, preset):
    values = module_of(name).get_config(preset)
    return config_lib.from_mapping(values.to_dict())


ENCODER = "bert_tanh_vs_gelu"
PRESETS = {
    ENCODER: ("small", "paper"),
    "width": ("mup", "gain", "gpt2"),
    "scale": ("32", "128"),
    "gates": ("small", "pair", "1600", "5000", "long", "grammar", "code", "char", "paper"),
    "polynorm": ("small", "long", "wide", "code"),
}
DATA = {
    "relu_vs_gelu": "auto",
    ENCODER: "story_grammar",
    "scale": "story_grammar",
    "gates:grammar": "story_grammar",
    "gates:code": "python_code",
    "polynorm:code": "python_code",
}  # the data of the first is named on the command line
CASES = [(name, preset) for name in STUDIES for preset in PRESETS.get(name, ("small", "char", "paper"))]


@pytest.mark.parametrize(("name", "preset"), CASES)
def test_a_study_is_a_balanced_sweep_on_one_data_set_with_its_seeds_fastest(name, preset):
    config = config_of(name, preset)
    assert config.data.name == DATA.get(f"{name}:{preset}", DATA.get(name, "tiny_stories"))
    axes = dict(config.sweep)
    assert list(axes)[-1] == "seed" and len(axes["seed"]) >= 5 and len(axes["model.activation"]) >= 2
    runs = sweep.expand(config_lib.replace(config, sweep={**axes, "seed": (1,)}))
    assert len({run.name for run in runs}) == math.prod(len(values) for values in axes.values()) / len(axes["seed"])
    if preset in ("small", "pair"):
        assert config.devices.max_lanes == len(axes["seed"]), "a program is one rate with all its seeds"


@pytest.mark.parametrize("name", STUDIES)
def test_every_arm_of_a_claim_is_trained_and_every_claim_waits_for_it(name):
    module = module_of(name)
    axes = dict(config_of(name, PRESETS.get(name, ("small",))[0]).sweep)
    places = [
        dict(zip(key.split(", "), row if ", " in key else (row,), strict=True)) for key in axes for row in axes[key]
    ]
    for id, contrast in contrasts_of(module):
        assert claims.get(id).experiments, id
        assert math.isfinite(contrast.bound) and contrast.terms
        for _, arm in contrast.terms:
            assert arm.activation in axes["model.activation"], f"{id}: {arm}"
            assert arm.at is None or arm.at in axes["optimizer.learning_rate"], f"{id}: {arm}"
            assert all(any(place.get(path) == value for place in places) for path, value in arm.where.items()), arm
    for text in getattr(module, "QUESTIONS", ()):
        protocol.parse_question(text, axes["model.activation"])


@pytest.mark.parametrize("name", STUDIES)
def test_a_page_answers_before_it_tells_how(name):
    page = (ROOT / name / "README.md").read_text()
    places = [page.find(heading) for heading in ("**Question.**", "**Answer.**", "**Protocol.**", "**Conclusion.**")]
    assert -1 not in places and places == sorted(places)
    if not (ROOT / name / "results.csv").is_file():
        assert "Not run yet." in page


def test_the_encoders_are_of_berts_kind_at_both_norms_and_an_unknown_preset_is_refused():
    for preset, n_activations in (("small", 4), ("paper", 8)):
        config = config_of(ENCODER, preset)
        axes = dict(config.sweep)
        assert config.model.kind == "encoder" and axes["model.norm_position"] == ("post", "pre")
        assert config.model.position == "rotary" and len(axes["model.activation"]) == n_activations
    with pytest.raises(UserError, match="did you mean 'small'"):
        module_of(ENCODER).get_config("smal")


def test_doses_of_curvature_are_equal_in_size():
    z = np.linspace(-9, 9, 2001, dtype=np.float32)
    weights = np.exp(-(z.astype(np.float64) ** 2) / 2)
    study = module_of("curvature_dose")
    for name in {*study.DOSES, *study.FACTORS}:
        squares = np.asarray(activations.get(name).fn(z), np.float64) ** 2
        assert (squares * weights).sum() / weights.sum() == pytest.approx(0.5, rel=1e-5), name


def test_the_factors_of_curvature_and_tail_are_the_plain_and_leaky_forms():
    module, z = module_of("curvature_dose"), np.linspace(-5, 5, 101, dtype=np.float32)
    kink, kink_live, smooth, smooth_live = (np.asarray(activations.get(name).fn(z)) for name in module.FACTORS)
    np.testing.assert_allclose(kink, np.maximum(z, 0), rtol=1e-6)
    for plain, live, left in ((kink, kink_live, 0), (smooth, smooth_live, 1e-5)):
        # Far from 0 the slope of the negative half is a quarter of that of the positive one, and without a tail 0.
        assert abs(plain[0] - plain[1]) <= left
        assert live[1] - live[0] == pytest.approx((live[-1] - live[-2]) / 4, rel=1e-3)


def test_every_batch_reads_the_same_number_of_tokens_with_the_same_share_of_warmup():
    for preset in ("small", "char"):
        (together, rows), *_ = dict(config_of("batch_size", preset).sweep).items()
        places = [dict(zip(together.split(", "), row, strict=True)) for row in rows]
        assert len({place["data.batch_size"] * place["train.n_steps"] for place in places}) == 1
        assert all(0 <= place["train.n_steps"] - 20 * place["optimizer.warmup_steps"] < 20 for place in places)


def test_activations_are_compared_from_inputs_of_unit_size_on_either_side_of_every_rate():
    for name in ("batch_size", "centring", "curvature_dose", "death_audit", "gates", "stochastic_gelu"):
        config = config_of(name, "small")
        axes = dict(config.sweep)
        rates = sorted(axes["optimizer.learning_rate"])
        assert config.model.init == "fan_in" and len(axes["seed"]) >= 8
        assert len(rates) >= 5 and max(high / low for low, high in zip(rates, rates[1:], strict=False)) < 1.81


def cost(activation, ratio=1.0, flops=1.0, **changes):
    low, high = ratio * 0.99, ratio * 1.01
    numbers = {"ratio": ratio, "ratio_low": low, "ratio_high": high, "flops_per_element": flops, "repetitions": 25}
    place = {"setting": "alone", "pass": "forward", "dtype": "float32", "size": "8x8", "device": "here"}
    return {name: str(value) for name, value in ({"activation": activation} | place | numbers | changes).items()}


def test_claims_on_cost_are_decided_by_their_rows():
    decide = module_of("activation_cost", "decide.py").decide
    layer = {"setting": "feed_forward", "pass": "forward_backward"}
    rows = [cost("relu"), cost("relu", **layer), cost("gelu", 2.5, 64.0), cost("gelu", 1.1, **layer)]
    words = {id: entry["verdict"] for id, entry in decide(rows).items()}
    assert words == {"A10": "supported", "A50": "refuted", "B20": "supported"}
    slower = [*rows, *(cost(name, ratio, **layer, dtype="bfloat16") for name, ratio in (("relu", 1), ("gelu", 1.5)))]
    assert decide(slower)["B20"]["verdict"] == "refuted" and "bfloat16" in decide(slower)["B20"]["evidence"]
    near = [*rows, cost("gelu", 2.0, 3.5, size="9x9"), cost("relu", size="9x9")]
    assert decide(near)["A10"]["verdict"] == "undecided" and decide(near)["A50"]["verdict"] == "refuted"
    # A time is divided by that of ReLU against itself: what is 2.5 times an unfair 1.33 is not 2.
    unfair = [cost("relu", 1.33), *rows[1:]]
    assert decide(unfair)["A10"]["verdict"] == "refuted" and "is 1.88" in decide(unfair)["A10"]["evidence"]
    with pytest.raises(UserError, match="no row of relu at alone"):
        decide(rows[1:])
    assert decide([])["B20"] == decide([cost("relu")])["B20"] and decide([])["B20"]["verdict"] == "undecided"


def test_the_table_of_all_activations_says_what_the_verdicts_do():
    table_of = module_of("all_activations", "table.py")
    standing = {
        "best_rate": 0.01,
        "sensitivity": 0.1,
        "sensitivity_interval": [0.0, 0.2],
        "failed": {"collapsed": 1},
        "runs": 35,
    }
    ranking = [
        standing | {"activation": "relu", "loss": 1.25, "interval": [1.0, 1.5]},
        standing | {"activation": "gelu", "loss": 1.5, "interval": [1.25, 1.75]},
    ]
    pair = {"verdict": "supported", "mean_difference": -0.25, "interval": [-0.375, -0.125]}
    view = {"ranking": ranking, "pairs": [{"question": "relu < gelu", "own_best": pair}]}
    layer = {"setting": "feed_forward", "pass": "forward_backward"}
    cost_of = table_of.costs([cost("relu", 9.0), cost("relu", **layer), cost("gelu", 2.0, **layer)])
    relu, gelu = list(table_of.lines({"views": {"parameters": view}}, cost_of))[2:]
    assert relu == (
        "| relu | 1.250 (1.000 to 1.500) | 0.01 | -0.250 (-0.375 to -0.125)* "
        "| 0.100 (0.000 to 0.200) | 1 of 35 | 1.00 (0.99 to 1.01) |"
    )
    assert gelu.startswith("| gelu | 1.500 ") and gelu.endswith("| 2.00 (1.98 to 2.02) |")
    assert list(table_of.lines({"views": {"parameters": view}}, {}))[3].endswith("| not measured |")
    pair |= {"interval": None, "sd": 0.03125, "verdict": "undecided"}
    assert "| -0.250 (sd 0.031) |" in list(table_of.lines({"views": {"parameters": view}}, {}))[2]


@pytest.mark.parametrize("place", VERDICTS)
def test_committed_verdicts_follow_from_the_committed_table(place, tmp_path):
    folder = ROOT / place
    if (folder / "decide.py").is_file():
        rows = list(csv.DictReader((folder / "costs.csv").read_text().splitlines()))
        held = json.loads((folder / "verdicts.json").read_text())
        assert {"claims": module_of(place, "decide.py").decide(rows)} == held
        return
    if (folder / "summary.py").is_file():
        shutil.copy(folder / "evaluations.csv", tmp_path)
        module_of(place, "summary.py").main([str(tmp_path), str(tmp_path)])
        for name in ("jumps.csv", "epochs.csv", "verdicts.json"):
            assert (tmp_path / name).read_text() == (folder / name).read_text(), name
        assert "jumps-table" in (tmp_path / "report.html").read_text()
        return
    copy = tmp_path / place
    copy.mkdir(parents=True)
    study = shutil.copy(ROOT / pathlib.Path(place).parts[0] / "study.py", tmp_path / pathlib.Path(place).parts[0])
    for name in ("results.csv", "test_documents.npz"):
        if (folder / name).is_file():
            shutil.copy(folder / name, copy)
    assert verdict.main([str(copy), f"--study={study}"]) == 0
    assert (copy / "verdicts.json").read_bytes() == (folder / "verdicts.json").read_bytes()
