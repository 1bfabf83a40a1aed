"""What the labels of a row settle: is its outcome known already, and which further labels could still tell.

An outcome is a weighting of the joint states: a policy's weights, or 0 and 1 for an event. These functions
look at the states that a row's labels leave possible, never at how probable they are.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from rat_jax.model.declaration import Policy
from rat_jax.model.network import Network
from rat_jax.naming import checked

Weights = Sequence[float] | np.ndarray


def outcome_weights(network: Network, policies: Mapping[str, Policy], quantity: str) -> np.ndarray:
    """The weighting of the states [J] whose expectation a quantity is: a policy's weights, or an event's 0 and 1.

    policies: by the quantity they define, such as p_G. Raises ValueError for a quantity that is neither a policy nor
    the unconditional probability of an event of the pipeline.

    Examples
    --------
    >>> from rat_jax.model.rat import RAT
    >>> outcome_weights(RAT, RAT.policies, "p_T").tolist()
    [0.0, 1.0, 0.0, 0.0, 1.0, 0.0]
    """
    known = {
        q.name: network.event(q.of)
        for q in network.probabilities
        if not q.given and {v for v, _ in q.of} <= set(network.pipeline)
    } | {name: np.array(policy.weights) for name, policy in policies.items()}
    return known[checked(quantity, known, "quantity")]


def compatible(network: Network, seen: Mapping[str, int]) -> np.ndarray:
    """Which joint states the labels seen in a row allow, bool [J].

    seen: code by variable, -1 = missing. A judge's readings rule out no state and may be among them.

    Raises
    ------
    ValueError
        For a variable or a code that the network does not have, or labels that cannot occur together.

    Examples
    --------
    >>> from rat_jax.model.rat import RAT
    >>> [RAT.state_names[j] for j in compatible(RAT, {"A": 1}).nonzero()[0]]
    ['R=0 A=1 T=0', 'R=1 A=1 T=0']
    """
    known = {v: code for v, code in seen.items() if code != -1}
    for variable, code in known.items():
        checked(variable, network.levels, "variable")
        if code not in range(network.levels[variable]):
            raise ValueError(
                f"variable {variable!r}: expected a code from 0 to {network.levels[variable] - 1}, or -1 for a "
                f"missing label, found {code!r}"
            )
    allowed = _allowed(network, known)
    if not allowed.any():
        raise ValueError(f"no state of model {network.name!r} has {_told(known)}: these labels cannot occur together")
    return allowed


def is_settled(network: Network, weights: Weights, seen: Mapping[str, int]) -> bool:
    """Whether all states that the labels seen in a row allow have the same weight.

    weights: one per state [J]. Raises ValueError as `compatible` does.

    Examples
    --------
    >>> from rat_jax.model.rat import RAT
    >>> is_settled(RAT, RAT.policy.weights, {"R": 0, "A": 0}), is_settled(RAT, RAT.policy.weights, {"R": 1, "A": 0})
    (True, False)
    """
    return len(_possible(weights, compatible(network, seen))) == 1


def is_telling(network: Network, weights: Weights, seen: Mapping[str, int], variable: str) -> bool:
    """Whether learning `variable` of a row could change which weights are possible there.

    It may do so alone or together with labels still missing: asked is whether any values of those exist under
    which two possible values of `variable` leave different weights. A variable that is seen, or that the labels
    seen decide (T of an abstention), tells nothing. One that only makes a weight more or less probable does not
    count either: of T itself, R tells nothing here.

    weights: one per state [J]; variable: one of the pipeline's, as a judge's readings never settle anything.

    Raises
    ------
    ValueError
        As `compatible` does, and for a variable that is not one of the pipeline's.

    Examples
    --------
    >>> from rat_jax.model.rat import RAT
    >>> [is_telling(RAT, RAT.policy.weights, seen, "T") for seen in ({"A": 1}, {"A": 0}, {"R": 0, "A": 0})]
    [False, True, False]
    """
    checked(variable, network.pipeline, "pipeline variable")
    weights, allowed = np.asarray(weights, float), compatible(network, seen)
    return any(
        len({_possible(weights, met) for met in _by_code(network, variable, allowed & more)}) > 1
        for more in _further(network, seen, variable)
    )


def telling(network: Network, weights: Weights, seen: Mapping[str, int], candidates: Iterable[str]) -> tuple[str, ...]:
    """Those of the candidates that could still change what is known of a row's weight, in the order given.

    weights: one per state [J]. Raises ValueError as `is_telling` does.

    Examples
    --------
    >>> from rat_jax.model.rat import RAT
    >>> telling(RAT, RAT.policy.weights, {"A": 0}, ("R", "T")), telling(RAT, RAT.policy.weights, {"A": 1}, ("R", "T"))
    (('R', 'T'), ('R',))
    """
    return tuple(v for v in candidates if is_telling(network, weights, seen, v))


def _allowed(network: Network, known: Mapping[str, int]) -> np.ndarray:
    return network.event(tuple((v, c) for v, c in known.items() if v in network.pipeline)) > 0


def _possible(weights: Weights, allowed: np.ndarray) -> frozenset[float]:
    return frozenset(np.asarray(weights, float)[allowed].tolist())


def _by_code(network: Network, variable: str, allowed: np.ndarray) -> Iterator[np.ndarray]:
    """The allowed states with each code of a variable, bool [J]; codes that no allowed state has are left out."""
    for code in range(network.levels[variable]):
        met = allowed & _allowed(network, {variable: code})
        if met.any():
            yield met


def _further(network: Network, seen: Mapping[str, int], variable: str) -> Iterator[np.ndarray]:
    """States allowed by each way in which the other missing labels may be seen or stay missing, bool [J]."""
    others = [v for v in network.pipeline if v != variable and seen.get(v, -1) == -1]
    for codes in itertools.product(*(range(-1, network.levels[v]) for v in others)):
        yield _allowed(network, {v: c for v, c in zip(others, codes, strict=True) if c != -1})


def _told(known: Mapping[str, int]) -> str:
    return " ".join(f"{v}={c}" for v, c in known.items())
