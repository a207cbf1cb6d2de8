"""A report: everything about some runs on one page, and its figures as files."""

import pathlib
from collections.abc import Sequence

from actlab.report import layers, ranking, runs, training, verdicts
from actlab.report.page import Figure, Section, Text
from actlab.report.page.render import export, figures, render
from actlab.report.study import Study

_ABOUT = (
    "Written by python -m actlab report from the folders listed under Runs. The page contains all its data and loads "
    "nothing. Vega-Lite draws the figures; curves are thinned to at most 600 points."
)


def page(study: Study, shown: Sequence[Section]) -> str:
    """The text of the HTML file of a study; the same bytes for the same files."""
    names = ", ".join(source.path.resolve().name for source in study.sources[:3])
    more = " and more" if len(study.sources) > 3 else ""
    return render(f"{names}{more}: {', '.join(study.activations)}", verdicts.progress(study), shown)


def sections(study: Study, questions: Sequence[str] = (), n_samples: int = 4) -> list[Section]:
    """The sections of a study's page.

    Args:
        study: read from folders of runs that share a data set and a tokenizer.
        questions: such as "gelu<relu"; without one, the first of the ranking is compared with the others.
        n_samples: the number of activations with a sample of text from a checkpoint.

    Raises:
        UserError: a question names an activation that the study lacks.
    """
    compared = verdicts.compare(study, questions)
    return [
        verdicts.section(study, compared),
        ranking.ranking(study, compared),
        ranking.cost(study),
        ranking.rates(study, compared),
        training.section(study),
        layers.section(study),
        layers.distributions(study),
        layers.curvature(study),
        runs.samples(study, n_samples),
        *([verdicts.text_b(study)] if verdicts.is_replication(study) else []),
        runs.section(study),
        Section("about", "About this page", (Text(f"{_ABOUT} Losses are in {study.unit}."),)),
    ]


def draw(study: Study, shown: Sequence[Section], folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the figures of the page as SVG, PNG and PDF, one file for each condition; returns the paths."""
    paths, known = [], list(study.conditions)
    for figure in figures(shown):
        conditions = _conditions(study, figure)
        for name, params in figure.files.items():
            for number, condition in conditions.items():
                ending = f"-{number}" if len(known) > 1 and condition is not None else ""
                title = ", ".join([*map(str, params.values()), *filter(None, [condition])])
                values = {"condition": known[0] if condition is None else condition, **params}
                paths += export(figure, folder, f"{name}{ending}", title, **values)
    return paths


def _conditions(study: Study, figure: Figure) -> dict[int, str | None]:
    """The conditions that a figure has data of, by number; None for a figure of all conditions together."""
    present = set()
    for table in figure.data.values():
        of_row = [dict(zip(table.columns, row, strict=False)) for row in table.rows]
        present |= {row["condition"] for row in of_row if "condition" in row}
    found = {number: name for number, name in enumerate(study.conditions, start=1) if name in present}
    return dict(found) or {1: None}
