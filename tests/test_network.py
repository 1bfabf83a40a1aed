"""The network machine: states, cells, patterns and quantities follow from the declaration."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from declarations import ALL, FACTORIZED_JUDGES, FIXED, GRADED, JUDGE, RATES, name_of

from rat_jax.model.declaration import Policy, Probability, Table, Variable
from rat_jax.model.judge import judge_network
from rat_jax.model.models import declare, network_of
from rat_jax.model.network import Network
from rat_jax.model.patterns import all_patterns, allowed_states, count_table
from rat_jax.model.priors import Priors, concentrations, describe
from rat_jax.model.quantities import (
    cells_from_parameters,
    evaluate,
    parameters_from_cells,
    probability,
    state_probabilities,
)
from rat_jax.model.rat import RAT

by_name = pytest.mark.parametrize("network", ALL, ids=name_of)


def random_cells(network, seed=0, size=()):
    """Random cell probabilities, drawn from each row's uniform prior."""
    rng = np.random.default_rng(seed)
    parts = []
    for layout in network.layouts:
        rows = rng.dirichlet(np.ones(len(layout.outcomes)), size=(*size, len(layout.rows)))
        parts.append(rows.reshape(*size, -1))
    return np.where(network.is_known, np.exp(network.known_cells), np.concatenate(parts, axis=-1))


def joint_by_hand(cells):
    """P(R, A, T) of the RAT model, written out from its five probabilities."""
    r, a0, a1, t0, t1 = cells[1::2]
    joint = {}
    for R, A, T in itertools.product((0, 1), repeat=3):
        a, t = (a1, t1) if R else (a0, t0)
        p = (r if R else 1 - r) * (a if A else 1 - a)
        joint[R, A, T] = p * ((1 - T) if A else (t if T else 1 - t))
    return joint


def test_rat_has_six_states_and_five_parameters():
    assert RAT.states.tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]]
    assert [p.name for p in RAT.parameters] == [
        "theta_R",
        "theta_A_minus",
        "theta_A_plus",
        "theta_T_minus",
        "theta_T_plus",
    ]
    assert RAT.quantity_names[5:] == ("p_R", "p_A", "p_T", "p_G")
    assert RAT.policy == Policy("G", (0, 0, 1, 0, 1, 0))


def test_graded_retrieval_has_nine_states_and_the_judge_eighteen_degrees_of_freedom():
    assert len(GRADED.states) == 9
    shape = {p.name: tuple(map(len, p.coords)) for p in GRADED.parameters}
    assert shape == {"theta_R": (3,), "theta_A": (3,), "theta_T": (3,)}
    assert GRADED.parameters[2].coords == (("fail", "partial", "success"),)
    judge = JUDGE.layouts[-1]
    assert len(judge.rows) * (len(judge.outcomes) - 1) == 18
    assert len(JUDGE.states) == len(FACTORIZED_JUDGES.states) == 6  # judges never multiply the states


def test_rat_states_have_the_probabilities_worked_out_by_hand():
    cells = random_cells(RAT)
    joint = joint_by_hand(cells)
    for state, p in zip(RAT.states, state_probabilities(RAT, cells), strict=True):
        assert p == pytest.approx(joint[tuple(map(int, state))], rel=1e-14)


@by_name
def test_state_probabilities_sum_to_one(network):
    assert state_probabilities(network, random_cells(network, size=(7,))).sum(-1) == pytest.approx(np.ones(7))


@by_name
def test_parameters_and_cells_are_two_ways_to_write_the_same(network):
    cells = random_cells(network, size=(2, 3))
    assert cells_from_parameters(network, parameters_from_cells(network, cells)) == pytest.approx(cells)


def test_rat_quantities_match_their_formulas():
    cells = random_cells(RAT, seed=3)
    joint = joint_by_hand(cells)
    values = evaluate(RAT, RAT.policies, cells)
    assert values["p_A"] == pytest.approx(sum(p for (_, a, _), p in joint.items() if a))
    assert values["p_T"] == pytest.approx(joint[0, 0, 1] + joint[1, 0, 1])
    assert values["p_G"] == pytest.approx(joint[0, 1, 0] + joint[1, 0, 1])
    assert values["theta_R"] == cells[1]
    assert values["p_R"] == pytest.approx(cells[1], rel=1e-14)


def test_judge_quantities_match_enumeration_over_all_24_outcomes():
    cells = random_cells(JUDGE, seed=1)
    states, table = state_probabilities(JUDGE, cells), cells[10:].reshape(6, 4)
    joint = {}
    for j, state in enumerate(JUDGE.states):
        for v, (rj, tj) in enumerate(itertools.product((0, 1), repeat=2)):
            joint[(*map(int, state), rj, tj)] = states[j] * table[j, v]
    total = sum(p for o, p in joint.items() if o[0] == 1)
    tpr = sum(p for o, p in joint.items() if o[0] == 1 and o[3] == 1) / total
    wrong = sum(p for o, p in joint.items() if o[2] == 0)
    fpr = sum(p for o, p in joint.items() if o[2] == 0 and o[4] == 1) / wrong
    values = evaluate(JUDGE, JUDGE.policies, cells)
    assert values["tpr_R"] == pytest.approx(tpr)
    assert values["fpr_T"] == pytest.approx(fpr)
    assert values["p_RJ"] == pytest.approx(sum(p for o, p in joint.items() if o[3] == 1))


def test_graded_policies_are_the_states_written_out():
    strict = {"010", "110", "201"}
    lenient = strict | {"101"}
    names = ["".join(map(str, s)) for s in GRADED.states]
    for quantity, kept in {"p_G": strict, "p_G_strict": strict, "p_G_lenient": lenient}.items():
        assert {n for n, w in zip(names, GRADED.policies[quantity].weights, strict=True) if w} == kept
    assert set(GRADED.policies) == {"p_G", "p_G_strict", "p_G_lenient"}


def test_known_rates_are_constants_and_not_parameters():
    assert [p.name for p in FIXED.parameters] == [p.name for p in RAT.parameters]
    values = evaluate(FIXED, FIXED.policies, random_cells(FIXED, size=(3,)))
    for name, rate in RATES.items():
        assert values[name] == pytest.approx([rate] * 3, rel=1e-14)
    assert values["youden_R"] == pytest.approx([0.5] * 3)
    assert values["judge"].shape == (3, 6, 4)
    assert values["judge"].sum(-1) == pytest.approx(np.ones((3, 6)))
    assert values["judge"][0, 4, 3] == pytest.approx(0.8 * 0.9)  # R=1 A=0 T=1 judged R_J=1 T_J=1


@pytest.mark.parametrize("structure", ["joint", "factorized", "by_abstention"])
def test_every_error_structure_has_the_same_quantities(structure):
    names = set(judge_network(["R_J", "T_J"], structure).quantity_names)
    rates = {f"{kind}_{label}" for kind in ("tpr", "fpr", "youden") for label in "RT"}
    assert names >= rates | {"p_RJ", "p_TJ", "judge", "p_G", *(p.name for p in RAT.parameters)}


def test_quantities_of_named_judges_end_with_their_name():
    names = judge_network(["T_J", "R_J.gpt4", "T_J.gpt4"]).quantity_names
    assert {"tpr_T", "judge", "tpr_R.gpt4", "fpr_T.gpt4", "p_RJ.gpt4", "youden_T.gpt4", "judge.gpt4"} <= set(names)
    assert "tpr_R" not in names  # the unnamed judge says nothing about R


@pytest.mark.parametrize(
    ("structure", "rates", "message"),
    [
        ("jiont", None, "did you mean 'joint'"),
        ("fixed", None, "tpr_R.*missing|fpr_R is missing"),
        ("fixed", {**RATES, "tpr_T": 1.0}, "tpr_T strictly between 0 and 1, found 1.0"),
        ("fixed", {**RATES, "tpr_t": 0.3}, "did you mean 'tpr_T'"),
        ("fixed", {**RATES, "tpr_T": float("nan")}, "found nan"),
        ("joint", RATES, "only judge_structure='fixed' takes known rates"),
    ],
)
def test_bad_judges_are_named(structure, rates, message):
    with pytest.raises(ValueError, match=message):
        judge_network(["R_J", "T_J"], structure, rates=rates)


def test_declarations_make_the_same_network_again_and_name_what_does_not_fit():
    facts = declare(
        "judge", variables=["R", "A", "T", "R_J", "T_J"], observed=["R", "T_J"], judge_structure="factorized"
    )
    assert facts["readings"] == ["T_J"]  # a judge's empty column is left out
    assert network_of(json.loads(json.dumps(facts))) is network_of(facts)
    with pytest.raises(ValueError, match="model 'judge' needs a judge's column"):
        network_of(declare("judge", variables=["R", "A", "T"]))
    with pytest.raises(ValueError, match="only model 'judge' has it, found model 'rat'"):
        declare("rat", judge_shared=True)
    with pytest.raises(ValueError, match="here it has the levels fail, partial, success: use model='graded'"):
        declare("rat", variables=["R", "A", "T"], levels={"R": ("fail", "partial", "success")})


def test_a_policy_weighs_states_between_zero_and_one():
    with pytest.raises(ValueError, match=r"weights must lie in \[0, 1\], found 1.5"):
        Policy("greedy", (0, 0, 1.5, 0, 1, 0))
    with pytest.raises(ValueError, match="found nan"):
        Policy("lost", (0, 0, float("nan"), 0, 1, 0))


def test_a_table_may_only_look_back():
    with pytest.raises(ValueError, match="are not earlier"):
        Network("bad", (Variable("A"), Variable("R")), (Table("a", ("A",), ("R",)), Table("r", ("R",))))


def test_every_pattern_allows_exactly_the_states_that_agree_with_it():
    patterns = all_patterns(RAT)
    assert len(patterns) == 24  # 27 less the three with A=1 and T=1
    for pattern, allowed in zip(patterns, allowed_states(RAT, patterns), strict=True):
        for state, ok in zip(RAT.states, allowed, strict=True):
            assert ok == all(p in (-1, s) for p, s in zip(pattern, state, strict=True))


def counts_frame(rows):
    frame = pd.DataFrame(rows, columns=["system", "R", "A", "T", "count"])
    return frame.astype({"R": "Int64", "A": "Int64", "T": "Int64"})


def test_patterns_that_say_the_same_are_merged_and_silent_ones_dropped():
    frame = counts_frame([("s", 1, 1, 0, 4), ("s", 1, 1, None, 3), ("s", None, None, None, 9), ("s", 0, 0, 1, 2)])
    table = count_table(RAT, frame)
    assert sorted(table.evidence.counts[0][: table.num_patterns]) == [2, 7]
    assert table.evidence.counts.shape == (1, 8)  # padded to a fixed size
    assert table.mask_counts.sum() == 18


def test_order_of_rows_and_systems_does_not_matter():
    rows = [("b", 1, 0, 1, 4), ("a", None, 0, 1, 3), ("b", 0, None, None, 9), ("a", 0, 1, 0, 2)]
    one, other = count_table(RAT, counts_frame(rows)), count_table(RAT, counts_frame(rows[::-1]))
    assert one.systems == other.systems == ("a", "b")
    assert np.array_equal(one.evidence.counts, other.evidence.counts)
    assert np.array_equal(one.evidence.allowed, other.evidence.allowed)


def test_labels_the_model_cannot_produce_are_refused():
    with pytest.raises(ValueError, match="A=1, T=1 cannot occur together"):
        count_table(RAT, counts_frame([("s", None, 1, 1, 1)]))
    with pytest.raises(ValueError, match="column R: expected codes 0 to 1 .* found 2"):
        count_table(RAT, counts_frame([("s", 2, 0, 1, 1)]))


def test_priors_reach_the_cells_they_name():
    cells = concentrations(RAT, Priors(theta_R=(2, 3), theta_T_plus=(0.5, 7)))
    assert cells.tolist() == [3, 2, 1, 1, 1, 1, 1, 1, 7, 0.5]
    assert describe(RAT, cells)["theta_T_plus"] == [0.5, 7]
    graded = concentrations(GRADED, {"theta_R": (1, 2, 3), "theta_A": (4, 5)})
    assert graded[:9].tolist() == [1, 2, 3, 5, 4, 5, 4, 5, 4]


@pytest.mark.parametrize(
    ("priors", "message"),
    [
        ({"theta_r": (1, 1)}, "did you mean 'theta_R'"),
        ({"theta_R": (0, 1)}, "each from 0.001 to 1"),
        ({"theta_R": (1, float("inf"))}, "each from 0.001 to 1"),
        ({"theta_R": (1, float("nan"))}, "each from 0.001 to 1"),
        ({"theta_R": 1.0}, "each from 0.001 to 1"),
        ({"theta_R": (1, 2, 3)}, "expected 2 concentrations, found 3"),
    ],
)
def test_bad_priors_are_named(priors, message):
    with pytest.raises(ValueError, match=message):
        concentrations(RAT, priors)


@by_name
def test_conditional_probabilities_follow_bayes(network):
    cells = random_cells(network, seed=5)
    joint = probability(network, cells, Probability("", (("R", 1), ("A", 0))))
    given = probability(network, cells, Probability("", (("R", 1),), (("A", 0),)))
    assert joint == pytest.approx(given * probability(network, cells, Probability("", (("A", 0),))))
