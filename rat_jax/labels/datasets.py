"""Published tables that ship with the package: the five thetas of 27 RAG configurations, by name.

They are what a study can be simulated from without data of one's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import pandas as pd

from rat_jax.naming import checked

PARTS = ("dataset", "retriever", "generator")


def configurations() -> pd.DataFrame:
    """The five thetas of 27 configurations, float64 in [0, 1], indexed (dataset, retriever, generator).

    Columns theta_R, theta_A_minus, theta_A_plus, theta_T_minus, theta_T_plus: printed posterior means, to three
    decimals. `rat_jax/data/paper_configurations.md` says what each is.

    Source: "The RAT: A Unified Bayesian Model for RAG Evaluation", Tables 1 and 2.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.datasets.configurations().xs("Apertus", level="generator")["theta_R"].idxmax()
    ('FEVER', 'hybrid')
    """
    with (files("rat_jax") / "data" / "paper_configurations.csv").open(encoding="utf-8") as file:
        return pd.read_csv(file, index_col=list(PARTS))


def names() -> tuple[str, ...]:
    """Names of the configurations, "dataset/retriever/generator".

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.datasets.names()[0]
    'FEVER/dense/Apertus'
    """
    return tuple(map("/".join, configurations().index))


def thetas(name: str | Sequence[str]) -> dict[str, float]:
    """The five thetas of one configuration, each in [0, 1].

    name: "HotpotQA/hybrid/Qwen3.5", or its three parts.

    Raises ValueError for a configuration there is not; the nearest name is offered.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")["theta_T_plus"]
    0.678
    """
    table = configurations()
    joined = name if isinstance(name, str) else "/".join(map(str, name))
    known = dict(zip(map("/".join, table.index), table.index, strict=True))
    row = table.loc[known[checked(joined, known, "configuration")]]
    return {str(theta): float(value) for theta, value in row.items()}
