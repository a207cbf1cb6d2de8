"""Figures as files: one of each kind and condition, the same bytes twice, in the colours of the activations."""

import dataclasses
import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from actlab import activations
from actlab.report import charts, explorer, ranking, report, training, verdicts
from actlab.report.page import Figure, Rows
from actlab.report.page.render import NARROW, PAPER, WIDTH, export, figures, to_svg
from actlab.report.study import read

KINDS = (
    "activation_moments cost curvature gradient_norms layers_dead_fraction layers_feed_forward_grad_norm "
    "layers_negative_fraction ranking survival_of_units training_curves validation_curves"
).split()
FORMS = ("svg", "png", "pdf")
CHANNEL = {"field": "activation", "legend": None}
RATES = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (3e-3, 1e-2, 1e-3), "seed": (1, 2)}


def texts(path):
    """The texts of an SVG."""
    return {"".join(node.itertext()) for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")}


def right_ends(node, x=0.0):
    """Where the texts of an SVG end, in pixels, if a letter takes 6."""
    shift = re.search(r"translate\(([-\d.]+)", node.get("transform", ""))
    x += float(shift[1]) if shift else 0.0
    text = "".join(node.itertext()) if node.tag.endswith("}text") else ""
    found = {text: x + 6 * len(text)} if text else {}
    for child in node:
        found |= right_ends(child, x)
    return found


def rates(study):
    """The figure of loss against learning rate."""
    (found,) = figures(ranking.rates(study, verdicts.Compared(()), charts.Shown(study)))
    return found


def test_each_figure_is_written_in_every_form(six, tmp_path):
    study = read([six])
    paths = report.draw(report.build(study, n_samples=0), tmp_path)
    assert sorted(path.name for path in paths) == sorted(f"{kind}.{form}" for kind in KINDS for form in FORMS)
    curves = tmp_path / "validation_curves.svg"
    svg = curves.read_text()
    printed = {name: PAPER[charts.style(name).colour[len("var(--") : -1]] for name in study.activations}
    assert all(colour in svg for colour in printed.values()) and len(set(printed.values())) == 2
    assert 'opacity="0.18"' in svg and "var(" not in svg
    assert {"learning rate 0.001", "relu", "gelu", "step"} <= texts(curves)
    for bars in ("gradient_norms", "activation_moments"):  # two of one colour differ in dashes
        assert "stroke-dasharray" in (tmp_path / f"{bars}.svg").read_text(), bars
    numbers = [float(text) for text in texts(tmp_path / "curvature.svg") if re.fullmatch(r"[\d.]+", text)]
    assert sum(0 < number < 100 for number in numbers) > 1, "one tick does not make an axis; others are steps"
    assert "mean, one sd to each side, largest" in texts(tmp_path / "activation_moments.svg")
    for path in tmp_path.glob("*.svg"):
        assert set(re.findall(r'font-size="([^"]*)"', path.read_text())) == {"11px"}, "one size of text"
        root = ElementTree.parse(path).getroot()
        assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"] and len(root[1].text) > 20
    assert (tmp_path / "ranking.png").read_bytes().startswith(b"\x89PNG")
    pdf = (tmp_path / "ranking.pdf").read_bytes()
    assert pdf.startswith(b"%PDF-") and pdf.rstrip().endswith(b"%%EOF")
    assert b"/FontFile" in pdf and b"/Subtype /Image" not in pdf  # text as text, curves as curves


def test_a_condition_has_files_of_its_own_and_the_same_bytes_twice(workdirs, tmp_path):
    whole = workdirs.write(tmp_path / "w", workdirs.config_of({"optimizer.warmup_steps": (0, 20), **RATES}, 40))
    study = read([workdirs.copied(whole, tmp_path / "s", "results.csv")])
    whole = report.build(study, n_samples=0)
    shown = dataclasses.replace(whole, sections=tuple(one for one in whole.sections if one.name in ("rates", "cost")))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        report.draw(shown, tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "a").glob("*.svg"))
    kinds = ("cost", "loss_by_learning_rate", "sensitivity")
    assert names == [f"{kind}-{number}.svg" for kind in kinds for number in (1, 2)]
    first, second = ([(tmp_path / place / name).read_bytes() for name in names] for place in "ab")
    assert first == second and first[2] != first[3]
    assert "warmup_steps=20" in texts(tmp_path / "a/loss_by_learning_rate-2.svg")


def test_a_condition_without_runs_has_no_files(workdirs, tmp_path, monkeypatch):
    axes = {"optimizer.warmup_steps": (0, 20), "model.activation": ("relu", "gelu"), "seed": (1, 2)}
    begun = lambda run: "waiting" if run.config.optimizer.warmup_steps else "finished"
    study = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes), begun)])
    drawn = []
    monkeypatch.setattr(report, "export", lambda figure, folder, name, *_, **params: drawn.append((name, params)) or [])
    report.draw(report.build(study, n_samples=0), tmp_path)
    assert len(study.conditions) == 2 and drawn
    assert all(name.endswith("-1") and params["condition"] == study.conditions[0] for name, params in drawn)


def test_what_only_the_page_uses_is_left_out(tmp_path):
    spec = {
        "data": {"name": "d"},
        "width": "container",
        "layer": [
            {"mark": {"type": "point", "opacity": 0}, "encoding": {"x": {"field": "x"}}},
            {
                "mark": "rule",
                "encoding": {"y": {"field": "activation"}, "color": {"field": "activation", "legend": None}},
            },
            {
                "transform": [{"filter": "datum.x < top"}],
                "mark": {"type": "text"},
                "encoding": {"text": {"field": "x"}, "color": CHANNEL},
            },
        ],
        "params": [{"name": "top", "value": 9}],
    }
    rows = Rows(("x", "activation"), [(x, "gelu") for x in range(12)])
    one = Figure("f", spec, {"d": rows}, "alt")
    paths = export(one, tmp_path, "g", "a title", top=3)
    assert [path.name for path in paths] == ["g.svg", "g.png", "g.pdf"]
    found = texts(paths[0])
    assert {"a title", "gelu", "0", "2"} <= found and "3" not in found
    assert "top" not in str(one.spec["layer"][0]) and one.spec["width"] == "container"  # the page's spec is untouched


def test_a_learning_rate_of_0_has_a_place_left_of_the_others(workdirs, tmp_path):
    for all_rates in ((0.0, 1e-3), (0.0, 1e-3, 1e-2)):
        axes = RATES | {"optimizer.learning_rate": all_rates}
        study = read([workdirs.write(tmp_path / f"{len(all_rates)}", workdirs.config_of(axes, 40))])
        export(rates(study), tmp_path)
        assert "0" in texts(tmp_path / "rates-figure.svg")
        scale = ranking._across(study.rates).to_dict()
        assert scale["type"] == "symlog" and scale["domain"][0] == 0 < scale["constant"] < scale["domain"][1]


def test_a_dozen_activations_have_a_legend_and_no_intervals_and_many_panels_open_at_the_best_rate(workdirs, tmp_path):
    names = activations.names()[:16]
    axes = {"model.activation": names, "optimizer.learning_rate": (1e-4, 1e-3, 3e-3, 1e-2), "seed": (1, 2)}
    folder = workdirs.write(tmp_path / "w", workdirs.config_of(axes, 40))
    study = read([workdirs.copied(folder, tmp_path / "s", "results.csv")])
    assert charts.Shown(study).params["rates"] == ["0.001"]
    export(rates(study), tmp_path)
    assert set(names) <= texts(tmp_path / "rates-figure.svg")
    assert 'opacity="0.18"' not in (tmp_path / "rates-figure.svg").read_text()


def test_of_many_activations_three_open_in_colour_and_the_others_in_grey(workdirs, tmp_path):
    names = activations.names()[:16]
    axes = {"model.activation": names, "optimizer.learning_rate": (1e-3, 3e-3, 1e-2), "seed": (1, 2)}
    folder = workdirs.write(tmp_path / "w", workdirs.config_of(axes, 40))
    built = report.build(read([workdirs.copied(folder, tmp_path / "s", "results.csv")]), n_samples=0)
    (curve,) = [figure for figure in figures(built.sections) if figure.name == "rates-figure"]
    export(curve, tmp_path)
    chosen = {param["name"]: param["value"] for param in curve.spec["params"]}["activations"]
    assert len(chosen) <= 3 and chosen[0] == names[0]
    assert texts(tmp_path / "rates-figure.svg") & set(names) == set(chosen)
    lines = re.findall(r'stroke="([^"]*)" stroke-width="1" opacity="0.45"', (tmp_path / "rates-figure.svg").read_text())
    assert len(lines) == len(names) - len(chosen) and set(lines) == {PAPER["grey"]}


def test_every_activation_has_a_family_and_curves_in_its_figure(tmp_path):
    members = [name for family in explorer.FAMILIES.values() for name in family]
    assert len(set(members)) == len(members) and set(members) <= set(activations.names())
    paths = explorer.plot(("gelu", "celu", "polynorm", "selu"), tmp_path)
    assert [path.name for path in paths[:: len(FORMS)]] == ["gelu_like.svg", "exponential_units.svg", "others.svg"]
    assert {"celu", "selu"} <= texts(paths[len(FORMS)]) and "gelu" not in texts(paths[len(FORMS)])
    assert PAPER[charts.style("celu").colour[len("var(--") : -1]] in paths[len(FORMS)].read_text()


def test_styles_are_distinct_and_every_name_has_one():
    assert set(charts.STYLES) == set(activations.names())
    assert len(set(charts.STYLES.values())) == len(charts.STYLES)
    for members in explorer.FAMILIES.values():
        assert len({charts.style(name).colour for name in members}) >= len(members) - 1
    assert charts.style("celu(alpha=0.5)") == charts.style("celu") == charts.STYLES["celu"]
    assert charts.style("swish_1") == charts.STYLES["silu"]
    assert charts.style("not_registered_here").colour in charts.PALETTE


def test_activations_of_one_study_differ_in_style():
    names = ["gelu_scale(s=4)", "gelu_scale(s=1)", "mine(a=1)", "mine(a=2)", "gelu", "relu"]
    found = charts.styles(names)
    assert found == charts.styles(names[::-1]), "whatever the order"
    assert len(set(found.values())) == len(names)
    assert found["gelu"] == charts.STYLES["gelu"] and found["gelu_scale(s=1)"] == charts.STYLES["gelu_scale"]
    assert found["gelu_scale(s=4)"].colour == charts.STYLES["gelu_scale"].colour
    alias = charts.styles(["gelu_approximate", "gelu_tanh"])
    assert alias["gelu_tanh"] == charts.STYLES["gelu_tanh"] != alias["gelu_approximate"], "also of a name that is later"
    ranges = {name: channel.to_dict()["scale"]["range"] for name, channel in charts.lines(names[:2]).items()}
    assert len(set(ranges["color"])) == 1 and ranges["strokeDash"][0] != ranges["strokeDash"][1]
    many = charts.styles([f"mine(a={number})" for number in range(60)])
    assert len(set(many.values())) == len(charts.PALETTE) * len(charts.DASHES), "more than there are styles"


@pytest.mark.slow
def test_a_legend_of_long_names_fits_into_its_figure(workdirs, tmp_path):
    names = tuple(f"gelu_scale(s=0.062{number})" for number in range(5))
    axes = {"model.activation": names, "optimizer.learning_rate": (1e-3, 2e-3), "seed": (1,)}
    study = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes, 40))])
    report.draw(report.build(study, n_samples=0), tmp_path)
    ends = right_ends(ElementTree.parse(tmp_path / "loss_by_learning_rate.svg").getroot())
    assert set(names) <= ends.keys() and max(ends[name] for name in names) <= WIDTH


def test_the_legend_of_a_ranking_fits_beside_long_names(six):
    shown = charts.Shown(read([six]))
    states = ("lower", "higher", "equal", "open", "not asked", "baseline")
    rows = [["", f"gelu_scale(s=0.{n})", "parameters", n, n - 1, n + 1, state, n] for n, state in enumerate(states)]
    figure = ranking.dots("a", shown, rows, "loss", {"": "dots"}, "A caption.", {"a": {}}, of_states=True)
    ends = right_ends(ElementTree.fromstring(to_svg(figure, condition="")))
    assert max(ends[state] for state in states) <= NARROW


def test_a_run_that_explodes_does_not_flatten_the_curves_of_others(workdirs, six, tmp_path):
    path = workdirs.copied(six, tmp_path / "w", "config.json", "results.csv", "metrics.jsonl")
    rows = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    exploding = rows[0]["run"]
    for row in rows:
        if row["run"] == exploding and row["step"] > 100 and row.get("loss"):
            row["loss"] *= 1e9
    (path / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    study = read([path])
    (figure,) = figures(training.section(study, charts.Shown(study)))
    assert max(row[4] for row in figure.data["points"].rows if row[1] == "run") > 1e8, "what the pointer shows"
    for params in figure.files.values():
        svg = to_svg(figure, **params)
        ticks = [float(text.replace(",", "")) for text in re.findall(r">([\d,.]+)</text>", svg)]
        assert 0 < max(ticks) < 1e4, "steps and losses"


def test_the_colours_of_print_stand_out_from_white():
    """WCAG 2.2, 1.4.11: graphics by 3 to 1; text by 4.5 to 1."""

    def contrast(colour):
        channels = (int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5))
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 1.05 / (sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True)) + 0.05)

    assert contrast("#ffffff") == 1 and round(contrast("#000000")) == 21
    assert {name for name, colour in PAPER.items() if contrast(colour) < 3} == {"line"}
    assert contrast(PAPER["ink"]) > 4.5 and contrast(PAPER["faint"]) > 4.5
