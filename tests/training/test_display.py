"""What a person sees while cohorts train: true numbers, a table on a terminal, a line per evaluation elsewhere."""

import io

import numpy as np
import pytest
from rich.console import Console

from actlab import models
from actlab.training import display as displays
from actlab.training.live_table import left
from actlab.training.loop import Feed
from actlab.training.objectives import NextToken
from actlab.training.setting import Setting
from actlab.training.traces import Steps
from actlab.training.watcher import Past

NAMES = ("a", "b", "c")
NOTHING = Past((), (), [Steps(np.zeros(0, np.float32), np.zeros(0, np.float32))] * 3)


def setting(tiny, names=NAMES, floor=None):
    windows = np.zeros((1, 4, 9), np.int32)
    objective = NextToken()
    validation = objective.scored(windows, np.ones((1, 4, 8), np.float32))
    feed = Feed(lambda seed, step, rows: windows[0], (1,) * len(names), validation)
    model, costs = models.build(tiny.model), models.Costs(1, 1, 1000, 0.0)
    return Setting(names, (tiny,) * len(names), model, objective, costs, feed, floor, unigram=None)


def taken(*losses):
    return {lane: Steps(np.array([loss], np.float32), np.ones(1, np.float32)) for lane, loss in enumerate(losses)}


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def console(request):
    return Console(file=io.StringIO(), force_terminal=request.param, width=100, highlight=False, soft_wrap=True)


@pytest.fixture
def shown(tiny):
    """Console -> what is printed of a cohort of three lanes, one of which diverges; its table."""

    def show(console):
        one = setting(tiny, floor=0.5)
        with displays.Display(console, 2 * displays.flops(one), many=True) as display:
            watcher = display.cohort("relu", one, 0, peak=1e6)
            watcher.on_begin(NOTHING)
            watcher.on_evaluation(0, np.array([3.0, 3.0, 3.5]))
            watcher.on_steps(3, taken(2.5, 2.25, np.nan), 500.0)
            watcher.on_evaluation(4, np.array([2.0, 1.75, np.nan]))
            table = display._table.make_tasks_table(display._table.tasks)
            watcher.on_end()
        cells = [[*column.cells] for column in table.columns]
        headings = [column.header for column in table.columns]
        rows = [dict(zip(headings, row, strict=True)) for row in zip(*cells, strict=True)]
        return console.file.getvalue(), rows

    return show


def test_a_line_per_evaluation_says_what_happened_with_or_without_a_terminal(console, shown):
    out, _ = shown(console)
    lines = [line for line in out.splitlines() if "validation loss" in line]
    assert len(lines) == 2
    assert "relu  step  0/12  validation loss 3.0000 3.0000 3.5000 nats/token  (2.5000 2.5000 3.0000 above" in lines[0]
    assert "1.7500 nan nats/token" in lines[1] and "1 spike  1 of 3 diverged  500 tokens/s (50% of peak)" in lines[1]
    assert ("cohort" in out) == console.is_terminal, "the table is for terminals"


def test_the_table_has_a_row_per_cohort_and_one_for_all(shown):
    (cohort, whole) = shown(Console(file=io.StringIO(), width=100))[1]
    assert {name: cell for name, cell in cohort.items() if name != "left"} == {
        "cohort": "relu",
        "step": "4/12",
        "loss": "2.250-2.500",
        "best": "1.750",
        "spikes": "1",
        "diverged": "1/3",
        "tokens/s": "500",
        "peak": "50%",
    }
    assert (whole["cohort"], whole["step"]) == ("all", "17%"), "a third of one of two cohorts"


def test_an_unknown_peak_is_left_out(tiny, console):
    one = setting(tiny)
    with displays.Display(console, displays.flops(one), many=False) as display:
        watcher = display.cohort("relu", one, 0, peak=None)
        watcher.on_begin(NOTHING)
        watcher.on_steps(3, taken(2.5, 2.25, 2.0), 500.0)
        watcher.on_evaluation(3, np.array([2.0, 1.75, 2.0]))
        assert "peak" not in [column.header for column in display._table.make_tasks_table(display._table.tasks).columns]
    assert "peak" not in console.file.getvalue()


def test_a_share_above_the_peak_is_not_told(tiny):
    one, console = setting(tiny), Console(file=io.StringIO(), width=100)
    with displays.Display(console, displays.flops(one), many=False) as display:
        watcher = display.cohort("relu", one, 0, peak=1e6)
        watcher.on_begin(NOTHING)
        watcher.on_steps(3, taken(2.5, 2.25, 2.0), 2000.0)
        watcher.on_evaluation(3, np.array([2.0, 1.75, 2.0]))
        assert display._table.tasks[1].fields["cells"][-2:] == ("2,000", "-")
    assert "peak" not in console.file.getvalue()


def test_a_resume_shows_what_was_reached_and_takes_it_for_no_speed(tiny):
    one = setting(tiny)
    row = {"run": "b", "step": 4, "split": "validation", "loss": 1.25, "seconds": 1.0}
    out = {**row, "run": "c", "loss": None, "status": "diverged"}
    steps = [Steps(np.array(series, np.float32), np.ones(len(series), np.float32)) for series in ([2, 2.5], [2], [1])]
    console = Console(file=io.StringIO(), width=100)
    with displays.Display(console, displays.flops(one), many=True) as display:
        watcher = display.cohort("relu", one, 6, peak=None)
        watcher.on_begin(Past((row, out), (), steps))
        cohort, whole = display._table.tasks[1], display._table.tasks[0]
        assert cohort.fields["cells"][:5] == ("6/12", "2.000-2.500", "1.250", "0", "1/3")
        assert whole.fields["cells"] == ("50%",)
        assert left(cohort) == left(whole) == ""


def test_time_left_is_by_flops_done_over_time(tiny):
    now, one = [0.0], setting(tiny)
    console = Console(file=io.StringIO(), get_time=lambda: now[0])
    with displays.Display(console, 3 * displays.flops(one), many=True) as display:
        display.skip(displays.flops(one))
        watcher = display.cohort("relu", one, 0, peak=None)
        watcher.on_begin(NOTHING)
        for step in (3, 6):
            now[0] += 30.0
            watcher.on_steps(step, taken(2.0, 2.0, 2.0), 500.0)
        # The first update only sets the clock going: rich counts what comes after it.
        assert left(display._table.tasks[1]) == "0:01:00"
        assert left(display._table.tasks[0]) == "0:03:00", "one of three was done before, half of one is done now"
        other = display.cohort("gelu", one, 6, peak=None)
        other.on_begin(NOTHING)
        for step in (9, 12):
            now[0] += 30.0
            other.on_steps(step, taken(2.0, 2.0, 2.0), 500.0)
        assert left(display._table.tasks[0]) == "0:01:00", "steps of an earlier session are no speed"


def test_lanes_that_all_diverged_leave_nothing_to_wait_for(tiny):
    one = setting(tiny)
    with displays.Display(Console(file=io.StringIO()), displays.flops(one), many=True) as display:
        watcher = display.cohort("relu", one, 0, peak=None)
        watcher.on_begin(NOTHING)
        watcher.on_steps(3, taken(np.nan, np.nan, np.nan), 500.0)
        watcher.on_end()
        whole = display._table.tasks[0]
        assert whole.completed == pytest.approx(whole.total)
