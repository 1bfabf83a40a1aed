"""Label tables at random: relations that hold whatever the table, and a door that nothing breaks."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest

from rat_jax.labels import LabelError, read_labels

hypothesis = pytest.importorskip("hypothesis")
st = pytest.importorskip("hypothesis.strategies")

settings = hypothesis.settings(max_examples=60, deadline=None, derandomize=True)
files = hypothesis.settings(
    settings, suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture], max_examples=60
)

SPELLINGS = {
    0: ["0", "0.0", "false", "FALSE", "no", "No", " no", 0, 0.0, False, np.int8(0)],
    1: ["1", "1.0", "true", "True", "yes", "YES", "yes\t", 1, 1.0, True, np.float32(1)],
    -1: ["", " ", "NaN", "nan", "none", "NA", "na", None, np.nan, pd.NA],
}
NAMES = ["R", "A", "T", "T_J"]


@st.composite
def code_tables(draw, max_rows=12):
    """Codes [N, 4] that no rule refuses, and a system for each row."""
    rows = st.tuples(*[st.sampled_from([-1, 0, 1])] * 4).filter(lambda row: row[1:3] != (1, 1))
    codes = np.array(draw(st.lists(rows, min_size=1, max_size=max_rows)), np.int8)
    systems = draw(st.lists(st.sampled_from(["b", "a", "c d", "é"]), min_size=len(codes), max_size=len(codes)))
    for name in set(systems):
        mine = [s == name for s in systems]
        hypothesis.assume((codes[mine] >= 0).any())
    return codes, systems


def as_frame(codes, systems) -> pd.DataFrame:
    masked = {
        name: pd.arrays.IntegerArray(column.astype(np.int64), column < 0)
        for name, column in zip(NAMES, codes.T, strict=True)
    }
    return pd.DataFrame(masked | {"system": systems})


@settings
@hypothesis.given(code_tables(), st.data())
def test_any_mix_of_spellings_gives_the_same_codes(table, data):
    codes, systems = table
    cells = {
        name: pd.Series([data.draw(st.sampled_from(SPELLINGS[int(code)])) for code in column], dtype=object)
        for name, column in zip(NAMES, codes.T, strict=True)
    }
    labels = read_labels(pd.DataFrame(cells | {"system": systems}))
    assert labels.codes.tolist() == codes.tolist()


@files
@hypothesis.given(code_tables(), st.data())
def test_any_mix_of_spellings_gives_the_same_codes_in_a_file(tmp_path, table, data):
    codes, systems = table
    words = {code: [word for word in SPELLINGS[code] if isinstance(word, str)] for code in SPELLINGS}
    rows = [[data.draw(st.sampled_from(words[int(code)])) for code in row] for row in codes]
    out = io.StringIO()
    quoting = data.draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]))
    text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
    csv.writer(out, quoting=quoting).writerows(
        [
            [*NAMES, "system", "note"],
            *([*row, s, data.draw(text)] for row, s in zip(rows, systems, strict=True)),
        ]
    )
    path = tmp_path / "t.csv"
    path.write_text(out.getvalue(), encoding="utf-8", newline="")
    labels = read_labels(path)
    assert labels.codes.tolist() == codes.tolist()
    assert [labels.systems[s] for s in labels.system] == list(systems)


@settings
@hypothesis.given(code_tables(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_change_the_counts(table, random):
    frame = as_frame(*table)
    order = random.sample(range(len(frame)), len(frame))
    counts = read_labels(frame).counts()
    pd.testing.assert_frame_equal(read_labels(frame.iloc[order]).counts(), counts)


@settings
@hypothesis.given(code_tables(), st.data())
def test_rows_may_be_split_between_count_and_repetition(table, data):
    frame = as_frame(*table).assign(id=[f"q{k % 3}" for k in range(len(table[0]))])
    times = data.draw(st.lists(st.integers(1, 4), min_size=len(frame), max_size=len(frame)))
    repeated = read_labels(frame.loc[frame.index.repeat(times)])
    counted = read_labels(frame.assign(count=times))
    pd.testing.assert_frame_equal(repeated.counts(), counted.counts())
    one, other = repeated.report.to_dict(), counted.report.to_dict()
    assert {**one, "table_rows": 0} == {**other, "table_rows": 0}


@settings
@hypothesis.given(code_tables())
def test_renaming_a_system_moves_its_rows_and_nothing_else(table):
    codes, systems = table
    counts = read_labels(as_frame(codes, systems)).counts()
    renamed = read_labels(as_frame(codes, ["z" + name for name in systems])).counts()
    pd.testing.assert_frame_equal(renamed, counts.assign(system="z" + counts["system"]))


def outcome(path) -> str:
    try:
        labels = read_labels(path)
    except LabelError as error:
        assert str(error) and "\n" not in str(error)
        return "refused"
    assert ((labels.codes >= -1) & (labels.codes <= 1)).all()
    assert labels.counts()["count"].sum() == labels.report.rows
    return "read"


@files
@hypothesis.given(st.binary(max_size=300), st.sampled_from(["csv", "tsv", "jsonl", "parquet", "csv.gz"]))
def test_random_bytes_are_read_or_refused(tmp_path, content, suffix):
    (tmp_path / f"t.{suffix}").write_bytes(content)
    outcome(tmp_path / f"t.{suffix}")


@files
@hypothesis.given(st.text(alphabet='01,"\n\rRAT;\tyes \ufeff', max_size=40), st.sampled_from(["", "R,A\n", '"R"\n']))
def test_random_tables_are_read_or_refused(tmp_path, content, header):
    path = tmp_path / "t.csv"
    path.write_text(header + content, encoding="utf-8", newline="")
    outcome(path)


@files
@hypothesis.given(st.text(alphabet='01,"\n\r x', max_size=40))
def test_arrow_and_the_csv_module_see_the_same_rows(tmp_path, content):
    """What is read is what Python's own strict reader sees: no row lost, none made up."""
    path = tmp_path / "t.csv"
    path.write_text("R,A\n" + content, encoding="utf-8", newline="")
    if outcome(path) == "read":
        rows = [row for row in csv.reader(io.StringIO(content, newline=""), strict=True) if row]
        codes = {"0": 0, "1": 1, "": -1}
        expected = [[codes[cell.strip()] for cell in row] for row in rows]
        assert read_labels(path).codes[:, :2].tolist() == expected


@settings
@hypothesis.given(st.lists(st.text(max_size=4), min_size=1, max_size=4))
def test_any_column_names_are_read_or_refused(names):
    frame = pd.DataFrame([[0] * (len(names) + 1)], columns=[*names, "R"])
    try:
        read_labels(frame)
    except LabelError as error:
        assert "did you mean" in str(error) or "more than once" in str(error)
        assert str(error).isprintable()
