"""The figure of both sides of abstention draws what its table holds, and no line where there is no answer."""

import numpy as np
import pandas as pd
import pytest
from decisions import THETAS, tables

import rat_jax as rat

OLD = dict(zip(THETAS, (0.7, 0.55, 0.1, 0.3, 0.8), strict=True))


@pytest.fixture(scope="module")
def frame():
    return tables(300, old=OLD, new=OLD | {"theta_A_minus": 0.9})


@pytest.fixture(scope="module")
def found(frame):
    return rat.abstention(rat.fit(frame), costs={"wrong_answer": 3, "unsupported_answer": 0})


def drawn(ax):
    return {line.get_gid(): line for line in ax.lines if " | " in str(line.get_gid())}


def test_every_rate_and_change_is_drawn_where_it_is(found):
    axes = np.reshape(rat.plot_abstention(found).axes, (2, 2))
    for system, (left, right) in zip(found.cost.index, axes, strict=True):
        for place, level in enumerate(("0", "1")):
            row = found.rates.loc[(system, level)]
            lines = [line for line in left.lines if line.get_gid() == f"{system} | abstains | {level}"]
            interval, mean = lines
            assert list(interval.get_xdata()) == [row["q2.5"], row["q97.5"]] and list(mean.get_xdata()) == [row["mean"]]
            assert set(interval.get_ydata()) == {-float(place)}
        for name in ("same_odds", "at_random", "by_retrieval"):
            line = drawn(right)[f"{system} | {name}"]
            told = {odds: found.moves.loc[[(system, name, odds)], "change"].item() for odds in found.odds} | {1.0: 0.0}
            assert dict(zip(line.get_xdata(), line.get_ydata(), strict=True)) == told
            assert right.get_ylim()[0] < min(told.values()) and max(told.values()) < right.get_ylim()[1]
        assert f"{found.cost.loc[system, 'mean']:.3f}" in right.get_title(loc="left")
    assert left.get_xlim() == (0, 1) and axes[0, 1].get_ylim() == axes[1, 1].get_ylim()


def test_the_cost_table_is_told_with_the_figure(found):
    assert (
        rat.plot_abstention(found).legends[0].get_title().get_text() == "Costs: wrong answer 3, unneeded abstention 1"
    )


def test_without_an_answer_there_is_a_reason_and_no_line(frame):
    blind = rat.abstention(rat.fit(frame.drop(columns="T")))
    axes = np.reshape(rat.plot_abstention(blind).axes, (2, 2))
    for left, right in axes:
        assert not drawn(right) and any("NO ANSWER\n" in text.get_text() for text in right.texts)
        assert "not known" in right.get_title(loc="left") and len(drawn(left)) == 2
    bad = rat.abstention(rat.fit(frame, method="nuts", num_warmup=3, num_samples=8, on_failure="keep"))
    assert any("CANNOT BE TRUSTED" in text.get_text() for text in rat.plot_abstention(bad).axes[1].texts)


def test_levels_of_retrieval_have_a_row_each():
    rows = {"R": ["fail", "partial", "success"] * 20, "A": [1, 0, 0] * 20, "T": [0, 0, 1] * 20}
    fit = rat.fit(pd.DataFrame(rows), "graded", num_warmup=200, num_samples=200, on_failure="keep")
    left = rat.plot_abstention(rat.abstention(fit)).axes[0]
    assert [label.get_text() for label in left.get_yticklabels()] == [
        f"retrieval {level}" for level in ("fail", "partial", "success")
    ]
