"""Graded retrieval: R has more than two levels, such as fail, partial and success; all else is RAT.

P(R, A, T) = P(R) P(A | R) P(T | A, R) with a simplex theta_R and one theta_A and theta_T per level.

Source: the paper's Appendix C, Tables 8 and 9.
"""

from __future__ import annotations

from collections.abc import Sequence

from rat_jax.model.declaration import Assignment, Probability, Table, Variable
from rat_jax.model.network import Network
from rat_jax.model.rat import RAT

LEVELS = ("fail", "partial", "success")


def graded_network(levels: Sequence[str] = LEVELS) -> Network:
    """The graded model for retrieval with these levels, the worst first.

    Policies: `strict` (the default, p_G): abstain unless retrieval is of the highest level, and then answer correctly.
    `lenient`: at the levels between the lowest and the highest a correct answer is as good as abstaining.

    Raises ValueError for fewer than three levels.
    """
    levels = tuple(levels)
    if len(levels) < 3:
        raise ValueError(f"model 'graded' needs at least three levels of R, found {levels!r}; use model='rat' for two")
    top = len(levels) - 1
    abstain: tuple[Assignment, ...] = tuple((("R", r), ("A", 1)) for r in range(top))
    answer: tuple[Assignment, ...] = tuple((("R", r), ("A", 0), ("T", 1)) for r in range(1, len(levels)))
    return Network(
        name="graded",
        variables=(Variable("R", levels), *RAT.variables[1:]),
        tables=(
            Table("theta_R", ("R",), outcome_dim="retrieval"),
            Table("theta_A", ("A",), parents=("R",), row_dim="retrieval"),
            Table("theta_T", ("T",), parents=("R", "A"), row_dim="retrieval"),
        ),
        impossible=RAT.impossible,
        probabilities=(Probability("p_R", (("R", top),)), *RAT.probabilities[1:]),
        policy_events=(*abstain, answer[-1]),
        named_policies=(("strict", (*abstain, answer[-1])), ("lenient", (*abstain, *answer))),
    )
