"""Which cells of an allocation study rest on chains that cannot be trusted, and how that is said.

Exact draws have no health to look at. The limits are those of every fit.
"""

from __future__ import annotations

from rat_jax.inference.verdict import LARGEST_R_HAT, SMALLEST_ESS_PER_CHAIN
from rat_jax.studies.allocation_result import AllocationStudy

SMALLEST_ESS = 4 * SMALLEST_ESS_PER_CHAIN
MOST_NAMED = 5

Cell = tuple[str, str, float]


def failed_cells(study: AllocationStudy) -> dict[Cell, str]:
    """What is wrong, by (system, strategy, additional); empty where everything can be trusted."""
    found: dict[Cell, str] = {}
    for row in study.health.to_dict("records"):
        r_hat, ess = float(row["r_hat"]), float(row["ess"])
        if not (r_hat <= LARGEST_R_HAT and ess >= SMALLEST_ESS):  # a missing figure is not trusted
            key = (str(row["system"]), str(row["strategy"]), float(row["additional"]))
            found[key] = f"R-hat {r_hat:.3f}, effective draws {ess:,.0f}"
    return found


def health_sentence(study: AllocationStudy) -> str:
    """One sentence on the cells that failed, empty where none did."""
    failed = failed_cells(study)
    if not failed:
        return ""
    named = [f"{system}, {strategy}, {spent:g} ({what})" for (system, strategy, spent), what in failed.items()]
    more = f"; and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else ""
    return (
        f"sampling failed in {len(failed)} of {len(study.health)} cells (R-hat above {LARGEST_R_HAT} or fewer than "
        f"{SMALLEST_ESS} effective draws in some sample): {'; '.join(named[:MOST_NAMED])}{more}; "
        "take more draws with --num-samples"
    )
