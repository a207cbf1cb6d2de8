"""The page of a comparison, which answers first, and its part that a notebook shows."""

import html
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from actlab.adaptive import judgement
from actlab.adaptive.answer import WORDS, Answer, rounded, span
from actlab.adaptive.judgement import PairState
from actlab.adaptive.search import RUNGS
from actlab.console import duration

_LABEL = 56  # pixels between the middles of two numbers below a figure, at least


def render(answer: Answer, command: Sequence[str]) -> str:
    """A self-contained page whose first screen is the answer; it ends with the command, quoted for a shell."""
    tried = "".join(
        f"<tr><td>{_e(name)}</td><td class=n>{rate:g}</td><td class=n>{one.rung}/{RUNGS}</td>"
        f"<td class=n>{'failed' if any(one.failed) else ' '.join(format(loss, '.4f') for loss in one.losses)}</td></tr>"
        for name, rates in answer.searched.items()
        for rate, one in sorted(rates.items())
    )
    return _PAGE.format(
        title=_e(answer.sentences[0]),
        style=_STYLE,
        body=_body(answer),
        tried=tried,
        unit=_e(answer.unit),
        first_look=answer.first_look,
        more=_MORE if answer.may_grow else "",
        spent=duration(answer.spent),
        budget=duration(answer.budget),
        command=_e(shlex.join(command)),
    )


def fragment(answer: Answer) -> str:
    """The answer, its figure and both tables, for a notebook."""
    return f"<style>{_STYLE}</style><div class=actlab>{_body(answer)}</div>"


def _body(answer: Answer) -> str:
    """The answer, its figure, and tables of pairs and activations."""
    first, *others = answer.sentences
    losses = "".join(
        f"<tr><td>{_e(row['activation'])}</td><td class=n>{rounded(row['test_loss'], 4)}</td>"
        f"<td class=n>{'' if row['learning_rate'] is None else format(row['learning_rate'], 'g')}</td>"
        f"<td class=n>{row['seeds']}</td><td class=n>{row['failed']}</td><td>{_e(row['rate_not_resolved'])}</td></tr>"
        for row in answer.table
    )
    figure = _figure([(f"{pair.first} less {pair.second}", pair) for pair in answer.pairs], answer.margin)
    pairs = _pair_rows((f"{row['first']} less {row['second']}", row) for row in answer.verdicts)
    return _BODY.format(
        first=_e(first),
        said=_e(" ".join(others)),
        figure=figure and figure + _CAPTION.format(unit=_e(answer.unit), margin=f"{answer.margin:g}"),
        pairs=pairs and _PAIRS.format(rows=pairs),
        losses=losses,
        widths=_widths(answer),
    )


def _pair_rows(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> str:
    return "".join(
        f"<tr><td>{_e(label)}</td><td>{_e(row['verdict'])}</td>"
        f"<td class=n>{rounded(row['difference'])}</td><td class=n>{span(row['low'], row['high'])}</td>"
        f"<td class=n>{row['seeds']}</td></tr>"
        for label, row in rows
    )


def _widths(answer: Answer) -> str:
    """Figure and table of all widths, if there are several."""
    if len(answer.widths) < 2:
        return ""
    labelled = [(f"{pair.first} less {pair.second}", one.width, pair) for one in answer.widths for pair in one.pairs]
    drawn = [(f"{pair}, {width}", state) for pair, width, state in sorted(labelled, key=lambda one: one[:2])]
    ends = f"{answer.widths[0].width} to {answer.widths[-1].width}"
    rows = _pair_rows(
        (f"{row['first']} less {row['second']}, {f'change {ends}' if row['width'] == 'all' else row['width']}", row)
        for row in answer.scales
    )
    first_look = judgement.first_look(len(answer.widths) * math.comb(len(answer.activations), 2))
    return _WIDTHS.format(figure=_figure(drawn, answer.margin), rows=rows, ends=ends, first_look=first_look)


def _e(text: object) -> str:
    return html.escape(str(text))


def _figure(pairs: Sequence[tuple[str, PairState]], margin: float) -> str:
    """The labelled pairs' intervals as SVG: a line for each, the margin as a band around 0.

    A line whose end is not known has an arrow there, which a sentence below explains. Empty if no end is known.
    """
    known = [(label, pair) for label, pair in pairs if math.isfinite(pair.low) or math.isfinite(pair.high)]
    if not known:
        return ""
    ends = [end for _, pair in known for end in (pair.low, pair.mean, pair.high) if math.isfinite(end)]
    low, high = min(-margin, *ends) * 1.08, max(margin, *ends) * 1.08
    left, width, step = max(190, 7 * max(len(label) for label, _ in known) + 24), 520, 30
    x = lambda value: left + (value - low) / (high - low) * width
    bottom = step * len(known) + 12
    band = f'<rect class=band x="{x(-margin):.1f}" y="6" width="{x(margin) - x(-margin):.1f}" '
    parts = [
        f'{band}height="{bottom - 6}"/>',
        f'<line class=zero x1="{x(0):.1f}" x2="{x(0):.1f}" y1="6" y2="{bottom}"/>',
    ]
    for row, (label, pair) in enumerate(known):
        y = 12 + step * row + step / 2
        kind = WORDS[pair.verdict]
        parts.append(
            f'<text x="{left - 12}" y="{y + 4:.1f}" text-anchor="end">{_e(label)}</text>'
            f'<line class="bar {kind}" x1="{x(max(pair.low, low)):.1f}" x2="{x(min(pair.high, high)):.1f}" '
            f'y1="{y:.1f}" y2="{y:.1f}"/>'
            + "".join(
                f'<path class="{kind}" d="M{x(frame):.1f} {y - 6:.1f}l{9 * side} 6l{-9 * side} 6z"/>'
                for end, frame, side in ((pair.low, low, -1), (pair.high, high, 1))
                if not math.isfinite(end)
            )
            + f'<circle class="{kind}" cx="{x(pair.mean):.1f}" cy="{y:.1f}" r="4"/>'
        )
    for value in (0.0, low / 1.08, high / 1.08):
        if value == 0 or abs(x(value) - x(0)) > _LABEL:
            parts.append(f'<text x="{x(value):.1f}" y="{bottom + 18}" text-anchor="middle">{rounded(value)}</text>')
    bounded = all(math.isfinite(pair.low) and math.isfinite(pair.high) for _, pair in known)
    return (
        f'<svg viewBox="0 0 {left + width + 40} {bottom + 26}" role="img" '
        f'aria-label="Differences of test loss with their intervals">{"".join(parts)}</svg>'
        + ("" if bounded else '<p class="small">An arrow is an end that is not known, ? in the tables.</p>')
    )


_STYLE = """
.actlab { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; overflow-wrap: anywhere }
.actlab h1 { font-size: 1.9rem; line-height: 1.2; margin-bottom: .5rem }
.actlab h2 { font-size: 1.1rem; margin-top: 2.2rem }
.actlab table { border-collapse: collapse; width: 100% }
.actlab td, .actlab th { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #8884 }
.actlab .n { text-align: right; font-variant-numeric: tabular-nums }
.actlab svg { width: 100%; height: auto; font-size: 13px } .actlab svg text { fill: currentColor }
.actlab .band { fill: #8883 } .actlab .zero { stroke: #888 } .actlab .bar { stroke-width: 3 }
.actlab .lower { stroke: #0a8a5f; fill: #0a8a5f } .actlab .higher { stroke: #c25a10; fill: #c25a10 }
.actlab .equivalent { stroke: #3b74d0; fill: #3b74d0 } .actlab .undecided { stroke: #888; fill: #888 }
@media (max-width: 40rem) {
  .actlab h1 { font-size: 1.4rem }
  .actlab table { display: block; overflow-x: auto; overflow-wrap: normal }
  .actlab td.n { white-space: nowrap }
}
.actlab .small { opacity: .75; font-size: .9rem }
"""
_BODY = """
<h1>{first}</h1>
<p>{said}</p>
{figure}
{pairs}
<h2>Activations</h2>
<table><tr><th>activation</th><th class=n>test loss</th><th class=n>learning rate</th><th class=n>seeds</th>
<th class=n>failed</th><th>rate not resolved</th></tr>{losses}</table>
{widths}"""
_CAPTION = """
<p class="small">Differences of test loss in {unit}, negative where the first is lower. The band is the margin of
equivalence, {margin}.</p>"""
_PAIRS = """<h2>Pairs</h2>
<table><tr><th>pair</th><th>verdict</th><th class=n>difference</th><th class=n>interval</th><th class=n>seeds</th></tr>
{rows}</table>"""
_WIDTHS = """
<h2>Widths</h2>
{figure}
<table><tr><th>pair, width</th><th>verdict</th><th class=n>difference</th><th class=n>interval</th>
<th class=n>seeds</th></tr>{rows}</table>
<p class="small">The learning rates of the first width, carried to the others by mup. The change is that of the
difference, {ends}, along the straight line in the logarithm of the width; the intervals of further widths and of the
changes hold together at 95% among themselves, and nothing of them is decided with fewer than {first_look} seeds.</p>
"""
_MORE = ", so that seeds may be added (the same command with a larger <code>--budget</code>)"
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ margin: 3rem auto; max-width: 52rem; padding: 0 1rem; color: #222; background: #fff }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #16181c }} }}
{style}</style></head><body class="actlab">
{body}
<h2>Learning rates that were tried</h2>
<p class="small">On seeds of their own, by validation loss; a rate that could not win any more was stopped before its
last step.</p>
<table><tr><th>activation</th><th class=n>rate</th><th class=n>trained</th>
<th class=n>validation loss of each seed, {unit}</th></tr>
{tried}</table>
<h2>How sure this is</h2>
<p class="small">The learning rates were fixed before the first seed that judges. The intervals hold together at 95%,
over all pairs and however often one looks{more}; nothing is decided with fewer than {first_look} seeds. They cover
other seeds on this test text.
{spent} of {budget} were used.</p>
<p class="small"><code>{command}</code></p>
</body></html>
"""
