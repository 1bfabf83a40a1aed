"""The figure of `baselines` shows what its table holds, and says what the table does not."""

import matplotlib.lines
import matplotlib.text
import pandas as pd
import pytest

import rat_jax as rat


def estimates(**rows):
    index = pd.MultiIndex.from_tuples([("s", method) for method in rows], names=["system", "method"])
    table = pd.DataFrame(list(rows.values()), index=index, columns=["estimate", "low", "high"])
    return table.astype("Float64")


def drawn(ax):
    """What the lines of the axes span, as (colour, lowest x, highest x)."""
    lines = [line for line in ax.findobj(matplotlib.lines.Line2D) if line.axes is ax and len(line.get_xdata()) == 2]
    return {(line.get_color(), *map(float, line.get_xdata())) for line in lines}


def words(ax):
    return " ".join(text.get_text() for text in ax.findobj(matplotlib.text.Text))


def test_every_interval_is_drawn_where_it_is():
    ax = rat.plot_estimates(estimates(naive=(0.5, 0.4, 0.6), ppi=(0.3, 0.2, 0.7)))
    assert {line[1:] for line in drawn(ax) if line[1] != line[2]} >= {(0.4, 0.6), (0.2, 0.7)}
    assert {text.get_text() for text in ax.get_legend().get_texts()} == {"judge's own rate", "PPI++"}


def test_a_method_without_an_answer_is_named():
    ax = rat.plot_estimates(estimates(naive=(0.5, 0.4, 0.6), rogan_gladen=(pd.NA, pd.NA, pd.NA)))
    assert "Rogan-Gladen: no answer" in words(ax)
    assert "judge's own rate: no answer" not in words(ax)


@pytest.mark.parametrize(("row", "written"), [((1.4, 0.9, 1.9), "1.40"), ((-0.2, -0.6, 0.2), "-0.20")])
def test_an_estimate_outside_the_axis_is_written_as_a_number(row, written):
    ax = rat.plot_estimates(estimates(rogan_gladen=row))
    assert written in words(ax)
    assert ax.get_xlim() == (0, 1)
    heads = {line.get_marker() for line in ax.get_lines()}
    assert heads & {"<", ">"}


def test_methods_of_any_name_are_told_apart():
    ax = rat.plot_estimates(estimates(first=(0.5, 0.4, 0.6), second=(0.3, 0.2, 0.7), posterior=(0.4, 0.3, 0.5)))
    handles = ax.get_legend().legend_handles
    assert len({(h.get_color(), h.get_marker()) for h in handles}) == 3
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["first", "second", "posterior"]


def test_the_truth_is_drawn_only_where_it_is_known():
    table = estimates(naive=(0.5, 0.4, 0.6))
    for truth, there in ((None, False), ({"s": 0.45}, True), (pd.Series({"s": 0.45}), True), ({"other": 0.45}, True)):
        ax = rat.plot_estimates(table, truth)
        assert ("truth" in words(ax)) is there
    assert not rat.plot_estimates(table, {"other": 0.45}).collections


def test_another_table_is_refused():
    with pytest.raises(ValueError, match="expected a table as `baselines` gives it"):
        rat.plot_estimates(pd.DataFrame({"estimate": [0.5]}))
