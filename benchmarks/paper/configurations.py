"""Tables 1 and 2: the 27 configurations laid out as 10,000 rows each, fitted, and held against what is printed.

The printed parameters come in; posterior means and deviations of every quantity go out, and the section on how the two
tables agree with each other and with the fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

import rat_jax as rat
from benchmarks.paper.claims import HOLDS, SLIP, Claim, Section, agreement
from benchmarks.paper.published import GENERATORS, MARGINALS, ROWS, THETAS, Published, cells, laid_out

MIXED = 0.2  # posterior deviations: over four Monte Carlo errors of chains with 500 effective draws
PRINTED = 0.001  # how far two rounded tables may differ: both have three decimals


@dataclass(frozen=True)
class Fits:
    """Posterior `mean` and `sd` and the `count` based shares, each by configuration (rows) and quantity (columns).

    verdict: whether the sampling can be trusted, in words.
    """

    mean: pd.DataFrame
    sd: pd.DataFrame
    count: pd.DataFrame
    method: str
    verdict: str

    def of(self, setting: str, quantity: str) -> pd.Series:
        """Posterior means of one dataset/retriever, by generator."""
        return pd.Series({g: float(self.mean.at[f"{setting}/{g}", quantity]) for g in GENERATORS})

    def apart(self, one: str, other: str, quantity: str) -> tuple[float, float]:
        """Difference one - other of two configurations and its standard error, as if their questions differed."""
        sd = self.sd[quantity]
        return float(self.mean.at[one, quantity] - self.mean.at[other, quantity]), float(np.hypot(sd[one], sd[other]))


def fit_all(paper: Published, chains: Mapping[str, Any]) -> Fits:
    """Fit every configuration; chains: options of `rat.fit` (method, num_warmup, ...)."""
    shares = {name: cells(paper.thetas(name)) for name in paper.configurations.index}
    rows = pd.concat([laid_out(share, name) for name, share in shares.items()])
    fit = rat.fit(rows, on_failure="keep", **chains)
    summary = fit.summary()
    mean, sd = (summary[c].unstack("quantity").loc[list(shares), list((*THETAS, *MARGINALS))] for c in ("mean", "sd"))
    return Fits(
        mean,
        sd,
        pd.DataFrame({n: _counted(group) for n, group in rows.groupby("system")}).T,
        fit.method,
        fit.sampling.verdict,
    )


def _counted(rows: pd.DataFrame) -> dict[str, float]:
    """The four marginals by counting."""
    n, r, a, t = (rows[c].to_numpy() for c in ("count", "R", "A", "T"))
    g = ((r == 0) & (a == 1)) | ((r == 1) & (a == 0) & (t == 1))
    return {q: float((n * x).sum() / n.sum()) for q, x in zip(MARGINALS, (r, a, t, g), strict=True)}


def implied(p: Mapping[str, float]) -> dict[str, float]:
    """The marginals that the five thetas imply."""
    c = cells(p)
    return {
        "p_R": p["theta_R"],
        "p_A": c[0, 1, 0] + c[1, 1, 0],
        "p_T": c[0, 0, 1] + c[1, 0, 1],
        "p_G": c[0, 1, 0] + c[1, 0, 1],
    }


def section(paper: Published, fits: Fits, drawn: Fits | None = None) -> Section:
    """Tables 1 and 2; drawn: the same fits by chains."""
    printed = paper.configurations
    both = pd.DataFrame({name: implied(paper.thetas(name)) for name in printed.index}).T
    table = (both - printed[list(MARGINALS)]).stack()
    claims = [
        agreement(
            "T1",
            "Table 1",
            "The marginals follow from P(R) and the conditionals of Table 2",
            table,
            PRINTED + 1e-9,
            calculation="P(A), P(T) and P(G) by the law of total probability over R and A.",
        ),
        _slip(paper, both),
        agreement(
            "T2",
            "Table 2",
            f"{ROWS:,} rows laid out from the printed parameters, fitted: the parameters come back",
            (fits.mean[list(THETAS)] - printed[list(THETAS)]).stack(),
            PRINTED,
        ),
        agreement(
            "5.2a",
            "Section 5.2",
            "Marginals implied by the fitted model match those found by counting",
            (fits.mean[list(MARGINALS)] - fits.count[list(MARGINALS)]).stack(),
            PRINTED,
            published="not printed",
        ),
    ]
    if drawn is not None:
        claims.append(_same_by_chains(fits, drawn))
    text = [
        f"Each configuration was laid out as {ROWS:,} rows (six kinds of row, each as often as the five printed "
        f"parameters say) and fitted (method {fits.method}, uniform priors). Posterior means are shown. {fits.verdict}"
    ]
    shown = pd.concat([fits.mean[list(MARGINALS[1:])], printed[list(MARGINALS[1:])]], axis=1, keys=["ours", "printed"])
    shown.columns = [f"{quantity} {whose}" for whose, quantity in shown.columns]
    shown = shown[[f"{q} {w}" for q in MARGINALS[1:] for w in ("printed", "ours")]]
    return Section("Tables 1 and 2: the 27 configurations", text, [("Marginals, printed and ours.", shown)], [], claims)


def _same_by_chains(fits: Fits, drawn: Fits) -> Claim:
    claim = f"Chains give the exact posterior means of all 27, to {MIXED:g} posterior deviations"
    found = agreement("own b", "Table 2", claim, ((drawn.mean - fits.mean) / fits.sd).stack(), MIXED)
    return replace(found, published="not printed", fixed=False, calculation=drawn.verdict)


def _slip(paper: Published, both: pd.DataFrame) -> Claim:
    name = "NQ/hybrid/Apertus"
    printed, ours = float(paper.configurations.at[name, "p_T"]), float(both.at[name, "p_T"])
    p = paper.thetas(name)
    return Claim(
        "T1 slip",
        "Table 1",
        f"P(T) of {name}",
        f"{printed:.3f}",
        f"{ours:.3f}",
        f"{ours - printed:+.3f}",
        SLIP if abs(ours - printed) > PRINTED + 1e-9 else HOLDS,
        f"(1 - {p['theta_R']}) x (1 - {p['theta_A_minus']}) x {p['theta_T_minus']} + {p['theta_R']} x "
        f"(1 - {p['theta_A_plus']}) x {p['theta_T_plus']} = {ours:.4f}; printed {printed:.3f}.",
    )
