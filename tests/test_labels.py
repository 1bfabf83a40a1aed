"""Label tables that are right: what is read from every format and spelling, how it is counted and reported.

Refusals are in test_labels_errors.py, random tables in test_labels_properties.py.
"""

from __future__ import annotations

import csv
import dataclasses
import gzip
import io
import json
from decimal import Decimal
from importlib import resources

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from rat_jax.labels import LabelError, Labels, read_labels
from rat_jax.labels.counting import count_patterns, repeated_ids

TABLE = pd.DataFrame(
    {
        "id": ["q1", "q2", "q3", "q4", "q1"],
        "system": ["b", "a", "b", "a", "b"],
        "R": [1, 0, None, 1, 0],
        "A": [0, 1, 0, None, 0],
        "T": [1, None, 0, 0, 0],
        "T_J": [1, 0, None, None, 1],
        "T_J.gpt": [None, 0, 0, 1, 1],
        "note": ["plain", 'say "hi"', "two\nlines", "a,b\tc", ""],
    }
)
CODES = [[1, 0, 1, 1, -1], [0, 1, -1, 0, 0], [-1, 0, 0, -1, 0], [1, -1, 0, -1, 1], [0, 0, 0, 1, 1]]


def write(table: pd.DataFrame, path):
    """The table in the format that the suffix says."""
    kind = [suffix for suffix in path.suffixes if suffix != ".gz"][-1].lower()
    if kind == ".parquet":
        table.to_parquet(path, index=False)
    elif kind in (".jsonl", ".ndjson"):
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if kind == ".tsv" else ",")
    return path


def same(labels: Labels, other: Labels) -> bool:
    pd.testing.assert_frame_equal(labels.counts(), other.counts())
    return labels.systems == other.systems and labels.variables == other.variables


# ---------------------------------------------------------------------------------------------------- formats


SUFFIXES = [".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".CSV", ".csv.gz", ".tsv.gz", ".jsonl.gz"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_labels(tmp_path, suffix):
    labels = read_labels(write(TABLE, tmp_path / f"labels{suffix}"))
    assert labels.variables == ("R", "A", "T", "T_J", "T_J.gpt")
    assert labels.codes.dtype == np.int8
    assert labels.codes.tolist() == CODES
    assert labels.systems == ("a", "b")
    assert labels.system.tolist() == [1, 0, 1, 0, 1] and labels.system.dtype == np.int32
    assert labels.weight.tolist() == [1] * 5 and labels.weight.dtype == np.int64
    assert list(labels.ids) == ["q1", "q2", "q3", "q4", "q1"]
    assert labels.retriever is None
    assert labels.report.source == f"labels{suffix}"
    assert labels.report.ignored == ("note",)


def test_a_path_may_be_text():
    with resources.as_file(resources.files("rat_jax") / "data" / "mtrag_human.csv") as path:
        assert same(read_labels(str(path)), read_labels(path))


FRAMES = {
    "pandas": lambda table: table,
    "pandas objects": lambda table: table.astype(object),
    "pandas nullable": lambda table: table.convert_dtypes(),
    "pandas arrow": lambda table: table.convert_dtypes(dtype_backend="pyarrow"),
    "pandas categories": lambda table: table.astype("category"),
    "pandas with an odd index": lambda table: table.set_axis([7, 7, 7, 1, 0]),
    "polars": lambda table: pl.from_pandas(table),
    "polars lazy": lambda table: pl.from_pandas(table).lazy(),
    "polars categories": lambda table: pl.from_pandas(table).with_columns(pl.col(pl.String).cast(pl.Categorical)),
    "arrow": lambda table: pa.Table.from_pandas(table),
    "arrow in chunks": lambda table: pa.concat_tables(
        [
            pa.Table.from_pandas(table[:2], preserve_index=False),
            pa.Table.from_pandas(table[2:], preserve_index=False),
        ]
    ),
}


@pytest.mark.parametrize("frame", FRAMES)
def test_every_frame_gives_the_same_labels(frame):
    labels = read_labels(FRAMES[frame](TABLE))
    assert labels.codes.tolist() == CODES
    assert labels.systems == ("a", "b")
    assert list(labels.ids) == list(TABLE["id"])
    assert same(labels, read_labels(TABLE))


def test_the_table_given_is_not_changed():
    before = TABLE.copy(deep=True)
    read_labels(TABLE)
    pd.testing.assert_frame_equal(TABLE, before)


def test_the_shipped_example_reads_as_documented():
    with resources.as_file(resources.files("rat_jax") / "data" / "mtrag_human.csv") as path:
        labels = read_labels(path)
    rows = labels.counts().groupby(["R", "A", "T"])["count"].sum().to_dict()
    assert rows == {(0, 0, 0): 31, (0, 0, 1): 23, (0, 1, 0): 12, (1, 0, 0): 43, (1, 0, 1): 359, (1, 1, 0): 3}
    assert labels.systems == ("gpt-4o", "llama-3.1-405b-instruct", "reference")
    assert "T_raw" in labels.report.ignored


# ------------------------------------------------------------------------------------------------ CSV details


def csv_labels(tmp_path, text: str | bytes, name: str = "t.csv", **arguments) -> Labels:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_labels(path, **arguments)


CSV_SPELLINGS = {
    "plain": b"R,A\n1,0\n,1\n",
    "byte order mark": b"\xef\xbb\xbfR,A\n1,0\n,1\n",
    "quoted with byte order mark": b'\xef\xbb\xbf"R","A"\n"1","0"\n"","1"\n',
    "windows line ends": b"R,A\r\n1,0\r\n,1\r\n",
    "old mac line ends": b"R,A\r1,0\r,1\r",
    "no last line end": b"R,A\n1,0\n,1",
    "blank lines": b"\n\nR,A\n1,0\n\n,1\n\n",
    "semicolons": b"R;A\n1;0\n;1\n",
    "tabs": b"R\tA\n1\t0\n\t1\n",
    "unnamed trailing columns": b"R,A,,\n1,0,,\n,1,,\n",
    "latin letters in a text column": b"R,A,text\n1,0,caf\xe9\n,1,x\n",
    "mark inside a plain cell": b'R,A,text\n1,0,5" disk\n,1,x\n',
    "header over two lines": b'R,A,"a\nb"\n1,0,x\n,1,x\n',
}


@pytest.mark.parametrize("spelling", CSV_SPELLINGS)
def test_csv_dialects_mean_the_same(tmp_path, spelling):
    assert csv_labels(tmp_path, CSV_SPELLINGS[spelling]).codes.tolist() == [[1, 0, -1], [-1, 1, -1]]


def test_another_delimiter_is_reported(tmp_path):
    assert "The columns are separated by semicolons." in csv_labels(tmp_path, "R;A\n1;0\n").report.notes
    assert csv_labels(tmp_path, "R\tA\n1\t0\n", "t.tsv").report.notes == ()


def test_text_columns_may_hold_anything_csv_can_quote(tmp_path):
    answers = ['He said "no".', "two\nlines", "a,b;c\td", '"', '""', "", " ", "\r\n", "x" * 200_000]
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([["answer", "R", "A"], *([answer, k % 2, 0] for k, answer in enumerate(answers))])
    assert csv_labels(tmp_path, out.getvalue()).codes[:, 0].tolist() == [k % 2 for k in range(len(answers))]


def test_a_row_longer_than_a_reading_block_is_read(tmp_path):
    text = "answer,R\nx,1\n" + "y" * (40 << 20) + ",0\n"
    assert csv_labels(tmp_path, text).codes[:, 0].tolist() == [1, 0]


def test_quotation_marks_are_followed_across_chunks():
    from rat_jax.labels.delimited import _quotes_are_tidy

    tidy = b'a,"b"\n"x ""y"" z","1"\n,"",""\n'
    untidy = b'a,"b"\n"x "y" z","1"\n'
    for chunk in range(1, 40):
        assert _quotes_are_tidy(tidy, ",", chunk)
        assert not _quotes_are_tidy(untidy, ",", chunk)
        assert not _quotes_are_tidy(tidy[:-2], ",", chunk)


# ----------------------------------------------------------------------------------------------- JSON details


def test_a_key_that_a_line_lacks_is_missing_there(tmp_path):
    lines = [
        '{"R": 1}',
        "",
        '{"A": true, "note": {"R": 5}}',
        '{"T": "No", "R": null}',
        '{"R": NaN, "A": 0.0}',
    ]
    labels = csv_labels(tmp_path, "\n".join(lines), "t.jsonl")
    assert labels.codes.tolist() == [[1, -1, -1], [-1, 1, -1], [-1, -1, 0], [-1, 0, -1]]


def test_renamed_keys_are_found_in_json_lines(tmp_path):
    labels = csv_labels(tmp_path, '{"ok": 1, "x": 2}\n{"ok": 0}\n', "t.jsonl", columns={"R": "ok"})
    assert labels.codes[:, 0].tolist() == [1, 0]
    assert labels.report.ignored == ("x",)


# ----------------------------------------------------------------------------------------------------- values


ZEROS = [
    "0",
    "0.0",
    "false",
    "False",
    "FALSE",
    "no",
    "No",
    "NO",
    " no ",
    "0 ",
    0,
    0.0,
    False,
    np.bool_(False),
]
ZEROS += [np.int8(0), np.uint64(0), np.float32(0), -0.0, Decimal("0.0")]
ONES = ["1", "1.0", "true", "True", "TRUE", "yes", "Yes", "YES", "\tyes", 1, 1.0, True, np.bool_(True)]
ONES += [np.int8(1), np.uint64(1), np.float16(1), Decimal(1)]
MISSING = ["", "  ", "NaN", "nan", "None", "none", "NA", "na", "<NA>", None, np.nan, pd.NA, pd.NaT]


def test_any_mix_of_spellings_is_read():
    cells = np.array([*ZEROS, *ONES, *MISSING, None], dtype=object)[:-1]
    labels = read_labels(pd.DataFrame({"R": cells, "A": 0}))
    assert labels.codes[:, 0].tolist() == [0] * len(ZEROS) + [1] * len(ONES) + [-1] * len(MISSING)


NUMBERS = ["int8", "uint8", "int64", "uint64", "float16", "float32", "float64", "bool", "Int64", "UInt8"]
NUMBERS += [
    "Float64",
    "boolean",
    "category",
    "object",
    "str",
    "bool[pyarrow]",
    "double[pyarrow]",
    "int8[pyarrow]",
]


@pytest.mark.parametrize("dtype", NUMBERS)
def test_any_dtype_is_read(dtype):
    expected = np.array([0, 1, 1, 0, 1] * 30_000)
    assert (read_labels(pd.DataFrame({"R": pd.Series(expected).astype(dtype)})).codes[:, 0] == expected).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "Int8", "Float32", "boolean", "category", "object", "str"])
def test_missing_cells_of_any_dtype_are_missing(dtype):
    cells = pd.Series([1, None, 0], dtype="Int64").astype(dtype)
    assert read_labels(pd.DataFrame({"R": cells})).codes[:, 0].tolist() == [1, -1, 0]


def test_sparse_and_unused_categories_are_read():
    cells = pd.Categorical(["yes", "no"], categories=["maybe", "no", "yes"])
    sparse = pd.arrays.SparseArray([1.0, np.nan])
    labels = read_labels(pd.DataFrame({"R": cells, "A": 0, "T": sparse}))
    assert labels.codes.tolist() == [[1, 0, 1], [0, 0, -1]]


def test_polars_objects_are_read():
    frame = pl.DataFrame({"R": pl.Series([True, "no", None, 1.0], dtype=pl.Object), "A": [0, 0, 1, 1]})
    assert read_labels(frame).codes[:, 0].tolist() == [1, 0, -1, 1]


def test_absent_labels_are_missing_in_every_row():
    labels = read_labels(pd.DataFrame({"T_J": [1, 0]}))
    assert labels.variables == ("R", "A", "T", "T_J")
    assert (labels.codes[:, :3] == -1).all()
    assert labels.report.absent == ("R", "A", "T")


def test_judges_come_in_canonical_order_whatever_the_table_says():
    names = ["T_J.b", "R_J.z", "T_J", "T", "T_J.a", "R_J.a", "R", "R_J", "A"]
    labels = read_labels(pd.DataFrame({name: [0, 1] if name != "T" else [0, 0] for name in names}))
    assert labels.variables == ("R", "A", "T", "R_J", "T_J", "R_J.a", "R_J.z", "T_J.a", "T_J.b")
    assert labels.codes[1].tolist() == [1, 1, 0, 1, 1, 1, 1, 1, 1]


def test_levels_accept_words_and_codes():
    cells = np.array(["fail", "Partial", " SUCCESS ", "0", "1.0", 2, 1.0, None, "NA"], dtype=object)
    labels = read_labels(pd.DataFrame({"R": cells, "A": 0}), levels={"R": ("fail", "partial", "success")})
    assert labels.codes[:, 0].tolist() == [0, 1, 2, 0, 1, 2, 1, -1, -1]
    assert labels.levels == {"R": ("fail", "partial", "success")}
    assert labels.sizes == (3, 2, 2)
    assert labels.report.labels["R"] == {"0": 2, "1": 3, "2": 2, "missing": 2}
    assert "success" in str(labels.report).lower()


@pytest.mark.parametrize("dtype", ["int64", "float64", "Int8", "category"])
def test_levels_accept_columns_of_codes(dtype):
    labels = read_labels(pd.DataFrame({"R": pd.Series([2, 0, 1]).astype(dtype)}), levels={"R": ("a", "b", "c")})
    assert labels.codes[:, 0].tolist() == [2, 0, 1]
    assert labels.counts()["R"].tolist() == [0, 1, 2]


# ---------------------------------------------------------------------------------------------------- columns


@pytest.mark.parametrize("columns", [{"R": "ok", "A": "said no"}, {"ok": "R", "said no": "A"}])
def test_columns_may_be_mapped_either_way(columns):
    table = pd.DataFrame({"ok": [1], "said no": [0], "T": [1]})
    labels = read_labels(table, columns)
    assert labels.codes.tolist() == [[1, 0, 1]]
    assert labels.report.columns == {"R": "ok", "A": "said no"}
    assert labels.report.ignored == ()


def test_columns_can_swap_two_names():
    table = pd.DataFrame({"R": [1, 1], "A": [0, 1]})
    assert read_labels(table, {"R": "A", "A": "R"}).codes[:, :2].tolist() == [[0, 1], [1, 1]]


def test_a_mapped_column_replaces_the_one_of_that_name():
    labels = read_labels(pd.DataFrame({"T": [0], "T_raw": [1]}), {"T": "T_raw"})
    assert labels.codes[:, 2].tolist() == [1]
    assert any('"T" was left unread' in note for note in labels.report.notes)


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_column_can_be_left_out(nothing):
    labels = read_labels(pd.DataFrame({"R": [1], "T": [1], "sytem": ["x"]}), {"T": nothing, "sytem": nothing})
    assert labels.codes.tolist() == [[1, -1, -1]]
    assert labels.report.ignored == ("T", "sytem")


def test_ordinary_columns_are_no_typos():
    ordinary = (
        "answerability T_raw n_annot n_yes T_J_davinci T_J_bem faith_med rb_llm idk_eval title text score "
        "time rank question answer contexts model retrieved retrieval_score account country item step R2 AT "
        "TA rr"
    ).split()
    report = read_labels(pd.DataFrame({"R": [1], **{name: ["?"] for name in ordinary}})).report
    assert report.ignored == tuple(ordinary)
    assert any("T_J.davinci" in note for note in report.notes)


def test_a_lookalike_of_a_column_that_is_there_is_only_noted():
    report = read_labels(pd.DataFrame({"R": [1], "r": ["?"], "ID": [5], "id": [6]})).report
    assert report.ignored == ("r", "ID")
    assert sum("resembles" in note for note in report.notes) == 2


def test_column_names_need_not_be_text():
    assert read_labels(pd.DataFrame({"R": [1], 0: [0]}), {"A": 0}).codes.tolist() == [[1, 0, -1]]


# --------------------------------------------------------------------------------------- systems, ids, counts


def test_without_a_system_column_there_is_one_system():
    labels = read_labels(pd.DataFrame({"R": [1, 0]}))
    assert labels.systems == ("all",)
    assert labels.system.tolist() == [0, 0]


def test_system_names_are_exact_and_sorted():
    labels = read_labels(pd.DataFrame({"R": [1] * 5, "system": ["b", "a ", "B", "a", "é"]}))
    assert labels.systems == ("B", "a", "a ", "b", "é")
    assert labels.system.tolist() == [3, 2, 0, 1, 4]
    assert sum("differ only in case or spaces" in note for note in labels.report.notes) == 2


@pytest.mark.parametrize("dtype", ["int64", "Int64", "category", "int64[pyarrow]", "object"])
def test_systems_may_be_numbers(dtype):
    labels = read_labels(pd.DataFrame({"R": [1, 0], "system": pd.Series([10, 9]).astype(dtype)}))
    assert labels.systems == ("10", "9")
    assert labels.system.tolist() == [0, 1]


def test_values_with_the_same_text_are_the_same_system():
    system = np.array([1, "1", 1.5, True, "True"], dtype=object)
    labels = read_labels(pd.DataFrame({"R": [1] * 5, "system": system}))
    assert labels.systems == ("1", "1.5", "True")
    assert labels.system.tolist() == [0, 0, 1, 2, 2]


def test_ids_and_retrievers_travel_along():
    table = pd.DataFrame({"R": [1, 0, 1], "id": ["x", None, "é"], "retriever": ["bm25", "bm25", "NA"]})
    labels = read_labels(table)
    assert [None if value is pd.NA else value for value in labels.ids] == ["x", None, "é"]
    assert [None if value is pd.NA else value for value in labels.retriever] == ["bm25", "bm25", None]
    assert labels.ids[2] == "é" and list(labels.ids[[0, 2]]) == ["x", "é"]


def test_half_a_surrogate_pair_is_no_reason_to_fail():
    labels = read_labels(pd.DataFrame({"R": [1, 0], "id": pd.Series(["\ud800", "b"], dtype=object)}))
    assert labels.ids[1] == "b"


COUNTS = [[2, 0, 3], [2.0, 0.0, 3.0], ["2", "0.0", " 3 "], ["2.", "+0", "3.00"], [Decimal(2), 0, 3.0]]


@pytest.mark.parametrize("counts", COUNTS)
def test_counts_may_be_any_whole_number(counts):
    labels = read_labels(pd.DataFrame({"R": [1, 0, 1], "A": [0, 0, 1], "count": counts}))
    assert labels.weight.tolist() == [2, 3]
    assert labels.codes[:, :2].tolist() == [[1, 0], [1, 1]]
    assert labels.table_row.tolist() == [0, 2]
    assert (labels.report.rows, labels.report.table_rows) == (5, 3)


def test_rows_with_a_count_of_zero_make_no_system_and_no_pattern():
    table = pd.DataFrame({"R": [1, 0], "system": ["a", "ghost"], "count": [4, 0], "id": ["x", "y"]})
    labels = read_labels(table)
    assert labels.systems == ("a",)
    assert labels.counts().to_dict("list")["count"] == [4]
    assert list(labels.ids) == ["x"]
    assert any("count of 0" in note for note in labels.report.notes)


def test_counts_are_exact_to_two_to_the_53():
    table = pd.DataFrame({"R": [1, 1, 0], "count": [2**53 - 2, 1, 1]})
    assert read_labels(table).counts()["count"].tolist() == [1, 2**53 - 1]


def test_rows_that_share_an_id_within_a_system_are_reported():
    table = pd.DataFrame({"id": ["q1", "q1", "q2", "q1", None, None], "system": list("aabbab"), "R": 1})
    report = read_labels(table).report
    assert (report.repeated_ids, report.repeated_rows) == (1, 2)
    assert "intervals assume independent rows" in str(report)
    once = read_labels(table.assign(system=list("abcdef"))).report
    assert (once.repeated_ids, once.repeated_rows) == (0, 0)
    assert "independent" not in str(once)


def test_repeated_ids_do_not_depend_on_how_they_are_counted():
    rng = np.random.default_rng(3)
    index, system = rng.integers(-1, 300, 2000), rng.integers(0, 5, 2000)
    pairs = pd.DataFrame({"id": index, "system": system})[index >= 0].value_counts()
    expected = (int((pairs > 1).sum()), int(pairs[pairs > 1].sum()))
    ones = np.broadcast_to(np.int64(1), 2000)
    for weight in (ones, ones.copy()):
        assert repeated_ids(index, 300, system, 5, weight) == expected
        assert repeated_ids(index, 300, system * 10**6, 5 * 10**6, weight) == expected


# ----------------------------------------------------------------------------------------------------- counts


def test_counts_list_each_observed_pattern_once():
    counts = read_labels(TABLE).counts()
    assert list(counts.columns) == ["system", "R", "A", "T", "T_J", "T_J.gpt", "count"]
    assert counts["count"].dtype == np.int64
    assert all(counts[name].dtype == "Int64" for name in ["R", "A", "T", "T_J", "T_J.gpt"])
    assert counts["count"].sum() == len(TABLE)
    assert not counts.drop(columns="count").duplicated().any()


def test_rows_without_any_label_are_a_pattern_too():
    labels = read_labels(pd.DataFrame({"R": [1, None, None], "A": [0, None, None]}))
    counts = labels.counts()
    assert counts["count"].tolist() == [2, 1]
    assert counts.iloc[0][["R", "A", "T"]].isna().all()
    assert labels.report.unlabelled == 2
    assert "2 rows have no label at all" in str(labels.report)


def test_counts_can_be_changed_without_changing_the_labels():
    labels = read_labels(TABLE)
    counts = labels.counts()
    counts.loc[:, "count"] = 0
    assert labels.counts()["count"].sum() == len(TABLE)


def by_pandas(codes, system, weight):
    rows = pd.DataFrame(codes).assign(system=system, weight=weight).query("weight > 0")
    totals = rows.groupby(["system", *range(codes.shape[1])])["weight"].sum().reset_index()
    return (
        totals["system"].to_numpy(),
        totals[list(range(codes.shape[1]))].to_numpy(),
        totals["weight"].to_numpy(),
    )


@pytest.mark.parametrize("n_variables", [1, 3, 5, 9, 16, 45])
@pytest.mark.parametrize("n_systems", [1, 7, 3000])
@pytest.mark.parametrize("weighted", [False, True])
def test_counting_agrees_with_a_group_by(n_variables, n_systems, weighted):
    rng = np.random.default_rng(n_variables)
    codes = rng.integers(-1, 2, (1500, n_variables)).astype(np.int8)
    codes[:700] = codes[0]
    system = rng.integers(0, n_systems, 1500).astype(np.int32)
    weight = rng.integers(0, 4, 1500) if weighted else np.broadcast_to(np.int64(1), 1500)
    found = count_patterns(codes, [2] * n_variables, system, n_systems, weight)
    for part, expected in zip(found, by_pandas(codes, system, weight), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_more_rows_than_a_chunk_are_counted():
    codes = np.tile(np.array([[1, -1], [0, 0], [1, 1]], np.int8), (150_000, 1))
    labels = Labels(("R", "A"), codes, ("s",), np.zeros(450_000, np.int32), np.full(450_000, 2))
    assert labels.counts()["count"].tolist() == [300_000, 300_000, 300_000]


def test_labels_can_be_cut_down_by_hand():
    labels = read_labels(TABLE)
    rows = labels.system == 1
    part = dataclasses.replace(
        labels,
        codes=labels.codes[rows],
        system=labels.system[rows],
        weight=labels.weight[rows],
        ids=labels.ids[rows],
    )
    assert part.counts()["count"].sum() == 3 == len(part)


# ----------------------------------------------------------------------------------------------------- report


def test_the_report_says_what_was_coerced():
    table = pd.DataFrame({"R": ["yes", "YES", "yes", "1", " 0", "NA", ""], "A": [True] * 3 + [False] * 4})
    report = read_labels(table).report
    found = {(c.column, c.spelling): (c.code, c.cells) for c in report.coerced}
    assert found == {
        ("R", "yes"): (1, 2),
        ("R", "YES"): (1, 1),
        ("R", " 0"): (0, 1),
        ("R", "NA"): (None, 1),
        ("A", "True"): (1, 3),
        ("A", "False"): (0, 4),
    }
    assert '"yes" -> 1 x 2' in str(report)


def test_plain_labels_are_not_reported_as_coerced():
    assert read_labels(TABLE).report.coerced == ()
    assert read_labels(pd.DataFrame({"R": ["1", "0", ""]})).report.coerced == ()


def test_the_report_adds_up():
    report = read_labels(TABLE).report
    assert report.rows == report.table_rows == 5
    assert report.systems == {"a": 2, "b": 3}
    assert report.labels["R"] == {"0": 2, "1": 2, "missing": 1}
    assert all(sum(observed.values()) == 5 for observed in report.labels.values())
    assert report.pattern_totals()["count"].sum() == 5


def test_the_report_is_json_without_nan():
    report = read_labels(TABLE).report
    again = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert again["patterns"][0]["system"] == "a" and again["rows"] == 5
    assert {"R": None} in [{"R": record["R"]} for record in again["patterns"]]


def test_the_report_shows_in_a_notebook_and_escapes_what_it_was_given():
    shown = read_labels(TABLE.assign(system="<b>")).report._repr_html_()
    assert "&lt;b&gt;" in shown and "<b>&lt;" not in shown


def test_a_long_report_is_cut_and_says_so():
    table = pd.DataFrame({"R": [0, 1] * 20, "system": [f"s{k:02}" for k in range(40)]})
    assert "... and 28 more" in str(read_labels(table).report)


def one_system_notes(table, columns=None) -> list[str]:
    notes = read_labels(pd.DataFrame(table), columns).report.notes
    return [note for note in notes if note.startswith("All rows are read as one system")]


@pytest.mark.parametrize("name", ["model", "Pipeline", "model_name", "modelName", "rag_config", "RUN", "run id"])
def test_a_column_that_may_name_the_system_is_pointed_out(name):
    (note,) = one_system_notes({"R": [1, 0], "text": ["a", "b"], name: ["x", "y"]})
    option = f'"system={name}"' if " " in name else f"system={name}"
    assert f'Column "{name}"' in note and f"--column {option}" in note and f'columns={{"system": "{name}"}}' in note


def test_nothing_is_said_of_one_system_where_there_are_more_or_it_is_meant():
    table = {"R": [1, 0], "model": ["x", "y"]}
    assert one_system_notes(table, {"system": "model"}) == one_system_notes(table, {"model": None}) == []
    assert one_system_notes({**table, "system": ["s", "t"]}) == []
    assert one_system_notes({**table, "system": ["s", "t"]}, {"system": None}) == []
    assert one_system_notes({"R": [1, 0], "modelled": [1, 2], "model_answer": ["a", "b"], "runtime": [1, 2]}) == []


def test_ids_that_repeat_evenly_suggest_a_row_per_system():
    (note,) = one_system_notes({"R": [1, 0, 1, 1], "id": ["a", "b", "b", "a"], "who": list("xxyy")})
    assert "every id occurs 2 times" in note and "--column system=" in note
    assert one_system_notes({"R": [1, 0, 1], "id": ["a", "b", "b"]}) == []
    assert one_system_notes({"R": [1, 0], "id": ["a", "b"]}) == []
    assert len(one_system_notes({"R": [1, 0], "id": ["a", "a"], "model": ["x", "y"]})) == 1


def test_reading_does_not_touch_the_csv_settings_of_the_process(tmp_path):
    limit = csv.field_size_limit()
    csv_labels(tmp_path, 'R,text\n1,5" disk\n')
    assert csv.field_size_limit() == limit


def test_an_error_of_the_door_is_a_value_error():
    with pytest.raises(ValueError):
        read_labels(pd.DataFrame({"R": [2]}))
    assert issubclass(LabelError, ValueError)


def test_a_zipped_file_equals_the_plain_one(tmp_path):
    path = write(TABLE, tmp_path / "t.csv")
    (tmp_path / "z.csv.gz").write_bytes(gzip.compress(path.read_bytes()))
    assert same(read_labels(path), read_labels(tmp_path / "z.csv.gz"))
