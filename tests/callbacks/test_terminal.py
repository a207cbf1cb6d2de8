"""What a person sees while programs train: true numbers, a table on a terminal, a line per evaluation elsewhere."""

import io

import numpy as np
import pytest
from hypothesis import given, strategies as st
from rich.console import Console

from actlab.callbacks import ResumeContext, terminal
from actlab.callbacks.terminal import Shown, ShownLane, Tally, by_place, left
from actlab.workdir.traces import SpikeCount, Steps, summary

NAMES = ("a", "b", "c")
NOTHING = ResumeContext((), (), [Steps(np.zeros(0, np.float32), np.zeros(0, np.float32))] * 3)


def described(label="relu", names=NAMES, floor=None):
    """Twelve steps of 32 tokens at 1000 FLOPs each."""
    flops = 12 * 32 * 1000.0 * len(names)
    lanes = tuple(
        ShownLane(f"learning_rate={rate:g}", seed) for rate, seed in zip((1e-3, 1e-3, 3e-3), (1, 2, 1), strict=True)
    )
    return Shown(label, names, 12, flops, 1000.0, "nats/token", floor, lanes)


def taken(*losses):
    return {lane: Steps(np.array([loss], np.float32), np.ones(1, np.float32)) for lane, loss in enumerate(losses)}


@pytest.fixture(params=[True, False], ids=["terminal", "file"])
def console(request):
    return Console(file=io.StringIO(), force_terminal=request.param, width=100, highlight=False, soft_wrap=True)


@pytest.fixture
def shown():
    """Console -> what is printed of a program of three lanes, one of which diverges; its table."""

    def show(console):
        one = described(floor=0.5)
        with terminal.Display(console, 2 * one.flops, many=True) as display:
            callback = display.program(one, 0, peak=1e6)
            callback.on_begin(NOTHING)
            callback.on_evaluation(0, np.array([3.0, 3.0, 3.5]))
            callback.on_steps(3, taken(2.5, 2.25, np.nan), 500.0)
            callback.on_evaluation(4, np.array([2.0, 1.75, np.nan]))
            table = display._table.make_tasks_table(display._table.tasks)
            callback.on_end()
        cells = [[*column.cells] for column in table.columns]
        headings = [column.header for column in table.columns]
        rows = [dict(zip(headings, row, strict=True)) for row in zip(*cells, strict=True)]
        return console.file.getvalue(), rows

    return show


def test_a_line_per_evaluation_says_what_happened_with_or_without_a_terminal(console, shown):
    out, _ = shown(console)
    lines = [line.strip() for line in out.splitlines()]
    first, last = (line for line in lines if "validation loss" in line)
    assert first.endswith("relu  step  0/12  validation loss in nats/token, floor 0.5000")
    assert "1 spike  1 of 3 diverged  500 tokens/s (50% of peak)" in last
    assert [line[line.index("learning_rate") :] for line in lines if "learning_rate" in line] == [
        "learning_rate=0.001: seed 1 3.0000, seed 2 3.0000",
        "learning_rate=0.003: seed 1 3.5000",
        "learning_rate=0.001: seed 1 2.0000, seed 2 1.7500",
        "learning_rate=0.003: seed 1 nan",
    ]
    assert ("program" in out) == console.is_terminal, "the table is for terminals"


def test_a_lane_that_diverged_has_no_loss_though_it_is_evaluated(console):
    one = described(floor=0.5)
    with terminal.Display(console, one.flops, many=False) as display:
        callback = display.program(one, 0, peak=None)
        callback.on_begin(NOTHING)
        callback.on_steps(3, taken(2.5, 2.25, np.nan), 500.0)
        callback.on_evaluation(4, np.array([2.0, 1.75, 7.25]))
    out = console.file.getvalue()
    assert "1 of 3 diverged" in out and "7.25" not in out and "nan" in out


def test_a_run_that_diverged_is_not_above_its_floor(console):
    one = described(names=NAMES[:1], floor=0.5)
    with terminal.Display(console, one.flops, many=False) as display:
        callback = display.program(one, 0, peak=None)
        callback.on_begin(NOTHING._replace(steps=NOTHING.steps[:1]))
        callback.on_evaluation(0, np.array([3.0]))
        callback.on_evaluation(4, np.array([np.nan]))
    out = console.file.getvalue()
    assert out.count("above the floor") == 1 and "2.5000 above" in out and "1 of 1 diverged" in out


def test_the_table_has_a_row_per_program_and_one_for_all(shown):
    (program, whole) = shown(Console(file=io.StringIO(), width=100))[1]
    assert {name: cell for name, cell in program.items() if name != "left"} == {
        "program": "relu",
        "step": "4/12",
        "loss": "2.250-2.500",
        "best": "1.750",
        "spikes": "1",
        "diverged": "1/3",
        "tokens/s": "500",
        "peak": "50%",
    }
    assert (whole["program"], whole["step"]) == ("all", "17%"), "a third of one of two programs"


@pytest.mark.parametrize(("peak", "speed", "cells"), [(None, 500.0, ("0/3", "500")), (1e6, 2000.0, ("2,000", "-"))])
def test_the_share_of_the_peak_is_left_out_where_the_peak_is_unknown_or_exceeded(peak, speed, cells):
    one, console = described(), Console(file=io.StringIO(), width=100)
    with terminal.Display(console, one.flops, many=False) as display:
        callback = display.program(one, 0, peak)
        callback.on_begin(NOTHING)
        callback.on_steps(3, taken(2.5, 2.25, 2.0), speed)
        callback.on_evaluation(3, np.array([2.0, 1.75, 2.0]))
        assert display._table.tasks[1].fields["cells"][-2:] == cells
        headings = [column.header for column in display._table.make_tasks_table(display._table.tasks).columns]
        assert ("peak" in headings) == (peak is not None)
    assert "peak" not in console.file.getvalue()


def test_a_resume_shows_what_was_reached_and_takes_it_for_no_speed():
    one = described()
    row = {"run": "b", "step": 4, "split": "validation", "loss": 1.25, "seconds": 1.0}
    out = {**row, "run": "c", "loss": None, "status": "diverged"}
    steps = [Steps(np.array(series, np.float32), np.ones(len(series), np.float32)) for series in ([2, 2.5], [2], [1])]
    console = Console(file=io.StringIO(), width=100)
    with terminal.Display(console, one.flops, many=True) as display:
        callback = display.program(one, 6, peak=None)
        callback.on_begin(ResumeContext((row, out), (), steps))
        program, whole = display._table.tasks[1], display._table.tasks[0]
        assert program.fields["cells"][:5] == ("6/12", "2.000-2.500", "1.250", "0", "1/3")
        assert whole.fields["cells"] == ("50%",)
        assert left(program) == left(whole) == ""


def test_time_left_is_by_flops_done_over_time():
    now, one = [0.0], described()
    console = Console(file=io.StringIO(), get_time=lambda: now[0])
    with terminal.Display(console, 3 * one.flops, many=True) as display:
        display.skip(one.flops)
        callback = display.program(one, 0, peak=None)
        callback.on_begin(NOTHING)
        for step in (3, 6):
            now[0] += 30.0
            callback.on_steps(step, taken(2.0, 2.0, 2.0), 500.0)
        # The first update only sets the clock going: rich counts what comes after it.
        assert left(display._table.tasks[1]) == "0:01:00"
        assert left(display._table.tasks[0]) == "0:03:00", "one of three was done before, half of one is done now"
        other = display.program(one._replace(label="gelu"), 6, peak=None)
        other.on_begin(NOTHING)
        for step in (9, 12):
            now[0] += 30.0
            other.on_steps(step, taken(2.0, 2.0, 2.0), 500.0)
        assert left(display._table.tasks[0]) == "0:01:00", "steps of an earlier session are no speed"


def test_lanes_that_all_diverged_leave_nothing_to_wait_for():
    one = described()
    with terminal.Display(Console(file=io.StringIO()), one.flops, many=True) as display:
        callback = display.program(one, 0, peak=None)
        callback.on_begin(NOTHING)
        callback.on_steps(3, taken(np.nan, np.nan, np.nan), 500.0)
        callback.on_end()
        whole = display._table.tasks[0]
        assert whole.completed == pytest.approx(whole.total)


def series(seed, n, spikes):
    values = np.random.default_rng(seed).normal(3.0, 0.1, (2, n)).astype(np.float32)
    for index in spikes:
        values[index % 2, index] += 5
    return values


@given(cuts=st.lists(st.integers(0, 400), max_size=12))
def test_spikes_counted_call_by_call_are_those_of_the_whole_series(cuts):
    whole = series(1, 400, (127, 128, 129, 200, 330, 399))
    whole[0, -1] = np.nan
    count = SpikeCount()
    for part in np.split(whole, sorted(cuts), axis=1):
        count.add(*part)
    assert count.n == summary(*whole)["spikes"] >= 4


def begun(steps, rows=()):
    tally = Tally(["a", "b"])
    tally.on_begin(ResumeContext(rows, (), steps))
    return tally


def test_a_session_that_goes_on_stands_where_one_that_never_stopped_would():
    lanes = [Steps(*series(seed, 300, (150, 250))) for seed in (1, 2)]
    at = lambda steps, part: Steps(steps.loss_S[part], steps.grad_norm_S[part])
    rows = [{"run": run, "split": "validation", "step": 10, "loss": loss} for run, loss in (("a", 2.0), ("b", 1.5))]
    resumed = begun([at(steps, slice(200)) for steps in lanes], rows)
    resumed.on_steps(300, {lane: at(steps, slice(200, 300)) for lane, steps in enumerate(lanes)}, 1.0)
    whole = begun(lanes, rows)
    assert resumed.spikes == whole.spikes == 4 and resumed.best == whole.best == 1.5
    np.testing.assert_array_equal(resumed.loss_R, whole.loss_R)


def test_a_lane_may_diverge_in_training_or_at_an_evaluation_and_stays_out():
    tally = begun([Steps(*series(1, 0, ()))] * 2)
    tally.on_steps(1, {0: Steps(*np.float32([[np.inf], [1]])), 1: Steps(*np.float32([[2], [1]]))}, 1.0)
    assert tally.diverged_R.tolist() == [True, False]
    np.testing.assert_array_equal(tally.loss_R, [np.nan, 2])
    tally.on_evaluation(1, np.array([1.0, 3.0]))
    assert tally.best == 3.0, "a frozen lane's loss is none"
    tally.on_evaluation(2, np.array([1.0, np.inf]))
    assert tally.diverged_R.all() and tally.best == 3.0 and np.isnan(tally.validation_R).all()


def test_many_seeds_are_told_by_their_range_and_a_single_place_without_its_name():
    lanes = [ShownLane("", seed) for seed in range(8)]
    assert by_place(lanes, np.array([1.5, *[1.25] * 6, np.nan])) == ["1.2500 to 1.5000, 8 seeds"]
    assert by_place(lanes, np.full(8, np.nan)) == ["nan, 8 seeds"]
    assert by_place(lanes[:2], np.array([1.0, 2.0])) == ["seed 0 1.0000, seed 1 2.0000"]


def test_a_status_line_tells_what_trains_on_a_terminal_and_leaves_a_file_empty(console):
    with terminal.StatusLine(console) as line:
        line.program(described(), 0, None).on_steps(5, taken(1.0, 1.0, 1.0), 100.0)
        console.print("a line")
    printed = console.file.getvalue()
    assert ("training a, b, c: step 5/12" in printed) == console.is_terminal
    assert console.is_terminal or printed == "a line\n"
