"""The rules of a grammar: the choices open at each place with their probabilities, in the notation of stories.txt."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

SHARES = 256  # probabilities are whole numbers of 256ths, so that one byte of a hash makes one choice exactly
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
    """Whole shares of 256 closest to the weights, each at least 1, by largest remainders.

    Raises ValueError for weights that do not fit into 256 shares.
    """
    total = sum(weights)
    if not weights or len(weights) > SHARES or min(weights) * SHARES < total:
        raise ValueError(f"{what}: {len(weights)} alternatives of weight {total} do not fit into {SHARES} shares.")
    shares = [weight * SHARES // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: weights[i] * SHARES % total, reverse=True)
    for i in by_remainder[: SHARES - sum(shares)]:
        shares[i] += 1
    return shares


@dataclass(frozen=True, slots=True)
class Reader:
    """Reads alternatives, given all rules, the facts that other facts imply, and the facts that some rule uses."""

    rules: dict[str, Rule]
    implied: Mapping[tuple[str, str], Facts]
    used: frozenset[str]

    def line(self, rule: Rule, written: str) -> Line:
        """One line of alternatives. Raises ValueError for a missing colon or a wrong number of facts."""
        asked, colon, rest = written.partition(":")
        match = re.fullmatch(r"\s*(.*?)((?: @\w+=\w+)*)(?: \*(\d+))?", rest)
        if not colon or not match or len(asked.split()) != len(rule.given):
            raise ValueError(f"Rule {rule.name}, given {rule.given}, has the unreadable line {written!r}.")
        settled = dict(pair.split("=") for pair in match[2].replace("@", "").split())
        phrases = [self.phrase(rule.name, alternative, settled) for alternative in match[1].split("|")]
        return Line(tuple(frozenset(values.split(",")) for values in asked.split()), int(match[3] or 1), phrases)

    def phrase(self, name: str, source: str, settled: Facts) -> Phrase:
        """One alternative of the rule `name`, which sets the facts `settled` and all that they imply."""
        bare = source.removeprefix("~")
        full = bare if bare == source else ("an " if bare[0] in "aeiou" else "a ") + bare
        written = re.sub(r"{(\w+)}", r"%(\1)s", full.replace("%", "%%").replace("^", "\n"))
        pieces = enumerate(re.split(r"<(\w+)>", written))
        parts = tuple(self.rules[piece] if i % 2 else piece for i, piece in pieces if piece)
        facts = {name: bare, f"a_{name}": full, **settled} if parts == (full,) else dict(settled)
        for pair in list(facts.items()):
            facts |= self.implied.get(pair, {})
        facts |= {fact[0].upper() + fact[1:]: value[0].upper() + value[1:] for fact, value in facts.items()}
        return Phrase(parts, {fact: value for fact, value in facts.items() if fact in self.used}, source)


def read_rules(text: str, implied: Mapping[tuple[str, str], Facts] = MappingProxyType({})) -> dict[str, Rule]:
    """The rules in the notation of stories.txt, by name; stories start at the first.

    Raises ValueError on an unreadable line, and KeyError on a rule that is not defined.
    """
    text = re.sub(r"^#.*\n", "", text, flags=re.MULTILINE)
    blocks = [block.splitlines() for block in re.split(r"\n(?=\S)", re.sub(r"\n    +", "", text).strip())]
    written = {head.split()[0]: (tuple(head.split()[1:]), lines) for head, *lines in blocks}
    written |= {name: written[given[1]] for name, (given, _) in written.items() if given[:1] == ("=",)}
    rules = {name: Rule(name, given) for name, (given, _) in written.items()}
    used = frozenset(re.findall(r"[{@](\w+)", text)).union(*(rule.given for rule in rules.values()))
    reader = Reader(rules, implied, used)
    for name, (_, lines) in written.items():
        rules[name].lines += [reader.line(rules[name], line) for line in lines]
    return rules
