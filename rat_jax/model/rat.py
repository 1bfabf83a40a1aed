"""The RAT model: retrieval R, abstention A, answer correctness T, and policy adherence G.

Source: "The RAT: A Unified Bayesian Model for RAG Evaluation", section 3. This file is a declaration;
the machine in `network` derives states, parameters and quantities from it.
"""

from __future__ import annotations

from rat_jax.model.declaration import Probability, Table, Variable
from rat_jax.model.network import Network

# P(R, A, T) = P(R) P(A | R) P(T | A, R), and an abstention is never a correct answer.
# Five parameters: theta_R = P(R=1), theta_A_minus = P(A=1 | R=0), theta_A_plus = P(A=1 | R=1),
# theta_T_minus = P(T=1 | R=0, A=0), theta_T_plus = P(T=1 | R=1, A=0).
# G = (R=0 and A=1) or (R=1 and A=0 and T=1).
RAT = Network(
    name="rat",
    variables=(Variable("R"), Variable("A"), Variable("T")),
    tables=(
        Table("theta_R", ("R",), row_names=("theta_R",)),
        Table("theta_A", ("A",), parents=("R",), row_names=("theta_A_minus", "theta_A_plus")),
        Table("theta_T", ("T",), parents=("R", "A"), row_names=("theta_T_minus", "theta_T_plus")),
    ),
    impossible=((("A", 1), ("T", 1)),),
    probabilities=tuple(Probability(f"p_{v}", ((v, 1),)) for v in ("R", "A", "T")),
    policy_events=((("R", 0), ("A", 1)), (("R", 1), ("A", 0), ("T", 1))),
)
