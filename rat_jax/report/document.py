"""A posterior as one JSON document: every figure in full precision, both verdicts, and where it came from."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from rat_jax.inference.posterior import Posterior
from rat_jax.report.words import meaning

if TYPE_CHECKING:
    from rat_jax.studies.certify import Certificate


def document(
    posterior: Posterior, source: str | None = None, further: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Plain dicts, lists, strings, numbers and None: `systems`, `diagnostics`, `provenance`.

    source: name of the label table, recorded in `provenance`.
    further: plain facts about this posterior, such as a `certificate`, recorded under their names beside the others.
    A figure that does not exist (R-hat of exact draws) is None.
    """
    summary, informed = posterior.summary(), posterior.diagnostics.informed
    systems = {
        system: {
            "quantities": {
                quantity: _figures(row) | {"informed": bool(informed[system, quantity]), "label": meaning(quantity)}
                for quantity, row in summary.loc[system].iterrows()
            },
            "rows": posterior.rows[system],
        }
        for system in posterior.systems
    }
    return {
        "systems": systems,
        "diagnostics": posterior.diagnostics.to_dict(),
        "provenance": {"source": source, **posterior.provenance},
        **(further or {}),
    }


def certificate_facts(certificate: Certificate) -> dict[str, Any]:
    """A certificate as plain facts for the document."""
    rows = [
        {"system": system, "quantity": quantity, **_figures(certificate.table.loc[(system, quantity)])}
        for system, quantity in certificate.table.index
    ]
    return {
        "ok": certificate.ok,
        "method": certificate.method,
        "other": certificate.other,
        "problems": list(certificate.problems),
        "comparisons": rows,
    }


def to_json(facts: dict[str, Any]) -> str:
    """Strict JSON (no NaN, no Infinity), in ASCII so that any tool reads it whatever the names of the systems."""
    return json.dumps(facts, allow_nan=False, indent=2) + "\n"


def _figures(row: pd.Series) -> dict[str, float | None]:
    return {str(name): float(value) if math.isfinite(value) else None for name, value in row.items()}
