"""The paper's printed numbers, read from tests/data/paper, and rows laid out from them.

Tables come out as printed. Rows come out as a label table with counts that any reader of labels takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

DATA = Path(__file__).parents[2] / "tests" / "data" / "paper"
ROWS = 10_000
DATASETS = ("FEVER", "HotpotQA", "NQ")
RETRIEVERS = ("dense", "hybrid", "sparse")
GENERATORS = ("Apertus", "Gemma3", "Qwen3.5")
THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")
MARGINALS = ("p_R", "p_A", "p_T", "p_G")
STUDIED = ("Qwen3.5", "Apertus")
ROUNDING = 0.0005  # half a unit of the last printed digit of most tables


@dataclass(frozen=True)
class Published:
    """Tables by where they stand in the paper; `configurations` holds Tables 1 and 2 side by side."""

    configurations: pd.DataFrame
    joint: pd.DataFrame
    gains: pd.DataFrame
    retrieval_judge: pd.DataFrame
    task_judge: pd.DataFrame
    judge_rows: pd.DataFrame
    partial: pd.Series
    graded: pd.DataFrame
    widths: pd.DataFrame

    def thetas(self, name: str) -> dict[str, float]:
        """The five thetas of "dataset/retriever/generator"."""
        return self.configurations.loc[name, list(THETAS)].to_dict()


def read() -> Published:
    """Every table that was transcribed."""
    key = ["dataset", "retriever", "generator"]
    both = _table("table1_marginals").merge(_table("table2_conditionals"), on=key, validate="one_to_one")
    both["theta_R"] = both["p_R"]
    graded = _table("table9_graded_retrieval")
    return Published(
        _named(both, key),
        _table("table3_10_joint_R_A").set_index(["R", "A"]),
        _table("table3_11_information_gain_bits").set_index("strategy"),
        _table("table4a_retrieval_judge").set_index("retriever"),
        _table("table4b_task_judge").set_index("generator"),
        _table("table5_judge_impact").set_index("n_add"),
        _table("table8_partial_retrievals").set_index(key[:2])["partial_of_10000"],
        _named(graded, key),
        _table("appendix_e_ci_widths"),
    )


def _table(name: str) -> pd.DataFrame:
    return pd.read_csv(DATA / f"{name}.csv")


def _named(table: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    return table.set_index(table[key].agg("/".join, axis=1)).drop(columns=key)


def cells(p: Mapping[str, float]) -> dict[tuple[int, int, int], float]:
    """Probabilities of the six (R, A, T) that can occur, by the pipeline: retrieve, abstain or not, answer."""
    found = {}
    for r, share, side in ((0, 1 - p["theta_R"], "minus"), (1, p["theta_R"], "plus")):
        abstains, right = p[f"theta_A_{side}"], p[f"theta_T_{side}"]
        found |= {(r, 1, 0): share * abstains}
        found |= {(r, 0, 0): share * (1 - abstains) * (1 - right), (r, 0, 1): share * (1 - abstains) * right}
    return found


def laid_out(shares: Mapping[tuple[int, ...], float], system: str, rows: int = ROWS) -> pd.DataFrame:
    """A label table of `rows` counted rows: every kind of row as often as its share says, by largest remainder."""
    exact = np.array(list(shares.values())) * rows
    counts = np.floor(exact + 1e-9).astype(int)
    for i in np.argsort(counts - exact, kind="stable")[: rows - counts.sum()]:
        counts[i] += 1
    table = pd.DataFrame(list(shares), columns=["R", "A", "T"])
    return table.assign(system=system, count=counts)[counts > 0]
