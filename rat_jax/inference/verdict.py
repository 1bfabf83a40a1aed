"""Two verdicts that travel with every posterior: can the sampling be trusted, and is a quantity informed.

They are separate on purpose: a perfect sampler can explore a posterior that is nothing but its prior.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

LARGEST_R_HAT = 1.01  # Vehtari, Gelman, Simpson, Carpenter, Buerkner (2021), section 4
SMALLEST_ESS_PER_CHAIN = 100  # the same, section 4: 400 for four chains
LARGEST_DIVERGENT_SHARE = 0.001
LARGEST_SATURATED_SHARE = 0.25
SHOWN = 3


@dataclass(frozen=True)
class Diagnostics:
    """The two verdicts on a posterior.

    ok: the sampling can be trusted (always True for exact draws).
    verdict: that in one sentence.
    problems: what failed, where, and what to do about it; empty when ok.
    max_r_hat: largest R-hat, None for exact draws.
    min_ess_bulk, min_ess_tail: smallest effective sample sizes over systems and quantities.
    divergences: divergent draws in all.
    saturated: largest share, over systems, of draws whose tree reached its largest depth, in [0, 1].
    informed: (system, quantity) -> whether the labels say anything about it, beyond its prior.
    share: (system, quantity) -> part of its variance that more rows labelled alike could not remove.
    advice: (system, quantity) -> why it is not informed and what to label, for those only.
    """

    ok: bool
    verdict: str
    problems: tuple[str, ...]
    max_r_hat: float | None
    min_ess_bulk: float
    min_ess_tail: float
    divergences: int
    saturated: float
    informed: Mapping[tuple[str, str], bool]
    share: Mapping[tuple[str, str], float]
    advice: Mapping[tuple[str, str], str]

    def to_dict(self) -> dict:
        """The sampling verdict as plain JSON-able values; what is not informed is named with its advice."""
        return {
            "ok": self.ok,
            "verdict": self.verdict,
            "problems": list(self.problems),
            "max_r_hat": self.max_r_hat,
            "min_ess_bulk": self.min_ess_bulk,
            "min_ess_tail": self.min_ess_tail,
            "divergences": self.divergences,
            "saturated": self.saturated,
            "not_informed": [{"system": s, "quantity": q, "advice": text} for (s, q), text in self.advice.items()],
        }


@dataclass(frozen=True)
class Sampling:
    """The sampling half of the verdict; fields as in `Diagnostics`."""

    verdict: str
    problems: tuple[str, ...]
    max_r_hat: float | None
    min_ess_bulk: float
    min_ess_tail: float
    divergences: int = 0
    saturated: float = 0.0

    @property
    def ok(self) -> bool:
        """The sampling can be trusted (always True for exact draws)."""
        return not self.problems


def exact_sampling(num_draws: int, is_paired: bool = False) -> Sampling:
    """The verdict on exact draws, perhaps of systems that were paired: nothing to diagnose."""
    verdict = "Exact: independent draws from the exact posterior."
    if is_paired:
        verdict = "Exact: draws from each system's exact posterior, paired on the questions they share."
    return Sampling(verdict, (), None, float(num_draws), float(num_draws))


def judge_sampling(summary: pd.DataFrame, stats: Mapping[str, np.ndarray], max_depth: int) -> Sampling:
    """The verdict on Markov chains.

    summary: columns r_hat, ess_bulk, ess_tail indexed by (system, quantity).
    stats: `diverging`, `tree_depth` and perhaps `reached_max_treedepth`, each [S, C, D], systems in the order of the
        summary.
    """
    systems = list(summary.index.unique("system"))
    diverging, depth = np.asarray(stats["diverging"], bool), np.asarray(stats["tree_depth"])
    reached = stats["reached_max_treedepth"] if "reached_max_treedepth" in stats else depth >= max_depth
    saturated = np.asarray(reached, bool).mean(axis=(1, 2))
    num_chains = diverging.shape[1]
    problems = [
        *_mixing(summary),
        *_effort(summary, SMALLEST_ESS_PER_CHAIN * num_chains),
        *_divergent(systems, diverging),
        *_saturated(systems, saturated, max_depth),
    ]
    worst = summary["r_hat"].to_numpy().max()
    bulk, tail = summary[["ess_bulk", "ess_tail"]].to_numpy().min(axis=0)
    lead = "Sampling can be trusted" if not problems else "SAMPLING CANNOT BE TRUSTED"
    verdict = (
        f"{lead}: largest R-hat {worst:.3f}, smallest ESS {min(bulk, tail):,.0f}, {diverging.sum():,} divergences."
    )
    return Sampling(
        verdict,
        tuple(problems),
        float(worst),
        float(bulk),
        float(tail),
        int(diverging.sum()),
        float(saturated.max()),
    )


def _mixing(summary: pd.DataFrame) -> list[str]:
    bad = summary.index[summary["r_hat"].to_numpy() > LARGEST_R_HAT]
    if not len(bad):
        return []
    return [
        f"chains disagree: R-hat above {LARGEST_R_HAT} for {_named(bad)}; sample longer (num_warmup, num_samples), "
        "or label what ties the quantity down if it is listed as not informed"
    ]


def _effort(summary: pd.DataFrame, least: float) -> list[str]:
    bad = summary.index[summary[["ess_bulk", "ess_tail"]].to_numpy().min(axis=1) < least]
    if not len(bad):
        return []
    return [f"too few effective draws: under {least:,.0f} for {_named(bad)}; raise num_samples"]


def _divergent(systems: list[str], diverging: np.ndarray) -> list[str]:
    share = diverging.mean(axis=(1, 2))
    bad = [s for s, x in zip(systems, share, strict=True) if x > LARGEST_DIVERGENT_SHARE]
    if not bad:
        return []
    return [
        f"divergences: more than {LARGEST_DIVERGENT_SHARE:.1%} of draws for {_listed(bad)}; use method='exact' if it "
        "applies, or a less extreme prior"
    ]


def _saturated(systems: list[str], share: np.ndarray, max_depth: int) -> list[str]:
    bad = [s for s, x in zip(systems, share, strict=True) if x > LARGEST_SATURATED_SHARE]
    if not bad:
        return []
    return [f"trees reach their largest depth {max_depth} for {_listed(bad)}; sample longer (num_warmup)"]


def _named(index: pd.Index) -> str:
    return _listed([f"{quantity} of {system!r}" for system, quantity in index])


def _listed(names: list[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + rest
