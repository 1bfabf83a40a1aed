"""Information gains are the mutual information of the joint distribution, and the paper's closed form.

The second route is plain loops over dictionaries of probabilities, with the textbook sum over (outcome, labels, free
labels); the package takes differences of entropies over a network's states.
"""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from rat_jax.model.graded import graded_network
from rat_jax.studies.information_gain import open_cells

STRATEGIES = ["all_joint", "half_joint_R", "all_R", "half_joint_T", "all_T"]
QWEN = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")
LOPSIDED = {
    "theta_R": 0.03,
    "theta_A_minus": 0.91,
    "theta_A_plus": 0.004,
    "theta_T_minus": 0.37,
    "theta_T_plus": 0.985,
}
GRADED = {"theta_R": [0.2, 0.3, 0.5], "theta_A": [0.5, 0.15, 0.07], "theta_T": [0.1, 0.55, 0.83]}


def joint_of(theta_R, theta_A, theta_T) -> dict[tuple[int, ...], float]:
    """P(R, A, T) by level of R."""
    joint = {}
    for r, (p, a, t) in enumerate(zip(theta_R, theta_A, theta_T, strict=True)):
        joint |= {(r, 1, 0): p * a, (r, 0, 0): p * (1 - a) * (1 - t), (r, 0, 1): p * (1 - a) * t}
    return joint


def joint_of_thetas(t) -> dict[tuple[int, ...], float]:
    return joint_of(
        (1 - t["theta_R"], t["theta_R"]),
        (t["theta_A_minus"], t["theta_A_plus"]),
        (t["theta_T_minus"], t["theta_T_plus"]),
    )


def kept(r, a, t) -> float:
    return float((r == 0 and a == 1) or (r == 1 and a == 0 and t == 1))


def mutual_information(joint, weight, bought, given=(1,)) -> float:
    """I(G; bought | given) in bits; variables by their position in the keys of `joint`."""
    p_gxa, p_ga, p_xa, p_a = {}, {}, {}, {}
    for key, p in joint.items():
        w = weight(*key)
        x, a = tuple(key[i] for i in bought), tuple(key[i] for i in given)
        for g, share in ((1, w), (0, 1 - w)):
            p_gxa[g, x, a] = p_gxa.get((g, x, a), 0.0) + p * share
            p_ga[g, a] = p_ga.get((g, a), 0.0) + p * share
        p_xa[x, a] = p_xa.get((x, a), 0.0) + p
        p_a[a] = p_a.get(a, 0.0) + p
    total = 0.0
    for (g, x, a), p in p_gxa.items():
        if p > 0:
            total += p * (math.log2(p) + math.log2(p_a[a]) - math.log2(p_ga[g, a]) - math.log2(p_xa[x, a]))
    return total


def by_strategy(joint, weight, given=(1,)) -> list[float]:
    both, r, t = (mutual_information(joint, weight, bought, given) for bought in ((0, 2), (0,), (2,)))
    return [both, (both + r) / 2, r, (both + t) / 2, t]


def h(p):
    p = np.asarray(p, float)
    return -(p * np.log2(p) + (1 - p) * np.log2(1 - p))


def paper(t) -> list:
    """Appendix F, equations 1 to 13, for G; numbers or arrays of them, strictly between 0 and 1."""
    right = t["theta_R"] * (1 - t["theta_A_plus"])
    p_a = (1 - t["theta_R"]) * t["theta_A_minus"] + t["theta_R"] * t["theta_A_plus"]
    p_t = right * t["theta_T_plus"] + (1 - t["theta_R"]) * (1 - t["theta_A_minus"]) * t["theta_T_minus"]
    abstained = p_a * h((1 - t["theta_R"]) * t["theta_A_minus"] / p_a)
    both = abstained + (1 - p_a) * h(right * t["theta_T_plus"] / (1 - p_a))
    r = both - right * h(t["theta_T_plus"])
    task = both - abstained - p_t * h(right * t["theta_T_plus"] / p_t)
    return [both, (both + r) / 2, r, (both + task) / 2, task]


# -- numbers ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "generator, exact, printed",
    [
        ("Qwen3.5", [0.524, 0.433, 0.343, 0.337, 0.149], [0.526, 0.436, 0.345, 0.340, 0.154]),
        ("Apertus", [0.492, 0.389, 0.286, 0.346, 0.201], [0.490, 0.387, 0.284, 0.345, 0.200]),
    ],
)
def test_the_papers_table_11_is_met_within_its_rounding(generator, exact, printed):
    """exact: by hand from the rounded thetas; printed: Table 11, whose intermediate entropies carry slips."""
    gains = rat.information_gain(rat.datasets.thetas(f"HotpotQA/hybrid/{generator}"))
    assert gains.tolist() == pytest.approx(exact, abs=0.0005)
    assert gains.tolist() == pytest.approx(printed, abs=0.0055)


def test_the_gains_are_a_series_of_the_papers_strategies_in_bits():
    gains = rat.information_gain(QWEN)
    assert isinstance(gains, pd.Series) and gains.dtype == np.float64
    assert list(gains.index) == STRATEGIES and gains.name == "bits"


@pytest.mark.parametrize("name", [*rat.datasets.names(), "lopsided"])
def test_every_configuration_has_the_closed_form(name):
    thetas = LOPSIDED if name == "lopsided" else rat.datasets.thetas(name)
    assert rat.information_gain(thetas).tolist() == pytest.approx(paper(thetas), abs=1e-12)


@pytest.mark.parametrize("thetas", [QWEN, LOPSIDED], ids=["Qwen", "lopsided"])
@pytest.mark.parametrize(
    "quantity, weight",
    [
        ("p_G", kept),
        ("p_T", lambda r, a, t: float(t)),
        ("p_R", lambda r, a, t: float(r)),
        ("p_A", lambda r, a, t: float(a)),
    ],
)
@pytest.mark.parametrize("given", [("A",), (), ("R",), ("A", "T")])
def test_every_outcome_has_its_mutual_information(thetas, quantity, weight, given):
    gains = rat.information_gain(thetas, quantity=quantity, given=given)
    expected = by_strategy(joint_of_thetas(thetas), weight, tuple("RAT".index(v) for v in given))
    assert gains.tolist() == pytest.approx(expected, abs=1e-12)
    assert (gains >= 0).all()


def test_for_task_success_T_is_all_there_is_to_know():
    gains = rat.information_gain(QWEN, quantity="p_T")
    assert gains["all_T"] == pytest.approx(gains["all_joint"], abs=1e-15)
    assert 0 < gains["all_R"] < gains["all_T"]


@pytest.mark.parametrize("corner", list(itertools.product((0.0, 1.0), repeat=5)))
def test_cells_of_probability_zero_give_zero_and_no_nan(corner):
    thetas = dict(zip(QWEN, corner, strict=True))
    gains = rat.information_gain(thetas)
    assert gains.tolist() == [0.0] * 5  # nothing is left to chance, so nothing can be learnt


@pytest.mark.parametrize("name", QWEN)
@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 5e-324])
def test_one_certain_step_leaves_the_rest_right(name, value):
    thetas = QWEN | {name: value}
    expected = by_strategy(joint_of_thetas(thetas), kept)
    assert rat.information_gain(thetas).tolist() == pytest.approx(expected, abs=1e-12)


# -- policies and models ------------------------------------------------------------------------------------------
def test_a_soft_policy_makes_the_outcome_a_coin_that_labels_do_not_settle():
    def soft(r, a, t):
        return 0.3 if (r, a, t) == (0, 0, 1) else 0.85 * kept(r, a, t)

    gains = rat.information_gain(QWEN, policy=lambda s: soft(s["R"], s["A"], s["T"]))
    joint = joint_of_thetas(QWEN)
    assert gains.tolist() == pytest.approx(by_strategy(joint, soft), abs=1e-12)
    p_a = {a: sum(p for s, p in joint.items() if s[1] == a) for a in (0, 1)}
    share = {a: sum(p * soft(*s) for s, p in joint.items() if s[1] == a) / p_a[a] for a in (0, 1)}
    assert gains["all_joint"] < sum(p_a[a] * float(h(share[a])) for a in (0, 1)) - 0.01


def test_a_policy_that_weighs_all_states_alike_can_tell_nothing():
    assert rat.information_gain(QWEN, policy=[0.4] * 6).max() < 1e-12


def strict(r, a, t):
    return float((r < 2 and a == 1) or (r == 2 and a == 0 and t == 1))


def lenient(r, a, t):
    return float((r < 2 and a == 1) or (r > 0 and a == 0 and t == 1))


@pytest.mark.parametrize(
    "asked, weight",
    [
        ({}, strict),
        ({"quantity": "p_G_lenient"}, lenient),
        ({"policy": "lenient"}, lenient),
        ({"quantity": "p_R"}, lambda r, a, t: float(r == 2)),
    ],
)
def test_graded_retrieval_is_the_same_machine(asked, weight):
    gains = rat.information_gain(GRADED, model="graded", **asked)
    expected = by_strategy(joint_of(GRADED["theta_R"], GRADED["theta_A"], GRADED["theta_T"]), weight)
    assert gains.tolist() == pytest.approx(expected, abs=1e-12)


def test_more_levels_and_a_network_of_ones_own():
    values = {"theta_R": [0.1, 0.2, 0.3, 0.4], "theta_A": [0.6, 0.4, 0.2, 0.1], "theta_T": [0.1, 0.3, 0.5, 0.9]}
    expected = by_strategy(
        joint_of(values["theta_R"], values["theta_A"], values["theta_T"]),
        lambda r, a, t: float((r < 3 and a == 1) or (r == 3 and a == 0 and t == 1)),
    )
    assert rat.information_gain(values, model="graded").tolist() == pytest.approx(expected, abs=1e-12)
    network = graded_network(["none", "some", "most", "all"])
    assert rat.information_gain(values, model=network).tolist() == pytest.approx(expected, abs=1e-12)


def test_what_people_add_to_a_judges_verdicts():
    rates = {"tpr_R": 0.9, "fpr_R": 0.25, "tpr_T": 0.94, "fpr_T": 0.32}
    joint = {}
    for (r, a, t), p in joint_of_thetas(QWEN).items():
        for r_j, t_j in itertools.product((0, 1), repeat=2):
            says_r = rates["tpr_R"] if r else rates["fpr_R"]
            says_t = rates["tpr_T"] if t else rates["fpr_T"]
            joint[r, a, t, r_j, t_j] = p * (says_r if r_j else 1 - says_r) * (says_t if t_j else 1 - says_t)

    def weight(r, a, t, r_j, t_j):
        return kept(r, a, t)

    beyond = rat.information_gain(QWEN | rates, model="judge", given=("A", "R_J", "T_J"))
    assert beyond.tolist() == pytest.approx(by_strategy(joint, weight, given=(1, 3, 4)), abs=1e-12)
    verdicts = rat.information_gain(QWEN | rates, model="judge", strategies={"judge": {"judge": 1.0}})
    assert verdicts.tolist() == pytest.approx([mutual_information(joint, weight, (3, 4))], abs=1e-12)
    assert (beyond < rat.information_gain(QWEN)).all()


# -- strategies and costs -----------------------------------------------------------------------------------------
def test_strategies_of_ones_own_average_by_share():
    paper_five = rat.information_gain(QWEN)
    own = {"mixed": {"RT": 0.2, "R": 0.5, "": 0.3}, "none": {"": 1.0}, "other": {("R", "T"): 0.5, "T": 0.5}}
    gains = rat.information_gain(QWEN, strategies=own)
    assert list(gains.index) == ["mixed", "none", "other"]
    assert gains["mixed"] == pytest.approx(0.2 * paper_five["all_joint"] + 0.5 * paper_five["all_R"], abs=1e-14)
    assert gains["none"] == 0.0 and gains["other"] == pytest.approx(paper_five["half_joint_T"], abs=1e-14)


def test_a_gain_per_cost_divides_by_what_a_row_costs():
    gains, per_cost = rat.information_gain(QWEN), rat.information_gain(QWEN, costs={"R": 1, "T": 3})
    assert per_cost.tolist() == pytest.approx((gains / [4, 2.5, 1, 3.5, 3]).tolist(), abs=1e-14)
    assert per_cost.name == "bits per unit of cost"
    nothing = rat.information_gain(QWEN, strategies={"none": {"": 1.0}, "free": {"A": 1.0}}, costs={})
    assert nothing.tolist() == [0.0, 0.0]


def test_a_rule_learns_as_much_as_all_labels_and_pays_only_where_T_can_tell():
    joint = joint_of_thetas(QWEN)
    gains = rat.information_gain(QWEN, strategies=["all_joint", "R_then_T"])
    assert gains["R_then_T"] == pytest.approx(gains["all_joint"], abs=1e-14)
    per_cost = rat.information_gain(QWEN, strategies=["R_then_T"], costs={"R": 1, "T": 5})
    bought = 1 + 5 * (joint[1, 0, 0] + joint[1, 0, 1])  # T where R = 1 and A = 0
    assert per_cost["R_then_T"] == pytest.approx(gains["all_joint"] / bought, abs=1e-14)


def test_T_is_never_paid_for_where_the_system_abstained():
    joint = joint_of_thetas(QWEN)
    asked = {"quantity": "p_T", "strategies": ["all_T", "T_where_answered"]}
    gains, per_cost = (rat.information_gain(QWEN, **asked, costs=costs) for costs in (None, {"T": 2}))
    assert gains["T_where_answered"] == pytest.approx(gains["all_T"], abs=1e-14)
    answered = sum(p for s, p in joint.items() if s[1] == 0)
    assert per_cost["T_where_answered"] == pytest.approx(gains["all_T"] / (2 * answered), abs=1e-14)


# -- a posterior --------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def fit():
    return rat.fit(rat.example_labels(), method="exact")


def test_a_posterior_gives_the_gains_of_its_draws(fit):
    table = rat.information_gain(fit)
    assert list(table) == ["mean", "q2.5", "q97.5"] and table.index.names == ["system", "strategy"]
    assert list(table.index) == list(itertools.product(fit.systems, STRATEGIES))
    for system in fit.systems:
        draws = {name: fit.draws(name, system=system).ravel() for name in QWEN}
        for strategy, values in zip(STRATEGIES, paper(draws), strict=True):
            expected = [values.mean(), *np.quantile(values, [0.025, 0.975])]
            assert table.loc[system, strategy].tolist() == pytest.approx(expected, abs=1e-10)


def test_a_posterior_brings_its_policy_and_another_may_be_asked_for(fit):
    soft = [0.2, 0.1, 0.9, 0.0, 0.8, 0.3]
    other = rat.fit(rat.example_labels(), method="exact", policy=soft)
    pd.testing.assert_frame_equal(rat.information_gain(other), rat.information_gain(fit, policy=soft))
    assert not np.allclose(rat.information_gain(other), rat.information_gain(fit))


# -- cells that are open ------------------------------------------------------------------------------------------
def test_table_3a_follows_from_the_network():
    table = open_cells()
    outcome = {
        (r, a): str(int(low)) if settled else open_to
        for r, a, settled, low, open_to in table[["R", "A", "settled", "lowest", "open_to"]].itertuples(index=False)
    }
    assert outcome == {(0, 1): "1", (0, 0): "0", (1, 1): "0", (1, 0): "T"}


def test_cells_of_A_and_T_leave_two_of_three_open_to_R():
    table = open_cells(seen=("A", "T")).set_index(["A", "T"])
    assert table["open_to"].to_dict() == {(0, 0): "", (0, 1): "R", (1, 0): "R"}


def test_open_cells_of_graded_retrieval_and_of_other_outcomes():
    lenient_cells = open_cells("graded", quantity="p_G_lenient").set_index(["R", "A"])["open_to"].to_dict()
    assert lenient_cells == {(0, 0): "", (0, 1): "", (1, 0): "T", (1, 1): "", (2, 0): "T", (2, 1): ""}
    assert open_cells(quantity="p_T", seen=["A"])["open_to"].tolist() == ["T", ""]
    soft = open_cells(policy=[0.2, 0.4, 1, 0, 1, 0]).set_index(["R", "A"]).loc[(0, 0)]
    assert (soft["lowest"], soft["highest"], soft["settled"]) == (0.2, 0.4, False)


# -- errors -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "source, options, message",
    [
        (QWEN | {"theta_r": 0.5}, {}, "unknown parameter of model 'rat' 'theta_r'; did you mean 'theta_R'"),
        ({"theta_R": 0.5}, {}, "found no value for theta_A_minus, theta_A_plus, theta_T_minus, theta_T_plus"),
        (QWEN | {"theta_R": 1.2}, {}, r"expected a number in \[0, 1\] for theta_R, found 1.2"),
        (QWEN | {"theta_R": float("nan")}, {}, "for theta_R, found nan"),
        (QWEN | {"theta_R": "many"}, {}, "for theta_R, found 'many'"),
        (QWEN | {"theta_R": [0.1, 0.2]}, {}, r"expected a number in \[0, 1\] for theta_R, found \[0.1, 0.2\]"),
        (GRADED | {"theta_R": [0.2, 0.3, 0.4]}, {"model": "graded"}, "theta_R must add up to 1 .*found 0.9"),
        (GRADED | {"theta_A": [0.2, 0.3]}, {"model": "graded"}, r"expected 3 \(retrieval\) numbers .* for theta_A"),
        (QWEN, {"quantity": "p_g"}, "unknown quantity 'p_g'; did you mean 'p_G'"),
        (QWEN, {"quantity": "theta_T_plus"}, "unknown quantity 'theta_T_plus'"),
        (QWEN, {"model": "ratt"}, "unknown model 'ratt'; did you mean 'rat'"),
        (QWEN, {"given": ("a",)}, "unknown label 'a'; did you mean 'A'"),
        (QWEN, {"policy": "lenient"}, "unknown policy of model 'rat' 'lenient'"),
        (QWEN, {"policy": [2.0] * 6}, r"weights must lie in \[0, 1\], found 2.0"),
        (QWEN, {"strategies": ["all_r"]}, "unknown strategy 'all_r'; did you mean 'all_R'"),
        (QWEN, {"strategies": {"odd": {"RT": 0.5}}}, "shares of 'odd' must add up to 1, found 0.5"),
        (QWEN, {"strategies": {"odd": {"RX": 1.0}}}, "unknown label"),
        (QWEN, {"costs": {"R": 1}}, "expected a cost for R, T, found none for T"),
        (QWEN, {"costs": {"R": 1, "T": 0}}, "expected a number above 0 for 'T', found 0"),
        (QWEN, {"costs": {"R": 1, "t": 1}}, "unknown label in costs 't'; did you mean 'T'"),
        ([0.1, 0.2], {}, r"source: expected parameters by name.* or a Posterior, found \[0.1, 0.2\]"),
    ],
)
def test_errors_say_what_was_expected_and_found(source, options, message):
    with pytest.raises(ValueError, match=message):
        rat.information_gain(source, **options)


def test_a_posterior_is_not_read_as_another_model(fit):
    with pytest.raises(ValueError, match="the posterior is of model 'rat', found 'graded'"):
        rat.information_gain(fit, model="graded")
