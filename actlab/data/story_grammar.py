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
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count, islice
from types import MappingProxyType

from actlab.data.story_words import IMPLIED, RULES

VERSION = "1.0.0"
SHARES = 256
BUCKETS = 16
LONGEST = 96
Facts = Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Phrase:
    """An alternative as written: text with `%(fact)s` slots, rules to choose from, and the facts that it sets."""

    parts: tuple[str | Rule, ...]
    facts: dict[str, str]
    source: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One alternative of a rule in one context: its probability is share/256 and costs `nats` = -log(share/256)."""

    rule: str
    source: str
    share: int
    nats: float
    phrase: Phrase = field(repr=False, compare=False)


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


@dataclass(frozen=True, slots=True)
class Line:
    """Alternatives, each with a weight, that are open where every fact is among the values asked for."""

    asked: tuple[frozenset[str], ...]
    weight: int
    phrases: list[Phrase]

    def fits(self, values: Sequence[str]) -> bool:
        """Whether facts with these values leave the alternatives of this line open."""
        return all("*" in asked or value in asked for asked, value in zip(self.asked, values, strict=True))


@dataclass(frozen=True, slots=True)
class Table:
    """The choices open in one context, and which of them each value of a byte makes."""

    options: tuple[Choice, ...]
    by_byte: tuple[Choice, ...]


@dataclass(slots=True, eq=False)
class Rule:
    """A named choice, and the names of the facts that its distribution depends on."""

    name: str
    given: tuple[str, ...] = ()
    lines: list[Line] = field(default_factory=list)
    tables: dict[tuple[str, ...], Table] = field(default_factory=dict)

    def table(self, facts: Facts) -> Table:
        """The choices open after these facts. Raises ValueError if there are none."""
        values = tuple([facts[name] for name in self.given])
        table = self.tables.get(values)
        if table is None:
            table = self.tables[values] = self._tabulate(values)
        return table

    def contextual(self) -> bool:
        """Whether at least two contexts seen so far have different distributions."""
        return len({frozenset((c.source, c.share) for c in table.options) for table in self.tables.values()}) > 1

    def _tabulate(self, values: tuple[str, ...]) -> Table:
        found = [(line.weight, phrase) for line in self.lines if line.fits(values) for phrase in line.phrases]
        if len({phrase.source for _, phrase in found}) < len(found):
            raise ValueError(f"{self.name} given {values} has the same alternative twice.")
        shares = apportion([weight for weight, _ in found], f"{self.name} given {values}")
        options = tuple(
            Choice(self.name, phrase.source, share, math.log(SHARES / share), phrase)
            for (_, phrase), share in zip(found, shares, strict=True)
        )
        return Table(options, tuple(choice for choice in options for _ in range(choice.share)))


def apportion(weights: Sequence[int], what: str) -> list[int]:
    """Whole shares of 256 closest to the weights (largest remainders, at least 1). Raises ValueError if it cannot."""
    total = sum(weights)
    if not weights or len(weights) > SHARES or min(weights) * SHARES < total:
        raise ValueError(f"{what}: {len(weights)} alternatives of weight {total} do not fit into {SHARES} shares.")
    shares = [weight * SHARES // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: weights[i] * SHARES % total, reverse=True)
    for i in by_remainder[: SHARES - sum(shares)]:
        shares[i] += 1
    return shares


@dataclass(slots=True, eq=False)
class Node:
    """A place in a story: some text, then a choice and the place behind it, or (rule None) the end."""

    text: str
    rule: Rule | None = None
    rest: Node | None = None
    live: tuple[str, ...] = ()
    entries: dict[Phrase, Node] = field(default_factory=dict)

    def enter(self, phrase: Phrase) -> Node:
        """The place at which this one is reached through `phrase`."""
        node = self.entries.get(phrase)
        if node is None:
            node = self.entries[phrase] = self._before(phrase.parts)
        return node

    def _before(self, parts: Sequence[str | Rule]) -> Node:
        node = self
        for part in reversed(parts):
            if isinstance(part, str):
                node = Node(part + node.text, node.rule, node.rest, node.live)
            else:
                node = Node("", part, node, tuple(sorted(set(node.live) | reach(part))))
        return node


@cache
def reach(rule: Rule) -> frozenset[str]:
    """The facts on which the choice of a rule, or any choice inside its alternatives, depends."""
    inner = [part for line in rule.lines for phrase in line.phrases for part in phrase.parts if isinstance(part, Rule)]
    return frozenset(rule.given).union(*(reach(part) for part in inner))


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
        known: dict[tuple[object, ...], float] = {}

        def value(node: Node, facts: Facts) -> float:
            if node.rule is None or node.rest is None:
                return end
            key = (node.rest, node.rule, *[facts.get(name) for name in node.live])
            if key not in known:
                known[key] = combine(node.rule, list(after(node.rule, node.rest, facts)))
            return known[key]

        def after(rule: Rule, rest: Node, facts: Facts) -> Iterator[tuple[Choice, float]]:
            for choice in rule.table(facts).options:
                node, told = rest.enter(choice.phrase), choice.phrase.facts
                merged = {**facts, **told}
                yield choice, value(node, {name: merged[name] for name in node.live if name in merged})

        return value(self.root, {})

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
        return math.log2(self.fold(lambda _, options: sum(rest for _, rest in options), 1))

    @cached_property
    def longest(self) -> int:
        """The number of choices in the story that has most of them."""
        return int(self.fold(lambda _, options: 1 + max(rest for _, rest in options), 0))


@dataclass(frozen=True, slots=True)
class Reader:
    """What reading an alternative needs: all rules, the facts that other facts imply, and the facts worth keeping."""

    rules: dict[str, Rule]
    implied: Mapping[tuple[str, str], Facts]
    used: frozenset[str]

    def line(self, rule: Rule, written: str) -> Line:
        """One line of alternatives. Raises ValueError if it has no colon or asks for too many or too few facts."""
        asked, colon, rest = written.partition(":")
        match = re.fullmatch(r"\s*(.*?)((?: @\w+=\w+)*)(?: \*(\d+))?", rest)
        if not colon or not match or len(asked.split()) != len(rule.given):
            raise ValueError(f"Rule {rule.name}, given {rule.given}, has the unreadable line {written!r}.")
        told = dict(pair.split("=") for pair in match[2].replace("@", "").split())
        phrases = [self.phrase(rule.name, alternative, told) for alternative in match[1].split("|")]
        return Line(tuple(frozenset(values.split(",")) for values in asked.split()), int(match[3] or 1), phrases)

    def phrase(self, name: str, source: str, told: Facts) -> Phrase:
        """One alternative of the rule `name`, which sets the facts `told` and all that they imply."""
        bare = source.removeprefix("~")
        full = bare if bare == source else ("an " if bare[0] in "aeiou" else "a ") + bare
        written = re.sub(r"{(\w+)}", r"%(\1)s", full.replace("%", "%%").replace("^", "\n"))
        pieces = enumerate(re.split(r"<(\w+)>", written))
        parts = tuple(self.rules[piece] if i % 2 else piece for i, piece in pieces if piece)
        facts = {name: bare, f"a_{name}": full, **told} if parts == (full,) else dict(told)
        for pair in list(facts.items()):
            facts |= self.implied.get(pair, {})
        facts |= {fact[0].upper() + fact[1:]: value[0].upper() + value[1:] for fact, value in facts.items()}
        return Phrase(parts, {fact: value for fact, value in facts.items() if fact in self.used}, source)


def read_rules(text: str, implied: Mapping[tuple[str, str], Facts] = MappingProxyType({})) -> dict[str, Rule]:
    """The rules in the notation of `story_words`, by name, the first being where stories start.

    Raises ValueError on an unreadable line, and KeyError on a rule that is nowhere defined.
    """
    blocks = [block.splitlines() for block in re.split(r"\n(?=\S)", re.sub(r"\n    +", "", text).strip())]
    written = {head.split()[0]: (tuple(head.split()[1:]), lines) for head, *lines in blocks}
    written |= {name: written[given[1]] for name, (given, _) in written.items() if given[:1] == ("=",)}
    rules = {name: Rule(name, given) for name, (given, _) in written.items()}
    used = frozenset(re.findall(r"[{@](\w+)", text)).union(*(rule.given for rule in rules.values()))
    reader = Reader(rules, implied, used)
    for name, (_, lines) in written.items():
        rules[name].lines += [reader.line(rules[name], line) for line in lines]
    return rules


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
