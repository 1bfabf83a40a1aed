"""The options of `gate`, declared once."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from rat_jax.cli import options
from rat_jax.cli.options import JUDGES, OUTPUT, option


@dataclasses.dataclass(frozen=True)
class GateOptions:
    """Every option of `gate`, as it was typed. A field without a name of its own is named alike."""

    require: Annotated[
        list[str] | None,
        option(
            'What must hold, such as "p_G[new] - p_G[old] > -0.01 with 0.95". Repeatable; all must.',
            metavar="SENTENCE",
            panel="What is required",
        ),
    ] = None
    model: options.Model = "rat"
    method: options.Method = "auto"
    seed: options.Seed = 0
    prior: options.Prior = None
    num_warmup: options.Warmup = 1000
    num_samples: options.Samples = 1000
    num_chains: options.Chains = 4
    policy: options.PolicyName = None
    judge_structure: options.JudgeStructure = None
    judge_shared: Annotated[bool, option("One error table for all systems.", "--judge-shared", panel=JUDGES)] = False
    judge_rate: options.JudgeRate = None
    json: Annotated[Path | None, option("Every figure and verdict as JSON.", metavar="FILE", panel=OUTPUT)] = None

    def priors(self) -> dict[str, list[float]]:
        """Concentrations by name of the parameter."""
        return options.priors(self.prior)

    def judge_rates(self) -> dict[str, float] | None:
        """Known error rates by name, or None where none is given."""
        return options.judge_rates(self.judge_rate)

    def files(self) -> list[Path]:
        """The files to write."""
        return [self.json] if self.json is not None else []
