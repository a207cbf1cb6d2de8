"""Ctrl-C at bad moments, once and twice, and output that cannot be written: a sentence, never a traceback."""

import errno
import gc
import io
import os
import select
import signal
import subprocess
import sys
import threading
import time

import pytest

from actlab import config as config_lib
from actlab.config import replace
from actlab.errors import UserError
from actlab.sweeps import session
from actlab.training.signals import StopSignal
from actlab.workdir.records import Workdir


def test_an_interrupt_that_python_drops_is_remembered(small_sweep, tmp_path, monkeypatch, capfd):
    """Python drops an exception that is raised in a callback of its garbage collector, as JAX has one."""
    dropped = []
    monkeypatch.setattr(sys, "unraisablehook", lambda ignored: dropped.append(ignored.exc_type))

    def interrupt(phase, _):
        if not dropped and phase == "start":
            signal.raise_signal(signal.SIGINT)

    def open_data(*words, whole=session.prepare):
        gc.callbacks.append(interrupt)
        try:
            gc.collect()
        finally:
            gc.callbacks.remove(interrupt)
        return whole(*words)

    monkeypatch.setattr(session, "prepare", open_data)
    # A shell's background ignores it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    handler = signal.getsignal(signal.SIGINT)
    assert session.run(small_sweep, "sweep", tmp_path / "w", ["test"]) == 130
    assert dropped == [KeyboardInterrupt] and signal.getsignal(signal.SIGINT) is handler
    assert not (tmp_path / "w/metrics.jsonl").exists(), "it stops before step 0"
    monkeypatch.undo()
    assert session.run(small_sweep, "sweep", tmp_path / "w", ["test"]) == 0
    signal.signal(signal.SIGINT, before)


# After the first signal a save, and the end that waits for saves, take a minute: a second signal comes before.
PROGRAM = """
import signal, time
from actlab import __main__, main
from actlab.training.checkpoint import Checkpoints

def slow(name):
    whole = getattr(Checkpoints, name)

    def slowly(*args, **more):
        if signal.getsignal(signal.SIGINT) == signal.SIG_DFL and SLOW:
            time.sleep(60)
        return whole(*args, **more)

    setattr(Checkpoints, name, slowly)

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
slow("save"), slow("close")
__main__.program(main.main)
"""


@pytest.fixture
def begin(small_sweep, tmp_path):
    """Starts a training that does not end, and gives (process, its rows)."""

    def begin(slow=False, **streams):
        config = replace(small_sweep, **{"train.n_steps": 10**8})
        (tmp_path / "long.json").write_text(config_lib.to_json(config))
        words = [f"--config={tmp_path / 'long.json'}", f"--workdir={tmp_path / 'w'}"]
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("SLOW", str(slow)), *words],
            **{"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True} | streams,
        )

    return begin


def wait_for_rows(process, workdir):
    metrics = workdir / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and metrics.read_text().count("\n") > 40):
        time.sleep(0.02)


@pytest.mark.parametrize("times", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_ctrl_c_while_it_trains(begin, tmp_path, times):
    process = begin(slow=times == 2)
    wait_for_rows(process, tmp_path / "w")
    process.send_signal(signal.SIGINT)
    assert process.stderr.readline() == "\n"
    assert process.stderr.readline().startswith("stopping "), "it is said at once"
    if times == 2:
        process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == (130 if times == 1 else -signal.SIGINT) and "Traceback" not in said


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_it_saves_though_nobody_reads_what_it_says(begin, tmp_path, number):
    """As after Ctrl-C in `actlab train ... 2>&1 | tee LOG`, which ends tee at once."""
    process = begin()
    wait_for_rows(process, tmp_path / "w")
    process.stderr.close()
    process.send_signal(number)
    assert process.wait(timeout=120) == 128 + number and list((tmp_path / "w/checkpoints").glob("*/*"))


def test_it_saves_when_its_terminal_hangs_up(begin, tmp_path):
    ours, theirs = os.openpty()
    process = begin(stdout=theirs, stderr=theirs, stdin=subprocess.DEVNULL)
    os.close(theirs)
    metrics = tmp_path / "w/metrics.jsonl"
    while not (metrics.is_file() and metrics.read_text().count("\n") > 40):  # read, or the terminal would be full
        if select.select([ours], [], [], 0.02)[0]:
            os.read(ours, 65536)
    os.kill(process.pid, signal.SIGSTOP)  # so that it writes nothing between the two
    os.close(ours)
    for number in (signal.SIGHUP, signal.SIGCONT):
        os.kill(process.pid, number)
    assert process.wait(timeout=120) == 129 and list((tmp_path / "w/checkpoints").glob("*/*"))


@pytest.mark.parametrize("words", [[], ["validate", "--help"], ["data", "list"]])
def test_output_that_cannot_be_written_is_one_sentence(words):
    line = [sys.executable, "-m", "actlab", *words]
    with open("/dev/full", "w") as full:
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "standard output" in done.stderr and "No space left on device" in done.stderr


def test_training_whose_output_cannot_be_written_ends_with_one_sentence(begin):
    with open("/dev/full", "w") as full:
        process = begin(stdout=full)
        said = process.communicate(timeout=120)[1]
    assert process.returncode == 2 and "Traceback" not in said
    assert "standard output cannot be written (No space left on device)" in said.splitlines()[-1]


@pytest.mark.parametrize("words", ["Event loop is closed", "another fault"])
def test_writes_that_outlive_a_failed_save_say_nothing(words):
    """They report to a loop that orbax has closed, from where no exception can be raised."""
    code = f"""
from actlab import __main__

class Write:
    def __del__(self):
        raise RuntimeError({words!r})

__main__.program(lambda: Write() and 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ("Traceback" in done.stderr) == (words == "another fault")


@pytest.mark.parametrize("words", [[], ["data", "list"]])
def test_a_reader_that_closes_the_pipe_ends_the_command_without_a_word(words):
    out, into = os.pipe()
    os.close(out)
    line = [sys.executable, "-m", "actlab", *words]
    with os.fdopen(into, "w") as closed:
        done = subprocess.run(line, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 141 and not done.stderr


def test_a_training_may_run_in_a_thread_that_gets_no_signals():
    stopped = []

    def train():
        with StopSignal(later=True) as stop:
            stop.hold()
            stopped.append(stop())

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert stopped == [False]


def test_an_ignored_interrupt_stays_ignored_as_in_a_shells_background():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with StopSignal(later=True) as stop:
            stop.hold()
            os.kill(os.getpid(), signal.SIGINT)
            assert not stop() and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop()
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_terminal_that_hangs_up_may_say_so_twice():
    with StopSignal(later=True) as stop:
        stop.hold()
        stop._terminals = []  # ours stays
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGHUP)
            assert stop() and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


class Output(io.StringIO):
    """Standard output on a disk that may be full."""

    is_full = False

    def flush(self):
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("is_full", "error"), [(True, OSError), (False, UserError)])
def test_what_cannot_be_printed_is_not_blamed_on_the_workdir(tmp_path, monkeypatch, is_full, error):
    output = Output()
    output.is_full = is_full
    monkeypatch.setattr(sys, "stdout", output)
    with pytest.raises(error, match="Input/output error"), Workdir(tmp_path).writing():
        raise OSError(errno.EIO, "Input/output error")
