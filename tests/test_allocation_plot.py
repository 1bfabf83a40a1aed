"""The figure of an allocation study shows what its table holds, with its error, and tells strategies apart."""

import dataclasses

import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer

import rat_jax as rat
from rat_jax.report.allocation_health import failed_cells, health_sentence
from rat_jax.studies.strategies import PAPER, RULES

THETAS = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")


@pytest.fixture(scope="module")
def study():
    return rat.allocation_study(THETAS, additional=(20, 60), replicates=3, size=500)


def lines(ax) -> dict[str, ErrorbarContainer]:
    return {c.get_label(): c for c in ax.containers if isinstance(c, ErrorbarContainer)}


def bars(line) -> np.ndarray:
    """Lower and upper end of every bar, [budgets, 2]."""
    return np.array([segment[:, 1] for segment in line[2][0].get_segments()])


def labels_of(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize("measure", ["mae", "ci_width"])
def test_every_number_and_its_error_is_drawn_where_it_is(study, measure):
    figure = rat.plot_allocation(study, ("p_G", "p_T"), measure)
    for quantity, ax in zip(("p_G", "p_T"), figure.axes, strict=True):
        assert set(lines(ax)) == set(PAPER)
        for strategy, line in lines(ax).items():
            rows = study.table[(study.table["quantity"] == quantity) & (study.table["strategy"] == strategy)]
            np.testing.assert_array_equal(line[0].get_ydata(), rows[measure])
            half = 1.96 * rows[f"{measure}_se"].to_numpy()
            expected = np.stack([rows[measure] - half, rows[measure] + half], axis=1)
            np.testing.assert_allclose(bars(line), expected, rtol=1e-12)
            assert expected.max() < ax.get_ylim()[1]
        assert ax.get_ylim()[0] == 0 and ax.get_ylim() == figure.axes[0].get_ylim()


def test_strategies_at_one_budget_stand_beside_each_other_and_nearer_to_it_than_to_the_next(study):
    found = np.array([line[0].get_xdata() for line in lines(rat.plot_allocation(study).axes[0]).values()])
    assert all(len(set(places)) == len(PAPER) for places in found.T)
    assert (abs(found - [20, 60]) < 20).all()


def test_strategies_differ_in_colour_marker_and_dashes(study):
    other = {"mine": {"A": 1.0}, **dict.fromkeys(RULES), **dict.fromkeys(["all_joint", "all_R", "all_T"])}
    many = rat.allocation_study(THETAS, strategies=other, additional=(20,), replicates=2, size=500)
    for result in (study, many):
        drawn = [line[0] for line in lines(rat.plot_allocation(result).axes[0]).values()]
        for looks in ("get_color", "get_marker", "_unscaled_dash_pattern"):
            found = [getattr(line, looks) for line in drawn]
            assert len({str(f() if callable(f) else f) for f in found}) == len(drawn), looks


def test_a_panel_per_quantity_and_system_is_named(study):
    two = pd.concat([study.table.assign(system=name) for name in ("x", "a $1$ b")])
    figure = rat.plot_allocation(dataclasses.replace(study, table=two), ["p_G", "p_T", "theta_R"])
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert len(titles) == 6 and titles[0].startswith("x\np_G: ") and titles[5].startswith("a \\$1\\$ b\ntheta_R: ")


def test_the_axes_and_the_design_are_in_words(study):
    figure = rat.plot_allocation(study)
    assert figure.axes[0].get_xlabel() == "additional rows"
    assert figure.axes[0].get_ylabel() == "mean absolute error"
    assert "100 fully labelled rows" in figure.get_suptitle() and "3 samples per point" in figure.get_suptitle()
    assert "all_T: T only" in labels_of(figure)
    paid = rat.plot_allocation(dataclasses.replace(study, budget="labels"), measure="ci_width")
    assert paid.axes[0].get_xlabel() == "spent on additional labels"
    assert paid.axes[0].get_ylabel() == "width of the 95 % interval"


def test_one_replicate_has_no_bars_and_is_drawn_all_the_same(study, tmp_path):
    one = rat.allocation_study(THETAS, additional=(20,), replicates=1, size=500, strategies=["all_R"])
    figure = rat.plot_allocation(one)
    figure.savefig(tmp_path / "one.png")
    (line,) = lines(figure.axes[0]).values()
    assert not any(len(segment) for segment in line[2][0].get_segments())
    assert line[0].get_ydata() > 0


def test_chains_that_cannot_be_trusted_are_named_and_hollow(study):
    health = study.table.drop_duplicates(["strategy", "additional"])[["system", "strategy", "additional"]]
    good = health.assign(r_hat=1.01, ess=400.0, divergent=0.001, chains=4)
    assert failed_cells(dataclasses.replace(study, health=good)) == {}
    assert health_sentence(study) == "" and "FAILED" not in rat.plot_allocation(study).get_suptitle()
    assert failed_cells(dataclasses.replace(study, health=good.assign(ess=200.0, chains=2))) == {}
    faults = [("r_hat", 1.011), ("ess", 399.0), ("ess", float("nan")), ("divergent", 0.0011), ("chains", 5)]
    for column, value in faults:
        bad = good.copy()
        bad.loc[bad.index[1], column] = value
        failed = dataclasses.replace(study, health=bad)
        assert set(failed_cells(failed)) == {("all", "all_joint", 60.0)}
        assert "1 of 10 cells" in health_sentence(failed) and "all, all_joint, 60 (" in health_sentence(failed)
        figure = rat.plot_allocation(failed)
        assert "SAMPLING FAILED" in figure.get_suptitle()
        hollow = [
            ln for ln in figure.axes[0].get_lines() if ln.get_markerfacecolor() == "white" and len(ln.get_xdata())
        ]
        assert len(hollow) == 1 and len(hollow[0].get_xdata()) == 1


def test_what_is_not_there_is_refused(study):
    with pytest.raises(ValueError, match="unknown quantity 'p_X'"):
        rat.plot_allocation(study, ["p_X"])
    with pytest.raises(ValueError, match="measure"):
        rat.plot_allocation(study, measure="bias")
    with pytest.raises(ValueError, match="list of names"):
        rat.plot_allocation(study, "p_G")
