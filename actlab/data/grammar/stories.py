"""Children's stories from a probabilistic grammar whose entropy is known exactly: the corpus that is built in.

A story is a path through the rules of stories.txt. Each choice takes one of the alternatives that the facts settled so
far leave open. Probabilities are whole numbers of 256ths, so one byte of a hash makes one choice, without bias and on
every machine. Alternatives form a prefix code: none of them, written out up to the next choice (or the end), is a
prefix of another. So a text has at most one derivation, the end of a story costs nothing to predict, and

    p(story) = product of p(choice | facts),   H = -sum p log p = sum over choices of E[H(choice | facts)] nats/story.

The Bayes floor: on stories of the grammar no predictor has an expected loss below H, and the grammar itself has H. The
SHA-256 of a story's text decides its split, so training, validation and test are disjoint whatever the seeds. To a
predictor that cannot compute the hash a split is a fair sample. One that could would lower its loss by -log P(split),
about log 16 = 2.77 nats per story of validation or of test, and by no more; but no training data teaches the hash, and
training stories teach the opposite, that stories of those two buckets never occur. So the floor of a loss is H or, with
less noise, the mean `nats` of the stories that the loss was taken on.
"""

from __future__ import annotations

import hashlib
import operator
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, reduce
from itertools import count
from pathlib import Path
from types import MappingProxyType

from actlab.data.grammar.rules import SHARES, Choice, Facts, Phrase, Rule, read_rules

VERSION = "2.0.0"  # of the stories and their splits: another version is another dataset
RULES = Path(__file__).parent / "stories.txt"
# Facts that follow from another fact.
IMPLIED = {
    ("sex", "she"): {"he": "she", "him": "her", "his": "her"},
    ("sex", "he"): {"he": "he", "him": "him", "his": "his"},
}
BUCKETS = 16  # of the texts' hashes
HELD_OUT = {0: "validation", 1: "test"}  # the split of a bucket; the others are training
LONGEST = 96  # bytes drawn for a story; no story has more choices


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices that made a story, in order, and the facts that they settled."""

    path: tuple[Choice, ...]
    facts: Facts = field(compare=False)

    @property
    def granted(self) -> bool:
        """Whether the hero's wish comes true."""
        return self.facts["granted"] == "yes"

    @property
    def happy(self) -> bool:
        """Whether the story ends happily (likely, but not certain, when the wish comes true)."""
        return self.facts["happy"] == "yes"


@dataclass(frozen=True, slots=True)
class Story:
    """A story: its text, the choices that made it, and `nats` = -log p(story)."""

    text: str
    choices: Choices
    nats: float


@dataclass(slots=True, eq=False)
class Node:
    """A place in a story: some text, then a choice and the place behind it, or (rule None) the end."""

    text: str
    rule: Rule | None = None
    rest: Node | None = None
    live: tuple[str, ...] = ()
    entries: dict[Phrase | Rule | str, Node] = field(default_factory=dict)

    def enter(self, phrase: Phrase) -> Node:
        """The place from which `phrase` leads to this one. Phrases that end alike share places."""
        node = self.entries.get(phrase)
        if node is None:
            node = self
            for part in reversed(phrase.parts):
                node = node.entries.get(part) or node._before(part)
            self.entries[phrase] = node
        return node

    def _before(self, part: str | Rule) -> Node:
        if isinstance(part, str):
            node = Node(part + self.text, self.rule, self.rest, self.live)
        else:
            node = Node("", part, self, tuple(sorted(reach(part).union(self.live))))
        self.entries[part] = node
        return node


@cache
def reach(rule: Rule) -> frozenset[str]:
    """The facts on which the choice of a rule, or any choice inside its alternatives, depends."""
    inner = [part for line in rule.lines for phrase in line.phrases for part in phrase.parts if isinstance(part, Rule)]
    return frozenset(rule.given).union(*(reach(part) for part in inner))


def added(terms: Iterable[float]) -> float:
    """The sum from left to right. The built-in one rounds otherwise since Python 3.12, which fingerprints would see."""
    return reduce(operator.add, terms, 0.0)


class Grammar:
    """Rules read from text. Generation and entropy walk the same graph of `Node`s."""

    def __init__(self, rules: str, implied: Mapping[tuple[str, str], Facts] = MappingProxyType({})) -> None:
        self.rules = read_rules(rules, implied)
        self.root = Node("").enter(Phrase((next(iter(self.rules.values())),), {}, ""))

    def draw(self, stream: bytes) -> Story:
        """The story that the bytes choose. Raises ValueError if there are too few of them."""
        node, facts, pieces, path = self.root, {}, [], []
        for byte in stream:
            if node.rule is None or node.rest is None:
                break
            choice = node.rule.table(facts).by_byte[byte]
            facts.update(choice.phrase.facts)
            node = node.rest.enter(choice.phrase)
            pieces.append(node.text % facts)
            path.append(choice)
        if node.rule is not None:
            raise ValueError(f"{len(stream)} bytes are too few for this story.")
        return Story("".join(pieces), Choices(tuple(path), facts), added(choice.nats for choice in path))

    @cached_property
    def entropy(self) -> float:
        """H = sum over choices of E[H(choice | facts)], in nats/story, from the ends of stories backwards.

        Places that differ in no live fact, one that a later choice depends on, share their value.
        """
        known: dict[object, float] = {(None, None): 0.0}

        def remaining(rule: Rule, rest: Node, facts: Facts) -> float:
            options: list[tuple[Choice, float]] = []
            for choice in rule.table(facts).options:
                node, settled = rest.enter(choice.phrase), choice.phrase.facts
                key = (node.rule, node.rest, *[settled.get(name) or facts.get(name) for name in node.live])
                if node.rule and node.rest and key not in known:
                    merged = {**facts, **settled}
                    live = {name: merged[name] for name in node.live if name in merged}
                    known[key] = remaining(node.rule, node.rest, live)
                options.append((choice, known[key]))
            return added(choice.share / SHARES * (choice.nats + after) for choice, after in options)

        assert self.root.rule and self.root.rest
        return remaining(self.root.rule, self.root.rest, {})


@cache
def grammar() -> Grammar:
    """The grammar of stories.txt, read once per process."""
    return Grammar(RULES.read_text(encoding="utf-8"), IMPLIED)


def story(seed: int, i: int) -> Story:
    """The i-th story of a seed: the same on every machine, process and Python version."""
    return grammar().draw(hashlib.shake_256(f"story {seed} {i}".encode()).digest(LONGEST))


def bucket(text: str) -> int:
    """The SHA-256 bucket, 0..15, of a story's text."""
    return hashlib.sha256(text.encode()).digest()[0] % BUCKETS


def split_of(text: str) -> str:
    """The split of a story: "validation" for bucket 0, "test" for bucket 1, "train" for the others."""
    return HELD_OUT.get(bucket(text), "train")


def stories(seed: int, split: str, n: int) -> Iterator[Story]:
    """The first n stories of "train", "validation" or "test", in order of i. Raises ValueError on another split.

    The split is a function of the text alone, so no story is in two of them, under any seeds.
    """
    return splits(seed, {split: n})[split]


def splits(seed: int, counts: Mapping[str, int]) -> dict[str, Iterator[Story]]:
    """As `stories`, of several splits at once: each story is drawn once, and waits where another split is read first.

    Drawn for each split alone, those of validation and test take sixteen times as many draws as they have stories.
    """
    if unknown := counts.keys() - {"train", *HELD_OUT.values()}:
        raise ValueError(f"Unknown split {min(unknown)!r}: take 'train', 'validation' or 'test'.")
    drawn, missing = (story(seed, i) for i in count()), dict(counts)
    waiting: dict[str, deque[Story]] = {split: deque() for split in counts}

    def of(split: str) -> Iterator[Story]:
        for _ in range(counts[split]):
            while not waiting[split]:
                drawn_next = next(drawn)
                its_split = split_of(drawn_next.text)
                if missing.get(its_split):
                    missing[its_split] -= 1
                    waiting[its_split].append(drawn_next)
            yield waiting[split].popleft()

    return {split: of(split) for split in counts}


def entropy_nats() -> float:
    """The exact entropy H of a story, in nats/story."""
    return grammar().entropy
