"""Do the intervals and chances of a decision hold what they promise?

Studies of three systems are simulated, their thetas drawn from the prior or fixed, some labels missing. Each is put to
`compare`, `best`, `attribute` and `abstention`. One line per interval: how often the 95 % interval held the truth,
which is worked out here from formulas of its own. At fixed thetas the interval of the exact posterior stands beside
that of chains. Then the chances: of being better, of being best, and the expected loss, as said and as it came.
Run: python benchmarks/decision_coverage.py [studies]
"""

from __future__ import annotations

import itertools
import sys
import time

import numpy as np
import pandas as pd

import rat_jax as rat

DRAWS = 500  # per chain, of four
SYSTEMS = ("a", "b", "c")
STAGES = {"retrieval": [0], "abstention": [1, 2], "generation": [3, 4]}
WRONG, FACTOR = 3.0, 2.0  # cost of a wrong answer; factor on the odds of abstaining
LOPSIDED = np.array([[0.9, 0.7, 0.05, 0.3, 0.85], [0.9, 0.7, 0.05, 0.3, 0.95], [0.15, 0.9, 0.4, 0.05, 0.6]])


def simulate(rng, size, thetas):
    """A label table of systems on questions of their own; a third of the rows miss T, a sixth R."""
    frames = []
    for name, (r, without, with_, wrong, right) in zip(SYSTEMS, thetas, strict=True):
        retrieved = rng.random(size) < r
        abstained = rng.random(size) < np.where(retrieved, with_, without)
        correct = ~abstained & (rng.random(size) < np.where(retrieved, right, wrong))
        frame = pd.DataFrame({"R": retrieved, "A": abstained, "T": correct}).astype(float)
        frame.loc[rng.random(size) < 1 / 3, "T"] = np.nan
        frame.loc[rng.random(size) < 1 / 6, "R"] = np.nan
        frames.append(frame.assign(system=name))
    return pd.concat(frames)


def p_g(t):
    return (1 - t[0]) * t[1] + t[0] * (1 - t[2]) * t[4]


def p_t(t):
    return (1 - t[0]) * (1 - t[1]) * t[3] + t[0] * (1 - t[2]) * t[4]


def cost(t):
    wrong = (1 - t[0]) * (1 - t[1]) * (1 - t[3]) + t[0] * (1 - t[2]) * (1 - t[4])
    return WRONG * wrong + (1 - t[0]) * (1 - t[1]) * t[3] + t[0] * t[2]


def with_odds(t):
    """Thetas of a system that abstains at FACTOR times the odds."""
    odds = FACTOR * t[1:3] / (1 - t[1:3])
    return np.array([t[0], *(odds / (1 + odds)), *t[3:]])


def shares(value, a, b):
    """Each stage's gain when it is exchanged, averaged over all six orders."""
    gains = dict.fromkeys(STAGES, 0.0)
    for order in itertools.permutations(STAGES):
        now = a.copy()
        for stage in order:
            after = now.copy()
            after[STAGES[stage]] = b[STAGES[stage]]
            gains[stage] += (value(after) - value(now)) / 6
            now = after
    return gains


def intervals(fit, thetas):
    """Every interval with its truth: name, (low, high), truth."""
    a, b = thetas[0], thetas[1]
    for quantity, value in (("p_G", p_g), ("p_T", p_t)):
        row = rat.compare(fit, quantity, systems=["a", "b"]).iloc[0]
        yield f"{quantity}: b - a", row[["q2.5", "q97.5"]], value(b) - value(a)
        table = rat.attribute(fit, a="a", b="b", quantity=quantity)
        for stage, truth in shares(value, a, b).items():
            yield f"{quantity}: share of {stage}", table.loc[stage, ["q2.5", "q97.5"]], truth
    row = rat.compare(fit, lambda s: s["A"] == 0 and s["T"] == 0, systems=["a", "b"]).iloc[0]
    wrong = [(1 - t[0]) * (1 - t[1]) * (1 - t[3]) + t[0] * (1 - t[2]) * (1 - t[4]) for t in (a, b)]
    yield "wrong answers: b - a", row[["q2.5", "q97.5"]], wrong[1] - wrong[0]
    found = rat.abstention(fit, costs={"wrong_answer": WRONG}, odds=[1 / FACTOR, FACTOR], systems=["a"])
    for level in (0, 1):
        yield f"P(A=1|R={level})", found.rates.loc[("a", str(level)), ["q2.5", "q97.5"]], a[1 + level]
    yield "cost of a question", found.cost.loc["a", ["q2.5", "q97.5"]], cost(a)
    move = found.moves.loc[("a", "same_odds", FACTOR), ["change_q2.5", "change_q97.5"]]
    yield "change of cost at twice the odds", move, cost(with_odds(a)) - cost(a)


def run(studies, size, fixed=None, methods=("exact",), seed=0):
    """Coverage of every interval by each method, and the chances of the first."""
    rng, held, began = np.random.default_rng(seed), {}, time.time()
    chances = []
    for i in range(studies):
        thetas = rng.random((3, 5)) if fixed is None else fixed
        labels = simulate(rng, size, thetas)
        for method in methods:
            fit = rat.fit(labels, method=method, num_warmup=300, num_samples=DRAWS, seed=i, on_failure="keep")
            for name, (low, high), truth in intervals(fit, thetas):
                held.setdefault(name, {}).setdefault(method, []).append(low <= truth <= high)
            if method == methods[0]:
                chances.append(chance(fit, thetas))
    about = "drawn from the prior" if fixed is None else "fixed"
    print(f"\n{studies} studies, {size} rows a system, thetas {about}: {', '.join(methods)}")
    for name, by_method in held.items():
        cells = [
            f"{np.mean(h):.3f} +- {np.sqrt(np.mean(h) * (1 - np.mean(h)) / studies):.3f}" for h in by_method.values()
        ]
        both = "" if len(methods) == 1 else f"   alike in {np.mean(np.equal(*by_method.values())):.3f}"
        print(f"{name:34s} {'   '.join(cells)}{both}")
    if fixed is None:
        tell(np.array(chances))
    print(f"({time.time() - began:.0f} s)", flush=True)


def chance(fit, thetas):
    """P(b > a) and whether it is so; P(best) and the expected loss of the pick, and whether it is best, its loss."""
    truth = np.array([p_g(t) for t in thetas])
    likely = rat.compare(fit, systems=["a", "b"]).iloc[0]["prob_b_greater"]
    table = rat.best(fit).table
    pick = SYSTEMS.index(table.index[0])
    said = table.iloc[0][["prob_best", "expected_loss"]].tolist()
    return [likely, truth[1] > truth[0], *said, pick == truth.argmax(), truth.max() - truth[pick]]


def tell(chances):
    likely, is_so, best, loss, is_best, lost = chances.T
    for low, high in ((0, 0.1), (0.1, 0.3), (0.3, 0.7), (0.7, 0.9), (0.9, 1.01)):
        some = (likely >= low) & (likely < high)
        if not some.any():
            continue
        error = np.sqrt(max(is_so[some].mean() * (1 - is_so[some].mean()), 1e-4) / some.sum())
        print(f"P(b > a) said {likely[some].mean():.3f}, so in {is_so[some].mean():.3f} +- {error:.3f} ({some.sum()})")
    error = np.sqrt(is_best.mean() * (1 - is_best.mean()) / len(best))
    print(f"P(best) of the pick said {best.mean():.3f}, so in {is_best.mean():.3f} +- {error:.3f}")
    print(f"loss of the pick said {loss.mean():.4f}, was {lost.mean():.4f} +- {lost.std() / np.sqrt(len(lost)):.4f}")


def main(studies: int) -> None:
    run(studies, 60)
    run(studies // 5, 60, LOPSIDED, ("exact", "nuts"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
