"""What fails: the joint states in which a system misses its policy, grouped into a few plain cases.

Nothing is estimated here. A share is the posterior mean of a weighting of the states, which `Posterior.quantity`
computes; it is given only where the labels inform every quantity it depends on.
"""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd

from rat_jax.inference.posterior import Posterior

AS_IT_SHOULD = "as it should"

State = dict[str, int]


def case_shares(posterior: Posterior) -> pd.DataFrame:
    """Share of questions in each of the `cases`: systems as rows, shares in [0, 1] that add up to 1.

    Empty for a policy of the user's own, or a model without R, A and T; a system is left out where the labels do
    not inform what it takes.
    """
    weights = posterior.policy.weights
    declared = any(weights == policy.weights for policy in posterior.network.policies.values())
    if posterior.network.pipeline != ("R", "A", "T") or not declared:
        return pd.DataFrame(dtype=float)
    systems = [s for s in posterior.systems if is_told(posterior, s)]
    means = {case: posterior.quantity(event).mean(("chain", "draw")) for case, event in cases(posterior).items()}
    return pd.DataFrame({case: mean.sel(system=systems).to_numpy() for case, mean in means.items()}, index=systems)


def cases(posterior: Posterior) -> dict[str, Callable[[State], bool]]:
    """The cases: every state of R, A and T is in exactly one of them; the first is that the policy is kept.

    With two levels of retrieval the others are three ways to fail. Levels between the lowest and the highest are a
    case of their own: an answer, or where the policy takes a correct answer there, a wrong one.
    """
    top = posterior.network.levels["R"] - 1
    kept = _kept_states(posterior)

    def is_kept(s: State) -> bool:
        return (s["R"], s["A"], s["T"]) in kept

    def fails(at: Callable[[State], bool]) -> Callable[[State], bool]:
        return lambda s: not is_kept(s) and at(s)

    between = "wrong with partial support" if (1, 0, 1) in kept else "answers with partial support"
    partial = {between: fails(lambda s: 0 < s["R"] < top)} if top > 1 else {}
    return {
        AS_IT_SHOULD: is_kept,
        "answers without support": fails(lambda s: s["R"] == 0),
        **partial,
        "wrong despite support": fails(lambda s: s["R"] == top and s["A"] == 0),
        "abstains despite support": fails(lambda s: s["R"] == top and s["A"] == 1),
    }


def is_told(posterior: Posterior, system: str) -> bool:
    """Whether the labels inform everything that the cases of a system depend on.

    That is every theta but the correctness of answers that the policy does not want anyway, and p_G.
    """
    kept = _kept_states(posterior)
    levels = next(variable.levels for variable in posterior.network.variables if variable.name == "R")
    idle = {f"theta_T[{level}]" for r, level in enumerate(levels) if (r, 0, 1) not in kept} | {"theta_T_minus"}
    informed = {q: known for (s, q), known in posterior.diagnostics.informed.items() if s == system}
    return all(known for q, known in informed.items() if q == "p_G" or (q.startswith("theta_") and q not in idle))


def _kept_states(posterior: Posterior) -> set[tuple[int, ...]]:
    states = zip(posterior.network.states, posterior.policy.weights, strict=True)
    return {tuple(map(int, state)) for state, weight in states if weight == 1.0}


def in_words(system_shares: pd.Series) -> str:
    """One system's shares as a sentence about a hundred questions, the largest failure first."""
    failures = system_shares.drop(AS_IT_SHOULD).sort_values(ascending=False, kind="stable")
    counts = of_hundred(system_shares)
    listed = ", ".join(f"{case} {counts[str(case)]}" for case in failures.index)
    return f"Of 100 questions {counts[AS_IT_SHOULD]} go as they should. What fails: {listed}."


def of_hundred(shares: pd.Series) -> dict[str, str]:
    """Shares that add up to 1 as whole numbers of a hundred questions that add up to 100 ("under 1" counts as 0).

    Each is rounded down, and the questions left over go to the largest remainders; a larger share never gets fewer.
    """
    exact = 100 * shares / shares.sum()
    counts = exact.astype(int)
    left = 100 - int(counts.sum())
    counts[(exact - counts).sort_values(ascending=False, kind="stable").index[:left]] += 1
    extreme = {0: "under 1", 100: "over 99"}
    return {str(case): extreme.get(count, str(count)) for case, count in counts.items()}
