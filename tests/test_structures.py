"""Error structures told apart where the rows can, and not where they cannot: planted truths and closed forms."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from conjugate import factorized, posterior, simulated

import rat_jax as rat
from rat_jax.studies.error_rates import calibrating, error_rates, rows_per_system
from rat_jax.studies.leave_one_out import leave_one_out
from rat_jax.studies.structures import compare_structures, free_rates

TRUE_RATES = {"tpr_R": 0.85, "fpr_R": 0.2, "tpr_T": 0.9, "fpr_T": 0.25}
WRONG_RATES = TRUE_RATES | {"tpr_R": 0.95, "fpr_T": 0.1}
ESTIMATED = ("joint", "factorized", "by_abstention")


def dependent(r, a, t, rng):
    """Half of the time the judge repeats itself: its verdict on T is its verdict on R."""
    verdicts = factorized()(r, a, t, rng)
    return verdicts | {"T_J": np.where(rng.random(len(r)) < 0.5, verdicts["R_J"], verdicts["T_J"])}


def by_abstention(r, a, t, rng):
    """Where the system abstained the judge takes the retrieval for sufficient and sees that nothing is correct."""
    answered, abstained = factorized()(r, a, t, rng), factorized(fpr_R=0.6, tpr_R=0.95, fpr_T=0.02)(r, a, t, rng)
    return {name: np.where(a, abstained[name], answered[name]) for name in answered}


def compared(labels, structures=ESTIMATED, rates=None, **options):
    fits = {name: posterior(labels, name, **options) for name in structures}
    if rates:
        fits["fixed"] = posterior(labels, "fixed", rates=rates, **options)
    return compare_structures(fits)


@pytest.mark.parametrize(
    ("judge", "truth"),
    [(dependent, "joint"), (factorized(), "factorized"), (by_abstention, "by_abstention")],
    ids=["joint", "factorized", "by_abstention"],
)
def test_the_planted_structure_is_recommended(judge, truth):
    for seed in range(4):
        result = compared(simulated(800, judge, seed), draws=1000)
        assert result.recommended == truth
        assert truth in result.alike


def test_dependent_errors_leave_no_doubt():
    result = compared(simulated(800, dependent))
    assert result.alike == ("joint",) and result.table.index[0] == "joint"
    assert (result.table.loc[["factorized", "by_abstention"], "elpd_diff"] < -50).all()
    assert "The rows support joint." in str(result)


def test_where_the_simpler_one_is_true_the_others_are_not_better():
    """What joint loses by its 14 rates too many: about half a nat for each."""
    losses = []
    for seed in range(8):
        table = compared(simulated(800, factorized(), seed), draws=1000).table
        losses.append(table.loc["factorized", "elpd"] - table.loc["joint", "elpd"])
    assert np.mean(losses) == pytest.approx(7, abs=3.5)


@pytest.mark.parametrize("structure", ESTIMATED)
def test_accuracy_has_a_closed_form(structure):
    """A row of human and judge labels left out: the product of (count + 1) / (total + outcomes) in every table."""
    rows = simulated(400, by_abstention)
    fit = posterior(rows, structure, draws=20_000)
    accuracy = leave_one_out(fit)
    network, total = fit.network, 0.0
    names = [v.name for v in network.variables]
    records = [(dict(zip(names, row[:-1], strict=True)), row[-1]) for row in rows[[*names, "count"]].to_numpy()]
    for own, count in records:
        for table in network.tables:
            if table.variables == ("T",) and own["A"] == 1:
                continue
            alike = [(x, n - (x == own)) for x, n in records if all(x[p] == own[p] for p in table.parents)]
            same = sum(n for x, n in alike if all(x[v] == own[v] for v in table.variables))
            outcomes = 2 ** len(table.variables)
            total += count * np.log((same + 1) / (sum(n for _, n in alike) + outcomes))
    assert accuracy.elpd == pytest.approx(total, abs=4 * accuracy.mc_error)
    assert accuracy.mc_error < 0.2


def test_given_rates_are_contradicted_only_where_they_are_wrong():
    rows = simulated(800, factorized())
    right, wrong = compared(rows, ["factorized"], TRUE_RATES), compared(rows, ["factorized"], WRONG_RATES)
    assert set(right.alike) == {"factorized", "fixed"} and "not contradicted" in str(right)
    assert wrong.alike == ("factorized",) and "do not fit these rows" in str(wrong)
    assert right.recommended == wrong.recommended == "factorized"  # rates taken for certain are no one's default


def test_figures_are_those_of_the_fits():
    rows = simulated(300, factorized())
    fits = {name: posterior(rows, name) for name in ("joint", "factorized")}
    result = compare_structures(fits)
    for name, fit in fits.items():
        accuracy = leave_one_out(fit)
        assert result.table.loc[name, "elpd"] == accuracy.elpd and result.table.loc[name, "se"] == accuracy.se
        for quantity in ("p_G", "p_T"):
            expected = fit.summary().loc[("all", quantity), ["mean", "q2.5", "q97.5"]].to_list()
            found = result.answers.loc[("all", quantity, name)]
            assert found[["mean", "q2.5", "q97.5"]].to_list() == expected and found["informed"]
    assert result.table["elpd_diff"].max() == 0 and result.table["elpd_diff"].iloc[0] == 0
    assert result.rows == result.calibration_rows == 300


def test_the_answer_is_said_to_move_only_where_it_does():
    rows = simulated(300, factorized())
    one, two = posterior(rows, "factorized"), posterior(rows, "factorized", seed=1)
    same = [text for text in compare_structures({"one": one, "two": two}).sentences() if text.startswith("p_")]
    assert len(same) == 2 and all("less than half of its interval" in text for text in same)
    moved = replace(two, data=two.data.assign(p_G=two.data["p_G"] - 0.1))
    apart = [text for text in compare_structures({"one": one, "two": moved}).sentences() if text.startswith("p_")]
    assert apart[0].startswith("p_G of all") and "more than half of its interval" in apart[0]
    assert "less than half of its interval" in apart[1]


def test_without_rows_of_both_kinds_nothing_is_recommended():
    """Human labels without a verdict: the error tables are their priors, whatever the elpd says."""
    rows = simulated(200, factorized())
    apart = pd.concat([rows.assign(R_J=None, T_J=None), pd.DataFrame({"A": [0], "system": "all", "count": 5})])
    result = compared(apart, ["joint", "factorized"])
    assert result.calibration_rows == 0 and result.recommended is None
    assert result.sentences()[0].startswith("No row carries a human label and a judge's verdict on it")


def test_an_abstention_calibrates_the_verdict_on_t():
    rows = simulated(10, factorized()).drop(columns=["R_J"])
    network = posterior(rows, "factorized", draws=100).network
    kinds = pd.DataFrame(
        {"R": [0, 1, None, None], "A": [1, 0, 0, None], "T": [None, None, 1, 0], "T_J": [1, 1, None, 0]}
    )
    kinds = kinds.assign(system=["b", "b", "b", "a"], count=[30, 7, 9, 2])
    chosen = calibrating(network, rat.read_labels(kinds).counts())
    table = rows_per_system(rat.read_labels(kinds).counts(), chosen, ["a", "b"])
    assert table["T_J"].to_dict() == {"a": 2, "b": 30}


def test_free_rates_are_counted():
    rows = simulated(50, factorized())
    expected = {"joint": 18, "factorized": 4, "by_abstention": 7}
    for structure, number in expected.items():
        network = posterior(rows, structure, draws=100).network
        assert free_rates(network) == number
        assert len(error_rates(network)) == (12 if structure == "joint" else number)
    assert free_rates(posterior(rows, "fixed", rates=TRUE_RATES, draws=100).network) == 0


def test_the_result_is_plain_json():
    result = compared(simulated(100, factorized()), ["joint", "factorized"], TRUE_RATES)
    again = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [line["structure"] for line in again["structures"]] == list(result.table.index)
    assert again["sentences"] == result.sentences()


@pytest.mark.chains
def test_labels_are_fitted_once_per_structure():
    """The whole way by chains, held against independent draws of the same posteriors."""
    rows, calls = simulated(300, factorized()), []
    result = compare_structures(
        rows,
        ["factorized"],
        judge_rates=TRUE_RATES,
        num_warmup=400,
        num_samples=400,
        progress=lambda done, total: calls.append((done, total)),
    )
    reference = compared(rows, ["factorized"], TRUE_RATES)
    assert set(result.table.index) == {"factorized", "fixed"}
    for name, line in reference.table.iterrows():
        error = np.hypot(line["mc_error"], result.table.loc[name, "mc_error"])
        assert result.table.loc[name, "elpd"] == pytest.approx(line["elpd"], abs=4 * error)
    assert calls[-1][0] == calls[-1][1] and len({total for _, total in calls}) == 1
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_mistakes_are_named():
    rows = simulated(50, factorized())
    with pytest.raises(ValueError, match="did you mean 'factorized'"):
        compare_structures(rows, ["factorised", "joint"])
    with pytest.raises(ValueError, match="at least two to compare, found joint"):
        compare_structures(rows, ["joint"])
    with pytest.raises(ValueError, match="'fixed' needs judge_rates"):
        compare_structures(rows, ["joint", "fixed"])
    human = rat.fit(rows.drop(columns=["R_J", "T_J"]))
    with pytest.raises(
        ValueError, match="expected posteriors of model 'judge', found a posterior of model 'rat' as 'x'"
    ):
        compare_structures({"x": human, "y": human})
    one, other = posterior(rows, "factorized"), posterior(simulated(60, factorized()), "factorized")
    with pytest.raises(ValueError, match="different rows"):
        compare_structures({"x": one, "y": other})
