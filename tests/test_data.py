"""The tables that ship and the tables the tests use are the ones their notes describe.

Each table has a note of the same name; the counts printed there are recomputed here from the file alone.
"""

from pathlib import Path

import pandas as pd
import pytest

ROOT = Path(__file__).parent.parent
TABLES = [ROOT / "rat_jax" / "data" / "mtrag_human.csv", *sorted((ROOT / "tests" / "data").glob("*.csv"))]
SHIPPED_COLUMNS = ["id", "system", "R", "A", "T", "R_J", "T_J"]


def note_of(table: Path) -> str:
    return table.with_suffix(".md").read_text(encoding="utf-8")


def counts_in_note(table: Path) -> dict[tuple[str, ...], int]:
    """The rows of the note's table headed R, A, T, rows."""
    lines = note_of(table).splitlines()
    start = lines.index("| R | A | T | rows |") + 2
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip() for cell in line.strip("|").split("|")])
    return {tuple(row[:3]): int(row[3]) for row in cells}


def counts_in_file(table: Path) -> dict[tuple[str, ...], int]:
    labels = pd.read_csv(table)[["R", "A", "T"]]
    words = labels.astype("Int64").astype("string").fillna("missing")
    return {tuple(pattern): int(count) for pattern, count in words.value_counts().items()}


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_the_counts_in_a_note_are_the_counts_of_its_file(table):
    assert counts_in_note(table) == counts_in_file(table)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_a_note_names_source_commit_and_licence(table):
    note = note_of(table)
    assert "Source:" in note and "github.com" in note
    assert "commit" in note
    assert "Licence" in note


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.stem)
def test_no_table_contradicts_the_model(table):
    labels = pd.read_csv(table)
    assert list(labels.columns[: len(SHIPPED_COLUMNS)]) == SHIPPED_COLUMNS
    assert not ((labels["A"] == 1) & (labels["T"] == 1)).any()


def test_the_shipped_labels_follow_from_the_ratings_kept_beside_them():
    table = pd.read_csv(TABLES[0])
    ratings = table[["faith_med", "approp_med", "compl_med"]]
    good = (ratings >= 3).all(axis=1)
    answered = table["A"] == 0
    assert (table["R"] == (table["answerability"] == "answerable")).all()
    assert (table["T_raw"] == good).all()
    assert (table["T"] == (good & answered)).all()
    assert (table["T_J"] == ((table["rb_llm"] >= 0.75) & answered)).all()


def test_published_tables_hold_probabilities_that_agree_with_each_other():
    """P(A), P(T) and P(G) of Table 1 follow from P(R) and Table 2; one known slip excepted."""
    keys = ["dataset", "retriever", "generator"]
    folder = ROOT / "tests" / "data" / "paper"
    table = pd.read_csv(folder / "table1_marginals.csv").merge(
        pd.read_csv(folder / "table2_conditionals.csv"), on=keys, validate="one_to_one"
    )
    assert len(table) == 27
    fails, holds = 1 - table["p_R"], table["p_R"]
    supported = (1 - table["theta_A_plus"]) * table["theta_T_plus"]
    implied = {
        "p_A": fails * table["theta_A_minus"] + holds * table["theta_A_plus"],
        "p_T": fails * (1 - table["theta_A_minus"]) * table["theta_T_minus"] + holds * supported,
        "p_G": fails * table["theta_A_minus"] + holds * supported,
    }
    slips = {
        (quantity, *table.loc[row, keys])
        for quantity, values in implied.items()
        for row in table.index[(values - table[quantity]).abs() > 0.0015]
    }
    assert slips == {("p_T", "NQ", "hybrid", "Apertus")}
