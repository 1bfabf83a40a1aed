"""Networks that tests run the machine on: RAT, and two that it must take without a change."""

from rat_jax.model.network import Network, Probability, Table, Variable
from rat_jax.model.rat import RAT

NEVER_CORRECT_ABSTENTION = ((("A", 1), ("T", 1)),)

GRADED = Network(
    name="graded",
    variables=(Variable("R", ("fail", "partial", "success")), Variable("A"), Variable("T")),
    tables=(
        Table("theta_R", ("R",), outcome_dim="retrieval"),
        Table("theta_A", ("A",), parents=("R",), row_dim="retrieval"),
        Table("theta_T", ("T",), parents=("R", "A"), row_dim="retrieval"),
    ),
    impossible=NEVER_CORRECT_ABSTENTION,
    probabilities=(
        Probability("p_R", (("R", 2),)),
        Probability("p_A", (("A", 1),)),
        Probability("p_T", (("T", 1),)),
    ),
    policy_events=((("R", 0), ("A", 1)), (("R", 1), ("A", 1)), (("R", 2), ("A", 0), ("T", 1))),
)

JUDGE = Network(
    name="judge",
    variables=(*RAT.variables, Variable("R_J"), Variable("T_J")),
    tables=(
        *RAT.tables,
        Table(
            "judge",
            ("R_J", "T_J"),
            parents=("R", "A", "T"),
            row_dim="state",
            outcome_dim="verdict",
            measures=True,
        ),
    ),
    impossible=NEVER_CORRECT_ABSTENTION,
    probabilities=(
        *RAT.probabilities,
        Probability("p_RJ", (("R_J", 1),)),
        Probability("tpr_R", (("R_J", 1),), given=(("R", 1),)),
        Probability("fpr_T", (("T_J", 1),), given=(("T", 0),)),
    ),
    policy_events=RAT.policy_events,
)

FACTORIZED_JUDGES = Network(
    name="factorized",
    variables=(*RAT.variables, Variable("R_J"), Variable("T_J"), Variable("T_J.second")),
    tables=(
        *RAT.tables,
        Table("judge_R", ("R_J",), parents=("R",), measures=True),
        Table("judge_T", ("T_J",), parents=("T", "A"), measures=True),
        Table("judge_T_second", ("T_J.second",), parents=("T",), measures=True),
    ),
    impossible=NEVER_CORRECT_ABSTENTION,
    probabilities=RAT.probabilities,
    policy_events=RAT.policy_events,
)

ALL = (RAT, GRADED, JUDGE, FACTORIZED_JUDGES)
