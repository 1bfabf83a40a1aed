"""Tables 3, 10 and 11 and Appendix F: which labels settle G, how many bits each strategy buys, step by step.

The printed parameters come in. Gains come from the package; the claims hold them against the paper, and a closed form
written down here from the paper's equations holds the package against itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

import rat_jax as rat
from benchmarks.paper.claims import HOLDS, SLIP, Claim, Section, agreement, tally, verdict_of
from benchmarks.paper.published import ROUNDING, STUDIED, THETAS, Published, cells
from rat_jax.studies.information_gain import open_cells

SETTING = "HotpotQA/hybrid"
WITHIN = 1e-4  # package against closed form
SHARE = 0.01  # one percentage point
# What Appendix F prints on the way to the gains: an entropy, its argument and the digits given.
ENTROPIES = {0.981: 0.134, 0.969: 0.196, 0.216: 0.760, 0.110: 0.500, 0.678: 0.904, 0.519: 0.999}
# Its other printed steps, by the name that `steps` gives them: Qwen3.5, Apertus.
STEPS = {
    "P(R=0 | A=1)": (0.981, 0.969),
    "P(G=1 | A=0)": (0.216, 0.110),
    "H(G | A)": (0.526, 0.490),
    "H(G | A, R)": (0.181, 0.206),
    "P(R=1 | A=0, T=1)": (0.411, 0.352),
    "H(G | A, T)": (0.372, 0.290),
}
SHARES = {("all_R", "Qwen3.5"): 0.656, ("all_R", "Apertus"): 0.580, ("all_T", "Qwen3.5"): 0.293}
SHARES |= {("all_T", "Apertus"): 0.408}


def h(p: float | np.ndarray) -> float | np.ndarray:
    """Entropy of a yes with probability p, in bits."""
    p = np.clip(p, 1e-300, 1 - 1e-16)
    return -p * np.log2(p) - (1 - p) * np.log2(1 - p)


def steps(thetas: Mapping[str, float]) -> dict[str, float]:
    """Appendix F from top to bottom, equations 1 to 11."""
    c = cells(thetas)
    abstains, supported, lucky = c[0, 1, 0] + c[1, 1, 0], c[1, 0, 1], c[0, 0, 1]
    justified, good = c[0, 1, 0] / abstains, supported / (1 - abstains)
    by_support = supported / (supported + lucky)
    after_a = abstains * h(justified) + (1 - abstains) * h(good)
    after_r = (c[1, 0, 0] + c[1, 0, 1]) * h(thetas["theta_T_plus"])
    after_t = abstains * h(justified) + (supported + lucky) * h(by_support)
    values = (justified, good, after_a, after_r, by_support, after_t)
    return {name: float(value) for name, value in zip(STEPS, values, strict=True)}


def closed_form(thetas: Mapping[str, float]) -> dict[str, float]:
    """The five gains from the steps, equations 6 to 13."""
    s = steps(thetas)
    joint, r, t = s["H(G | A)"], s["H(G | A)"] - s["H(G | A, R)"], s["H(G | A)"] - s["H(G | A, T)"]
    return {
        "all_joint": joint,
        "half_joint_R": (joint + r) / 2,
        "all_R": r,
        "half_joint_T": (joint + t) / 2,
        "all_T": t,
    }


def section(paper: Published) -> Section:
    """Every number and statement on information in section 5.3 and Appendix F."""
    ours = pd.DataFrame({g: rat.information_gain(paper.thetas(f"{SETTING}/{g}")) for g in STUDIED})
    everywhere = pd.DataFrame({name: rat.information_gain(paper.thetas(name)) for name in paper.configurations.index})
    claims = [
        _joint_cells(paper),
        *_cells_that_settle(),
        _gains(paper, ours),
        _closed(paper, everywhere),
        *_shares(paper, ours),
        _reverse(everywhere),
        *_steps(paper),
        *_entropies(),
        _balanced(paper),
        _contributes(paper),
    ]
    shown = pd.concat([paper.gains, ours.loc[paper.gains.index]], axis=1, keys=["printed", "ours"])
    shown.columns = [f"{g} {whose}" for whose, g in shown.columns]
    table = open_cells().astype(str).rename(columns={"open_to": "open to"})
    text = ["All gains are I(G; labels | A) in bits per row, at the parameters of Tables 1 and 2."]
    tables = [
        ("Which (R, A) settles G, and what leaves it open: read off the network and the policy.", table),
        ("Information gains.", shown[[f"{g} {w}" for g in STUDIED for w in ("printed", "ours")]]),
    ]
    return Section("Section 5.3 and Appendix F: information", text, tables, claims=claims)


def _joint_cells(paper: Published) -> Claim:
    found = {}
    for g in STUDIED:
        c = cells(paper.thetas(f"{SETTING}/{g}"))
        for r, a in paper.joint.index:
            found[f"R={r} A={a} {g}"] = sum(c.get((r, a, t), 0.0) for t in (0, 1)) - paper.joint.at[(r, a), g]
    claim = "The joint probabilities of R and A follow from Tables 1 and 2"
    return agreement("T3a", "Tables 3(a), 10", claim, pd.Series(found), 2 * ROUNDING)


def _cells_that_settle() -> list[Claim]:
    claims = []
    said = (("R", "three of four", (3, 4)), ("T", "one of three", (1, 3)))
    for number, (label, words, printed) in zip(("5.3a", "5.3b"), said, strict=True):
        settled = open_cells(seen=("A", label))["settled"]
        found = (int(settled.sum()), len(settled))
        claim = f"Knowing {label} besides A settles G in {words} cells"
        verdict = verdict_of([found == printed])
        ours = f"{found[0]} of {found[1]}"
        claims.append(Claim(number, "Section 5.3", claim, f"{printed[0]} of {printed[1]}", ours, "", verdict))
    return claims


def _gains(paper: Published, ours: pd.DataFrame) -> Claim:
    """Each printed gain inside what the rounding of the five parameters allows."""
    outcomes, worst, allowed = [], 0.0, 0.0
    for g in STUDIED:
        low, high = _rounding_range(paper.thetas(f"{SETTING}/{g}"))
        for s, printed in paper.gains[g].items():
            outcomes.append(low[s] - ROUNDING <= printed <= high[s] + ROUNDING)
            worst = max(worst, abs(ours.at[s, g] - printed))
            allowed = max(allowed, high[s] - ours.at[s, g], ours.at[s, g] - low[s])
    order = [list(ours[g].sort_values().index) == list(paper.gains[g].sort_values().index) for g in STUDIED]
    return Claim(
        "T3b",
        "Tables 3(b), 11",
        "The information gains are those of Table 2's parameters",
        f"{len(outcomes)} numbers",
        f"{sum(outcomes)} of {len(outcomes)} within what rounding allows; the ranking is "
        + ("the same" if all(order) else "another"),
        f"largest {worst:.4f}; rounding explains {allowed:.4f}",
        verdict_of([*outcomes, *order]),
        "Rounding: the gains over all 32 corners of the five parameters, each moved by half a unit of its last digit. "
        "The rest comes from entropies listed among the slips and from steps that were rounded on the way.",
    )


def _rounding_range(thetas: Mapping[str, float]) -> tuple[dict[str, float], dict[str, float]]:
    corners = itertools.product((-ROUNDING, ROUNDING), repeat=len(THETAS))
    found = [closed_form({k: thetas[k] + d for k, d in zip(THETAS, corner, strict=True)}) for corner in corners]
    return tuple({s: f(one[s] for one in found) for s in found[0]} for f in (min, max))  # type: ignore[return-value]


def _closed(paper: Published, everywhere: pd.DataFrame) -> Claim:
    closed = pd.DataFrame({name: closed_form(paper.thetas(name)) for name in everywhere.columns}).loc[everywhere.index]
    claim = "This software's gains are those of the closed form, in all 27 configurations"
    return agreement(
        "F own", "Appendix F, eq. 1-13", claim, (everywhere - closed).stack(), WITHIN, published="equations"
    )


def _shares(paper: Published, ours: pd.DataFrame) -> list[Claim]:
    found = {(s, g): float(ours.at[s, g] / ours.at["all_joint", g]) for s, g in SHARES}
    gaps = pd.Series({f"{s} {g}": found[s, g] - x for (s, g), x in SHARES.items()})
    printed, told = (", ".join(f"{x:.1%}" for x in values) for values in (SHARES.values(), found.values()))
    claim = "R alone tells 65.6 and 58.0 % of what R and T tell (Qwen3.5, Apertus), T alone 29.3 and 40.8 %"
    majority = [found["all_R", g] > 0.5 for g in STUDIED]
    ours_told = ", ".join(f"{found['all_R', g]:.1%}" for g in STUDIED)
    return [
        agreement("5.3c", "Section 5.3", f"{claim}, to one point", gaps, SHARE, published=printed, ours=told),
        Claim(
            "5.3d",
            "Section 5.3",
            "R alone tells more than half for both systems",
            "65.6 %, 58.0 %",
            ours_told,
            "",
            verdict_of(majority),
        ),
    ]


def _reverse(everywhere: pd.DataFrame) -> Claim:
    better = everywhere.loc["all_R"] > everywhere.loc["all_T"]
    against = [
        f"{n} ({everywhere.at['all_R', n]:.3f} against {everywhere.at['all_T', n]:.3f})" for n in better[~better].index
    ]
    ours = f"in {better.sum()} of {len(better)} configurations; not in " + ("; ".join(against) or "none")
    claim = "Labels of R always tell more of G than labels of T (checked on all 27 configurations)"
    return Claim("F a", "Section 5.3, App. F", claim, "consistently", ours, tally(better), verdict_of(better))


def _steps(paper: Published) -> list[Claim]:
    """Each printed step that no values behind the rounded parameters can give is a slip."""
    claims = []
    for i, g in enumerate(STUDIED):
        thetas = paper.thetas(f"{SETTING}/{g}")
        own = steps(thetas)
        gaps = pd.Series({name: own[name] - printed[i] for name, printed in STEPS.items()})
        claim = f"The steps from the parameters to the gains, {g}"
        told = ", ".join(f"{name} {own[name]:.3f} ({printed[i]:.3f})" for name, printed in STEPS.items())
        claims.append(agreement(f"F steps {g}", "Appendix F", claim, gaps, 0.002, published="in brackets", ours=told))
    return claims


def _entropies() -> list[Claim]:
    """h of the printed argument, which may be anything that rounds to it."""
    claims = []
    for p, printed in ENTROPIES.items():
        low, high = sorted(float(h(p + d)) for d in (-ROUNDING, ROUNDING))
        own = float(h(p))
        is_possible = low - ROUNDING <= printed <= high + ROUNDING
        claims.append(
            Claim(
                f"F h({p:g})",
                "Appendix F",
                f"The entropy of a yes with probability {p:g}",
                f"{printed:.3f}",
                f"{own:.3f}",
                f"{own - printed:+.3f}",
                HOLDS if is_possible else SLIP,
                f"-{p:g} log2 {p:g} - {1 - p:.3g} log2 {1 - p:.3g} = {own:.4f}; what rounds to {p:g} gives {low:.4f} "
                f"to {high:.4f}; printed {printed:.3f}.",
            )
        )
    return claims


def _balanced(paper: Published) -> Claim:
    share = steps(paper.thetas(f"{SETTING}/Qwen3.5"))["P(G=1 | A=0)"]
    claim = "Among Qwen3.5's answers, right and wrong behaviour are balanced (between 40 and 60 %)"
    verdict = verdict_of([0.4 < share < 0.6])
    return Claim(
        "F b",
        "Appendix F",
        claim,
        "balanced",
        f"{share:.1%} of its answers are as they should be",
        "",
        verdict,
        "The appendix gives 0.216 itself, two sentences earlier.",
    )


def _contributes(paper: Published) -> Claim:
    shares = {g: paper.thetas(f"{SETTING}/{g}") for g in STUDIED}
    still_open = {g: p["theta_R"] * (1 - p["theta_A_plus"]) for g, p in shares.items()}
    claim = "Rows labelled with R alone always land in a cell that settles G"
    told = ", ".join(f"{x:.1%} ({g})" for g, x in still_open.items())
    return Claim(
        "F c",
        "Appendix F",
        claim,
        "exclusively",
        f"G stays open in {told} of such rows",
        "",
        verdict_of([x < 0.01 for x in still_open.values()]),
        "P(R=1, A=0) of Table 10: the cell that Table 3(a) itself leaves open.",
    )
