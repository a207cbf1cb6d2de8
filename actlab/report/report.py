"""A report: everything about some runs on one page, and its figures as files."""

import dataclasses
import pathlib
from collections.abc import Sequence

from actlab.report import charts, layers, ranking, runs, training, verdicts
from actlab.report.page import Controls, Section, Text
from actlab.report.page.render import export, figures, render
from actlab.report.study import Study
from actlab.report.verdicts import Compared

_ABOUT = (
    "Written by python -m actlab report from the folders listed under Runs. The page contains all its data and loads "
    "nothing. Vega-Lite draws the figures; curves are thinned to at most 600 points."
)


@dataclasses.dataclass(frozen=True)
class Report:
    """A page: the question, its answer in a sentence, the controls of all figures, the sections."""

    study: Study
    question: str
    answer: str
    bar: Controls
    sections: tuple[Section, ...]

    def html(self) -> str:
        """The text of the HTML file; the same bytes for the same files."""
        return render(self.question, self.answer, self.sections, self.bar)


def build(study: Study, questions: Sequence[str] = (), n_samples: int = 4, baseline: str = "") -> Report:
    """The page of a study. A section without data is left out.

    Args:
        study: read from folders of runs that share a data set and a tokenizer.
        questions: such as "gelu<relu"; without one each activation is compared with the baseline.
        n_samples: the number of activations with a sample of text from a checkpoint.
        baseline: what the others are compared with, see `comparison.compare`.

    Raises:
        UserError: a question or the baseline names an activation that the study lacks.
    """
    compared = verdicts.compare(study, questions, baseline)
    best = best_cells(compared, study)
    shown = charts.Shown(study, _first(compared))
    warnings = tuple(Text(warning, "warning") for warning in verdicts.unfinished(study))
    limits = verdicts.section(study, compared)
    sections = [
        *([ranking.ranking(study, compared, shown), limits] if compared.comparisons else []),
        *ranking.rates(study, compared, shown),
        *training.section(study, shown),
        *([] if compared.comparisons else [limits]),
        *layers.section(study, shown, best),
        *layers.distributions(study, shown),
        *layers.curvature(study, shown),
        *ranking.cost(study, shown),
        *runs.samples(study, n_samples),
        runs.section(study),
        Section("about", "About this page", (Text(f"{_ABOUT} Losses are in {study.unit}."),)),
    ]
    sections[0] = dataclasses.replace(sections[0], blocks=(*warnings, *sections[0].blocks))
    return Report(study, verdicts.question(study), verdicts.lead(study, compared), shown.bar, tuple(sections))


def best_cells(compared: Compared, study: Study) -> set[tuple[str, str, float]]:
    """Condition, activation and best rate of each activation that has one."""
    return {
        (name, standing.activation, standing.best_rate)
        for name, one in compared.by_condition(study).items()
        for standing in one.main.standings
        if standing.best_rate is not None
    }


def _first(compared: Compared) -> tuple[str, ...]:
    """The activations in colour when a page of many opens: the best, the worst and the baseline."""
    if not compared.comparisons:
        return ()
    one = compared.comparisons[0]
    return one.main.standings[0].activation, one.main.standings[-1].activation, one.baseline


def draw(report: Report, folder: pathlib.Path) -> list[pathlib.Path]:
    """Writes the figures of the page as SVG, PNG and PDF, a file for each condition with data; returns the paths."""
    paths, conditions = [], report.study.conditions
    for figure in figures(report.sections):
        tables = [table for table in figure.data.values() if "condition" in table.columns]
        present = {row[table.columns.index("condition")] for table in tables for row in table.rows}
        for name, params in figure.files.items():
            for number, condition in enumerate(conditions, start=1):
                if condition in present:
                    ending = f"-{number}" if len(conditions) > 1 else ""
                    title = ", ".join([*map(str, params.values()), *filter(None, [condition])])
                    paths += export(figure, folder, f"{name}{ending}", title, condition=condition, **params)
    return paths
