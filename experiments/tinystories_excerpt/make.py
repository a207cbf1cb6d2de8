"""The excerpt of TinyStories that the committed studies were trained on, from the whole, story by story.

Command: python experiments/tinystories_excerpt/make.py FROM TO
FROM holds TinyStories as .txt files with <|endoftext|> alone on a line after each story, such as the folder
data/downloads/tiny_stories that `python -m actlab data prepare tiny_stories` leaves behind. TO gets train.txt and
valid.txt, to the byte those of the studies: stories.csv has the order and the SHA-256 of every story.
"""

import csv
import hashlib
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from actlab.__main__ import program
from actlab.cli import command
from actlab.data import sources
from actlab.errors import UserError
from actlab.files import write_atomically

LISTED = pathlib.Path(__file__).parent / "stories.csv"
DIGITS = 16  # of the SHA-256, in hex
FILES = {"train": sources.TRAIN_FILE, "validation": sources.VALIDATION_FILE}


@command.entry
def main(argv: Sequence[str]) -> None:
    """Writes both files."""
    words = command.parse(__doc__, argv, n_words=2)
    if len(words) < 2:
        raise UserError("FROM and TO are missing: python experiments/tinystories_excerpt/make.py FROM TO.")
    source, out = map(pathlib.Path, words)
    texts = sources.find_texts(source)
    write(sources.documents([*texts.train, *texts.divided]), listed(LISTED), source, out)
    print(f"{out}: now python -m actlab data prepare tiny_stories --from={out}, with --dir for a folder of its own")


def listed(path: pathlib.Path) -> Mapping[str, Sequence[str]]:
    """Hashes of the stories of each split, in their order."""
    rows = list(csv.DictReader(path.read_text().splitlines()))
    return {split: [row["sha256"] for row in rows if row["split"] == split] for split in FILES}


def write(stories: Iterable[str], wanted: Mapping[str, Sequence[str]], source: pathlib.Path, out: pathlib.Path) -> None:
    """Writes the wanted stories of `source` to a folder, a file for each split.

    Raises:
        UserError: for a story that is not there.
    """
    all_wanted = {one for hashes in wanted.values() for one in hashes}
    found = {key: story for story in stories if (key := digest(story)) in all_wanted}
    missing = len(all_wanted) - len(found)
    if missing:
        raise UserError(
            f"{source} lacks {missing:,} of the {len(all_wanted):,} stories: give TinyStories' text files as published."
        )
    out.mkdir(parents=True, exist_ok=True)
    for split, hashes in wanted.items():
        text = "".join(f"{found[one]}\n{sources.SEPARATOR}\n" for one in hashes)
        write_atomically(out / FILES[split], text)


def digest(story: str) -> str:
    """What stories.csv has of a story."""
    return hashlib.sha256(story.encode()).hexdigest()[:DIGITS]


if __name__ == "__main__":
    program(main)
