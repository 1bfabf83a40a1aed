"""Networks that tests run the machine on: every member of the model family."""

from rat_jax.model.graded import graded_network
from rat_jax.model.judge import judge_network
from rat_jax.model.rat import RAT

RATES = {"tpr_R": 0.8, "fpr_R": 0.3, "tpr_T": 0.9, "fpr_T": 0.45}

GRADED = graded_network()
JUDGE = judge_network(["R_J", "T_J"])
FACTORIZED_JUDGES = judge_network(["R_J", "T_J", "T_J.second"], "factorized")
BY_ABSTENTION = judge_network(["R_J", "T_J"], "by_abstention")
FIXED = judge_network(["R_J", "T_J"], "fixed", rates=RATES)
TWO_JUDGES = judge_network(["T_J", "R_J.second", "T_J.second"])
SHARED = judge_network(["R_J", "T_J"], "factorized", shared=True)

IDS = {
    "rat": RAT,
    "graded": GRADED,
    "judge": JUDGE,
    "factorized": FACTORIZED_JUDGES,
    "by_abstention": BY_ABSTENTION,
    "fixed": FIXED,
    "two_judges": TWO_JUDGES,
    "shared": SHARED,
}
ALL = tuple(IDS.values())


def name_of(network) -> str:
    """Which of these a network is."""
    return next(name for name, known in IDS.items() if known is network)
