"""What fails: the joint states in which a RAT system misses its policy, grouped into three plain cases.

Nothing is estimated here. A share is the posterior mean of a weighting of the states, which `Posterior.quantity`
computes; it is given only where the labels inform every quantity it depends on.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from rat_jax.inference.posterior import Posterior

AS_IT_SHOULD = "as it should"

# Every state of RAT is in exactly one of these; the first is the default policy G.
CASES = {
    AS_IT_SHOULD: lambda s: (s["R"] == 0 and s["A"] == 1) or (s["R"] == 1 and s["T"] == 1),
    "answers without support": lambda s: s["R"] == 0 and s["A"] == 0,
    "wrong despite support": lambda s: s["R"] == 1 and s["A"] == 0 and s["T"] == 0,
    "abstains despite support": lambda s: s["R"] == 1 and s["A"] == 1,
}
DEPENDS_ON = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_plus", "p_G")


def case_shares(posterior: Posterior) -> pd.DataFrame:
    """Share of questions in each of `CASES`: systems as rows, shares in [0, 1] that add up to 1.

    Empty for another model or policy; a system is left out where the labels do not inform what it takes.
    """
    if posterior.model != "rat" or posterior.policy != posterior.network.policy:
        return pd.DataFrame(columns=list(CASES), dtype=float)
    systems = [s for s in posterior.systems if is_told(posterior.diagnostics.informed, s)]
    means = {case: posterior.quantity(weights).mean(("chain", "draw")) for case, weights in CASES.items()}
    return pd.DataFrame({case: mean.sel(system=systems).to_numpy() for case, mean in means.items()}, index=systems)


def is_told(informed: Mapping[tuple[str, str], bool], system: str) -> bool:
    """Whether the labels inform everything that the cases of a system depend on."""
    return all(informed[system, quantity] for quantity in DEPENDS_ON)


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
