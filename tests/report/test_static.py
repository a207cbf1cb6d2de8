"""Figures for papers: one of each kind and condition, the same twice, in the colours of the activations."""

import numpy as np

from actlab import activations
from actlab.activations.colours import style
from actlab.report import curves, rates, scales, static, verdicts
from actlab.report.study import read

KINDS = (
    "curvature",
    "gradient_norms",
    "layers_dead_fraction",
    "layers_feed_forward_grad_norm",
    "layers_negative_fraction",
    "loss_by_learning_rate",
    "ranking",
    "survival_of_units",
    "training_curves",
    "validation_curves",
)


def test_each_figure_is_drawn_in_both_forms(six, tmp_path):
    paths = static.draw(read([six]), tmp_path)
    assert sorted(path.name for path in paths) == sorted(f"{kind}.{form}" for kind in KINDS for form in ("png", "svg"))
    curves = (tmp_path / "loss_by_learning_rate.svg").read_text()
    assert style("relu").colour in curves and style("gelu").colour in curves and "learning rate" in curves
    assert (tmp_path / "ranking.png").read_bytes().startswith(b"\x89PNG")


def test_svgs_are_the_same_twice_and_conditions_have_their_own(workdirs, tmp_path):
    axes = {
        "optimizer.warmup_steps": (0, 20),
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (1e-3, 1e-2),
        "seed": (1, 2),
    }
    whole = workdirs.write(tmp_path / "w", workdirs.config_of(axes))
    study = read([workdirs.copied(whole, tmp_path / "s", "results.csv")])
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        static.draw(study, tmp_path / name)
    names = sorted(path.name for path in (tmp_path / "a").glob("*.svg"))
    assert "ranking-1.svg" in names and "ranking-2.svg" in names
    assert [(tmp_path / "a" / name).read_bytes() for name in names] == [
        (tmp_path / "b" / name).read_bytes() for name in names
    ]


def test_rates_rise_whatever_the_order_they_were_trained_in(workdirs, tmp_path):
    axes = {
        "model.activation": ("relu", "gelu"),
        "optimizer.learning_rate": (3e-3, 1e-2, 1e-3),
        "seed": (1, 2),
    }
    study = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes))])
    (panel,) = static._loss_by_rate(study, rates.points(study)).axes
    lines = [line.get_xdata() for line in panel.lines if line.get_linestyle() != "None"]
    assert len(lines) == 2 and all(list(line) == [1e-3, 3e-3, 1e-2] for line in lines)


def test_with_a_dozen_activations_the_legend_leaves_the_curves_their_room(workdirs, tmp_path):
    names = activations.names()[:12]
    axes = {"model.activation": names, "optimizer.learning_rate": (1e-4, 1e-3, 3e-3, 1e-2), "seed": (1, 2)}
    study = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes))])
    steps_N, found = curves.validation(study)
    by_rate = static._loss_by_rate(study, rates.points(study))
    for figure in (by_rate, static._bands(steps_N, static._drawable(found, ""), "loss")):
        figure.draw_without_rendering()
        (legend,) = figure.legends
        assert [text.get_text() for text in legend.get_texts()] == list(names)
        below = legend.get_window_extent().y1
        for panel in figure.axes:
            assert panel.get_legend() is None and panel.get_window_extent().y0 > below
            assert panel.get_window_extent().height > 1.2 * figure.dpi
            assert not panel.collections, "a dozen intervals hide the curves"


def test_of_more_lanes_than_a_figure_holds_those_at_the_best_rates_are_drawn(workdirs, tmp_path, monkeypatch):
    axes = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (1e-3, 3e-3, 1e-2), "seed": (1, 2)}
    study = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes))])
    compared = verdicts.compare(study, ())

    def drawn():
        figures = dict(static._figures(study, compared, ""))
        titles = {axes.get_title() for axes in figures["layers_dead_fraction"].axes} - {""}
        labels = figures["gradient_norms"].axes[0].get_yticklabels()
        return titles, {label.get_text() for label in labels}

    assert [len(names) for names in drawn()] == [6, 6]
    monkeypatch.setattr(static, "_LANES", 5)
    standings = compared.comparisons[0].main.standings
    best = {f"{one.activation}, {scales.rate(one.best_rate)}" for one in standings}
    assert drawn() == (best, best) and len(best) == 2


def test_a_rate_whose_runs_have_only_begun_has_no_panel(workdirs, tmp_path):
    axes = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": (1e-3, 3e-3), "seed": (1, 2)}
    study = read([workdirs.write(tmp_path / "w", workdirs.config_of(axes))])
    steps_N, found = curves.validation(study)
    begun = [
        curve._replace(loss_N=np.where(steps_N > 0, np.nan, curve.loss_N)) if curve.run.learning_rate == 3e-3 else curve
        for curve in found
    ]
    bands = static._drawable(begun, "")
    assert {band.lane[2] for band in bands} == {1e-3}
    (panel,) = static._bands(steps_N, bands, "loss").axes
    assert panel.get_title() == scales.panel(1e-3)


def test_a_study_folder_draws_what_it_has(workdirs, six, tmp_path):
    study = read([workdirs.copied(six, tmp_path / "s", "results.csv")])
    paths = static.draw(study, tmp_path)
    assert {path.stem for path in paths} == {"ranking", "loss_by_learning_rate"}


def test_a_learning_rate_of_0_has_a_place_left_of_the_others(workdirs, tmp_path):
    for all_rates in ((0.0,), (0.0, 1e-3, 1e-2)):
        axes = {"model.activation": ("relu", "gelu"), "optimizer.learning_rate": all_rates, "seed": (1, 2)}
        study = read([workdirs.write(tmp_path / f"{len(all_rates)}", workdirs.config_of(axes))])
        figure = static._loss_by_rate(study, rates.points(study))
        figure.draw_without_rendering()
        (panel,) = figure.axes
        places = panel.transData.transform([(rate, 1.0) for rate in all_rates])[:, 0]
        assert np.all(np.isfinite(places)) and np.all(np.diff(places) > 0)
        scale = rates._across(study.rates).to_dict()
        assert scale["type"] == "symlog" and scale["domain"][0] == 0 < scale["constant"] < scale["domain"][1]
