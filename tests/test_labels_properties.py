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
GRADES = {
    0: ["fail", "FAIL", " Fail", "0", "0.0", 0, 0.0, np.int8(0)],
    1: ["partial", "Partial", "partial\t", "1", "1.0", 1, 1.0, np.float32(1)],
    2: ["success", "SUCCESS", "sucCess ", "2", "2.0", 2, 2.0, np.int64(2)],
    -1: SPELLINGS[-1],
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
@hypothesis.given(st.lists(st.sampled_from([-1, 0, 1, 2]), max_size=12), st.data())
def test_any_mix_of_grades_gives_the_same_codes(codes, data):
    """A word says that R is graded, a 2 that codes are grades; with both in the column nothing is left open."""
    cells = [data.draw(st.sampled_from(GRADES[code])) for code in codes]
    labels = read_labels(pd.DataFrame({"R": pd.Series([*cells, "partial", 2], dtype=object)}))
    assert labels.codes[:, 0].tolist() == [*codes, 1, 2]
    assert labels.levels == {"R": ("fail", "partial", "success")}


@settings
@hypothesis.given(st.lists(st.sampled_from([0, 1, 2]), max_size=12), st.data())
def test_a_yes_or_no_among_grades_is_refused_wherever_it_stands(codes, data):
    cells = [data.draw(st.sampled_from(GRADES[code])) for code in codes]
    place = data.draw(st.integers(0, len(cells)))
    word = data.draw(st.sampled_from(["yes", "No", "TRUE", " false", True, False]))
    cells = [*cells[:place], word, *cells[place:], "partial"]
    with pytest.raises(LabelError) as caught:
        read_labels(pd.DataFrame({"R": pd.Series(cells, dtype=object)}))
    assert f'"R", row {place + 1} has ' in str(caught.value) and str(word).strip() in str(caught.value)


@settings
@hypothesis.given(st.lists(st.tuples(st.sampled_from([-1, 0, 1, 2]), st.integers(0, 6)), min_size=1, max_size=12))
def test_codes_alone_are_grades_exactly_where_the_rule_says(rows):
    codes, counts = zip(*rows, strict=True)
    total = {code: sum(n for c, n in rows if c == code) for code in (0, 1, 2)}
    hypothesis.assume(total[0] + total[1] + total[2] > 0)
    table = pd.DataFrame({"R": pd.array([None if c < 0 else c for c in codes], "Int8"), "count": counts})
    if 2 not in codes:
        assert read_labels(table).levels == {}
    elif total[0] and total[1] and total[2] >= 10:
        assert read_labels(table).levels == {"R": ("fail", "partial", "success")}
    else:
        with pytest.raises(LabelError):
            read_labels(table)


@settings
@hypothesis.given(st.lists(st.sampled_from([-1, 0, 1, 2, 3]), min_size=1, max_size=12), st.data())
def test_collapsing_is_reading_the_binary_table(codes, data):
    hypothesis.assume(max(codes) >= 0)
    words = ("no", "some", "most", "all")
    values = data.draw(st.lists(st.sampled_from([0, 1]), min_size=4, max_size=4))
    keys = [data.draw(st.sampled_from([word, word.upper(), k, str(k)])) for k, word in enumerate(words)]
    table = pd.DataFrame({"R": [None if code < 0 else words[code] for code in codes], "system": "s"})
    collapsed = read_labels(table, levels={"R": words}).collapse("R", dict(zip(keys, values, strict=True)))
    binary = read_labels(table.assign(R=[None if code < 0 else values[code] for code in codes]))
    assert collapsed.codes.tolist() == binary.codes.tolist()
    assert collapsed.levels == binary.levels and collapsed.sizes == binary.sizes
    pd.testing.assert_frame_equal(collapsed.counts(), binary.counts())
    assert collapsed.report.labels == binary.report.labels


@settings
@hypothesis.given(code_tables())
def test_observed_are_the_labels_that_some_row_has(table):
    codes, systems = table
    seen = {name for name, column in zip(NAMES, codes.T, strict=True) if (column >= 0).any()}
    assert set(read_labels(as_frame(codes, systems)).observed) == seen


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
