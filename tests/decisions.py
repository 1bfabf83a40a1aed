"""Tables of known truth and draws of known distribution for the tests of decisions; nothing shared with the package."""

import itertools

import numpy as np
import pandas as pd

THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")
STAGE_OF = {"retrieval": ("theta_R",), "abstention": THETAS[1:3], "generation": THETAS[3:]}


def cell_counts(thetas, size):
    """The six cells (R, A, T) of a system of known thetas, in whole rows."""
    r, am, ap, tm, tp = (thetas[name] for name in THETAS)
    shares = {
        (0, 0, 0): (1 - r) * (1 - am) * (1 - tm),
        (0, 0, 1): (1 - r) * (1 - am) * tm,
        (0, 1, 0): (1 - r) * am,
        (1, 0, 0): r * (1 - ap) * (1 - tp),
        (1, 0, 1): r * (1 - ap) * tp,
        (1, 1, 0): r * ap,
    }
    rows = [(*state, round(size * share)) for state, share in shares.items()]
    return pd.DataFrame(rows, columns=["R", "A", "T", "count"])


def tables(size, **systems):
    """One table of several systems, each given by its thetas."""
    return pd.concat([cell_counts(thetas, size).assign(system=name) for name, thetas in systems.items()])


def p_g(t):
    return (1 - t["theta_R"]) * t["theta_A_minus"] + t["theta_R"] * (1 - t["theta_A_plus"]) * t["theta_T_plus"]


def p_t(t):
    failed = (1 - t["theta_R"]) * (1 - t["theta_A_minus"]) * t["theta_T_minus"]
    return failed + t["theta_R"] * (1 - t["theta_A_plus"]) * t["theta_T_plus"]


def over_all_orders(value, a, b):
    """Each stage's gain when it is exchanged, averaged over all six orders, from the formula of a quantity."""
    gains = {stage: [] for stage in STAGE_OF}
    for order in itertools.permutations(STAGE_OF):
        now = dict(a)
        for stage in order:
            after = now | {name: b[name] for name in STAGE_OF[stage]}
            gains[stage].append(value(after) - value(now))
            now = after
    return {stage: np.mean(each, axis=0) for stage, each in gains.items()}
