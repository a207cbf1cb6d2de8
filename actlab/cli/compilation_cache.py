"""Where JAX keeps compiled programs between the commands of a user."""

import hashlib
import os
import pathlib
import platform
import re
import sys
import time
import warnings

from actlab.files import cpuinfo

_MOST_BYTES = 2**31  # of compiled programs; the least recently used goes first
_WRITING = 60  # seconds after which no process still writes a compiled program


def keep_programs() -> None:
    """Lets JAX keep compiled programs in the user's cache folder, where it has not been told otherwise.

    Each kind of processor has a folder of its own: a program may use instructions that another lacks. A program that
    cannot be read or kept is compiled, which costs time only.
    """
    if "jax" in sys.modules:
        return
    given = os.environ.get("XDG_CACHE_HOME", "")
    cache = pathlib.Path(given if os.path.isabs(given) else os.path.expanduser("~/.cache"))
    if (told := os.environ.get("JAX_COMPILATION_CACHE_DIR")) is not None:
        if pathlib.Path(told).parent != cache / "actlab/compiled":
            return
        # A job has it from the command that launched it, perhaps on another kind of processor.
        del os.environ["JAX_COMPILATION_CACHE_DIR"]
    facts = re.findall(r"^(?:model name|flags|Features)\s*:.*$", cpuinfo(), re.MULTILINE)
    processor = hashlib.sha256("\n".join([platform.machine(), *sorted(set(facts))]).encode()).hexdigest()[:8]
    folder = cache / "actlab/compiled" / processor
    try:
        place = next(one for one in (folder, *folder.parents) if one.exists())
        # Programs are machine code: nobody else may have put them there.
        foreign = place.stat().st_uid != os.getuid() or place.stat().st_mode & 0o002
        if not os.access(place, os.W_OK | os.X_OK) or (foreign and cache in place.parents):
            return
        for program in folder.glob("*-cache"):
            # JAX writes the `-atime` file last. A program without one was not written completely, and JAX could then
            # keep no other. Another process may be writing a young one.
            written = program.with_name(program.name.removesuffix("cache") + "atime").exists()
            if not written and time.time() - program.stat().st_mtime > _WRITING:
                program.unlink(missing_ok=True)
    except OSError:
        return
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache entry")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ.setdefault("JAX_COMPILATION_CACHE_MAX_SIZE", str(_MOST_BYTES))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
