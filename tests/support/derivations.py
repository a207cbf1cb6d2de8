"""What a grammar makes, found from the text: the stories and choices that generation must agree with."""

from actlab.data.grammar import stories
from actlab.data.grammar.rules import Rule
from actlab.data.grammar.stories import Choices


def openings(node, facts):
    """For each choice open at `node`: its text up to the next choice (or NUL at the end), and where it leads."""
    if node.rule is None or node.rest is None:
        return
    for choice in node.rule.table(facts).options:
        after, known = node.rest.enter(choice.phrase), facts | choice.phrase.facts
        yield choice, after.text % known + ("" if after.rule else "\0"), after, known


def derivations(grammar, text):
    """Every way to make `text` (by design at most one): a search of all choices whose text fits."""
    text += "\0"
    paths = [(grammar.root, {}, 0, ())]
    while paths:
        node, facts, at, path = paths.pop()
        if at == len(text):
            yield Choices(path, facts)
        for choice, opening, after, known in openings(node, facts):
            if text.startswith(opening, at):
                paths.append((after, known, at + len(opening), (*path, choice)))


def parse(text):
    """The choices that make a story."""
    (found,) = derivations(stories.grammar(), text)
    return found


def longest(rule):
    """A bound on the number of choices that one choice of the rule brings with it, itself included."""
    phrases = [phrase for line in rule.lines for phrase in line.phrases]
    return 1 + max(sum(longest(part) for part in phrase.parts if isinstance(part, Rule)) for phrase in phrases)
