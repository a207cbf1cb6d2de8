import hashlib
import math
import re
import statistics
import subprocess
import sys
import zlib
from collections import Counter

import pytest
from derivations import derivations, longest, openings
from hypothesis import given, settings, strategies as st

from actlab.data.grammar import stories as story_grammar
from actlab.data.grammar.rules import SHARES, apportion
from actlab.data.grammar.stories import BUCKETS, IMPLIED, LONGEST, Grammar, Node, Story, bucket, stories, story

TOY = """
start
  : See <animal> <verb>. *3
  : Hush, <animal>!
animal
  : ~cat|~owl @legs=few *2
  : ~ant @legs=many
verb legs
  few: chase {a_animal}|sit
  many: sit
  many: join {animal}s *3
"""
PINNED = "7e42d7c91a7a34132e8244cb4819d5198e3a1db7b5007b236c0b4286112fe427"


@pytest.fixture(scope="module")
def sample() -> list[Story]:
    return [story(11, i) for i in range(1000)]


def words(text: str) -> list[str]:
    return re.findall(r"[A-Za-z'-]+", text)


def all_stories(grammar: Grammar) -> dict[str, float]:
    """Every story of a small grammar with its probability, by walking the whole tree of choices."""
    found: dict[str, float] = {}

    def walk(node: Node, facts: dict[str, str], text: str, probability: float) -> None:
        if node.rule is None:
            assert text not in found
            found[text] = probability
        for choice, opening, after, known in openings(node, facts):
            walk(after, known, text + opening.rstrip("\0"), probability * choice.share / SHARES)

    walk(grammar.root, {}, "", 1.0)
    return found


def test_a_story_is_the_same_in_another_process() -> None:
    code = "from actlab.data.grammar.stories import story; print(story(5, 6).text)"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=300)
    assert other.stdout == story(5, 6).text + "\n"
    assert len({story(seed, i).text for seed in range(10) for i in range(10)}) == 100


def test_the_stories_of_this_version_are_pinned() -> None:
    digest = hashlib.sha256("\0".join(story(0, i).text for i in range(400)).encode()).hexdigest()
    assert (story_grammar.VERSION, digest) == ("2.0.0", PINNED), "The stories changed: bump VERSION and pin them anew."


def test_nats_do_not_depend_on_how_python_adds_up(monkeypatch) -> None:
    # From 3.12 on `sum` of floats is compensated, as fsum is: a fingerprint of the data would follow Python's version.
    def found() -> tuple[list[float], float]:
        grammar = Grammar(story_grammar.RULES.read_text(encoding="utf-8"), IMPLIED)
        return [story(0, i).nats for i in range(100)], grammar.entropy

    before = found()
    monkeypatch.setattr(story_grammar, "sum", math.fsum, raising=False)
    assert found() == before


@settings(max_examples=40)
@given(st.integers(), st.integers(min_value=0))
def test_parsing_finds_the_choices_and_no_others(seed: int, i: int) -> None:
    told = story(seed, i)
    (choices,) = derivations(story_grammar.grammar(), told.text)
    assert choices == told.choices
    assert (choices.granted, choices.happy) == (told.choices.granted, told.choices.happy)
    assert told.nats == pytest.approx(-math.log(math.prod(c.share / SHARES for c in choices.path)))


@settings(max_examples=20)
@given(st.integers(0, 1000), st.data())
def test_parsing_refuses_what_is_no_story(i: int, data: st.DataObject) -> None:
    text = story(1, i).text
    cut = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("Q#\0\n"))
    for wrong in (text[:cut], text + letter, text[:cut] + "#" + text[cut + 1 :], text + "\0"):
        assert list(derivations(story_grammar.grammar(), wrong)) == []


def test_no_alternative_starts_like_another(sample: list[Story]) -> None:
    grammar = story_grammar.grammar()
    for told in sample[:100]:
        node, facts = grammar.root, {}
        for choice in told.choices.path:
            opened = list(openings(node, facts))
            texts = sorted(text for _, text, _, _ in opened)
            # Sorted, a prefix stands directly before some text that it starts.
            clashes = [(a, b) for a, b in zip(texts, texts[1:], strict=False) if b.startswith(a)]
            assert not clashes, f"In rule {choice.rule} given {facts}: {clashes}"
            node, facts = next((node, facts) for other, _, node, facts in opened if other == choice)


def test_splits_are_disjoint_and_told_by_the_text() -> None:
    train = {s.text for s in stories(3, "train", 300)} | {s.text for s in stories(4, "train", 300)}
    held_out = {split: {s.text for seed in (3, 4) for s in stories(seed, split, 8)} for split in ("validation", "test")}
    assert [len(texts) for texts in (train, *held_out.values())] == [600, 16, 16]
    assert not train & held_out["validation"] and not train & held_out["test"]
    assert {bucket(text) for text in held_out["validation"]} == {0}
    assert {bucket(text) for text in held_out["test"]} == {1}
    assert {bucket(text) for text in train} == set(range(2, BUCKETS))
    drawn = [story(3, i) for i in range(300)]
    assert list(stories(3, "train", 250)) == [s for s in drawn if bucket(s.text) > 1][:250]


@pytest.mark.parametrize("order", [("train", "validation", "test"), ("test", "train", "validation")])
def test_splits_read_together_are_those_read_alone_and_no_story_is_drawn_twice(order, monkeypatch) -> None:
    counts, numbers = {"train": 50, "validation": 9, "test": 7}, []
    alone = {split: list(stories(3, split, n)) for split, n in counts.items()}
    draw = story_grammar.story
    monkeypatch.setattr(story_grammar, "story", lambda seed, i: numbers.append(i) or draw(seed, i))
    together = story_grammar.splits(3, counts)
    assert {split: list(together[split]) for split in order} == alone
    last = max(numbers)
    assert numbers == list(range(last + 1)) and draw(3, last) in [found[-1] for found in alone.values()]


@pytest.mark.parametrize("split", ["validation", "test"])
def test_a_story_of_validation_or_test_is_one_in_sixteen(sample: list[Story], split: str) -> None:
    held_out = sum(story_grammar.split_of(s.text) == split for s in sample)
    spread = math.sqrt(len(sample) * (1 / BUCKETS) * (1 - 1 / BUCKETS))
    assert abs(held_out - len(sample) / BUCKETS) < 4 * spread


def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ValueError, match="'testing'"):
        stories(0, "testing", 1)


def test_entropy_is_the_mean_of_nats(sample: list[Story]) -> None:
    nats = [s.nats for s in sample]
    error = statistics.stdev(nats) / math.sqrt(len(nats))
    assert error < 0.3
    assert abs(statistics.mean(nats) - story_grammar.entropy_nats()) < 3.5 * error


def test_a_toy_grammar_agrees_with_enumeration() -> None:
    toy = Grammar(TOY)
    told = all_stories(toy)
    # 2:2:1 is 103:102:51 of 256, 3:1 is 192:64.
    assert told == pytest.approx(
        {
            "Hush, a cat!": 64 * 103 / 256**2,
            "Hush, an owl!": 64 * 102 / 256**2,
            "Hush, an ant!": 64 * 51 / 256**2,
            "See a cat chase a cat.": 192 * 103 * 128 / 256**3,
            "See a cat sit.": 192 * 103 * 128 / 256**3,
            "See an owl chase an owl.": 192 * 102 * 128 / 256**3,
            "See an owl sit.": 192 * 102 * 128 / 256**3,
            "See an ant sit.": 192 * 51 * 64 / 256**3,
            "See an ant join ants.": 192 * 51 * 192 / 256**3,
        }
    )
    assert math.fsum(told.values()) == pytest.approx(1, abs=1e-15)
    assert toy.entropy == pytest.approx(math.fsum(-p * math.log(p) for p in told.values()), rel=1e-14)
    assert longest(toy.rules["start"]) == 3


def test_each_byte_makes_one_choice_with_exact_shares() -> None:
    coin = Grammar("coin\n  : heads *5\n  : tails *2\n  : edge\n")
    drawn = Counter(coin.draw(bytes([byte])).text for byte in range(256))
    assert drawn == {"heads": 160, "tails": 64, "edge": 32}
    with pytest.raises(ValueError, match="too few"):
        coin.draw(b"")


@given(st.lists(st.integers(1, 9), min_size=1, max_size=28))
def test_apportioned_shares_are_close_and_complete(weights: list[int]) -> None:
    shares = apportion(weights, "test")
    assert sum(shares) == SHARES and min(shares) >= 1
    assert all(abs(share - w * SHARES / sum(weights)) < 1 for share, w in zip(shares, weights, strict=True))


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("start\n  x: a|b\n", "unreadable line"),
        ("start\n  a|b\n", "unreadable line"),
        ("start\n  : a|b|a\n", "same alternative twice"),
        ("start\n  : <kind> <end>\nkind\n  : a|b\nend kind\n  a: x\n", "0 alternatives"),
    ],
)
def test_a_faulty_grammar_is_refused(rules: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        assert Grammar(rules).entropy


def test_an_ambiguous_grammar_would_be_noticed() -> None:
    ambiguous = Grammar("start\n  : <a><b>\na\n  : x|xy\nb\n  : yz|z\n")
    assert len(list(derivations(ambiguous, "xyz"))) == 2


def test_the_corpus_is_as_rich_as_promised(sample: list[Story]) -> None:
    sizes = [len(s.text) for s in sample]
    assert 0.28 < story_grammar.entropy_nats() / statistics.mean(sizes) < 0.36
    # No distribution on 2**200 stories has more entropy than 200 log 2, so there are more of them.
    assert story_grammar.entropy_nats() > 200 * math.log(2)
    assert longest(next(iter(story_grammar.grammar().rules.values()))) <= LONGEST
    assert len({s.text for s in sample}) == len(sample)
    assert 480 < statistics.mean(sizes) < 550 and 400 < min(sizes) and max(sizes) < 700


def test_zlib_stays_far_above_the_floor(sample: list[Story]) -> None:
    packed = len(zlib.compress("\n".join(s.text for s in sample).encode(), 9)) * math.log(256)
    assert packed > 1.5 * sum(s.nats for s in sample)


def test_stories_are_plain_paragraphs(sample: list[Story]) -> None:
    for text in (s.text for s in sample):
        assert text.isascii() and text.count("\n") == 2 and text[-1] == "."
        assert not re.search(r"  | [.,!?]|\n |[{}<>~^|@*%]| \n|\.\.", text), text
        assert re.search(r'(?:^|[.!?]"? |\n"?)[a-z]', re.sub(r'[!?]" [a-z]+', "", text)) is None, text


def test_articles_fit_the_words_after_them(sample: list[Story]) -> None:
    for text in (s.text for s in sample):
        assert not re.search(r"\b(a|A) [aeiou]|\b(an|An) (?!honest\b)[^aeiou]", text), text


def test_pronouns_agree_with_the_hero_throughout(sample: list[Story]) -> None:
    theirs = {sex: {pronouns["he"], pronouns["him"], pronouns["his"]} for (_, sex), pronouns in IMPLIED.items()}
    for told in sample:
        others = theirs["she" if told.choices.facts["he"] == "he" else "he"]
        assert not others & {word.lower() for word in words(told.text)}, told.text


def test_names_and_favourites_come_back(sample: list[Story]) -> None:
    paragraphs = [(s.choices.facts, s.text.split("\n")) for s in sample]
    assert all(facts["name"] in first and facts["friend"] in first for facts, (first, _, _) in paragraphs)
    for fact in ("name", "friend", "food"):
        later = [facts[fact] in second + third for facts, (_, second, third) in paragraphs]
        assert statistics.mean(later) > 0.6, fact


def test_labels_follow_the_story(sample: list[Story]) -> None:
    granted = [s.choices for s in sample if s.choices.granted]
    denied = [s.choices for s in sample if not s.choices.granted]
    assert 0.4 < len(granted) / len(sample) < 0.8
    assert statistics.mean(c.happy for c in granted) > 0.8
    assert 0.3 < statistics.mean(c.happy for c in denied) < 0.6
    assert all("went home past" not in s.text for s in sample if s.choices.happy)
    sad_though_granted = [s for s in sample if s.choices.granted and not s.choices.happy]
    assert sad_though_granted == [s for s in sample if "moved away" in s.text] != []


def test_effort_makes_a_wish_more_likely_to_come_true(sample: list[Story]) -> None:
    much = [s.choices.granted for s in sample if s.choices.facts["effort"] == "much"]
    some = [s.choices.granted for s in sample if s.choices.facts["effort"] == "some"]
    assert statistics.mean(much) > statistics.mean(some) + 0.2
