"""Text that the best run of each activation writes, side by side."""

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
    found, lacking = _texts(study, count)
    reasons = tuple(Text(f"{run.name} wrote none: {reason}") for run, reason in lacking)
    if not found:
        return Section("samples", title, reasons or (Text("None: no run has ended."),))
    words = (
        "The best run of each activation, from its newest sound checkpoint, temperature 0.8, the same seed of draws."
    )
    parts = tuple((run.name, Code(text)) for run, text in found)
    return Section("samples", title, (Text(words), Side(parts), *reasons))


def _texts(study: Study, count: int) -> tuple[list[tuple[Run, str]], list[tuple[Run, str]]]:
    """The best runs with what they write, and those that write nothing with the reason."""
    found, lacking = [], []
    for run in best(study)[:count]:
        try:
            one = trained.load(run.source.path, run.name)
            found.append((run, generation.write_text(one.model, one.params, one.tokenizer, **_DRAWING)))
        except UserError as error:
            lacking.append((run, str(error)))
    return found, lacking


def best(study: Study) -> list[Run]:
    """The finished run with the lowest loss of each activation, lowest first."""
    lowest: dict[str, tuple[float, Run]] = {}
    for run in study.runs:
        if run.result and run.status == "finished":
            known = lowest.setdefault(run.activation, (run.result.final_loss, run))
            if run.result.final_loss < known[0]:
                lowest[run.activation] = (run.result.final_loss, run)
    return [run for _, run in sorted(lowest.values(), key=lambda entry: entry[0])]
