"""The text of the arm `code`: the Python source files of jax, flax and optax, a document each, as JSON Lines.

Command: python experiments/gates/python_code.py FILE.jsonl
Their wheels are the same on every machine, so a version has one text. Left out is jax's internal_test_util, which holds
compiled programs written out as bytes.
"""

import json
import pathlib
from collections.abc import Sequence
from importlib import metadata

from actlab.__main__ import program
from actlab.cli import command
from actlab.errors import UserError
from actlab.files import write_atomically

VERSIONS = {"jax": "0.10.2", "flax": "0.12.8", "optax": "0.2.8"}  # those of the committed rows


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes the file."""
    words = command.parse(__doc__, argv, n_words=1)
    if not words:
        raise UserError("FILE.jsonl is missing: python experiments/gates/python_code.py FILE.jsonl.")
    for package, version in VERSIONS.items():
        if (found := metadata.version(package)) != version:
            raise UserError(
                f"{package} {found} is installed, but the study reads {version}: pip install {package}=={version}."
            )
    files = [file for package in VERSIONS for file in metadata.files(package) or () if file.suffix == ".py"]
    kept = sorted((file for file in files if "internal_test_util" not in file.parts), key=str)
    out = pathlib.Path(words[0])
    write_atomically(out, "".join(json.dumps({"text": file.read_text(encoding="utf-8")}) + "\n" for file in kept))
    print(f"{out}: {len(kept)} files; now python -m actlab data prepare python_code --from={out}")


if __name__ == "__main__":
    program(main)
