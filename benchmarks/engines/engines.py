"""The engines by name: the script that works for each, what its environment holds, and what it is told."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JAX = ("jax==0.10.2", "jaxlib==0.10.2")
ENVIRONMENTS: Mapping[str, tuple[str, ...]] = {
    "blackjax": ("blackjax==1.7.1", *JAX, "numpy==2.4.6"),
    "numpyro": ("numpyro==0.22.0", *JAX, "numpy==2.4.6"),
    "nutpie": ("nutpie==0.16.8", "pymc==5.28.5", "numba==0.65.1", "numpy==2.4.6"),
    "pystan": ("pystan==3.10.0", "httpstan==4.13.0", "numpy==2.4.6"),
}
"""Environments of the peers and what is installed in each."""


@dataclass(frozen=True)
class Engine:
    """An engine under one configuration.

    script: of its worker. environment: whose Python runs it; None is the Python that runs the benchmark.
    batched: whether all tables of a worker are one batch, so that the size of the batch matters.
    keeps_builds: whether its compiled program is kept on disk and used again by later workers.
    """

    name: str
    label: str
    script: str
    environment: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    batched: bool = False
    keeps_builds: bool = False

    @property
    def is_ours(self) -> bool:
        return self.environment is None

    @property
    def knows_judge(self) -> bool:
        return self.options.get("method") != "exact"


ENGINES: Mapping[str, Engine] = {
    e.name: e
    for e in (
        Engine("lanes", "ours: lanes", "with_rat_jax", None, {"method": "nuts"}, True),
        Engine("exact", "ours: exact", "with_rat_jax", None, {"method": "exact"}, True),
        Engine("our-numpyro", "ours: numpyro (yardstick)", "with_rat_jax", None, {"method": "numpyro"}, True),
        Engine("blackjax", "BlackJAX, vmap", "with_blackjax", "blackjax", {}, True),
        Engine("numpyro-5", "NumPyro, vmap, depth 5", "with_numpyro", "numpyro", {"max_tree_depth": 5}, True),
        Engine("numpyro-10", "NumPyro, vmap, depth 10", "with_numpyro", "numpyro", {"max_tree_depth": 10}, True),
        Engine("nutpie", "nutpie on PyMC", "with_nutpie", "nutpie"),
        Engine("pystan", "PyStan", "with_pystan", "pystan", keeps_builds=True),
    )
}


def python_of(engine: Engine, environments: Path | None) -> Path | None:
    """The interpreter that runs an engine; None where its environment is not there."""
    if engine.is_ours:
        return Path(sys.executable)
    if environments is None:
        return None
    return interpreter(environments / str(engine.environment))


def interpreter(environment: Path) -> Path | None:
    """Of a virtual environment; None if there is none."""
    places = (environment / "bin" / "python", environment / "Scripts" / "python.exe")
    return next((place for place in places if place.exists()), None)


def missing(engine: Engine) -> str:
    """What is said of an engine whose environment is not there."""
    return (
        f"missing: not measured, because there is no environment {engine.environment!r} "
        f"(python -m benchmarks.engines.install --environments DIR {engine.environment})"
    )
