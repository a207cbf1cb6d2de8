"""Text that the best run of each activation writes, side by side."""

from collections.abc import Iterator

from actlab.errors import UserError
from actlab.page import Code, Section, Side, Text
from actlab.report.study import Run, Study
from actlab.studies import trained
from actlab.training import generation

_DRAWING = {"n_tokens": 120, "temperature": 0.8, "seed": 0}


def section(study: Study, count: int) -> Section:
    """Samples of at most `count` activations, those with the lowest loss."""
    title = "Samples"
    if not count:
        return Section("samples", title, (Text("None: --samples=0."),))
    found = list(_texts(study, count))
    if not found:
        words = "None: no decoder has ended whose checkpoint is there and sound."
        return Section("samples", title, (Text(words),))
    words = (
        "The best run of each activation, from its newest sound checkpoint, temperature 0.8, the same seed of draws."
    )
    parts = tuple((run.name, Code(text)) for run, text in found)
    return Section("samples", title, (Text(words), Side(parts)))


def _texts(study: Study, count: int) -> Iterator[tuple[Run, str]]:
    for run in best(study)[:count]:
        try:
            one = trained.load(run.source.path, run.name)
            text = generation.write_text(one.model, one.params, one.tokenizer, **_DRAWING)
        except UserError:
            continue  # no checkpoint, an activation that only its user's code knows, or an encoder
        yield run, text


def best(study: Study) -> list[Run]:
    """The finished run with the lowest loss of each activation, lowest first."""
    lowest: dict[str, tuple[float, Run]] = {}
    for run in study.runs:
        if run.result and run.status == "finished":
            known = lowest.setdefault(run.activation, (run.result.final_loss, run))
            if run.result.final_loss < known[0]:
                lowest[run.activation] = (run.result.final_loss, run)
    return [run for _, run in sorted(lowest.values(), key=lambda entry: entry[0])]
