"""An encoder through a whole session, and runs that start from its checkpoint: what they take over, what is refused,
and that they resume to the bit.
"""

import csv
import dataclasses
import io
import json
import operator
import pathlib
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy
from outcomes import metrics
from rich.console import Console
from weights import drawn

import actlab.data
from actlab import config as config_lib, models
from actlab.analysis import results as results_lib
from actlab.analysis.conditions import conditions
from actlab.config import Config, SwapConfig, replace, sweep
from actlab.data import tokenizers
from actlab.data.sets import story_grammar
from actlab.errors import UserError
from actlab.interop import huggingface
from actlab.sweeps import announce, existing, origin, plan, session, trained
from actlab.training import generation, program_spec, programs
from actlab.training.losses import Examples
from actlab.training.objectives import NextToken

pytestmark = pytest.mark.optimized

WISH = {"finetune.task": "wish", "model.n_classes": 2}


def run(config, workdir):
    return session.run(config, "test", workdir, ["test"])


def losses(workdir, step):
    return {row["run"]: row["loss"] for row in metrics(workdir) if (row["split"], row["step"]) == ("validation", step)}


@pytest.fixture(scope="module", autouse=True)
def small_and_uncalibrated():
    """The grammar has few stories, and every program is one program; what a plan measures is another test's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(story_grammar, "N_HELD_OUT_STORIES", 30)
        patch.setattr(
            plan, "make", lambda specs, target: [plan.Plan(one, (len(one.names),), 1, 0, 0, 0.0) for one in specs]
        )
        yield


@pytest.fixture(scope="module")
def stories(small_and_uncalibrated, tmp_path_factory) -> str:
    """A data directory of the grammar."""
    folder = tmp_path_factory.mktemp("data")
    actlab.data.prepare("story_grammar", folder, n_stories=64, progress=False)
    return str(folder)


@pytest.fixture(scope="module")
def encoder(small_sweep, stories) -> Config:
    """An encoder of two seeds that reads a story a row."""
    return replace(
        small_sweep,
        **{
            "model.kind": "encoder",
            "model.d_ff": 16,
            "model.use_bias": True,
            "model.norm_position": "post",
            "data.name": "story_grammar",
            "data.dir": stories,
            "data.tokenizer": "wordpiece",
            "data.n_stories": 64,
            "data.packing": "padded",
            "train.eval_tokens": 2000,
            "sweep": {"seed": (1, 2)},
        },
    )


@pytest.fixture(scope="module")
def pretrained(encoder, tmp_path_factory) -> pathlib.Path:
    """Its workdir after 12 steps, with probes."""
    workdir = tmp_path_factory.mktemp("pretrained") / "w"
    config = replace(encoder, **{"train.probe_every": 12, "train.census_every": 12})
    assert session.run(config, "sweep", workdir, ["test"]) == 0
    return workdir


@pytest.fixture(scope="module")
def wish(encoder, pretrained):
    """The classifier of each seed, from that seed's encoder."""
    return replace(encoder, **WISH, **{"finetune.from_checkpoint": f"{pretrained}:gelu-lr0.001-seed{{seed}}"})


@pytest.fixture(scope="module")
def finetuned(wish, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("finetuned") / "w"
    assert run(wish, workdir) == 0
    return workdir


@pytest.fixture(scope="module")
def swaps(encoder, pretrained):
    """The first seed's encoder, as it was and swapped."""
    return replace(
        encoder,
        **{
            "seed": 1,
            "finetune.from_checkpoint": f"{pretrained}:gelu-lr0.001-seed1",
            "finetune.swap.from": "gelu",
            "finetune.swap.to": "relu",
            "sweep": {"finetune.swap.blocks": (0, 1)},
        },
    )


@pytest.fixture(scope="module")
def swapped(swaps, tmp_path_factory):
    workdir = tmp_path_factory.mktemp("swapped") / "w"
    assert run(swaps, workdir) == 0
    return workdir


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


@pytest.mark.parametrize("batch_size", [4, 64])
def test_rows_that_fill_the_last_batch_of_labelled_documents_have_no_token_that_counts(encoder, batch_size):
    labelled = replace(encoder, **WISH, **{"data.batch_size": batch_size, "sweep": {}})
    tokens = program_spec.open_data([labelled])
    resolved = program_spec.resolve(labelled, tokens.name, tokens.tokenizer)
    validation = program_spec.prepare(["run"], [resolved], tokens).feed.validation
    filler = validation.weights[..., 0] == 0
    assert (
        filler.any() and not validation.counted[filler].any() and (validation.counted[~filler].sum(axis=-1) > 2).all()
    )


def test_two_names_of_one_head_are_refused(encoder):
    config = replace(encoder, sweep={"model.head_activation": ("gelu", "gelu_exact")})
    with pytest.raises(UserError, match="config.sweep.model.head_activation lists .* two names of one function"):
        session.prepare(Console(quiet=True), config)


def test_training_goes_on_from_the_checkpoint_and_a_swap_is_seen_at_step_0(pretrained, swapped):
    whole = losses(pretrained, 12)["gelu-lr0.001-seed1"]
    names = [f"gelu-lr0.001-seed1-blocks{k}" for k in (0, 1)]
    assert list(losses(swapped, 0)) == names
    none, relu = losses(swapped, 0).values()
    assert none == whole != relu and losses(swapped, 12)[names[0]] != none
    notes = json.loads((swapped / "manifest.json").read_text())["sessions"][0]["notes"]
    assert len(notes) == 2 and notes[0].endswith("seed1, step 12; drawn from the seed: nothing")


def test_a_run_whose_blocks_are_all_swapped_is_a_model_with_the_new_activation(swapped):
    plain, whole = (trained.load(swapped, f"gelu-lr0.001-seed1-blocks{k}") for k in (0, 1))
    assert (plain.fields.activation, whole.fields.activation) == ("gelu", "relu")
    tokens = jnp.arange(12).reshape(2, 6)
    both = models.build(whole.fields), whole.model
    rebuilt, logits = (jax.jit(model.apply)(whole.params, tokens)[0] for model in both)
    np.testing.assert_array_equal(rebuilt, logits)
    two = replace(whole.config, **{"model.n_layers": 2})
    with pytest.raises(UserError, match="blocks=1 of 2 gave the model two activations"):
        _ = whole._replace(config=two).fields


def test_a_folded_swap_starts_from_another_bias(swaps, pretrained):
    tokens = program_spec.open_data([swaps])

    def start(fold):
        config = replace(swaps, **{"finetune.swap.blocks": 1, "finetune.fold": fold, "sweep": {}})
        _, (spec,) = session.settle(config, sweep.expand(config), tokens)
        return origin.given(spec)[0][0]

    plain, folded = start(False), start(True)
    changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), plain, folded)
    assert changed["block_0"]["feed_forward"]["down"] == {"bias": True, "kernel": False}
    assert sum(jax.tree.leaves(changed)) == 1


def test_what_was_swapped_stays_so_and_must_be_said(swaps, swapped):
    path = {"finetune.from_checkpoint": f"{swapped}:gelu-lr0.001-seed1-blocks1", "sweep": {}}
    tokens = program_spec.open_data([swaps])

    def settle(blocks):
        config = replace(
            swaps, **path, **{"finetune.swap.blocks": blocks, "finetune.swap.to": "relu" if blocks else ""}
        )
        return session.settle(config, sweep.expand(config), tokens)[1][0]

    (kept,), _ = origin.given(settle(1))
    theirs = trained.load(swapped, "gelu-lr0.001-seed1-blocks1")
    jax.tree.map(np.testing.assert_array_equal, kept, theirs.params)
    assert theirs.model.spec.of_block(0).activation == "relu"
    with pytest.raises(UserError, match=r"activation \(block 0\)='gelu', but .* was trained with 'relu'"):
        settle(0)


def test_a_classifier_has_the_encoder_and_a_head_of_its_seed(wish, pretrained, finetuned):
    theirs = trained.load(pretrained, "gelu-lr0.001-seed2").params
    _, (spec,) = session.settle(wish, sweep.expand(wish), program_spec.open_data([wish]))
    (_, ours), words = origin.given(spec)
    assert {*theirs} - {*ours} == {"head", "head_norm", "output_bias"} and "classifier, pooler" in words[1]
    jax.tree.map(np.testing.assert_array_equal, ours, {name: theirs[name] for name in ours})
    rows = list(csv.DictReader((finetuned / "results.csv").read_text().splitlines()))
    assert [row["objective"] for row in rows] == ["classification"] * 2 and rows[0]["task"] == "wish"
    last = [row for row in metrics(finetuned) if row["split"] == "validation"][-1]
    assert float(rows[1]["accuracy"]) == last["accuracy"] and float(rows[1]["macro_f1"]) == last["macro_f1"]
    labels, said = program_spec.open_data([wish]).labels, io.StringIO()
    announce.results(Console(file=said, width=200), rows[:1], finetuned)
    for prefix, split, scored in (("", "validation", [spec.feed.validation]), ("test_", "test", spec.feed.test)):
        n_scored = int(sum(float(one.weights.sum()) for one in scored))
        share = float(np.mean(getattr(labels, split)[:n_scored] == np.bincount(labels.train).argmax()))
        assert 0 < share < 1 and float(rows[0][f"{prefix}majority_accuracy"]) == pytest.approx(share)
        assert f"{split} (majority {share:.4f}, " in said.getvalue()
    (tested,) = [row for row in metrics(finetuned) if row["split"] == "test" and row["run"] == rows[0]["run"]]
    assert [float(rows[0][f"test_{score}"]) for score in ("accuracy", "macro_f1")] == [
        tested["accuracy"],
        tested["macro_f1"],
    ]


def test_the_hidden_units_of_a_classifier_are_measured_without_its_head_which_is_told(finetuned):
    run = metrics(finetuned)[0]["run"]
    start, said = existing.open_model(f"{finetuned}:{run}"), io.StringIO()
    config = existing.config_of(start, Config(), (), None, "text", Console(file=said, width=200))
    assert start.headless and start.model.n_classes == 2 and config.model.n_classes == 0
    assert "the classifier is left out" in said.getvalue()


def test_labels_of_one_class_are_refused(wish):
    tokens = program_spec.open_data([wish])
    assert tokens.labels is not None
    same = dataclasses.replace(tokens.labels, train=np.ones_like(tokens.labels.train))
    with pytest.raises(UserError, match=f"all .* of the training split are '{same.classes[1]}'"):
        session.settle(wish, sweep.expand(wish), dataclasses.replace(tokens, labels=same))


def test_finetuning_stopped_and_resumed_is_never_stopped_to_the_bit(wish, finetuned, stopped_early, tmp_path):
    with stopped_early():
        assert run(wish, tmp_path / "w") == 143
    assert run(wish, tmp_path / "w") == 0
    assert metrics(tmp_path / "w") == metrics(finetuned)
    one, other = (trained.load(workdir, "gelu-lr0.001-seed1").params for workdir in (tmp_path / "w", finetuned))
    jax.tree.map(np.testing.assert_array_equal, one, other)


def test_a_hugging_face_directory_is_a_start_too(encoder, stories, tmp_path):
    tokens = actlab.data.open_tokens("story_grammar", stories, "wordpiece", n_stories=64, progress=False)
    model = replace(encoder, **{"model.vocab_size": tokens.vocab_size, "model.norm_epsilon": 1e-12}).model
    params = drawn(models.build(model))
    huggingface.save(model, params, tmp_path / "hf")
    open_sizes = {"model.vocab_size": None, "model.d_ff": None, "model.norm_epsilon": 1e-12, "model.context": 12}
    classifier = replace(
        encoder, **WISH, **open_sizes, **{"finetune.from_checkpoint": str(tmp_path / "hf"), "sweep": {}}
    )
    settled, (spec,) = session.settle(classifier, sweep.expand(classifier), program_spec.open_data([classifier]))
    assert (settled.model.vocab_size, settled.model.d_ff) == (tokens.vocab_size, 16)
    (kept,), _ = origin.given(spec)
    positions = params["position_embedding"]["embedding"]
    np.testing.assert_array_equal(kept["position_embedding"]["embedding"], positions[:12])
    jax.tree.map(np.testing.assert_array_equal, kept["block_0"], params["block_0"])
    before = origin.digests([classifier])
    huggingface.save(model, drawn(models.build(model), 0.3), tmp_path / "hf")
    assert before.keys() == origin.digests([classifier]).keys() and before != origin.digests([classifier])


def test_each_run_has_all_that_its_own_origin_holds(encoder, stories, tmp_path):
    tokens = actlab.data.open_tokens("story_grammar", stories, "wordpiece", n_stories=64, progress=False)
    model = replace(encoder, **{"model.vocab_size": tokens.vocab_size, "model.norm_epsilon": 1e-12}).model
    for seed in (1, 2):
        huggingface.save(model, drawn(models.build(model), seed / 10), tmp_path / f"hf{seed}")
    file = tmp_path / "hf1/model.safetensors"  # the body alone
    held = safetensors.numpy.load_file(file)
    body = {name: array for name, array in held.items() if not name.startswith("cls.")}
    safetensors.numpy.save_file(body, file, metadata={"format": "pt"})
    for seeds in ((1, 2), (2, 1)):
        start = {"finetune.from_checkpoint": str(tmp_path / "hf{seed}"), "model.norm_epsilon": 1e-12}
        config = replace(encoder, **start, **{"model.vocab_size": tokens.vocab_size, "sweep": {"seed": seeds}})
        _, (spec,) = session.settle(config, sweep.expand(config), program_spec.open_data([config]))
        program = programs.build(spec.model, spec.config, spec.lanes, spec.objective)
        drawn_ones, ours = (program.init(given).params for given in (None, origin.given(spec)[0]))
        for lane, seed in enumerate(seeds):
            own, found = (jax.tree.map(operator.itemgetter(lane), params) for params in (drawn_ones, ours))
            held = origin.given(spec)[0][lane]
            jax.tree.map(np.testing.assert_array_equal, found, {**own, **held})
            assert ("head" in held) == (seed == 2)


def test_an_origin_that_is_missing_is_told_before_the_data_is_prepared(encoder, stories, tmp_path, monkeypatch):
    model = replace(encoder, **{"model.vocab_size": 2048, "model.norm_epsilon": 1e-12}).model
    huggingface.save(model, drawn(models.build(model)), tmp_path / "hf2")
    monkeypatch.setattr(program_spec, "open_data", None)
    config = replace(encoder, **{"finetune.from_checkpoint": str(tmp_path / "hf{seed}"), "model.norm_epsilon": 1e-12})
    with pytest.raises(UserError, match="hf1"):
        session.prepare(Console(quiet=True), config)


def test_origins_of_other_sizes_are_refused_where_nobody_could_read_the_runs_again(encoder, stories, tmp_path):
    for width, units in ((8, 24), (16, 40)):
        changes = {"model.vocab_size": 2048, "model.d_model": width, "model.d_ff": units, "model.norm_epsilon": 1e-12}
        model = replace(encoder, **changes).model
        huggingface.save(model, drawn(models.build(model)), tmp_path / f"hf{width}")
    start = {"finetune.from_checkpoint": str(tmp_path / "hf{model.d_model}"), "model.norm_epsilon": 1e-12}
    config = replace(encoder, **start, **{"model.vocab_size": 2048, "model.d_ff": None})
    for axes, is_told in (
        ({"model.d_model": (8, 16)}, False),
        ({"model.d_model, model.d_ff": ((8, 24), (16, 40))}, True),
    ):
        both = replace(config, sweep=axes)
        settle = lambda both=both: session.settle(both, sweep.expand(both), program_spec.open_data([both]))
        if is_told:
            assert len(settle()[1]) == 2
        else:
            with pytest.raises(UserError, match="config.model.d_ff is left open, and the origins"):
                settle()


def test_an_origin_is_read_at_its_newest_sealed_step(wish, pretrained, tmp_path):
    name = "gelu-lr0.001-seed1"
    shutil.copytree(pretrained, tmp_path / "w")
    config = replace(wish, **{"finetune.from_checkpoint": f"{tmp_path / 'w'}:{name}", "sweep": ()})
    older, newest = sorted(
        (tmp_path / "w/checkpoints/0").glob("*/actlab_seal.json"), key=lambda seal: int(seal.parts[-2])
    )[-2:]
    origins = [origin.digests([config])]
    newest.unlink()
    origins.append(origin.digests([config]))
    assert origins[0] != origins[1] and trained.load(tmp_path / "w", name).step == int(older.parent.name)
    older.write_text(older.read_text() + " ")
    assert origin.digests([config]) != origins[1]
    shutil.rmtree(tmp_path / "w/checkpoints")
    with pytest.raises(UserError, match="w:gelu-lr0.001-seed1' holds no sound checkpoint"):
        origin.digests([config])
    assert origin.digests([config], done=True) == {}


def test_other_weights_at_the_place_of_the_origin_are_refused(wish, pretrained, finetuned, stopped_early, tmp_path):
    with stopped_early():
        assert run(wish, tmp_path / "w") == 143
    (seal,) = list((pretrained / "checkpoints").glob("*/*/actlab_seal.json"))[:1]
    place = seal.parents[1]
    sealed = place / str(max(int(step.name) for step in place.iterdir() if step.name.isdecimal())) / seal.name
    kept = sealed.read_text()
    try:
        sealed.write_text(kept + " ")  # as the seal of other weights would be another
        for workdir in (tmp_path / "w", finetuned):  # to be resumed, and done
            with pytest.raises(UserError, match="was begun with other weights than config.finetune.from_checkpoint"):
                run(wish, workdir)
    finally:
        sealed.write_text(kept)
    gone = pretrained.rename(pretrained.parent / "gone")
    try:
        assert run(wish, finetuned) == 0, "nothing is left to train"
    finally:
        gone.rename(pretrained)


def test_what_a_run_leaves_open_is_recorded_as_its_origin_has_it(encoder, stories, tmp_path):
    model = replace(encoder, **{"model.vocab_size": 2048, "model.d_hidden": 24}).model
    huggingface.save(model, drawn(models.build(model)), tmp_path / "hf")
    start = {"finetune.from_checkpoint": str(tmp_path / "hf"), "model.d_ff": None, "sweep": {}}
    tuned = replace(encoder, **start)
    settled, _ = session.settle(tuned, sweep.expand(tuned), program_spec.open_data([tuned]))
    assert (settled.model.d_ff, settled.model.d_hidden) in ((24, None), (16, 24), (24, 24))
    assert models.build(settled.model).spec.d_hidden == 24
    assert config_lib.first_difference(tuned, settled) is None, "the same command goes on"


def test_fields_of_an_origin_that_a_config_leaves_open_are_no_difference(tiny):
    tuned = replace(tiny, **{"finetune.from_checkpoint": "somewhere"})
    for name, size in (("n_kv_heads", 1), ("d_head", 4)):
        adopted = replace(tuned, **{f"model.{name}": size})
        assert config_lib.first_difference(tuned, adopted) is None
        assert config_lib.first_difference(adopted, tuned) == f"model.{name}"
        assert config_lib.first_difference(tiny, replace(tiny, **{f"model.{name}": size})) == f"model.{name}"


def test_a_tokenizer_of_more_tokens_than_the_origin_is_refused(encoder, stories, tmp_path):
    model = replace(encoder, **{"model.vocab_size": 100}).model
    huggingface.save(model, drawn(models.build(model)), tmp_path / "hf")
    start = {"finetune.from_checkpoint": str(tmp_path / "hf"), "model.vocab_size": None, "sweep": {}}
    tuned = replace(encoder, **start)
    tokens = program_spec.open_data([tuned])
    with pytest.raises(UserError, match=r"has [\d,]+ tokens, but config.finetune.from_checkpoint=.* has 100"):
        session.settle(tuned, sweep.expand(tuned), tokens)


def test_byte_pairs_of_a_hugging_face_directory_are_those_a_run_must_have(encoder, stories, tmp_path):
    pairs = tokenizers.train(["a story of a story"] * 9, 260)
    model = replace(encoder, **{"model.vocab_size": 262, "model.norm_epsilon": 1e-12}).model
    folder = tmp_path / "hf"
    huggingface.save(model, drawn(models.build(model)), folder)
    pairs.save(folder)
    start = replace(encoder, **{"model.norm_epsilon": 1e-12, "finetune.from_checkpoint": str(folder), "sweep": {}})

    def settle(name):
        changed = replace(start, **{"data.tokenizer": name, "model.vocab_size": 262})
        return session.settle(changed, sweep.expand(changed), program_spec.open_data([changed]))[0]

    assert settle(f"dir:{folder}").data.tokenizer == f"dir:{folder}"
    with pytest.raises(UserError, match="config.data.tokenizer='bytes', but .* was trained with another, 'dir:"):
        settle("bytes")
    for name in tokenizers.FILES:
        (folder / name).unlink(missing_ok=True)
    assert not any((folder / name).exists() for name in ("tokenizer.json", "vocab.json"))
    assert settle("bytes").data.tokenizer == "bytes"
    with pytest.raises(UserError, match="'bpe:260' is learned from the text, but .*hf' was trained with another"):
        settle("bpe:260")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"finetune.from_checkpoint": "nowhere"},
            "from_checkpoint='nowhere'",
        ),
        ({"finetune.from_checkpoint": "WORKDIR"}, "holds 2 runs: .* after a colon, for example .*:gelu-"),
        ({"finetune.from_checkpoint": "WORKDIR:gelu"}, "is not in .*choose one of gelu"),
        ({"finetune.from_checkpoint": "WORKDIR:{sed}"}, "config.sed: did you mean 'seed'"),
        ({"model.d_model": 16}, "config.model.d_model=16, but .* was trained with 8: set the same"),
        ({"model.context": 17}, "config.model.context=17, but .* was trained with 16: set it to 16 or less"),
        ({"model.activation": "relu"}, r"model.activation \(block 0\)='relu', but .* was trained with 'gelu'"),
        (
            {"data.tokenizer": "bytes", "model.vocab_size": 2048},
            "config.data.tokenizer='bytes', but .* another, 'wordpiece'",
        ),
        ({"model.vocab_size": 4096}, "config.model.vocab_size=4096, but .* 2048"),
    ],
)
def test_what_does_not_fit_is_refused_by_field_and_leaves_nothing(wish, pretrained, tmp_path, changes, words):
    place = {
        name: str(value).replace("WORKDIR", str(pretrained)) if "check" in name else value
        for name, value in changes.items()
    }
    with pytest.raises(UserError, match=words):
        run(replace(wish, **place), tmp_path / "w")
    assert not (tmp_path / "w").exists()


def test_another_name_of_its_activation_fits(wish):
    config = replace(wish, **{"model.activation": "gelu_erf"})
    settled, _ = session.settle(config, sweep.expand(config), program_spec.open_data([config]))
    assert settled.model.activation == "gelu_erf"


def test_a_workdir_without_a_checkpoint_says_so(wish, pretrained, tmp_path):
    (tmp_path / "started").mkdir()
    for name in ("config.json", "manifest.json"):
        (tmp_path / "started" / name).write_text((pretrained / name).read_text())
    with pytest.raises(UserError, match="from_checkpoint=") as told:
        run(
            replace(wish, **{"finetune.from_checkpoint": f"{tmp_path / 'started'}:gelu-lr0.001-seed1", "sweep": {}}),
            tmp_path / "w",
        )
    assert "after a colon" not in str(told.value), "a run is named"


FOLDED = {"model.kind": "encoder", "model.use_bias": True, "model.norm_position": "post", "model.d_ff": 40}


def batches(n):
    return jnp.asarray(np.random.default_rng(7).integers(0, 24, (n, 4, 8)), jnp.int32)


def every(rows_BL, number):
    return Examples(rows_BL, rows_BL, jnp.ones((4, 8)))


def some(rows_BL, number):
    """Padding that differs between batches."""
    real = (rows_BL + number) % 3 > 0
    return every(rows_BL, number)._replace(real=real.at[:, 0].set(True))


def mean_output(model, params, index, rows_NBL, examples_of, text_BL=None):
    """Of one block's feed-forward, over the tokens that count."""
    total, n = 0.0, 0.0
    units = jax.jit(lambda params, one: model.hidden(params, one.tokens, real_BL=one.real)[2][index].a_TF)
    down = params[f"block_{index}"]["feed_forward"]["down"]
    for one in map(examples_of, rows_NBL, range(len(rows_NBL))):
        real_T = np.ones(one.tokens.size) if one.real is None else np.asarray(one.real).reshape(-1)
        real_T = real_T if text_BL is None else text_BL.reshape(-1)
        outputs_TD = np.asarray(units(params, one), np.float64) @ np.asarray(down["kernel"]) + np.asarray(down["bias"])
        total, n = total + (outputs_TD * real_T[:, None]).sum(axis=0), n + real_T.sum()
    return total / n


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_the_mean_output_of_the_first_swapped_block_stays(tiny, kind):
    config = replace(tiny, **{**FOLDED, "model.kind": kind}).model
    before = models.build(config)
    after = models.build(config, swap=SwapConfig("gelu", "relu", 2))
    params = drawn(before)
    examples = batches(3), some if kind == "encoder" else every
    whole = mean_output(before, params, 0, *examples)
    folded = origin.folded(before, after, params, *examples)
    np.testing.assert_allclose(mean_output(after, folded, 0, *examples), whole, atol=2e-5)
    assert np.abs(mean_output(after, params, 0, *examples) - whole).max() > 1e-3, "without folding it moves"
    # The second block sees other inputs than its mean was taken on; it is folded for those it had.
    second = folded["block_1"]["feed_forward"]["down"]["bias"] - params["block_1"]["feed_forward"]["down"]["bias"]
    assert np.abs(second).max() > 1e-3


def test_padding_of_a_decoder_is_not_text(tiny):
    """Its attention needs no mask: what counts is told by the weights of the targets."""
    config = replace(tiny, **{**FOLDED, "model.kind": "decoder"}).model
    before, after = models.build(config), models.build(config, swap=SwapConfig("gelu", "relu", 1))
    params, padding = drawn(before), config.vocab_size - 1
    rows_NBW = np.full((1, 4, config.context + 1), padding, np.int32)
    rows_NBW[..., 1:4] = np.random.default_rng(0).integers(0, padding, (1, 4, 3))
    text_BL = np.zeros((4, config.context), bool)
    text_BL[:, :4] = True  # the mark at the beginning and three tokens; the target of the last is the mark at the end

    def examples_of(rows_BW, number):
        return NextToken(padding).training(jnp.asarray(rows_BW), jax.random.key(number))

    whole = mean_output(before, params, 0, rows_NBW, examples_of, text_BL)
    folded = origin.folded(before, after, params, rows_NBW, examples_of)
    np.testing.assert_allclose(mean_output(after, folded, 0, rows_NBW, examples_of, text_BL), whole, atol=2e-5)


def test_nothing_but_biases_of_swapped_blocks_changes(tiny):
    config = replace(tiny, **FOLDED).model
    before = models.build(config)
    params = drawn(before)
    after = models.build(config, swap=SwapConfig("gelu", "relu", 1))
    folded = origin.folded(before, after, params, batches(1), every)
    changed = jax.tree.map(lambda a, b: not np.array_equal(a, b), params, folded)
    named = {jax.tree_util.keystr(path) for path, is_new in jax.tree_util.tree_leaves_with_path(changed) if is_new}
    assert named == {"['block_0']['feed_forward']['down']['bias']"}
    same = origin.folded(before, before, params, batches(1), every)
    jax.tree.map(np.testing.assert_array_equal, same, params)
