"""What a tokenizer is: text to token ids and back, and which ids mean something of their own."""

import abc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Int32

RECORD = "tokenizer.json"

Ids = Int32[np.ndarray, "n"]


class Specials(NamedTuple):
    """Ids of the marks in an encoder's rows; a document is first, its tokens, last, and padding up to the context."""

    first: int
    last: int
    padding: int
    mask: int
    unknown: int | None = None

    def ids(self) -> tuple[int, ...]:
        """All of them, each once, in ascending order."""
        return tuple(sorted({i for i in self if i is not None}))


class Tokenizer(abc.ABC):
    """Text to token ids and back; text never gives `end_of_text`, not even one that spells it."""

    name: str
    vocab_size: int
    end_of_text: int
    lossless: bool = True  # the text follows from its ids

    @property
    @abc.abstractmethod
    def hash(self) -> str:
        """SHA-256, in hex, of all that the ids depend on."""

    @abc.abstractmethod
    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """Token ids of each text."""

    @abc.abstractmethod
    def decode(self, ids: Iterable[int] | np.ndarray) -> str:
        """Text of token ids; bytes that are not UTF-8 become U+FFFD, ids of a padded vocabulary give nothing."""

    @abc.abstractmethod
    def save(self, directory: Path) -> None:
        """Writes the tokenizer to a folder, for `load`."""

    def encode(self, text: str) -> Ids:
        """Token ids of one text."""
        return self.encode_batch([text])[0]

    @property
    def specials(self) -> Specials:
        """Of a tokenizer that has no ids for padding and mask: the two after its own, in a padded vocabulary."""
        return Specials(self.end_of_text, self.end_of_text, self.vocab_size, self.vocab_size + 1)
