"""Which labels to buy next: gains against exact refits, the loop against other rules, what a selection leaves."""

import warnings

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from benchmarks.label_loop import run
from rat_jax.inference.exact import exact_posterior
from rat_jax.model.rat import RAT
from rat_jax.studies.next_labels import candidates, choose, expected_reduction
from rat_jax.studies.situation import read_situations

ROWS = [
    (1, 0, 1, 30), (1, 0, 0, 12), (0, 0, 0, 8), (0, 0, 1, 4), (0, 1, 0, 6), (1, 1, 0, 3),
    (None, 0, None, 120), (None, 1, None, 40), (1, 0, None, 20), (None, 0, 1, 10),
]  # fmt: skip


def read(rows=ROWS) -> rat.Labels:
    return rat.read_labels(pd.DataFrame(rows, columns=["R", "A", "T", "count"]))


@pytest.fixture(scope="module")
def labels():
    return read()


@pytest.fixture(scope="module")
def fit(labels):
    return rat.fit(labels, num_samples=20_000)


def exact_gain(counts: np.ndarray, pattern: np.ndarray, place: int, weights: np.ndarray) -> float:
    """The variance of the posterior mean over the answers of one label, by refitting both tables it could lead to."""
    now = exact_posterior(counts, np.ones((5, 2)))
    means, chances = [], []
    for code in (0, 1):
        after, leaf = counts.copy(), pattern.copy()
        leaf[place] = code
        after[tuple(pattern + 1)] -= 1
        after[tuple(leaf + 1)] += 1
        found = exact_posterior(after, np.ones((5, 2)))
        means.append(found.linear(weights)[0][0, 0])
        chances.append(float(np.exp(found.log_marginal - now.log_marginal)[0]))
    assert np.isclose(sum(chances), 1.0, rtol=1e-9)
    return float(np.array(chances) @ (np.array(means) - np.array(chances) @ np.array(means)) ** 2)


@pytest.mark.parametrize("quantity", ["p_G", "p_T", "p_R"])
def test_the_gain_of_a_label_is_that_of_refitting_every_answer(labels, fit, quantity):
    one = read_situations(fit, quantity)[0]
    counts = np.zeros((3, 3, 3), np.int64)
    for r, a, t, n in ROWS:
        counts[tuple(0 if x is None else x + 1 for x in (r, a, t))] += n
    weights = np.asarray(one.weights)[None]
    found = candidates(RAT, one.cells, one.patterns, {"R": 1.0, "T": 1.0})
    assert len(found) == 5
    for candidate in found:
        place = list(RAT.levels).index(candidate.variable)
        expected = exact_gain(counts, one.patterns[candidate.pattern], place, weights)
        chances = np.concatenate([1 - candidate.chances.sum(axis=1, keepdims=True), candidate.chances], axis=1)
        gain = expected_reduction(one.target(one.cells), chances)
        assert abs(gain - expected) < 0.06 * expected + 2e-4 * one.variance
        [pick] = choose(RAT, one, one.patterns[candidate.pattern][None], np.array([1]), {candidate.variable: 1.0}, 1)
        assert np.isclose(pick.gain, gain, rtol=1e-3)  # linear in the answer, which has two values: the same


def test_t_of_an_abstention_is_worth_exactly_nothing(labels, fit):
    one = read_situations(fit, "p_G")[0]
    abstained = np.array([[-1, 1, -1], [0, 1, -1], [1, 1, -1]], np.int8)
    assert [c.variable for c in candidates(RAT, one.cells, abstained, {"R": 1.0, "T": 1.0})] == ["R"]
    without, with_t = np.zeros((2, 3, 3, 3), np.int64)
    without[0, 2, 0], with_t[0, 2, 1] = 40, 40  # the same rows, T = 0 written down
    pair = exact_posterior(np.stack([without, with_t]), np.ones((5, 2)))
    assert (pair.state_mean[0] == pair.state_mean[1]).all() and (pair.state_cov[0] == pair.state_cov[1]).all()
    chosen = rat.next_labels(fit, labels, k=500, quantity="p_T")
    assert not ((chosen["variable"] == "T") & chosen["seen"].str.contains("A=1")).any()
    assert len(chosen) < 500  # every held row once, none twice


def test_rows_are_listed_once_and_with_what_they_show():
    rows = pd.DataFrame({"id": list("abcdefgh"), "R": [1, 0, 1, 0, None, None, 1, None], "A": [0, 0, 0, 1, 0, 1, 0, 0]})
    rows["T"] = [1, 0, 0, None, None, None, None, 1]
    labels = rat.read_labels(rows)
    chosen = rat.next_labels(rat.fit(labels), labels, k=20)
    assert chosen["row"].is_unique and set(chosen["row"]) <= {4, 5, 6, 7}
    assert dict(zip(chosen["row"], chosen["id"], strict=True)) == {r: "abcdefgh"[r] for r in chosen["row"]}
    seen = dict(zip(chosen["row"], chosen["seen"], strict=True))
    assert seen.get(6, "R=1 A=0") == "R=1 A=0" and seen.get(5, "A=1") == "A=1"


def test_the_order_of_rows_does_not_matter(fit):
    kinds = [
        rat.next_labels(fit, read(rows), k=40)[["seen", "variable"]].values.tolist() for rows in (ROWS, ROWS[::-1])
    ]
    assert kinds[0] == kinds[1]


def test_a_batch_spreads_and_its_gains_fall(fit, labels):
    chosen = rat.next_labels(fit, labels, k=60)
    assert chosen.groupby(["seen", "variable"]).ngroups > 1
    for _, same in chosen.groupby(["seen", "variable"]):
        assert (np.diff(same["gain"]) <= 1e-15).all()
    assert chosen["share"].sum() < 1


def test_a_dear_label_must_tell_more(fit, labels):
    cheap = rat.next_labels(fit, labels, k=30)
    dear = rat.next_labels(fit, labels, k=30, costs={"R": 50})
    assert "R" in set(cheap["variable"]) and set(dear["variable"]) == {"T"}
    assert np.allclose(dear["gain"], dear["gain_per_cost"] * dear["cost"])


def test_systems_compete_for_labels():
    table = pd.DataFrame(ROWS, columns=["R", "A", "T", "count"])
    both = pd.concat([table.assign(system="few"), table.assign(system="many", count=table["count"] * 20)])
    labels = rat.read_labels(both)
    fit = rat.fit(labels)
    assert set(rat.next_labels(fit, labels, k=20)["system"]) == {"few"}
    assert set(rat.next_labels(fit, labels, k=20, system="many")["system"]) == {"many"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"k": 0}, "k: expected a whole number"),
        ({"quantity": "p_X"}, "unknown quantity"),
        ({"costs": {"R": -1}}, "costs"),
        ({"system": "alll"}, "did you mean 'all'"),
    ],
)
def test_what_cannot_be_ranked_is_refused(fit, labels, arguments, said):
    with pytest.raises(ValueError, match=said):
        rat.next_labels(fit, labels, **arguments)


def test_the_table_must_be_of_the_fitted_systems(fit):
    other = pd.DataFrame({"system": ["x"], "R": [None], "A": [0], "T": [1]})
    with pytest.raises(ValueError, match="unknown system in labels 'x'"):
        rat.next_labels(fit, other)


def test_the_loop_narrows_faster_than_labelling_at_random_and_keeps_its_calibration():
    """Label 20, fit again, ask again, on truths drawn from the prior; all rules see the same truths."""
    found = run(loops=60, rounds=3, seed=7)
    last = found.xs(3, level="round")
    assert last.loc["next_labels", "width"] < 0.95 * last.loc["random", "width"]
    assert last.loc["next_labels", "width"] < last.loc["R_then_T", "width"]
    assert (found["coverage"] > 0.95 - 4 * np.sqrt(0.95 * 0.05 / 60)).all()


# -- judges, and what a selection leaves behind -------------------------------------------------------------------


def judged(rng: np.random.Generator, rows: int) -> pd.DataFrame:
    right = rng.random(rows) < 0.6
    says = rng.random(rows) < np.where(right, 0.85, 0.3)
    return pd.DataFrame({"R": 1, "A": 0, "T": right.astype(float), "T_J": says.astype(float)})


@pytest.fixture(scope="module")
def judge():
    """A table with 60 human labels of T among 1,000 verdicts, its fit, and the complete labels."""
    complete = judged(np.random.default_rng(5), 1000)
    held = complete.copy()
    held.loc[60:, "T"] = np.nan
    labels = rat.read_labels(held)
    return complete, labels, rat.fit(labels, "judge", judge_structure="factorized")


def with_known_judge(tpr: float, fpr: float):
    table = judged(np.random.default_rng(1), 80)
    rates = {"tpr_T": tpr, "fpr_T": fpr}
    return rat.fit(table, "judge", judge_structure="fixed", judge_rates=rates)


def test_a_telling_verdict_lowers_the_value_of_a_human_label_and_a_guess_does_not():
    patterns = np.array([[1, 0, -1, -1], [1, 0, -1, 1], [1, 0, -1, 0]], np.int8)
    for rates, low, high in (((0.97, 0.03), 0.0, 0.3), ((0.5, 0.5), 0.999, 1.001)):
        one = read_situations(with_known_judge(*rates), "p_T")[0]
        gain = [choose(one.network, one, pattern[None], np.array([1]), {"T": 1.0}, 1)[0].gain for pattern in patterns]
        assert all(low <= judged / gain[0] <= high for judged in gain[1:])


def test_a_choice_by_a_judge_is_remembered_and_a_model_without_it_is_biased_and_warns(judge):
    """Rows that the judge doubts are labelled: without the verdicts in the model they stand for all rows."""
    complete, labels, fit = judge
    chosen = rat.next_labels(fit, labels, k=300, quantity="p_T")
    assert chosen.attrs["selected_by"] == ("R", "A", "T", "T_J")
    doubted = complete.index[(complete["T_J"] == 0)][:250]
    table = complete.copy()
    table.loc[~table.index.isin([*range(60), *doubted]), "T"] = np.nan
    again = rat.read_labels(table, selected_by=chosen.attrs["selected_by"])
    with pytest.warns(rat.SelectionWarning, match="chosen for labelling by T_J.*use model='judge'"):
        without = rat.fit(again, "rat")
    with warnings.catch_warnings():
        warnings.simplefilter("error", rat.SelectionWarning)
        with_judge = rat.fit(again, "judge", judge_structure="factorized")
    truth = complete["T"].mean()
    biased, right = (f.summary().loc[("all", "p_T")] for f in (without, with_judge))
    assert biased["q97.5"] < truth - 0.05
    assert right["q2.5"] < truth < right["q97.5"]
    assert without.provenance["selected_by"] == ["R", "A", "T", "T_J"]


def test_columns_that_drove_a_selection_are_known_by_the_names_of_the_table():
    table = pd.DataFrame({"R": [1, 0], "A": [0, 1], "T": [1, None], "says": [1, 0], "score": [0.3, 0.9]})
    labels = rat.read_labels(table, {"T_J": "says"}, selected_by=["says", "A", "score"])
    assert labels.selected_by == ("T_J", "A", "score")
    with pytest.warns(rat.SelectionWarning, match="by T_J, score, which model 'rat' leaves out"):
        rat.fit(labels)
    with pytest.raises(rat.LabelError, match=r'no such column. Did you mean "score"'):
        rat.read_labels(table, selected_by=["scor"])


def test_a_selection_by_columns_of_the_model_needs_no_warning():
    table = pd.DataFrame({"R": [1, 0], "A": [0, 1], "T": [1, None]})
    with warnings.catch_warnings():
        warnings.simplefilter("error", rat.SelectionWarning)
        rat.fit(rat.read_labels(table, selected_by=["A", "R"]))


def test_a_selection_survives_collapsing_a_label():
    table = pd.DataFrame({"R": ["fail", "partial", "success"], "A": [1, 0, 0], "T": [0, 0, 1]})
    graded = rat.read_labels(table, selected_by=["A"])
    assert graded.collapse("R", {"fail": 0, "partial": 0, "success": 1}).selected_by == ("A",)


# -- what a judge replaces ----------------------------------------------------------------------------------------


def test_verdicts_replace_more_human_labels_the_more_there_are_up_to_a_limit(judge):
    found = rat.judge_replaces(judge[2], "p_T", rows=[100, 1000, 10_000])
    table, limit = found.table, found.limits.loc["all"]
    assert table["human_rows"].is_monotonic_increasing and (table["human_rows"] <= table["rows"]).all()
    assert (table["width_with_judge"] < table["width_with_A"]).all()
    assert table["width_with_judge"].iloc[-1] >= limit["width_limit"]
    assert limit["human_rows_limit"] >= table["human_rows"].iloc[-1]
    assert "replace" in str(found) and "nan" not in repr(found.to_dict())


def test_the_effective_sample_size_is_that_of_ppi_worked_out_from_the_rows():
    complete = judged(np.random.default_rng(8), 6000)
    fit = rat.fit(complete, "judge", judge_structure="factorized")
    found = rat.judge_replaces(fit, "p_T", rows=[500, 9000]).table["ppi_rows"]
    shared = np.corrcoef(complete["T"], complete["T_J"])[0, 1] ** 2
    for rows, extra in zip((500, 9000), found, strict=True):
        assert extra == pytest.approx(6000 / (1 - shared * rows / (6000 + rows)) - 6000, rel=0.02)


def test_a_judge_that_knows_everything_replaces_every_row_and_one_that_guesses_none():
    for rates, low, high in (((0.999, 0.001), 0.9, 1.0), ((0.5, 0.5), 0.0, 0.02)):
        found = rat.judge_replaces(with_known_judge(*rates), "p_T", rows=[200])
        assert low <= found.table["human_rows"].item() / 200 <= high


def test_only_a_judge_is_asked_what_it_replaces(fit):
    with pytest.raises(ValueError, match="expected a posterior of model 'judge'"):
        rat.judge_replaces(fit)
