"""What a row's labels settle is what the definitions of G and T say, and what could still tell is asked for."""

import itertools

import numpy as np
import pytest
from declarations import ALL, GRADED, JUDGE, name_of

from rat_jax.model.rat import RAT
from rat_jax.model.settling import compatible, is_settled, is_telling, outcome_weights, telling

G = RAT.policy.weights
T = (0.0, 1.0, 0.0, 0.0, 1.0, 0.0)

# What could still change G of a row, from its definition: (R=0 and A=1) or (R=1 and A=0 and T=1).
TELLING_OF_G = {
    "": "RAT",
    "R=0": "AT",  # T = 1 tells that A = 0
    "R=1": "AT",
    "A=0": "RT",
    "A=1": "R",
    "T=0": "RA",
    "T=1": "R",  # a correct answer is no abstention
    "R=0 A=0": "",
    "R=0 A=1": "",
    "R=1 A=0": "T",
    "R=1 A=1": "",
    "R=0 T=0": "A",
    "R=0 T=1": "",
    "R=1 T=0": "",
    "R=1 T=1": "",
    "A=0 T=0": "",
    "A=0 T=1": "R",
    "A=1 T=0": "R",
}
# An abstention has T = 0; R bears on the chance of T = 1 and never on what T can be.
TELLING_OF_T = {"": "AT", "A=0": "T", "A=1": "", "R=0": "AT", "R=1 A=0": "T", "R=0 A=0": "T", "R=1 A=1": "", "T=0": ""}


def codes(text: str) -> dict[str, int]:
    return {part[0]: int(part[2]) for part in text.split()}


@pytest.mark.parametrize("weights, table", [(G, TELLING_OF_G), (T, TELLING_OF_T)], ids=["G", "T"])
def test_what_could_still_tell_follows_from_the_definition_of_the_outcome(weights, table):
    found = {seen: "".join(telling(RAT, weights, codes(seen), "RAT")) for seen in table}
    assert found == table


def states_by_hand(levels_of_R: int) -> list[tuple[int, int, int]]:
    return [s for s in itertools.product(range(levels_of_R), (0, 1), (0, 1)) if not (s[1] == 1 and s[2] == 1)]


def could_change(states, weight, seen, variable) -> bool:
    """The definition, over tuples: some way of fixing others leaves other weights for another value of `variable`."""
    names, rest = "RAT", [i for i in range(3) if "RAT"[i] != variable and "RAT"[i] not in seen]
    own = names.index(variable)
    left = [(s, w) for s, w in zip(states, weight, strict=True) if all(s[names.index(v)] == c for v, c in seen.items())]
    for size in range(len(rest) + 1):
        for others in itertools.combinations(rest, size):
            groups: dict = {}
            for s, w in left:
                groups.setdefault(tuple(s[i] for i in others), {}).setdefault(s[own], set()).add(w)
            if any(len({frozenset(ws) for ws in group.values()}) > 1 for group in groups.values()):
                return True
    return False


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("network", [RAT, GRADED], ids=name_of)
def test_random_policies_agree_with_enumeration(network, seed):
    states = states_by_hand(network.levels["R"])
    weight = np.random.default_rng(seed).choice([0.0, 0.4, 1.0], len(states), p=[0.5, 0.2, 0.3]).tolist()
    for size in range(3):
        for names in itertools.combinations("RAT", size):
            for values in itertools.product(*(range(network.levels[v]) for v in names)):
                seen = dict(zip(names, values, strict=True))
                if seen.get("A") == 1 and seen.get("T") == 1:
                    continue
                for variable in "RAT":
                    expected = could_change(states, weight, seen, variable)
                    assert is_telling(network, weight, seen, variable) == expected, (seen, variable)


@pytest.mark.parametrize("network", ALL, ids=name_of)
def test_an_outcome_is_settled_where_nothing_tells(network):
    for quantity in ("p_G", "p_T", "p_R"):
        weights = outcome_weights(network, network.policies, quantity)
        for state in network.states.tolist():
            row = dict(zip(network.pipeline, state, strict=True))
            for size in range(4):
                for names in itertools.combinations(network.pipeline, size):
                    seen = {v: row[v] for v in names}
                    open_to = telling(network, weights, seen, network.pipeline)
                    assert is_settled(network, weights, seen) == (not open_to), (quantity, seen)


def test_a_soft_policy_is_settled_by_its_weight_not_by_its_being_0_or_1():
    soft = (0.3, 0.3, 1.0, 0.0, 1.0, 0.2)
    assert is_settled(RAT, soft, {"R": 0, "A": 0})
    assert not is_settled(RAT, soft, {"R": 1, "A": 0})


def test_missing_labels_and_readings_rule_out_nothing():
    assert compatible(RAT, {"R": -1, "A": 0, "T": -1}).tolist() == [True, True, False, True, True, False]
    assert compatible(JUDGE, {"R_J": 1, "T_J": 0}).all()
    assert telling(JUDGE, JUDGE.policy.weights, {"A": 1, "T_J": 1}, ("T", "R")) == ("R",)


def test_levels_in_between_may_settle_what_the_ends_leave_open():
    lenient = GRADED.policies["p_G_lenient"].weights
    assert telling(GRADED, lenient, {"R": 1}, ("A", "T")) == ("A", "T")
    assert is_settled(GRADED, lenient, {"R": 1, "A": 1}) and is_settled(GRADED, lenient, {"R": 0, "A": 0})
    assert is_settled(GRADED, GRADED.policy.weights, {"R": 1, "A": 0})
    assert not is_settled(GRADED, lenient, {"R": 1, "A": 0})


def test_weights_of_an_outcome_are_its_event_or_its_policy():
    assert outcome_weights(RAT, RAT.policies, "p_T").tolist() == list(T)
    assert outcome_weights(RAT, RAT.policies, "p_G").tolist() == [0, 0, 1, 0, 1, 0]
    assert outcome_weights(GRADED, GRADED.policies, "p_R").sum() == 3


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: compatible(RAT, {"t": 1}), "unknown variable 't'; did you mean 'T'"),
        (lambda: compatible(RAT, {"R": 2}), "'R': expected a code from 0 to 1, or -1 for a missing label, found 2"),
        (lambda: is_settled(RAT, G, {"A": 1, "T": 1}), "A=1 T=1: these labels cannot occur together"),
        (lambda: is_telling(JUDGE, JUDGE.policy.weights, {}, "T_J"), "unknown pipeline variable 'T_J'"),
        (lambda: outcome_weights(RAT, RAT.policies, "p_g"), "unknown quantity 'p_g'; did you mean 'p_G'"),
        (lambda: outcome_weights(JUDGE, JUDGE.policies, "tpr_R"), "unknown quantity 'tpr_R'"),
    ],
)
def test_errors_say_what_was_expected_and_found(call, message):
    with pytest.raises(ValueError, match=message):
        call()
