"""What equal runs leave alike in a workdir: rows without the fields that tell times."""

from actlab.workdir.records import Workdir

TIME_FIELDS = ("tokens_per_second", "seconds")  # the only fields of a metrics row that differ between equal runs


def timeless(rows):
    """The rows without times."""
    return [{key: value for key, value in row.items() if key not in TIME_FIELDS} for row in rows]


def metrics(path):
    """The rows of metrics.jsonl without times."""
    return timeless(Workdir(path).metrics())


def results(path):
    """Run -> its row of results.csv without times."""
    return {row["run"]: row for row in timeless(Workdir(path).results())}
