"""Stories of the grammar that is built in: text of known entropy, in any amount, with labels."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from actlab.data.grammar import stories
from actlab.data.sources import Definition, Example, Source, even_shards
from actlab.errors import UserError
from actlab.files import digest

CORPUS_SEED = 20_240_917
N_HELD_OUT_STORIES = 2_000  # of validation, and as many of test


class StoryGrammar(Definition):
    """`n_stories` training stories."""

    built_in: ClassVar = True
    tasks: ClassVar = {"wish": ("refused", "granted"), "ending": ("sad", "happy")}

    @property
    def folder(self) -> str:
        """See Definition. Each version and size has its own."""
        return f"{self.name}_v{stories.VERSION.replace('.', '_')}_{self.n_stories}"

    def hash(self, given: Path | None) -> str:
        """See Definition."""
        if given is not None:
            raise UserError(f"--from={str(given)!r} does not go with {self.name}, which is built in: leave it out.")
        return digest([stories.VERSION, CORPUS_SEED, self.n_stories, N_HELD_OUT_STORIES])

    def open(self, directory: Path, given: Path | None, *, show: bool) -> Source:
        """See Definition."""
        counts = {"train": self.n_stories, "validation": N_HELD_OUT_STORIES, "test": N_HELD_OUT_STORIES}
        drawn = stories.splits(CORPUS_SEED, counts)

        def examples(split: str) -> Iterator[Example]:
            for story in drawn.pop(split):  # a second reader is refused; it would find nothing
                yield {"text": story.text, "nats": story.nats}

        return Source(
            hash=self.hash(given),
            licence="Apache-2.0",
            description=f"stories from a grammar of known entropy, version {stories.VERSION}",
            shards={split: even_shards(count) for split, count in counts.items()},
            examples=examples,
            entropy_nats=stories.entropy_nats(),
        )

    def labels(self, task: str, split: str, dataset: Any) -> Iterator[int]:
        """See Definition."""
        # The stories are drawn again: reading a story's choices from its text takes five times as long.
        drawn = stories.stories(CORPUS_SEED, split, dataset.n_documents[split])
        return (int(story.choices.granted if task == "wish" else story.choices.happy) for story in drawn)


DEFINITION = StoryGrammar
