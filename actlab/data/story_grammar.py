"""Children's stories from a probabilistic grammar whose entropy is known exactly: the embedded corpus.

A story is a path through the rules of `story_words`. Each choice takes one of the alternatives that the facts settled
so far leave open, with a probability that is a whole number of 256ths, so one byte of a hash makes one choice without
bias on every machine. Alternatives are a prefix code: none, written out up to the next choice (or the end), is a
prefix of another. So a text has one derivation at most, the end of a story costs nothing to predict, and

    p(story) = product of p(choice | facts),   H = -sum p log p = sum over choices of E[H(choice | facts)] nats/story.

The Bayes floor: no predictor has an expected loss under H on stories of the grammar, and the grammar itself has H.
Training and validation stories are told apart by a SHA-256 of the TEXT, so they are disjoint whatever the seeds. For
anyone who cannot compute the hash a split is a fair sample. A predictor that had learned it could lower its loss by
-log P(validation), about log 16 = 2.77 nats per validation story, and by no more; but no training data can teach it,
and training stories teach the opposite, that stories of the validation bucket never come. The floor to set beside a
validation loss is thus H, or, with less noise, the mean `nats` of the very stories that the loss was taken on.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count, islice
from types import MappingProxyType

from actlab.data.rules import SHARES, Choice, Facts, Phrase, Rule, read_rules
from actlab.data.story_words import IMPLIED, RULES

VERSION = "1.0.0"
BUCKETS = 16
LONGEST = 96


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
        """The place at which this one is reached through `phrase`. Equal ends of phrases share their places."""
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


@cache
def longest(rule: Rule) -> int:
    """A bound on the number of choices that one choice of the rule brings with it, itself included."""
    phrases = [phrase for line in rule.lines for phrase in line.phrases]
    return 1 + max(sum(longest(part) for part in phrase.parts if isinstance(part, Rule)) for phrase in phrases)


# The value of a choice, from its rule and, for each alternative open, the choice and the value of what follows.
Combine = Callable[[Rule, list[tuple[Choice, float]]], float]


class Grammar:
    """Rules read from text. Generation, parsing, probabilities and entropy all walk the same graph of `Node`s."""

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
        return Story("".join(pieces), Choices(tuple(path), facts), sum([choice.nats for choice in path]))

    def openings(self, node: Node, facts: dict[str, str]) -> Iterator[tuple[Choice, str, Node, dict[str, str]]]:
        """For each choice open at `node`: its text up to the next choice (or NUL at the end), and where it leads."""
        if node.rule is None or node.rest is None:
            return
        for choice in node.rule.table(facts).options:
            after, known = node.rest.enter(choice.phrase), facts | choice.phrase.facts
            yield choice, after.text % known + ("" if after.rule else "\0"), after, known

    def derivations(self, text: str) -> Iterator[Choices]:
        """Every way to make `text` (by design at most one): a search of all choices whose text fits."""
        text += "\0"
        paths: list[tuple[Node, dict[str, str], int, tuple[Choice, ...]]] = [(self.root, {}, 0, ())]
        while paths:
            node, facts, at, path = paths.pop()
            if at == len(text):
                yield Choices(path, facts)
            for choice, opening, after, known in self.openings(node, facts):
                if text.startswith(opening, at):
                    paths.append((after, known, at + len(opening), (*path, choice)))

    def parse(self, text: str) -> Choices:
        """The choices that make `text`. Raises ValueError if none do, or (a fault of the grammar) if several do."""
        found = list(self.derivations(text))
        if len(found) != 1:
            raise ValueError(f"Not a story of this grammar ({len(found)} derivations): {text[:60]!r}.")
        return found[0]

    def fold(self, combine: Combine, end: float) -> float:
        """Value of the whole grammar, from the ends backwards; contexts that differ in no live fact are shared."""
        known: dict[object, float] = {(None, None): end}

        def value(rule: Rule, rest: Node, facts: Facts) -> float:
            pairs: list[tuple[Choice, float]] = []
            for choice in rule.table(facts).options:
                node, told = rest.enter(choice.phrase), choice.phrase.facts
                key = (node.rule, node.rest, *[told.get(name) or facts.get(name) for name in node.live])
                if node.rule and node.rest and key not in known:
                    merged = {**facts, **told}
                    live = {name: merged[name] for name in node.live if name in merged}
                    known[key] = value(node.rule, node.rest, live)
                pairs.append((choice, known[key]))
            return combine(rule, pairs)

        assert self.root.rule and self.root.rest
        return value(self.root.rule, self.root.rest, {})

    @cached_property
    def entropy(self) -> float:
        """H = sum over choices of E[H(choice | facts)], in nats/story, by recursion over the live facts."""
        return self.fold(lambda _, options: sum(c.share / SHARES * (c.nats + rest) for c, rest in options), 0.0)

    @cached_property
    def contextual_share(self) -> float:
        """The share of the entropy in rules whose distribution (alternatives or shares) differs between contexts."""
        total = self.entropy  # computed first: it fills in every reachable table, and `contextual` compares those
        counted = {rule: rule.contextual() for rule in self.rules.values()}

        def contextual(rule: Rule, options: list[tuple[Choice, float]]) -> float:
            return sum(c.share / SHARES * (c.nats * counted[rule] + rest) for c, rest in options)

        return self.fold(contextual, 0.0) / total

    @cached_property
    def log2_stories(self) -> float:
        """log2 of the number of different stories."""
        return math.log2(self.fold(lambda _, options: sum(rest for _, rest in options), 1.0))

    @property
    def longest(self) -> int:
        """A number of choices that no story exceeds."""
        return longest(next(iter(self.rules.values())))


@cache
def grammar() -> Grammar:
    """The grammar of `story_words`, read once per process."""
    return Grammar(RULES, IMPLIED)


def story(seed: int, i: int) -> Story:
    """The i-th story of a seed: the same on every machine, process and Python version."""
    return grammar().draw(hashlib.shake_256(f"story {seed} {i}".encode()).digest(LONGEST))


def bucket(text: str) -> int:
    """The SHA-256 bucket, 0..15, of a story's text; validation is bucket 0."""
    return hashlib.sha256(text.encode()).digest()[0] % BUCKETS


def stories(seed: int, split: str, n: int) -> Iterator[Story]:
    """The first n stories of a split, "train" or "validation", in order of i. Raises ValueError on another split.

    The split is a function of the text alone, so no story is in both, under any seeds.
    """
    if split not in ("train", "validation"):
        raise ValueError(f"There is no split {split!r}; there are 'train' and 'validation'.")
    drawn = (story(seed, i) for i in count())
    return islice((s for s in drawn if (bucket(s.text) == 0) == (split == "validation")), n)


def parse(text: str) -> Choices:
    """The choices that make a story. Raises ValueError if the text is no story of the grammar."""
    return grammar().parse(text)


def entropy_nats() -> float:
    """The exact entropy H of a story, in nats/story."""
    return grammar().entropy


def contextual_share() -> float:
    """The exact share of H in choices whose distribution depends on what was chosen before."""
    return grammar().contextual_share
