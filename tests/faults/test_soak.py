"""An hour of small training: memory, open files and the time of a step stay flat."""

import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import pytest

from actlab import config as config_lib
from actlab.config import replace

MINUTES = float(os.environ.get("ACTLAB_SOAK_MINUTES", "60"))
N_SAMPLES = 60


# Orbax asks tensorstore for its counters at each save, and tensorstore 0.1.86 frees no answer: 4 KB a call, 18 KB a
# checkpoint. Without that call, what is measured is what actlab keeps.
PROGRAM = """
import tensorstore
tensorstore.experimental_collect_matching_metrics = lambda *args, **kwargs: []
from actlab import __main__, main
__main__.program(main.main)
"""


class Sample(NamedTuple):
    """A process at one time."""

    step: int
    cpu_seconds: float
    resident: int  # bytes
    n_files: int
    n_threads: int


def sample(pid: int, metrics: pathlib.Path) -> Sample:
    """Reads /proc and the last row."""
    folder = pathlib.Path(f"/proc/{pid}")
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    pages = int((folder / "statm").read_text().split()[1])
    with metrics.open("rb") as file:
        file.seek(max(0, metrics.stat().st_size - 4096))
        last = json.loads(file.read().splitlines()[-2])
    n_files, n_threads = (len(list((folder / name).iterdir())) for name in ("fd", "task"))
    return Sample(last["step"], seconds, pages * os.sysconf("SC_PAGE_SIZE"), n_files, n_threads)


@pytest.mark.slow
def test_an_hour_of_training_is_flat(small_sweep, tmp_path):
    changes = {"train.n_steps": 10**8, "train.steps_per_call": 50, "train.log_every": 1000, "train.eval_every": 1000}
    config = replace(small_sweep, **changes, **{"train.checkpoint_every": 1000, "train.probe_every": 5000})
    (tmp_path / "soak.json").write_text(config_lib.to_json(config))
    words = [f"--config={tmp_path / 'soak.json'}", f"--workdir={tmp_path / 'w'}"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, *words], stdout=log, stderr=log)
    metrics = tmp_path / "w" / "metrics.jsonl"
    while not metrics.is_file() or metrics.read_text().count('"step": 3000') < 4:
        assert process.poll() is None, (tmp_path / "log").read_text()
        time.sleep(0.5)
    samples = []
    for _ in range(N_SAMPLES):
        time.sleep(MINUTES * 60 / N_SAMPLES)
        assert process.poll() is None, (tmp_path / "log").read_text()
        samples.append(sample(process.pid, metrics))
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 143
    halves = samples[: N_SAMPLES // 2], samples[N_SAMPLES // 2 :]
    # Of the processor, which other work on the machine does not change much, per thousand steps.
    early, late = ((of[-1].cpu_seconds - of[0].cpu_seconds) / (of[-1].step - of[0].step) * 1e3 for of in halves)
    memory = [statistics.median(one.resident for one in half) / 2**20 for half in halves]
    files = [max(one.n_files for one in half) for half in halves]
    threads = [max(one.n_threads for one in half) for half in halves]
    steps = samples[-1].step
    print(f"{MINUTES:g} minutes, {steps:,} steps: seconds of processor per 1,000 steps {early:.3f}, then {late:.3f}; ")
    print(f"MiB {memory[0]:.0f}, then {memory[1]:.0f}; open files {files}, threads {threads}")
    assert late < 1.15 * early and memory[1] < memory[0] + 20
    assert files[1] <= files[0] + 3 and threads[1] <= threads[0] + 3
