"""What a session prints: data, cohorts, floors before it trains; results and a sample of text after."""

import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from actlab import data
from actlab.config import Config
from actlab.data.cache import TokenCache
from actlab.training import generation
from actlab.training.objectives import UNITS
from actlab.training.setting import Setting


def name_of_data(console: Console, config: Config) -> None:
    """Which data is read; raises UserError if it is not prepared."""
    name = data.resolve_name(config.data.name, config.data.dir, config.finetune.task)
    chosen = f", chosen by auto for data.dir={config.data.dir!r}" if config.data.name == "auto" else ""
    console.print(f"data        {name}{chosen}")


def header(console: Console, settings: Sequence[Setting], tokens: TokenCache) -> None:
    """The data's size; of a single run also its model; the floors."""
    meta = tokens.meta
    console.print(
        f"            {meta.n_documents['train']:,} training documents, {meta.n_tokens['train']:,} tokens "
        f"({meta.tokenizer}), fingerprint {tokens.fingerprint[:12]}"
    )
    if len(settings) == 1 and len(settings[0].names) == 1:
        _model(console, settings[0])
    if tokens.labels is not None:
        console.print(f"task        {_task(settings[0], tokens)}")
    for words in dict.fromkeys(_reference(setting, tokens) for setting in settings):
        console.print(words)


def _model(console: Console, setting: Setting) -> None:
    spec, costs = setting.model.spec, setting.costs
    mismatch = f" instead of {spec.d_ff} ({costs.gated_mismatch:+.2%} weights)" if spec.d_hidden != spec.d_ff else ""
    console.print(
        f"model       {spec.activation}, {spec.n_layers} layers, d_model {spec.d_model}, {spec.n_heads} heads, "
        f"feed-forward {spec.d_hidden}{mismatch}, context {spec.context}, vocabulary {spec.vocab_size}"
    )
    console.print(
        f"parameters  {costs.parameters:,} ({costs.non_embedding:,} without embeddings); "
        f"{costs.flops_per_token / 1e6:,.1f} MFLOP per token, forward and backward"
    )


def _reference(setting: Setting, tokens: TokenCache) -> str:
    """What a loss is to be set beside."""
    if setting.majority is not None and tokens.labels is not None:
        known = setting.majority
        return (
            f"majority    accuracy {known.accuracy:.4f}, macro F1 {known.macro_f1:.4f}, {known.loss:.4f} "
            f"{setting.objective.unit}: always {tokens.labels.classes[known.label]!r}, the commonest in training"
        )
    if setting.unigram is not None:
        return f"unigram     {setting.unigram:.4f} {setting.objective.unit}: the best loss of who sees no other token"
    if setting.floor is None:
        known = tokens.entropy_nats is not None
        part = "the entropy of this text is known, but its tokens keep only a part of it"
        reason = part if known else "nobody knows the entropy of this text"
        return f"floor       unknown: {reason}"
    if setting.config.data.corruption != "none":
        return f"floor       {setting.floor:.4f} {setting.objective.unit}: the exact Bayes loss of tokens without order"
    return (
        f"floor       {setting.floor:.4f} {setting.objective.unit}: the exact Bayes loss of the validation stories "
        f"(entropy {tokens.entropy_nats:.1f} nats per story)"
    )


def _task(setting: Setting, tokens: TokenCache) -> str:
    """The classes, and how much of the documents a row can hold."""
    assert tokens.labels is not None
    lengths, context = np.diff(tokens.train.starts) - 1, setting.config.model.context
    cut = (lengths > context - 2).mean()
    lost = f"; the beginning of {cut:.0%} does not fit into {context} with the two marks" if cut else ""
    return (
        f"{tokens.labels.task}: {' or '.join(tokens.labels.classes)}; documents of {lengths.mean():.0f} tokens, "
        f"the longest {lengths.max()}{lost}"
    )


def sample(console: Console, setting: Setting, tokens: TokenCache, state: Any) -> None:
    """A document that the first lane writes."""
    params = jax.tree.map(lambda array_R: array_R[0], state.params)
    text = generation.write_text(setting.model, params, tokens.tokenizer, seed=setting.config.seed)
    console.rule("a sample")
    console.print(text, markup=False)
    console.rule()


def results(console: Console, rows: Sequence[Mapping[str, Any]], path: pathlib.Path, what: str = "") -> None:
    """What the runs came to: a sentence of a single one, a table of more."""
    if len(rows) == 1:
        _single(console, rows[0], what or rows[0]["status"])
    else:
        if what:
            console.print(f"runs        {len(rows)}: {what}")
        _table(console, rows)
    console.print(f"results     {path}/results.csv, {path}/metrics.jsonl")


def _single(console: Console, row: Mapping[str, Any], what: str) -> None:
    console.print(f"run         {row['run']}: {what}")
    if row["status"] == "finished":
        above = float(row["final_loss"]) - float(row["floor"])
        floor = "" if above != above else f"; floor {float(row['floor']):.4f}, {above:.4f} above it"
        console.print(
            f"validation  {float(row['final_loss']):.4f} {UNITS[row['objective']]} after {row['steps']} steps "
            f"(best {float(row['best_loss']):.4f} at step {row['best_step']}){floor}"
        )
        if "macro_f1" in row:
            known = f"(majority {float(row['majority_accuracy']):.4f}, {float(row['majority_macro_f1']):.4f})"
            scores = f"accuracy {float(row['accuracy']):.4f}, macro F1 {float(row['macro_f1']):.4f}"
            console.print(f"{row['task']:<12}{scores} {known}")
    else:
        console.print(f"            the loss was no longer finite at step {row['steps']}: that is its result")


def _table(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    table = Table("run", "status", "steps", "final loss", "best loss", "at step", box=None, pad_edge=False)
    for row in rows:
        losses = (f"{float(row['final_loss']):.4f}", f"{float(row['best_loss']):.4f}")
        table.add_row(row["run"], row["status"], str(row["steps"]), *losses, str(row["best_step"]))
    console.print(table)
