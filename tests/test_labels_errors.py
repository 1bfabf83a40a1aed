"""Every way a label table can be refused: one sentence that says where, what was found, and what to do."""

from __future__ import annotations

import gzip

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from rat_jax.labels import LabelError, read_labels

ROW_RULE = "rows are counted from 1, the header not counted"


def refusal(source, columns=None, **arguments) -> str:
    with pytest.raises(LabelError) as caught:
        read_labels(source, columns, **arguments)
    message = str(caught.value)
    assert "\n" not in message and "  " not in message and message[-1] in ".?"
    return message


def refused_file(tmp_path, content: str | bytes, name: str = "t.csv", **arguments) -> str:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return refusal(path, **arguments)


def assert_says(message: str, *parts: str) -> None:
    for part in parts:
        assert part in message, f"{part!r} is not in: {message}"


# ------------------------------------------------------------------------------------------------------ files


def test_no_such_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_says(refusal("absent.csv"), "no file", "absent.csv", ".parquet")


def test_the_text_of_a_table_is_not_its_path():
    assert_says(refusal("R,A,T\n" + "1,0,1\n" * 5000), "no file", "R,A,T")
    assert_says(refusal("R\0.csv"), "no file")


def test_a_directory(tmp_path):
    (tmp_path / "d.csv").mkdir()
    assert_says(refusal(tmp_path / "d.csv"), "is a directory")


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.json", "t.gz", "t.parquet.gz", ".csv"])
def test_an_unknown_suffix(tmp_path, name):
    assert_says(refused_file(tmp_path, "R\n1\n", name), name, "suffix", ".csv", ".parquet")


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", " \r\n"])
@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl"])
def test_an_empty_file(tmp_path, content, name):
    if name != "t.jsonl" or content != "\ufeff":
        assert_says(refused_file(tmp_path, content, name), name, "is empty", "at least one row")


@pytest.mark.parametrize("content", ["R,A,T", "R,A,T\n", "R,A,T\r\n\r\n", "\ufeffR,A,T\n\n \n"])
def test_a_header_without_rows(tmp_path, content):
    assert_says(refused_file(tmp_path, content), "t.csv", "header but no rows")


@pytest.mark.parametrize(
    "frame", [pd.DataFrame({"R": []}), pl.DataFrame({"R": []}), pa.table({"R": pa.array([], pa.int8())})]
)
def test_a_frame_without_rows(frame):
    assert_says(refusal(frame), "no rows")


def test_a_frame_without_columns():
    assert_says(refusal(pd.DataFrame()), "no column at all")


def test_a_parquet_file_without_rows(tmp_path):
    pd.DataFrame({"R": np.empty(0, np.int8)}).to_parquet(tmp_path / "t.parquet")
    assert_says(refusal(tmp_path / "t.parquet"), "no rows")


def test_bytes_that_are_no_text(tmp_path):
    assert_says(refused_file(tmp_path, b"\x89PNG\r\n\x1a\n\xff\xd8"), "not UTF-8")
    assert_says(refused_file(tmp_path, "R,A\n1,0\n".encode("utf-16")), "UTF-16", "save it as UTF-8")
    assert_says(refused_file(tmp_path, b"R,\0A\n1,0\n"), "binary")
    assert_says(refused_file(tmp_path, b"R,\xe9\n1,0\n"), "not UTF-8")


def test_a_needed_column_that_is_no_text(tmp_path):
    assert_says(refused_file(tmp_path, b"A,R\n1,\xe9\n"), 'column "R"', "not UTF-8")


def test_a_parquet_file_of_zero_bytes(tmp_path):
    assert_says(refused_file(tmp_path, b"", "t.parquet"), "t.parquet", "0 bytes")


def test_a_parquet_file_that_is_broken(tmp_path):
    path = tmp_path / "t.parquet"
    pd.DataFrame({"R": [1, 0] * 5000}).to_parquet(path)
    content = path.read_bytes()
    assert_says(refused_file(tmp_path, content[:-20], "t.parquet"), "cannot be read as parquet")
    assert_says(refused_file(tmp_path, b"PAR1" + content[60:], "t.parquet"), "cannot be read as parquet")
    assert_says(refused_file(tmp_path, b"R\n1\n", "t.parquet"), "cannot be read as parquet")


def test_a_gzip_file_that_is_broken(tmp_path):
    content = gzip.compress(b"R\n" + b"1\n0\n" * 999)
    for broken in (content[:-12], content[:20] + b"\xff\xff" + content[22:], b"R\n1\n"):
        assert_says(refused_file(tmp_path, broken, "t.csv.gz"), "t.csv.gz", "not a complete gzip file")


@pytest.mark.parametrize("source", [None, 5, [1, 0], {"R": [1]}, np.ones(3), pl.Series([1]), pd.Series([1])])
def test_what_is_no_table_at_all(source):
    assert_says(refusal(source), "DataFrame")


def test_a_lazy_frame_that_cannot_be_collected():
    lazy = pl.LazyFrame({"R": ["x"], "A": ["1"]}).with_columns(pl.col("A").cast(pl.Int8), pl.col("R").cast(pl.Int8))
    assert_says(refusal(lazy), "cannot be collected")


# ------------------------------------------------------------------------------------------------------- rows


@pytest.mark.parametrize("row, cells", [("1", "1 cell "), ("1,0,0", "3 cells"), ("1,", None), ("1,0,", "3 cells")])
def test_a_ragged_row(tmp_path, row, cells):
    content = f"R,A\n1,0\n\n0,0\n{row}\n1,0\n"
    if cells:
        assert_says(refused_file(tmp_path, content), "t.csv: row 3 has " + cells, "header has 2", ROW_RULE)


def test_a_ragged_row_far_down_is_numbered(tmp_path):
    content = 'R,A,"note"\n' + "1,0,xyz\n" * 400_000 + "1,0\n" + "1,0,a\n" * 10
    assert_says(refused_file(tmp_path, content), "row 400001 has 2 cells")


@pytest.mark.parametrize(
    "content, row",
    [
        ('R,text\n1,a\n0,"never closed\n1,b\n0,c\n', "row 2"),
        ('R,text\n1,a\n0,"closed" too early\n1,b\n', "row 2"),
        ('R,text\n0,"x\n1,"y\n1,b\n', "row 1"),
        ('R,text\n1,a\n0,"', "row 2"),
    ],
)
def test_a_quotation_mark_that_does_not_pair_up_cannot_swallow_rows(tmp_path, content, row):
    assert_says(refused_file(tmp_path, content), row, "quotation mark", "pair up")


def test_a_header_with_an_unpaired_quotation_mark(tmp_path):
    assert_says(refused_file(tmp_path, 'R,"A\n1,0\n'), "header")


@pytest.mark.parametrize(
    "line, part",
    [
        ('{"R": 1', "not one JSON object"),
        ("R,A", "not one JSON object"),
        ('{"R": 1} {"R": 0}', "not one JSON object"),
        ("[1, 0]", "must hold one JSON object, found list"),
        ("1", "must hold one JSON object, found int"),
        ('{"R": 1, "R": 0}', "a key more than once"),
        ("[" * 100_000, "not one JSON object"),
        ('{"R": ' + "9" * 5000 + "}", "line 3"),
    ],
)
def test_a_line_that_is_no_json_object(tmp_path, line, part):
    if part != "line 3":
        assert_says(refused_file(tmp_path, f'{{"R": 1}}\n\n{line}\n{{"R": 0}}\n', "t.jsonl"), "t.jsonl: line 3", part)


def test_a_json_line_that_is_no_text(tmp_path):
    assert_says(refused_file(tmp_path, b'{"R": 1}\n{"R": "\xff"}\n', "t.jsonl"), "line 2", "UTF-8")


# ----------------------------------------------------------------------------------------------------- values


BAD_VALUES = [
    2,
    -1,
    0.7,
    1.5,
    np.inf,
    "maybe",
    "N/A",
    "null",
    "2",
    "-1",
    "0.7",
    "1.00",
    "01",
    "y",
    "t",
    "yes no",
]
BAD_VALUES += ["\u0661", "1_0", "ye\u017f", [1], {"R": 1}, (0,), b"1", 1j, pd.Timestamp(0), "x" * 500]


@pytest.mark.parametrize("value", BAD_VALUES, ids=str)
def test_a_value_that_is_no_label(value):
    cells = pd.Series([1, None, value, 0, value, value], dtype=object)
    message = refusal(pd.DataFrame({"A": 0, "R": cells}))
    assert_says(message, 'Column "R", row 3 has', "2 more such values", ROW_RULE, "0/1, 0.0/1.0, true/false or yes/no")
    assert str(value)[:50] in message
    assert len(message) < 500


@pytest.mark.parametrize("dtype", ["int8", "int64", "float32", "float64", "Int64", "Float64", "category", "str"])
def test_a_value_that_is_no_label_in_a_column_of_any_dtype(dtype):
    cells = pd.Series([1, 0] * 50_000 + [2, 1]).astype(dtype)
    assert_says(refusal(pd.DataFrame({"R": cells})), 'Column "R", row 100001 has', "2")


def test_a_value_that_is_no_label_in_a_file(tmp_path):
    for name in ("t.csv", "t.jsonl"):
        content = "R,A\n1,0\nmaybe,0\n" if name == "t.csv" else '{"R": 1}\n{"R": "maybe"}\n'
        assert_says(refused_file(tmp_path, content, name), 'row 2 has "maybe"')


def test_bad_values_in_several_columns_are_told_together():
    message = refusal(pd.DataFrame({"R": ["?", 1], "A": [0, 3], "T_J.gpt": [0, 0.5]}))
    assert_says(message, 'Column "R", row 1 has "?"', 'Column "A", row 2 has 3', 'Column "T_J.gpt", row 2 has 0.5')


def test_a_renamed_column_is_called_by_its_own_name():
    assert_says(refusal(pd.DataFrame({"ok": ["?"]}), {"R": "ok"}), 'Column "ok" (read as R)')


def test_advice_fits_the_value():
    assert "threshold" in refusal(pd.DataFrame({"T": [0.7]}))
    assert 'levels={"R"' in refusal(pd.DataFrame({"R": [2]}))
    assert "leave it empty" in refusal(pd.DataFrame({"R": ["maybe"]}))


def test_control_characters_do_not_reach_the_terminal():
    assert "\x1b" not in refusal(pd.DataFrame({"R": ["\x1b[31m\n"]}))
    assert_says(refusal(pd.DataFrame({"R\x1b[31m\n": [1]})), r'"R\x1b[31m\n"')
    report = str(read_labels(pd.DataFrame({"R": [1], "system": ["a\nb\x1b"], "note\x1b": [1]})).report)
    assert "\x1b" not in report and r"a\nb\x1b" in report


@pytest.mark.parametrize("value", ["great", 3, -1, True, 0.5, "yes"])
def test_a_value_that_is_no_level(value):
    frame = pd.DataFrame({"R": pd.Series(["fail", value, 1], dtype=object)})
    message = refusal(frame, levels={"R": ("fail", "partial", "success")})
    assert_says(message, "row 2", "0/1/2 or fail/partial/success in any case")


@pytest.mark.parametrize(
    "levels, part",
    [
        ({"Q": ("a", "b")}, '"Q", which is not a label'),
        ({"T": ("a", "b")}, "no such label"),
        ({"R": ("a",)}, "2 to 100 words"),
        ({"R": ("a", "A ")}, "2 to 100 words"),
        ({"R": ("1", "0")}, "2 to 100 words"),
        ({"R": ("none", "some")}, "2 to 100 words"),
        ({"R": "abc"}, "sequence of words"),
        ({"R": (0, 1)}, "sequence of words"),
        (["R"], "levels="),
    ],
)
def test_levels_that_make_no_sense(levels, part):
    assert_says(refusal(pd.DataFrame({"R": [1]}), levels=levels), part)


# ---------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize(
    "name, meant",
    [
        ("r", "R"),
        (" R", "R"),
        ("R ", "R"),
        ("a", "A"),
        ("t", "T"),
        ("t_j", "T_J"),
        ("RJ", "R_J"),
        ("R-J", "R_J"),
        ("R.J", "R_J"),
        ("R_J.", "R_J"),
        ("r_j.gpt", "R_J.gpt"),
        ("T-J.gpt", "T_J.gpt"),
        ("T_J. gpt", "T_J.gpt"),
        ("ID", "id"),
        ("System", "system"),
        ("sytem", "system"),
        ("sysetm", "system"),
        ("cuont", "count"),
        ("Counts", "count"),
        ("retreiver", "retriever"),
        ("retrievers", "retriever"),
    ],
)
def test_a_name_that_looks_misspelt(name, meant):
    other = "A" if meant == "R" else "R"
    message = refusal(pd.DataFrame({other: [1], name: [1]}))
    assert_says(message, f'"{name}"', f'did you mean "{meant}"?', f'columns={{"{meant}": "{name}"}}', "--column ")
    assert read_labels(pd.DataFrame({other: [1], name: [1]}), {meant: name}).report.columns == {meant: name}


def test_all_misspelt_names_are_told_at_once():
    message = refusal(pd.DataFrame({"r": [1], "a": [0], "sytem": ["x"]}))
    assert_says(message, 'columns={"R": "r", "A": "a", "system": "sytem"}')
    assert_says(message, "--column R=r --column A=a --column system=sytem")


def test_no_label_column():
    message = refusal(pd.DataFrame({"question": ["?"], "score": [1]}))
    assert_says(message, "no label column", "R, A, T, R_J, T_J", '"question", "score"', "columns=")
    assert_says(message, '(command line: --column "R=your name for it")')


def test_no_label_column_because_there_is_no_header(tmp_path):
    assert_says(refused_file(tmp_path, "1,0,\n0,1,0\n"), "no label column", "header line")


@pytest.mark.parametrize("source", ["csv", "tsv", "pandas", "parquet"])
def test_a_repeated_column_name(tmp_path, source):
    frame = pd.DataFrame([[1, 0, 1, 5, 5]], columns=["R", "A", "R", "x", "x"])
    if source == "pandas":
        message = refusal(frame)
    elif source == "parquet":
        table = pa.table([[1], [0], [1], [5], [5]], names=list(frame.columns))
        pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
        message = refusal(tmp_path / "t.parquet")
    else:
        content = frame.to_csv(index=False, sep="," if source == "csv" else "\t")
        message = refused_file(tmp_path, content, f"t.{source}")
    assert_says(message, 'Column "R" appears more than once', "columns 1, 3", '"x"')


@pytest.mark.parametrize(
    "columns, parts",
    [
        ({"R": "abtained"}, ['"abtained"', 'Did you mean "abstained"?', "(command line: --column R=abstained)"]),
        ({"abtained": "A"}, ['"abtained"', 'Did you mean "abstained"?']),
        ({"ok": "sytem"}, ['"sytem"', 'Did you mean "system"?', "(command line: --column system=ok)"]),
        ({"sytem": "ok"}, ['"sytem"', 'Did you mean "system"?']),
        ({"what": "ever"}, ["not a column of a label table", "command line: --column "]),
        ({"ok": "R", "abstained": "R"}, ['both "ok" and "abstained" to "R"', "command line: --column R="]),
        ({"R": "ok", "A": "ok"}, ['both "R" and "A" from the one column "ok"', "command line: --column "]),
        ({"nothing": None}, ['"nothing"', "no such column", "command line: --column "]),
        ({"R": "ok", "ok": None}, ["both reads and leaves out", "(command line: --column ok=)"]),
        ([("R", "ok")], ["columns= maps names to names"]),
    ],
)
def test_a_mapping_that_does_not_fit(columns, parts):
    assert_says(refusal(pd.DataFrame({"ok": [1], "abstained": [0], "T": [0]}), columns), *parts)


# ----------------------------------------------------------------------------------------- systems and counts


@pytest.mark.parametrize("missing", [None, "", "  ", np.nan, "NA", "none"])
def test_a_row_without_a_system(missing):
    system = pd.Series(["a", missing, "b", missing], dtype=object)
    message = refusal(pd.DataFrame({"R": 1, "system": system}))
    assert_says(message, "missing in 2 rows: 2, 4", ROW_RULE, 'columns={"system": None}')


def test_many_rows_without_a_system():
    assert_says(refusal(pd.DataFrame({"R": 1, "system": ["a"] + [None] * 9})), "9 rows: 2, 3, 4, 5, 6 and 4 more")


def test_a_system_without_any_label():
    table = pd.DataFrame({"R": [1, None, None, None], "T_J": [None] * 4, "system": list("abbc")})
    assert_says(refusal(table), 'Systems "b" (2 rows), "c" (1 row) have no usable label')
    assert_says(refusal(table[:3]), 'System "b" (2 rows) has no usable label')
    assert_says(refusal(table[["R"]][1:]), 'System "all" (3 rows) has no usable label')


def test_one_label_of_any_kind_makes_a_system_usable():
    read_labels(pd.DataFrame({"R": [1, None], "T_J.x": [None, 0], "system": list("ab")}))


BAD_COUNTS = [
    -1,
    0.5,
    np.inf,
    -np.inf,
    np.nan,
    None,
    "",
    "NA",
    "-1",
    "2.5",
    "many",
    "1e3",
    "1_000",
    2**53 + 2,
    1e300,
]
BAD_COUNTS += ["9" * 30, True, [1], 10**400]


@pytest.mark.parametrize("value", BAD_COUNTS, ids=lambda value: str(value)[:9])
def test_a_count_that_is_no_whole_number(value):
    message = refusal(pd.DataFrame({"R": 1, "count": pd.Series([1, 2, value, 1, value], dtype=object)}))
    assert_says(message, 'Column "count", row 3 has', "1 more such value)", ROW_RULE, "a whole number from 0")


@pytest.mark.parametrize("counts", [[1, -2], [1, 0.5], [1.0, np.nan], [1, np.inf], [1.0, 1e300], [1, 2**63]])
def test_a_count_that_is_no_whole_number_in_a_column_of_numbers(counts):
    assert_says(refusal(pd.DataFrame({"R": 1, "count": counts})), 'Column "count", row 2 has')


def test_counts_that_add_up_to_too_many():
    message = refusal(pd.DataFrame({"R": 1, "count": [1, 2**53]}))
    assert_says(message, "more than 2**53", "9007199254740992 in row 2")
    assert_says(refusal(pd.DataFrame({"R": 1, "count": [2**53] * 2000})), "more than 2**53")


def test_counts_of_truth_values():
    assert_says(refusal(pd.DataFrame({"R": [1], "count": [True]})), "row 1 has True")


def test_counts_that_are_all_zero():
    assert_says(refusal(pd.DataFrame({"R": [1, 0], "count": 0})), "0 in every row")


def test_rows_with_a_count_of_zero_are_checked_too():
    assert_says(refusal(pd.DataFrame({"R": [1, "?"], "count": [1, 0]})), 'row 2 has "?"')
    assert_says(refusal(pd.DataFrame({"A": [0, 1], "T": [0, 1], "count": [1, 0]})), "both A=1 and T=1")


# --------------------------------------------------------------------------------------------- contradictions


def test_a_row_that_abstained_and_is_correct():
    table = pd.DataFrame({"A": [1, 1, 0], "T": [0, "yes", 1], "id": list("xyz"), "system": "s"})
    message = refusal(table)
    assert_says(message, "1 row has both A=1 and T=1", 'row 2 (id "y", system "s")', ROW_RULE, "set T to 0")


def test_many_rows_that_abstained_and_are_correct():
    message = refusal(pd.DataFrame({"A": [0] + [1] * 12, "T": 1}))
    assert_says(message, "12 rows have both", "the first are row 2, row 3, row 4, row 5, row 6 (rows")


def test_a_judge_may_contradict_an_abstention():
    read_labels(pd.DataFrame({"A": [1], "T": [0], "T_J": [1]}))
