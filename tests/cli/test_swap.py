"""The commands on models that are trained already: probe and swap, of a directory of transformers and of a run."""

import json
import re
import shutil

import commands
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from outcomes import metrics
from rich.console import Console
from weights import drawn

import actlab.data
from actlab import models
from actlab.cli import probe, swap
from actlab.config import Config, overrides, presets, replace
from actlab.errors import UserError
from actlab.interop import huggingface
from actlab.sweeps import existing, session

QUIET = Console(quiet=True)
FAST = ("--config.train.eval_tokens=600", "--config.data.batch_size=4", "--config.data.dir=data")
SIZES = {
    "model.n_layers": 2,
    "model.d_model": 16,
    "model.n_heads": 2,
    "model.context": 32,
    "model.vocab_size": 64,
}
LLAMA = {"model.norm": "rmsnorm", "model.position": "rotary", "model.activation": "swiglu", "model.n_kv_heads": 1}
GPT2 = {"model.use_bias": True, "model.activation": "gelu_tanh"}
BERT = {"model.kind": "encoder", "model.n_layers": 1, "model.norm_position": "post", "model.use_bias": True}


def with_words(folder, text):
    """A tokenizer.json of whole words beside a model."""
    from tokenizers import Tokenizer, models as kinds, pre_tokenizers

    special = ["[UNK]", "</s>", "[CLS]", "[SEP]", "[PAD]", "[MASK]"]
    words = {word: i for i, word in enumerate([*special, *sorted(set(text.split()))])}
    library = Tokenizer(kinds.WordLevel(words, unk_token="[UNK]"))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.save(str(folder / "tokenizer.json"))
    roles = {"eos_token": "</s>", "cls_token": "[CLS]", "sep_token": "[SEP]", "unk_token": "[UNK]"}
    roles |= {"pad_token": "[PAD]", "mask_token": "[MASK]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(roles))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with a text and random models: their weights are large, so that a swap costs something."""
    folder = tmp_path_factory.mktemp("models")
    draw = np.random.default_rng(0)
    words = [a + b for a in ("ca", "mi", "tro", "sul") for b in ("t", "nk", "ple", "ss")]
    lines = [" ".join(draw.choice(words, 20)) for _ in range(400)]
    (folder / "text.txt").write_text("\n<|endoftext|>\n".join(lines))
    for name, changes in {"gpt2": GPT2, "llama": LLAMA, "bert": BERT}.items():
        config = replace(Config(), **SIZES | changes).model
        huggingface.save(config, drawn(models.build(config)), folder / name)
        with_words(folder / name, (folder / "text.txt").read_text())
    return folder


@pytest.fixture(autouse=True)
def here(place, monkeypatch):
    monkeypatch.chdir(place)


def opened(model):
    """A model and the config that measures it on the text."""
    request = overrides.read(None, overrides.split(FAST)[1], presets.continued)
    start = existing.open_model(model)
    return start, existing.config_of(start, request.config, request.overridden, "text.txt", "text", QUIET)


def loss_of(model):
    """Of a model on the text, as `probe` tells it."""
    _, config = opened(model)
    return f"{existing._loss(*existing._started(existing._for_steps(config, 1), QUIET)):.4f}"


def test_a_probe_says_of_each_layer_what_a_count_by_hand_says(place):
    told = commands.run(probe.main, "llama", "--text=text.txt", *FAST)
    assert "swiglu" in told and "nats/token" in told
    page = (place / "probe.html").read_text()
    assert "What the hidden units of llama do" in page
    # Layers have the numbers of the files.
    assert re.findall(r"^(\d+) +\d", told[told.index("layer  dead") :], re.MULTILINE) == ["0", "1"]
    # By hand: the same windows through the model that transformers' directory holds.
    found = existing.measure(*opened("llama"), QUIET)
    loaded = huggingface.load("llama")
    batch = jax.tree.map(lambda batches: batches[0], found.spec.feed.validation)
    _, hidden = jax.jit(models.build(loaded.config).apply)(loaded.params, jnp.asarray(batch.tokens))
    for layer, units in enumerate(hidden):
        assert found.values[f"layer_{layer}/negative_fraction"] == pytest.approx(
            float((units.z_TF < 0).mean()), abs=1e-6
        )


def test_a_field_that_a_probe_would_measure_for_nobody_is_refused():
    with pytest.raises(UserError, match="a probe measures no curvature"):
        commands.run(probe.main, "llama", "--text=text.txt", "--config.train.curvature_every=1", *FAST)


def test_a_bare_model_has_activity_and_no_loss(place, tmp_path):
    config, params = huggingface.load("bert")
    bare = tmp_path / "bare"
    huggingface.save(config, params, bare)
    with_words(bare, (place / "text.txt").read_text())
    held = safetensors.numpy.load_file(bare / "model.safetensors")
    body = {name: array for name, array in held.items() if not name.startswith("cls.")}
    safetensors.numpy.save_file(body, bare / "model.safetensors", metadata={"format": "pt"})
    told = commands.run(probe.main, bare, "--text=text.txt", *FAST, f"--out={tmp_path / 'p.html'}")
    table, lead = told[told.index("layer  dead") :].split("\n\n", 1)
    assert "z<0" in table and "loss" not in table and "grad" not in table and "no loss" in lead
    with pytest.raises(UserError, match="no head for tokens"):
        commands.run(swap.main, bare, "--text=text.txt", "--to=relu", *FAST)


def losses(told):
    found = re.findall(r"^(?:loss)? +(before|after|folded|healed) +([0-9.]+) nats/", told, re.MULTILINE)
    return {stage: float(loss) for stage, loss in found}


def test_a_swap_says_what_it_costs_and_what_heals_it(place):
    told = commands.run(swap.main, "gpt2", "--text=text.txt", "--to=relu", "--fold", "--steps=30", *FAST, "--workdir=w")
    assert "swap        gelu_tanh to relu in 2 of 2 blocks" in told
    found = losses(told)
    assert list(found) == ["before", "after", "folded", "healed"]
    assert found["healed"] < found["folded"] and found["before"] != found["after"] != found["folded"]
    written, source = huggingface.load("w/model"), huggingface.load("gpt2")
    assert (written.config.activation, written.config.context) == ("relu", source.config.context)
    assert json.loads((place / "w/model/config.json").read_text())["model_type"] == "gpt2"
    assert (place / "w/model/tokenizer.json").read_bytes() == (place / "gpt2/tokenizer.json").read_bytes()
    command = json.loads((place / "w/training/manifest.json").read_text())["sessions"][-1]["command"]
    assert {"swap", "gpt2", "--to=relu", "--fold", "--steps=30", "--workdir=w"} <= set(command)
    healed = (place / "w/model/model.safetensors").read_bytes()
    for other in (["--to=silu", "--fold", "--steps=30"], ["--to=silu"]):
        with pytest.raises(UserError, match="choose another"):
            commands.run(swap.main, "gpt2", "--text=text.txt", *other, *FAST, "--workdir=w")
    assert (place / "w/model/model.safetensors").read_bytes() == healed, "it stays"
    assert loss_of("w/model") == f"{found['healed']:.4f}", "what is written has the loss that was told"


def test_a_swap_does_not_write_into_the_folder_of_a_model(place, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.json").write_text("{}")
    for folder in (place / "gpt2", tmp_path / "run"):
        before = sorted(folder.rglob("*"))
        with pytest.raises(UserError, match="holds a model already"):
            commands.run(swap.main, "gpt2", "--text=text.txt", "--to=relu", *FAST, f"--workdir={folder}")
        assert sorted(folder.rglob("*")) == before
    (tmp_path / "own").mkdir()
    (tmp_path / "own/swap.json").write_text('{"mine": 1}')
    with pytest.raises(UserError, match="holds another model"):
        commands.run(swap.main, "gpt2", "--text=text.txt", "--to=relu", *FAST, f"--workdir={tmp_path / 'own'}")
    assert (tmp_path / "own/swap.json").read_text() == '{"mine": 1}'


def test_another_swap_does_not_replace_the_model_of_one_nor_leave_it_as_its_own(place):
    swapped = lambda *words: commands.run(swap.main, "gpt2", "--text=text.txt", *words, *FAST, "--workdir=once")
    swapped("--to=relu")
    model = (place / "once/model/model.safetensors").read_bytes()
    swapped("--to=relu")
    for other in (["--to=tanh"], ["--to=relu", "--fold"], ["--to=relu", "--blocks=1"]):
        with pytest.raises(UserError, match="--workdir=once holds another model than this swap makes"):
            swapped(*other)
    shutil.copytree(place / "gpt2", place / "gpt2_again")
    tensors = safetensors.numpy.load_file(place / "gpt2/model.safetensors")
    scaled = {name: tensor * np.float32(0.5) for name, tensor in tensors.items()}
    safetensors.numpy.save_file(scaled, place / "gpt2_again/model.safetensors", metadata={"format": "pt"})
    with pytest.raises(UserError, match="--workdir=once holds another model than this swap makes"):
        commands.run(swap.main, "gpt2_again", "--text=text.txt", "--to=relu", *FAST, "--workdir=once")
    assert (place / "once/model/model.safetensors").read_bytes() == model


def test_the_gate_of_a_gated_model_is_swapped_and_its_mean_folded_into_new_biases():
    told = commands.run(swap.main, "llama", "--text=text.txt", "--to=relu", "--fold", *FAST, "--workdir=gated")
    assert "swap        swiglu to reglu in 2 of 2 blocks" in told and "as LLaMA" in told
    found = losses(told)
    written = huggingface.load("gated/model")
    assert (written.config.activation, written.config.use_bias, written.config.n_kv_heads) == ("reglu", True, 1)
    assert loss_of("gated/model") == f"{found['folded']:.4f}"


def test_some_blocks_are_measured_and_not_written(place):
    told = commands.run(swap.main, "gpt2", "--text=text.txt", "--to=relu", "--blocks=1", *FAST, "--workdir=part")
    assert "in 1 of 2 blocks" in told and "not written: it has two activations" in told
    assert not (place / "part" / "model").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["gpt2", "--to=relu"], "--text is missing"),
        (["gpt2", "--text=text.txt"], "--to is missing"),
        (["nowhere", "--to=relu", "--text=text.txt"], "'nowhere' does not exist"),
        (["gpt2", "--to=rely", "--text=text.txt"], "did you mean 'relu'"),
        (["gpt2", "--to=swiglu", "--text=text.txt"], "--to=swiglu is gated"),
        (["gpt2", "--to=prelu", "--text=text.txt"], "--to=prelu has trained scalars"),
        (["gpt2", "--to=gelu_tanh", "--text=text.txt"], "is what the model has already"),
        (["llama", "--to=mish", "--text=text.txt"], "no gated unit has that gate"),
        (["gpt2", "--to=relu", "--text=text.txt", "--blocks=3"], "--blocks=3 is not a number of blocks: give 1 to 2"),
        (["gpt2", "--to=relu", "--text=text.txt", "--blocks=0"], "--blocks=0"),
        (["gpt2", "--to=relu", "--text=text.txt", "--config.model.d_ff=8"], "--config.model.d_ff is set"),
        (["gpt2", "--to=relu", "--text=nothing.txt"], "nothing.txt"),
        (["gpt2", "--to=relu", "--text=text.txt", "--config.train.n_steps=3"], "the number of updates is --steps"),
        (["gpt2", "--to=relu", "--text=text.txt", "--config.data.name=mine"], "--config.data.name both name a text"),
        (["gpt2", "--to=relu", "--field=story"], "--field=story has no effect without --text"),
    ],
)
def test_what_cannot_be_swapped_is_refused_before_any_work(place, words, told):
    with pytest.raises(UserError, match=re.escape(told)):
        commands.run(swap.main, *words, *FAST, "--workdir=refused")
    assert not (place / "refused").exists()


def test_a_run_is_probed_on_its_own_text_with_its_own_tokenizer(small_sweep, place):
    name = actlab.data.prepare_text("text.txt", "data")
    own = {"data.name": name, "data.dir": "data", "data.tokenizer": "bpe:270", "train.eval_tokens": 600}
    config = replace(small_sweep, sweep=(), **own, **{"model.activation": "relu"})
    assert session.run(config, "own", place / "own", ["test"]) == 0
    (reached,) = (row["loss"] for row in metrics(place / "own") if (row["split"], row["step"]) == ("validation", 12))
    caches = place / "data" / name / "tokens"
    before = sorted(caches.iterdir())
    assert f"{reached:.4f} nats/token" in commands.run(probe.main, "own", *FAST[:2])
    assert sorted(caches.iterdir()) == before, "the text is not tokenized again"
    shutil.rmtree(caches)
    assert f"{reached:.4f} nats/token" in commands.run(probe.main, "own", *FAST[:2])
    actlab.data.open_tokens(name, "data", "bpe:260").folder.rename(caches / "bpe-270")
    assert f"{reached:.4f} nats/token" in commands.run(probe.main, "own", *FAST[:2]), "not with another vocabulary"
    request = overrides.read(None, overrides.split(["--config.data.packing=padded"])[1], presets.continued)
    start = existing.open_model("own")
    found = existing.config_of(start, request.config, request.overridden, None, "text", QUIET)
    assert (found.data.name, found.data.packing) == (name, "padded"), "what is asked for stays"
