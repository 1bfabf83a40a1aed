"""Which cells of an allocation study rest on chains that cannot be trusted, and how that is said.

Exact draws have no health to look at. The limits are those of every fit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rat_jax.inference.verdict import LARGEST_DIVERGENT_SHARE, LARGEST_R_HAT, SMALLEST_ESS_PER_CHAIN
from rat_jax.studies.allocation_result import AllocationStudy

MOST_NAMED = 5

Cell = tuple[str, str, float]


def failed_cells(study: AllocationStudy) -> dict[Cell, str]:
    """What is wrong, by (system, strategy, additional); empty where everything can be trusted."""
    found = {(r["system"], r["strategy"], float(r["additional"])): _wrong(r) for r in study.health.to_dict("records")}
    return {cell: wrong for cell, wrong in found.items() if wrong}


def _wrong(cell: Mapping[Any, Any]) -> str:
    """What the chains of a cell do wrong in some fit, empty where nothing; a missing figure is not trusted."""
    r_hat, ess, divergent = (float(cell[name]) for name in ("r_hat", "ess", "divergent"))
    faults = [
        ("" if r_hat <= LARGEST_R_HAT else f"R-hat {r_hat:.3f}"),
        ("" if ess >= SMALLEST_ESS_PER_CHAIN * cell["chains"] else f"{ess:,.0f} effective draws"),
        ("" if divergent <= LARGEST_DIVERGENT_SHARE else f"{divergent:.1%} of draws diverged"),
    ]
    return ", ".join(filter(None, faults))


def health_sentence(study: AllocationStudy) -> str:
    """One sentence on the cells that failed, empty where none did."""
    failed = failed_cells(study)
    if not failed:
        return ""
    named = [f"{system}, {strategy}, {spent:g} ({what})" for (system, strategy, spent), what in failed.items()]
    more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    least = SMALLEST_ESS_PER_CHAIN * int(study.health["chains"].iloc[0])
    return (
        f"sampling failed in {len(failed)} of {len(study.health)} cells (R-hat above {LARGEST_R_HAT}, fewer than "
        f"{least} effective draws or more than {LARGEST_DIVERGENT_SHARE:.1%} divergent ones in some sample): "
        f"{'; '.join(named[:MOST_NAMED])}{more}; take more draws with --num-samples"
    )
