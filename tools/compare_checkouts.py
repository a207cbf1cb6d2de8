"""Compares two checkouts through the command line, to show that a refactoring changed nothing.

  python tools/compare_checkouts.py OLD_CHECKOUT NEW_CHECKOUT
  python tools/compare_checkouts.py OLD NEW --part=verdicts,ledger --cache=DIR

Each part turns a checkout into facts, a mapping from names to text, and the facts of both must be equal:

  runs      golden runs of a few seconds (a sweep with runs that diverge, once straight and once stopped by SIGTERM and
            resumed; an encoder; its fine-tuning with labels after a folded swap; a decoder with every other choice),
            what `sample` and `interop` make of them, and one gathered by `launch`: all files, and every array of the
            checkpoints to the bit, but for EXCLUDED
  verdicts  every verdicts.json under experiments/, made again from its table by the command that its README names
  ledger    the claims' verdicts and the numbers in their evidence; changed wording is listed and allowed
  codes     the exit code of every line of golden/commands.txt; where it is 2, stderr has one line, which begins with
            "actlab:", and nothing is written

The checkouts are copied first (what git tracks or would add), so that work in them may go on meanwhile. Commands run in
the interpreter that runs this file, on the CPU. Only `python -m actlab COMMAND` and `python -m actlab.main` are called,
so modules may move. With --cache, facts of an OLD without uncommitted changes are kept, by commit, for the next call.
Exit codes: 0 the same, 1 something differs.
"""

import argparse
import concurrent.futures
import csv
import fcntl
import hashlib
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Facts = dict[str, str]

EXCLUDED = {  # of every file, what differs between equal runs
    "metrics.jsonl": {"seconds", "tokens_per_second"},
    "results.csv": {"seconds", "tokens_per_second"},
    # The last four are digests of files that have seconds in them.
    "manifest.json": {"started", "command", "commit", "device", "python", "packages"}
    | {"sha256", "rows", "files", "origins"},
}
WORDING = " (wording)"  # ends the names of facts that may differ

GOLDEN = pathlib.Path(__file__).parent / "golden"  # the config file of the runs; the table of exit codes
INPUTS = {"broken.json": '{"seed": ', "texts/train.txt": "one story\n", "texts/valid.txt": "another\n"}
STUDY = "experiments/sparsity_control"  # which the exit codes use


Done = subprocess.CompletedProcess[str]


def end(done: Done) -> str:
    """The exit code of a process; where that is not 0, the last thing it said too."""
    said = (done.stderr or done.stdout).strip().splitlines()
    return f"{done.returncode} {said[-1:]}" if done.returncode else "0"


def git(checkout: pathlib.Path, *words: str) -> str:
    """What git prints of a checkout."""
    return subprocess.run(["git", "-C", str(checkout), *words], capture_output=True, text=True, check=True).stdout


class Side:
    """One of the checkouts: a copy of its tree, and a folder for what it makes."""

    def __init__(self, checkout: pathlib.Path, folder: pathlib.Path, compiled: pathlib.Path):
        self._checkout, self.tree, self.work = checkout, folder / "tree", folder / "work"
        self.environment = {
            **{name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "XLA_FLAGS")},
            "PYTHONPATH": str(self.tree),
            "PYTHONIOENCODING": "utf-8",
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", str(compiled)),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        }

    def prepare(self) -> None:
        """Copies the tree, unless that was done before."""
        done = self.work / "whole"  # what was killed before is made again
        if done.is_file():
            return
        for folder in (self.tree, self.work):
            shutil.rmtree(folder, ignore_errors=True)
        for name in git(self._checkout, "ls-files", "-coz", "--exclude-standard").split("\0"):
            if (self._checkout / name).is_file():
                (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(self._checkout / name, self.tree / name)
        (self.work / "texts").mkdir(parents=True, exist_ok=True)
        shutil.copy(GOLDEN / "golden.py", self.work)
        for name, text in INPUTS.items():
            (self.work / name).write_text(text)
        for name in ("configs", "experiments"):
            (self.work / name).symlink_to(self.tree / name)
        done.touch()

    def start(self, words: Sequence[str], folder: pathlib.Path | None = None, **streams: Any) -> subprocess.Popen[str]:
        """Starts a command or a script, in the work folder where no other is named; `main` is a module of its own."""
        first = words[0] if words else ""
        line = ["-m", "actlab.main", *words[1:]] if first == "main" else ["-m", "actlab", *words]
        line = words if first.endswith(".py") else line
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": self.environment, **streams}
        return subprocess.Popen([sys.executable, *line], cwd=folder or self.work, text=True, **streams)

    def run(self, *words: str, folder: pathlib.Path | None = None) -> Done:
        """Runs a command to its end."""
        process = self.start(words, folder)
        out, error = process.communicate()
        return Done(words, process.returncode, out, error)


def runs(side: Side) -> Facts:
    """Trains the golden runs and reads all that they left."""
    for name in ("runs", "data", "out"):
        shutil.rmtree(side.work / name, ignore_errors=True)
    facts: Facts = {}
    for name in ("sweep", "encoder", "labels", "decoder"):
        done = side.run("main", f"--config=golden.py:{name}", f"--workdir=runs/{name}")
        facts[f"{name}: exit code"] = end(done)
        facts |= workdir(side.work / "runs" / name, name)
    again = ("main", "--config=golden.py:sweep", "--workdir=runs/resumed")
    process, metrics = side.start(again), side.work / "runs" / "resumed" / "metrics.jsonl"
    while process.poll() is None and not (metrics.is_file() and '"train"' in metrics.read_text()):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)  # after the first rows, while a program is left to train
    process.communicate()
    facts["sweep, stopped: exit code"] = str(process.returncode)
    facts["sweep, resumed: exit code"] = end(side.run(*again))
    # When a stop comes is chance: what depends on it, by design, is left out. So is the checkpoint before the last.
    resumed = workdir(side.work / "runs" / "resumed", "sweep, resumed")
    chance = ("manifest.json#", "traces.jsonl#", "/12#")
    facts |= {name: value for name, value in resumed.items() if not any(word in name for word in chance)}
    done = side.run("launch", "--config=golden.py:decoder", "--workdir=runs/launched", "--executor=local")
    facts["decoder, launched: exit code"] = end(done)
    for name in ("metrics.jsonl", "results.csv"):
        facts |= table(side.work / "runs" / "launched" / name, f"decoder, launched/{name}")
    words = ("sample", "--workdir=runs/decoder", "--prompt=Once", "--n_tokens=64", "--seed=1")
    facts["decoder: sample"] = repr(side.run(*words).stdout)
    facts["encoder: interop"] = end(side.run("interop", "--workdir=runs/encoder", "--to=out/hf"))
    for path in sorted((side.work / "out" / "hf").glob("*")):
        facts[f"encoder: interop/{path.name}"] = digest(path.read_bytes())
    return facts


def workdir(folder: pathlib.Path, name: str) -> Facts:
    """Facts of every file that a training leaves; `NAME/FILE#PLACE`."""
    facts: Facts = {}
    for file in ("config.json", "manifest.json"):
        if (folder / file).is_file():
            facts |= flat(json.loads((folder / file).read_text()), f"{name}/{file}#", EXCLUDED.get(file, set()))
    for file in ("metrics.jsonl", "traces.jsonl", "results.csv"):
        facts |= table(folder / file, f"{name}/{file}")
    for path in sorted(folder.glob("tokenizer/**/*")):
        if path.is_file():
            facts[f"{name}/tokenizer/{path.name}#"] = digest(path.read_bytes())
    for path in sorted(folder.glob("checkpoints/*/*/default")):
        facts |= checkpoint(path, f"{name}/checkpoints/{path.parent.parent.name}/{path.parent.name}")
    return facts


def table(path: pathlib.Path, name: str) -> Facts:
    """Facts of a file of rows, JSON lines or CSV."""
    if not path.is_file():
        return {f"{name}#": "missing"}
    lines = path.read_text().splitlines()
    rows = list(csv.DictReader(lines)) if path.suffix == ".csv" else [json.loads(line) for line in lines]
    return flat(rows, f"{name}#row ", EXCLUDED.get(path.name, set()))


def flat(value: Any, name: str, without: set[str]) -> Facts:
    """A JSON value as one fact per leaf."""
    if not isinstance(value, dict | list) or not value:
        return {name: repr(value)}
    items = value.items() if isinstance(value, dict) else enumerate(value, 1)
    separator = "" if name.endswith(("#", " ")) else " "
    found = [flat(one, f"{name}{separator}{key}", without) for key, one in items if key not in without]
    return {key: text for facts in found for key, text in facts.items()}


def checkpoint(folder: pathlib.Path, name: str) -> Facts:
    """Facts of the arrays of a checkpoint, as orbax reads them: their bits, not those of the files."""
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no sharding is given
        tree = ocp.PyTreeCheckpointer().restore(folder.absolute())
    facts: Facts = {}
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        facts[f"{name}#{jax.tree_util.keystr(path)}"] = f"{leaf.dtype}{leaf.shape} {digest(np.asarray(leaf).tobytes())}"
    return facts


def digest(content: bytes) -> str:
    """The first digits of its SHA-256."""
    return hashlib.sha256(content).hexdigest()[:16]


def verdicts(side: Side) -> Facts:
    """Makes every verdicts.json again; a fact has its digest, and says whether the committed bytes came out."""
    facts: Facts = {}
    for path in sorted(side.tree.glob("experiments/**/verdicts.json")):
        committed, folder = path.read_bytes(), path.parent.relative_to(side.tree)
        words = ("verdict", str(folder))
        if (path.parent / "decide.py").is_file():
            words = (f"{folder}/decide.py",)
        elif (path.parent / "summary.py").is_file():
            words = (f"{folder}/summary.py", str(folder))
        path.unlink()
        done = side.run(*words, folder=side.tree)
        made = path.read_bytes() if path.is_file() else b""
        same = "as committed" if made == committed else "NOT as committed"
        facts[str(folder)] = f"{digest(made)}, {same}" if made else end(done)
        path.write_bytes(committed)
    return facts


# Not the 2 of GPT-2, the 64 of x86_64 or the 32 of float32.
_NUMBER = re.compile(r"(?<!\w)(?<![A-Za-z]-)[-−+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?")
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def ledger(side: Side) -> Facts:
    """Verdict, numbers and wording of every claim, from the one table that `claims` prints."""
    rows: list[dict[str, str]] = []
    header: list[str] = []
    for line in wide(side, "claims").splitlines():
        if line.startswith("┃"):
            header = [cell.strip() for cell in line.strip("┃").split("┃")]
        elif line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            if cells[0]:
                rows.append(dict(zip(header, cells, strict=True)))
            else:  # a cell of several lines goes on
                rows[-1] = {name: f"{rows[-1][name]} {cell}" for name, cell in zip(header, cells, strict=True)}
    facts = {"number of claims": str(len(rows))}
    for row in rows:
        facts[f"{row['id']} verdict"] = row["verdict"]
        facts[f"{row['id']} numbers"] = " ".join(_NUMBER.findall(row["evidence"]))
        facts[f"{row['id']} evidence{WORDING}"] = row["evidence"]
    facts["questions numbers"] = " ".join(_NUMBER.findall(wide(side, "claims", "--questions")))
    return facts


def wide(side: Side, *words: str) -> str:
    """What a command prints on a terminal so wide that no line is broken."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 100, 32_000, 0, 0))
    environment = {**side.environment, "COLUMNS": "32000", "TERM": "xterm", "NO_COLOR": "1"}
    process = side.start(words, side.tree, stdout=theirs, stderr=subprocess.DEVNULL, env=environment)
    os.close(theirs)
    parts = []
    try:
        while part := os.read(ours, 1 << 16):
            parts.append(part)
    except OSError:  # how a terminal of Linux says that its other end was closed
        pass
    os.close(ours)
    process.wait()
    return _STYLE.sub("", b"".join(parts).decode()).replace("\r\n", "\n")


def codes(side: Side) -> Facts:
    """The exit code of every line; a refusal that is not one line, or that leaves files, says so."""
    shifted = side.work / "out" / "shifted" / "results.csv"
    shifted.parent.mkdir(parents=True, exist_ok=True)
    row = next(csv.DictReader((side.tree / STUDY / "results.csv").read_text().splitlines()))
    with shifted.open("w", newline="") as file:
        writer = csv.DictWriter(file, row)
        writer.writeheader()
        writer.writerow({**row, "seed": "99", "final_loss": "9.0", "best_loss": "9.0"})
    return {line: outcome(side, line) for line in expected()}


def outcome(side: Side, line: str) -> str:
    """The exit code, and what is wrong with a refusal."""
    before = listing(side.work)
    done = side.run(*([] if line == "-" else line.split()))
    faults = []
    if done.returncode == 2:
        said = done.stderr.splitlines()
        if len(said) != 1 or not said[0].startswith("actlab:"):
            faults.append(f"{len(said)} lines on stderr, the last {said[-1:]}")
        if written := sorted(set(listing(side.work).items()) ^ set(before.items())):
            faults.append(f"changed {written[0][0]}")
    if "Traceback" in done.stderr:
        faults.append(f"a traceback, {done.stderr.strip().splitlines()[-1]}")
    return "; ".join([str(done.returncode), *faults])


def listing(folder: pathlib.Path) -> dict[str, float]:
    """Every file of a folder, with the time of its last change; what Python compiles does not count."""
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.stat().st_mtime if path.is_file() else 0.0 for path in paths}


def expected() -> Facts:
    """Command line -> exit code."""
    lines = (GOLDEN / "commands.txt").read_text().splitlines()
    pairs = (line.split(" ", 1) for line in lines if line and not line.startswith("#"))
    return {line: code for code, line in pairs}


PARTS: Mapping[str, Callable[[Side], Facts]] = {"runs": runs, "verdicts": verdicts, "ledger": ledger, "codes": codes}


def measure(side: Side, parts: list[str], folder: pathlib.Path) -> dict[str, tuple[Facts, float]]:
    """The facts of each part and the seconds they took; what the folder has already is not made again."""
    found = {}
    for part in parts:
        kept, began = folder / f"{part}.json", time.monotonic()
        if not kept.is_file():
            side.prepare()
            facts = PARTS[part](side)
            kept.write_text(json.dumps([facts, time.monotonic() - began], indent=1))
        found[part] = tuple(json.loads(kept.read_text()))
    return found


def compare(old: Facts, new: Facts) -> Iterator[tuple[str, str]]:
    """(name, words) of every fact that differs, in the order of the facts."""
    for name in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(name, "missing"), new.get(name, "missing")
        if before != after:
            place = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
            start = max(0, place - 60) if max(len(before), len(after)) > 160 else 0
            yield name, f"{before[start : start + 160]!r} -> {after[start : start + 160]!r}"


def show(title: str, differences: list[tuple[str, str]]) -> None:
    """The differences, those of one file as its first and their number."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for name, words in differences:
        groups.setdefault(name.partition("#")[0], []).append((name, words))
    for group, members in groups.items():
        more = f"  ({len(members)} in {group})" if len(members) > 1 else ""
        print(f"{title}: {members[0][0]}: {members[0][1]}{more}")


def kept_folder(cache: pathlib.Path | None, checkout: pathlib.Path, otherwise: pathlib.Path) -> pathlib.Path:
    """Where OLD's facts are kept: by commit and by this file, since other golden runs have other facts."""
    if cache is None or git(checkout, "status", "--porcelain"):
        return otherwise
    commit = git(checkout, "rev-parse", "HEAD")
    ours = b"".join(path.read_bytes() for path in (pathlib.Path(__file__), *sorted(GOLDEN.glob("*.*"))))
    return cache.absolute() / f"{commit[:12]}-{digest(ours)}"


def main() -> int:
    """Measures both checkouts side by side, prints what differs, returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=pathlib.Path)
    parser.add_argument("new", type=pathlib.Path)
    parser.add_argument("--part", default=",".join(PARTS), help="comma-separated; all by default")
    parser.add_argument("--cache", type=pathlib.Path, help="folder in which OLD's facts are kept between calls")
    arguments = parser.parse_args()
    asked = arguments.part.split(",")
    if unknown := [part for part in asked if part not in PARTS]:
        parser.error(f"--part={unknown[0]} is unknown: choose from {', '.join(PARTS)}")
    # The exit codes need the golden runs' workdirs.
    parts = [part for part in PARTS if part in asked or (part == "runs" and "codes" in asked)]

    with tempfile.TemporaryDirectory() as temporary, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folders = {name: pathlib.Path(temporary) / name for name in ("old", "new")}
        folders["old"] = kept_folder(arguments.cache, arguments.old, folders["old"])
        compiled = (arguments.cache or pathlib.Path(temporary)).absolute() / "compiled"
        jobs = []
        for name, checkout in (("old", arguments.old), ("new", arguments.new)):
            folders[name].mkdir(parents=True, exist_ok=True)
            side = Side(checkout.absolute(), folders[name], compiled)
            jobs.append(pool.submit(measure, side, parts, folders[name]))
        old, new = (job.result() for job in jobs)

    print(f"{'part':10}{'facts':>8}{'differ':>8}{'old, s':>8}{'new, s':>8}")
    different = False
    for part in parts:
        found = list(compare(old[part][0], new[part][0]))
        wrong = [one for one in found if not one[0].endswith(WORDING)]
        unexpected = list(compare(expected(), new[part][0])) if part == "codes" else []
        different |= bool(wrong or unexpected)
        print(f"{part:10}{len(new[part][0]):8}{len(wrong):8}{old[part][1]:8.0f}{new[part][1]:8.0f}")
        show(f"  {part}", wrong)
        show(f"  {part}, expected -> new", unexpected)
        show(f"  {part}, allowed", [one for one in found if one[0].endswith(WORDING)])
        if part == "verdicts":
            for name, value in new[part][0].items():
                print(f"  {name}: old {old[part][0].get(name, 'missing')}; new {value}")
    print("something differs" if different else "the same")
    return int(different)


if __name__ == "__main__":
    sys.exit(main())
