"""comparison.json: what a comparison was asked, the rates that it fixed, and the time that it took."""

import dataclasses
import json
import pathlib
from collections.abc import Sequence

from actlab import config as config_lib
from actlab.adaptive.search import BestRate
from actlab.config import Config
from actlab.errors import UserError
from actlab.files import read_json, write_atomically
from actlab.workdir.records import COMPARISON, JUDGED

_FIX = "restore the file, or choose another workdir"
_MADE = ("answer.json", "index.html", "search", JUDGED)


@dataclasses.dataclass
class Record:
    """What the file says. The number of widths is `scales`; `rates` are None until the search has ended."""

    activations: tuple[str, ...]  # in the order in which they were named first
    config: Config
    scales: int
    rates: dict[str, BestRate] | None = None
    spent: float = 0.0  # seconds, in earlier sessions
    run_seconds: dict[int, float] = dataclasses.field(default_factory=dict)  # of one run, by width

    def write(self, workdir: pathlib.Path, spent: float, budget: float) -> None:
        """Writes it, with the seconds spent by now and the budget."""
        known = {**vars(self), "config": json.loads(config_lib.to_json(self.config)), "spent": spent, "budget": budget}
        known["rates"] = self.rates and {name: dataclasses.asdict(one) for name, one in self.rates.items()}
        workdir.mkdir(parents=True, exist_ok=True)
        write_atomically(workdir / COMPARISON, json.dumps(known, indent=2) + "\n")


def begin(workdir: pathlib.Path, activations: Sequence[str], config: Config, scales: int | None) -> tuple[Record, bool]:
    """The record of a workdir, or a new one, and whether it is there as it is asked for.

    `scales` of None are those of the record, or 1.

    Raises:
        UserError: for a workdir of a training or of another comparison, or with files that no comparison wrote.
    """
    if not (workdir / COMPARISON).is_file():
        if (workdir / "config.json").is_file():
            raise UserError(f"--workdir={workdir} belongs to a training: choose another workdir.")
        if foreign := next((name for name in _MADE if (workdir / name).exists()), None):
            raise UserError(
                f"--workdir={workdir} has {foreign}, which no comparison wrote, since {COMPARISON} is missing: choose "
                "another workdir."
            )
        return Record(tuple(activations), config, 1 if scales is None else scales), False
    record = _read(workdir / COMPARISON)
    if sorted(record.activations) != sorted(activations):
        raise UserError(
            f"--workdir={workdir} compares {', '.join(record.activations)}: name these activations, or choose another "
            "workdir."
        )
    begun = scales in (None, record.scales)
    if record.scales == 1:
        record.scales = 1 if scales is None else scales
    elif not begun:
        # The tests of all widths share their 5%, so that their number is fixed before the first of them.
        raise UserError(
            f"--workdir={workdir} has --scales={record.scales}, not {scales}: leave --scales out to go on, or choose "
            "another workdir."
        )
    if path := config_lib.first_difference(config, record.config):
        ours, theirs = (config_lib.flat(one)[path] for one in (config, record.config))
        raise UserError(
            f"--workdir={workdir} belongs to another comparison: config.{path} is {theirs!r} there and {ours!r} here; "
            "choose another workdir."
        )
    return record, begun


def _read(file: pathlib.Path) -> Record:
    known = read_json(file, _FIX)
    if lacking := sorted({field.name for field in dataclasses.fields(Record)} - known.keys()):
        raise UserError(f"{file} has no {lacking[0]}: {_FIX}.")
    try:
        return Record(
            tuple(known["activations"]),
            config_lib.from_json(json.dumps(known["config"])),
            int(known["scales"]),
            known["rates"] and {name: BestRate(**one) for name, one in known["rates"].items()},
            float(known["spent"]),
            {int(width): float(seconds) for width, seconds in known["run_seconds"].items()},
        )
    except (TypeError, ValueError, AttributeError) as error:
        raise UserError(f"{file} is not as it was written ({error}): {_FIX}.") from error
