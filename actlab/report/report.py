"""A report: everything about some runs on one page."""

import pathlib
from collections.abc import Sequence

from actlab import page
from actlab.page import Section, Text
from actlab.report import distributions, layers, ranking, rates, runs, samples, text_b, training, verdicts
from actlab.report.study import Study, read


def build(paths: Sequence[pathlib.Path], questions: Sequence[str] = (), n_samples: int = 4) -> str:
    """The page of workdirs or study folders, the same bytes for the same files.

    Args:
        paths: folders, of runs of one data set and tokenizer.
        questions: such as "gelu<relu"; without one whoever comes first is judged.
        n_samples: activations of which text is drawn from a checkpoint.

    Raises:
        UserError: for a folder that holds nothing, a broken file, runs that cannot stand on one page.
    """
    return of(read(paths), questions, n_samples)


def of(study: Study, questions: Sequence[str], n_samples: int) -> str:
    """The page of a study."""
    compared = verdicts.compare(study, questions)
    sections: list[Section] = [
        verdicts.section(study, compared),
        ranking.section(study, compared),
        ranking.cost(study),
        rates.section(study, compared),
        training.section(study),
        layers.section(study),
        distributions.section(study),
        distributions.curvature(study),
        samples.section(study, n_samples),
    ]
    if text_b.is_replication(study):
        sections.append(text_b.section(study))
    sections.append(runs.section(study))
    sections.append(Section("about", "About this page", (Text(f"{_ABOUT} Losses are in {study.unit}."),)))
    return page.render(_title(study), verdicts.progress(study), sections)


_ABOUT = (
    "Written by python -m actlab.report from the folders named under Runs. It holds all its data and loads nothing. "
    "Figures are drawn by Vega-Lite; curves are thinned to at most 600 points."
)


def _title(study: Study) -> str:
    names = ", ".join(source.path.resolve().name for source in study.sources[:3])
    return f"{names}{' and more' if len(study.sources) > 3 else ''}: {', '.join(study.activations)}"
