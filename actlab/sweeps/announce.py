"""What a session prints: data, model and floor before it trains; results and a sample of text after."""

import math
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from actlab import data
from actlab.config import Config, loss_unit
from actlab.console import counted
from actlab.data.cache import TokenCache
from actlab.data.rows import NO_DOCUMENT
from actlab.errors import printable
from actlab.training import generation
from actlab.training.program_spec import ProgramSpec

_OFTEN = 4  # times that a text may be read at little cost (Muennighoff et al. 2023, arXiv:2305.16264)
_FEW = 20  # documents that are scored


def name_of_data(console: Console, config: Config) -> None:
    """Prints which data is read; raises UserError if it is not prepared."""
    name = data.resolve_name(config.data.name, config.data.dir, config.finetune.task)
    chosen = f", chosen by auto for data.dir={config.data.dir!r}" if config.data.name == "auto" else ""
    console.print(f"data        {name}{chosen}")


def header(console: Console, specs: Sequence[ProgramSpec], tokens: TokenCache, trains: bool = True) -> None:
    """Prints the size of the data, the model of a single run, how long it trains, and the floors."""
    meta = tokens.meta
    console.print(
        f"            {counted(meta.n_documents['train'], 'training document')}, {meta.n_tokens['train']:,} tokens "
        f"({meta.tokenizer}), fingerprint {tokens.fingerprint[:12]}"
    )
    if len(specs) == 1 and len(specs[0].names) == 1:
        _model(console, specs[0])
    if trains:
        _training(console, specs, tokens)
    if tokens.labels is not None:
        console.print(f"task        {_task(specs[0], tokens)}")
    for words in dict.fromkeys(_reference(spec, tokens) for spec in specs):
        console.print(words)


def _model(console: Console, spec: ProgramSpec) -> None:
    shape, costs = spec.model.spec, spec.costs
    mismatch = f" instead of {shape.d_ff} ({costs.gated_mismatch:+.2%} weights)" if shape.d_hidden != shape.d_ff else ""
    layers, heads = counted(shape.n_layers, "layer"), counted(shape.n_heads, "head")
    console.print(
        f"model       {shape.activation}, {layers}, d_model {shape.d_model}, {heads}, "
        f"feed-forward {shape.d_hidden}{mismatch}, context {shape.context}, vocabulary {shape.vocab_size}"
    )
    swap = spec.config.finetune.swap
    if swap.blocks:
        fold = ", its mean folded into the next bias" if spec.config.finetune.fold else ""
        console.print(f"swap        {swap.from_} to {swap.to} in {swap.blocks} of {shape.n_layers} blocks{fold}")
    console.print(
        f"parameters  {costs.parameters:,} ({costs.non_embedding:,} without embeddings); "
        f"{costs.flops_per_token / 1e6:,.1f} MFLOP per token, forward and backward"
    )


def _training(console: Console, specs: Sequence[ProgramSpec], tokens: TokenCache) -> None:
    """Prints how many tokens a run trains on, and warns of text that is read often and of a small test set."""
    configs = [spec.config for spec in specs]
    one, of_target = configs[0], specs[0].feed.test_documents
    n_test = np.unique(of_target[of_target != NO_DOCUMENT]).size
    if n_test < _FEW:
        few = counted(n_test, "document")
        console.print(f"warning     the test loss is that of only {few}: it may not hold for other text")
    lengths = {(each.train.n_steps, each.data.batch_size * each.model.context) for each in configs}
    # Tokens of corrupted text are drawn anew in each step, and padded rows are not all text.
    if len(lengths) > 1 or one.data.corruption != "none" or one.data.packing == "padded":
        return
    ((n_steps, per_step),) = lengths
    share = n_steps * per_step / tokens.meta.n_tokens["train"]
    of = f"{counted(n_steps, 'step')} of {per_step:,} tokens, {n_steps * per_step:,} in all"
    console.print(f"training    {of}: {share:.3g} epochs")
    if share > _OFTEN:
        console.print(f"warning     each document is read about {share:.0f} times: the model may memorise it")


def _reference(spec: ProgramSpec, tokens: TokenCache) -> str:
    """The reference that a loss is compared with: the floor, the unigram entropy, or the majority class."""
    if spec.majority is not None and tokens.labels is not None:
        known = spec.majority
        return (
            f"majority    accuracy {known.accuracy:.4f}, macro F1 {known.macro_f1:.4f}, {known.loss:.4f} "
            f"{spec.unit}: always {tokens.labels.classes[known.label]!r}, the most frequent class in training"
        )
    if spec.unigram is not None:
        return f"unigram     {spec.unigram:.4f} {spec.unit}: the best loss without context"
    if spec.floor is None:
        known = tokens.meta.entropy_nats is not None
        part = "the entropy of this text is known, but its tokenizer loses some of it, or rows are cut to the context"
        reason = part if known else "the lowest possible loss of this text is not known"
        return f"floor       unknown: {reason}"
    if spec.config.data.corruption != "none":
        return f"floor       {spec.floor:.4f} {spec.unit}: the exact Bayes loss of tokens without order"
    return (
        f"floor       {spec.floor:.4f} {spec.unit}: the exact Bayes loss of the validation stories "
        f"(entropy {tokens.meta.entropy_nats:.1f} nats per story)"
    )


def _task(spec: ProgramSpec, tokens: TokenCache) -> str:
    """The classes, and how many documents are too long for a row."""
    assert tokens.labels is not None
    lengths, context = np.diff(tokens.train.starts) - 1, spec.config.model.context
    cut = (lengths > context - 2).mean()
    lost = f"; {cut:.0%} exceed the context of {context}, two special tokens included, and lose their beginning"
    return (
        f"{tokens.labels.task}: {' or '.join(tokens.labels.classes)}; documents of {lengths.mean():.0f} tokens, "
        f"the longest {lengths.max()}{lost if cut else ''}"
    )


def sample(console: Console, spec: ProgramSpec, tokens: TokenCache, state: Any) -> None:
    """Prints a document written by the model of the first lane."""
    params = jax.tree.map(lambda array_R: array_R[0], state.params)
    text = generation.write_text(spec.model, params, tokens.tokenizer, seed=spec.config.seed)
    console.rule("a sample")
    console.print(Text(printable(text)))  # its lines as the model wrote them
    console.rule()


def results(console: Console, rows: Sequence[Mapping[str, Any]], path: pathlib.Path, what: str = "") -> None:
    """Prints the results: two lines for a single run, a table for several."""
    if len(rows) == 1:
        _single(console, rows[0], what or rows[0]["status"])
    else:
        if what:
            console.print(f"runs        {len(rows)}: {what}")
        _table(console, rows)
    console.print(f"results     {path}/results.csv, {path}/metrics.jsonl")


def _single(console: Console, row: Mapping[str, Any], what: str) -> None:
    console.print(f"run         {row['run']}: {what}")
    if row["status"] != "finished":
        console.print(f"            diverged: the loss was not finite at step {row['steps']}")
        return
    best = f" after {row['steps']} steps (best {float(row['best_loss']):.4f} at step {row['best_step']})"
    for split, loss, floor in (("validation", "final_loss", "floor"), ("test", "test_loss", "test_floor")):
        found, least, more = float(row[loss]), float(row[floor]), best if split == "validation" else ""
        above = "" if math.isnan(least) else f"; floor {least:.4f}, {found - least:.4f} above it"
        console.print(f"{split:<12}{found:.4f} {loss_unit(row['objective'], row['tokenizer'])}{more}{above}")
    if "macro_f1" in row:
        for prefix, split in (("", "validation"), ("test_", "test")):
            names = [f"{prefix}{name}" for name in ("accuracy", "macro_f1", "majority_accuracy", "majority_macro_f1")]
            accuracy, f1, *majority = (f"{float(row[name]):.4f}" for name in names if name in row)
            known = f" (majority {', '.join(majority)})" if majority else ""  # rows of before lack the test set's
            console.print(f"{row['task']:<12}accuracy {accuracy}, macro F1 {f1}, {split}{known}")


def _table(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = ("status", "steps", "final loss", "test loss", "best loss", "at step")
    table = Table(Column("run", overflow="fold"), *columns, box=None, pad_edge=False)
    for row in rows:
        losses = [f"{float(row[name]):.4f}" for name in ("final_loss", "test_loss", "best_loss")]
        table.add_row(row["run"], row["status"], str(row["steps"]), *losses, str(row["best_step"]))
    console.print(table)
