"""Text B's table beside ours, where a study repeats it: ReLU and GELU at some of its learning rates."""

import math
from collections.abc import Iterator, Sequence

from actlab.page import Block, Cell, Section, Table, Text
from actlab.report import scales
from actlab.report.study import Run, Study
from actlab.studies.claims import text_b_results as theirs
from actlab.studies.statistics import Effect

# Its columns, and what they most likely are of ours; `Dead %` is not defined there.
_COLUMNS = (
    ("validation loss", theirs.LOSS, "loss"),
    ("dead share, taken as z < 0", theirs.DEAD, "negative_fraction"),
    ("mean output", theirs.MEAN, "post_mean"),
    ("gradient norm, ours the late median", theirs.GRADIENT, "grad_norm_p50"),
)
_SHARED = 2  # learning rates in common that make a study a replication


def is_replication(study: Study) -> bool:
    """Whether a study is of its two activations at its learning rates."""
    return set(study.activations) == set(theirs.LOSS) and len(set(study.rates) & set(theirs.RATES)) >= _SHARED


def section(study: Study) -> Section:
    """Its numbers, one run each, beside ours with intervals over seeds."""
    first = max((run.result for run in study.runs if run.result), key=lambda result: result.steps, default=None)
    scale = (
        f"{first.parameters:,} parameters, {first.steps:,} steps of {first.data} ({first.tokenizer})" if first else "-"
    )
    words = (
        "The text gives one run per cell, at about 10.7 million parameters and 5,000 steps, with warmup, clipping, "
        f"batch size and the meaning of dead not stated. Ours: {scale}; mean over seeds with its 95% interval. Losses "
        "of another tokenizer or size are not comparable as such: compare the order of the two and the differences."
    )
    blocks: list[Block] = [Text(words)]
    for condition in study.conditions:
        columns = (
            "learning rate",
            "activation",
            *(f"{who}: {name}" for name, *_ in _COLUMNS for who in ("text", "ours")),
        )
        at = f" at {condition}" if condition else ""
        rows = list(_rows(study, condition))
        blocks.append(Table(f"text-b-{condition}", columns, rows, f"Text B's table beside ours{at}."))
    return Section("text-b", "Text B's table beside ours", tuple(blocks))


def _rows(study: Study, condition: str) -> Iterator[list[Cell | str]]:
    lanes = study.lanes()
    for index, rate in enumerate(theirs.RATES):
        for name in theirs.LOSS:
            runs = lanes.get((condition, name, rate), [])
            cells: list[Cell | str] = []
            for _, table, field in _COLUMNS:
                cells += [scales.number(table[name][index], ".3g"), _ours(runs, field, condition)]
            yield [Cell(scales.rate(rate), rate), Cell(name, swatch=scales.swatch(name)), *cells]


def _ours(runs: Sequence[Run], field: str, condition: str) -> Cell:
    values = tuple(value for run in runs if (value := _value(run, field)) is not None)
    if not values:
        return Cell("-")
    effect = Effect(values)
    assert effect.mean is not None
    text = f"{effect.mean:.3g}"
    if effect.interval:
        text += f" ({effect.interval.low:.3g} to {effect.interval.high:.3g})"
    one = runs[0]
    return Cell(
        text, effect.mean, "runs-table", scales.words(one.activation, scales.rate(one.learning_rate), condition)
    )


def _value(run: Run, field: str) -> float | None:
    if run.result is None or run.status == "stopped":
        return None
    value = run.result.loss if field == "loss" else float(run.cells.get(field) or "nan")
    return value if math.isfinite(value) else None
