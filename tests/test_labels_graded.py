"""Graded retrieval at the door: when R is read as fail, partial, success, when it is not, and back to two values."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pandas as pd
import pytest

import rat_jax.labels.retrieval
from rat_jax.labels import LabelError, Labels, read_labels

GRADES = {"R": ("fail", "partial", "success")}
NOTE = "R is read as graded retrieval: 0 fail, 1 partial, 2 success; fit it with model graded"
ADVICE = 'levels={"R": ("fail", "partial", "success")} or on the command line --levels R=fail,partial,success.'
TEN_TWOS = [0, 1, None] + [2] * 10


def read_r(cells, **others) -> Labels:
    return read_labels(pd.DataFrame({"R": pd.Series(cells, dtype=object), **others}))


def refusal(source, **arguments) -> str:
    with pytest.raises(LabelError) as caught:
        read_labels(source, **arguments)
    message = str(caught.value)
    assert "\n" not in message and "  " not in message and message[-1] in ".?"
    return message


# ------------------------------------------------------------------------------------------------------- read


def test_words_are_read_as_grades_in_any_case():
    labels = read_r(["fail", "Partial", " SUCCESS ", None, "", "NA"])
    assert labels.codes[:, 0].tolist() == [0, 1, 2, -1, -1, -1]
    assert labels.levels == GRADES and labels.sizes == (3, 2, 2)


def test_codes_may_stand_among_the_words():
    assert read_r(["fail", 0, "partial", "1.0", 2, "2", 1.0]).codes[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 1]
    assert read_r(["success", "partial", 0, None]).codes[:, 0].tolist() == [2, 1, 0, -1]


@pytest.mark.parametrize("word", ["fail", "partial", "success"])
def test_one_word_is_enough(word):
    assert read_r([word, None]).levels == GRADES


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl", "parquet"])
@pytest.mark.parametrize("cells", [["fail", "partial", "success", None], TEN_TWOS], ids=["words", "codes"])
def test_grades_are_read_from_every_kind_of_file(tmp_path, suffix, cells):
    table, path = pd.DataFrame({"R": cells, "A": 0}), tmp_path / f"t.{suffix}"
    if suffix == "parquet":
        table.to_parquet(path)
    elif suffix == "jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    labels = read_labels(path)
    assert labels.levels == GRADES
    assert labels.codes[:4, 0].tolist() == ([0, 1, 2, -1] if cells[0] == "fail" else [0, 1, -1, 2])


@pytest.mark.parametrize("dtype", ["float32", "float64", "Int8", "Int64", "category", "object", "string"])
def test_codes_alone_are_grades_where_all_occur_and_ten_rows_are_two(dtype):
    cells = pd.Series(TEN_TWOS).astype("Int8").astype(dtype)
    labels = read_labels(pd.DataFrame({"R": cells}))
    assert labels.levels == GRADES and labels.codes[:4, 0].tolist() == [0, 1, -1, 2]
    assert any(NOTE in note for note in labels.report.notes)


def test_the_ten_rows_are_counted_with_their_weights():
    table = pd.DataFrame({"R": [0, 1, 2], "count": [1, 1, 10]})
    assert read_labels(table).levels == GRADES
    assert refusal(table.assign(count=[5, 5, 9])).endswith(ADVICE)
    assert refusal(table.assign(count=[1, 0, 10])).endswith(ADVICE)


def test_the_report_says_that_r_was_read_as_grades():
    report = read_r(["fail", "partial", "success", "success"]).report
    assert any(NOTE in note for note in report.notes) and NOTE in str(report) and NOTE in report._repr_html_()
    assert report.labels["R"] == {"0": 1, "1": 1, "2": 2, "missing": 0}
    assert report.labels["A"] == {"0": 0, "1": 0, "missing": 4}


@pytest.mark.parametrize("cells", [[0, 1, None], ["yes", "no"], [True, False], [1.0, np.nan], ["1", "0", ""]])
def test_binary_retrieval_stays_binary_and_nothing_is_said(cells):
    labels = read_r(cells)
    assert labels.levels == {} and labels.sizes == (2, 2, 2) and labels.report.notes == ()


def test_a_word_that_no_row_holds_does_not_count():
    cells = pd.Categorical(["0", "1", None], categories=["partial", "0", "1", "2"])
    assert read_labels(pd.DataFrame({"R": cells})).levels == {}


def test_the_users_own_levels_come_first():
    words = ("success", "partial", "fail")
    labels = read_labels(pd.DataFrame({"R": ["fail", "success"]}), levels={"R": words})
    assert labels.levels == {"R": words} and labels.codes[:, 0].tolist() == [2, 0]


def test_binary_columns_are_encoded_once(monkeypatch):
    calls = []

    def count(column, vocabulary):
        calls.append(vocabulary)
        return encode(column, vocabulary)

    encode = rat_jax.labels.retrieval.encode_label
    monkeypatch.setattr(rat_jax.labels.retrieval, "encode_label", count)
    read_r([0, 1, None])
    assert len(calls) == 1
    read_r(["fail", "success"])
    assert len(calls) == 3


# ---------------------------------------------------------------------------------------------------- refused


@pytest.mark.parametrize(
    "cells",
    [
        [0, 1] + [2] * 9,
        [0] + [2] * 20,
        [1, None] + ["2"] * 20,
        [0, 1, True] + [2] * 20,
        [0, 1, "no"] + [2] * 20,
    ],
    ids=["nine", "no 1", "no 0", "boolean", "no"],
)
def test_a_two_that_may_be_a_slip_is_refused_with_what_to_do(cells):
    message = refusal(pd.DataFrame({"R": pd.Series(cells, dtype=object)}))
    first = next(row for row, value in enumerate(cells, start=1) if str(value) == "2")
    assert f'Column "R", row {first} has ' in message and message.endswith(ADVICE)


def test_the_advice_works():
    table = pd.DataFrame({"R": [0, 1, 2]})
    assert refusal(table).endswith(ADVICE)
    assert read_labels(table, levels=GRADES).levels == GRADES


@pytest.mark.parametrize("value", ["yes", "No", "TRUE", "false", True, False])
def test_yes_and_no_do_not_mix_with_grades(value):
    message = refusal(
        pd.DataFrame({"correct": pd.Series(["partial", value, 2], dtype=object)}), columns={"R": "correct"}
    )
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    assert f'Column "correct" (read as R), row 2 has {shown}' in message
    assert "0/1/2 or fail/partial/success" in message and 'row 1 has "partial"' in message


def test_a_stray_grade_in_a_column_of_yes_and_no_is_named():
    message = refusal(pd.DataFrame({"R": ["yes", "no", "yes", "partial"]}))
    assert 'row 1 has "yes" (and 2 more such values)' in message and 'because row 4 has "partial"' in message


@pytest.mark.parametrize("cells", [["fail", "success", 1], ["partial", "0", "1"], ["fail", "partial", "success", 1.0]])
def test_a_one_that_may_mean_either_is_refused(cells):
    message = refusal(pd.DataFrame({"R": pd.Series(cells, dtype=object)}))
    one = next(row for row, value in enumerate(cells, start=1) if value in (1, "1"))
    assert f"row {one} has 1" in message or f'row {one} has "1"' in message
    assert "may mean partial, or the success of two values" in message and message.endswith(ADVICE)
    assert read_labels(pd.DataFrame({"R": cells}), levels=GRADES).codes[one - 1, 0] == 1


def test_a_word_beside_the_grades_that_is_none_is_named():
    assert 'row 2 has "partly"' in refusal(pd.DataFrame({"R": ["fail", "partly", "success"]}))


@pytest.mark.parametrize("name", ["R_J", "R_J.gpt"])
def test_a_judge_is_graded_only_where_the_user_says_so(name):
    words, twos = pd.DataFrame({name: ["fail", "partial"]}), pd.DataFrame({name: TEN_TWOS})
    for table in (words, twos):
        message = refusal(table)
        assert f'levels={{"{name}": (' in message and f"--levels {name}=fail,partial,success" in message
        assert read_labels(table, levels={name: GRADES["R"]}).levels == {name: GRADES["R"]}


@pytest.mark.parametrize("name", ["A", "T", "T_J"])
def test_no_other_label_is_graded_by_itself(name):
    assert f'Column "{name}", row 2 has "partial"' in refusal(pd.DataFrame({name: [1, "partial"], "R": [1, 0]}))
    assert f'Column "{name}", row 4 has 2' in refusal(pd.DataFrame({name: TEN_TWOS}))


def test_a_judges_name_with_a_space_is_quoted_in_the_advice():
    assert '--levels "R_J.my judge=fail,partial,success"' in refusal(pd.DataFrame({"R_J.my judge": ["partial"]}))


def test_other_words_of_retrieval_are_told_which_words_are_known():
    assert "fail, partial or success" in refusal(pd.DataFrame({"R": ["relevant", "irrelevant"]}))


def test_a_word_for_missing_cannot_be_a_level():
    assert '"none" would be read as missing' in refusal(pd.DataFrame({"R": [1]}), levels={"R": ("none", "some", "all")})


# ----------------------------------------------------------------------------------------- any number of levels


FOUR = {"R": ("no", "some", "most", "all"), "R_J": ("bad", "fair", "good")}
FOUR_TABLE = pd.DataFrame(
    {
        "R": ["no", "some", "most", "ALL", 3, None],
        "A": [1, 0, 0, 0, 0, 1],
        "T": [None, 0, 1, 1, 1, 0],
        "R_J": ["bad", 2, "good", None, "fair", None],
        "count": [4, 1, 2, 1, 1, 7],
    }
)


def test_any_number_of_levels_is_counted_and_reported():
    labels = read_labels(FOUR_TABLE, levels=FOUR)
    assert labels.sizes == (4, 2, 2, 3) and labels.levels == FOUR
    assert labels.counts()["R"].tolist() == [pd.NA, 0, 1, 2, 3, 3]
    assert labels.report.labels["R"] == {"0": 4, "1": 1, "2": 2, "3": 2, "missing": 7}
    assert labels.report.labels["R_J"] == {"0": 4, "1": 1, "2": 3, "missing": 8}
    assert labels.report.notes[:2] == (
        "R is read as graded retrieval: 0 no, 1 some, 2 most, 3 all; fit it with model graded.",
        "R_J has 3 values: 0 bad, 1 fair, 2 good.",
    )
    assert json.loads(json.dumps(labels.report.to_dict()))["labels"]["R"]["3"] == 2


def test_a_hundred_levels_are_counted():
    words = tuple(f"level {k}" for k in range(100))
    labels = read_labels(
        pd.DataFrame({"R": [*words, None], "R_J": [99 - k for k in range(100)] + [0]}),
        levels=dict.fromkeys(("R", "R_J"), words),
    )
    assert labels.counts()["R"].tolist() == [pd.NA, *range(100)]
    assert labels.counts()["R_J"].tolist() == [0, *range(99, -1, -1)]


# --------------------------------------------------------------------------------------------------- observed


def test_observed_names_the_labels_that_occur():
    table = pd.DataFrame({"T": [1, 0], "A": [0, None], "R_J": [None, None], "T_J.b": [None, 1], "R_J.a": ["", "NA"]})
    assert read_labels(table).observed == ("A", "T", "T_J.b")


def test_labels_of_rows_that_count_nothing_are_not_observed():
    assert read_labels(pd.DataFrame({"A": [0, 1], "T_J": [None, 1], "count": [3, 0]})).observed == ("A",)


def test_observed_follows_labels_cut_down_by_hand():
    labels = read_labels(pd.DataFrame({"A": [0, None], "T": [None, 1]}))
    assert labels.observed == ("A", "T")
    part = dataclasses.replace(labels, codes=labels.codes[:1], system=labels.system[:1], weight=labels.weight[:1])
    assert part.observed == ("A",)


# --------------------------------------------------------------------------------------------------- collapse


STRICT = {"fail": 0, "partial": 0, "success": 1}
GRADED_TABLE = pd.DataFrame(
    {
        "system": ["a", "a", "b", "b", "b"],
        "R": ["fail", "success", "partial", None, "success"],
        "A": [1, 0, 0, 0, 1],
        "T": [0, 1, 1, 0, None],
        "count": [1, 2, 3, 4, 5],
    }
)


def test_collapsing_gives_what_the_binary_table_gives():
    graded = read_labels(GRADED_TABLE)
    for mapping, ones in ((STRICT, [0, 1, 0, None, 1]), (STRICT | {"partial": 1}, [0, 1, 1, None, 1])):
        binary = read_labels(GRADED_TABLE.assign(R=ones))
        collapsed = graded.collapse("R", mapping)
        pd.testing.assert_frame_equal(collapsed.counts(), binary.counts())
        pd.testing.assert_frame_equal(collapsed.report.patterns, binary.report.patterns)
        assert collapsed.report.labels == binary.report.labels
        assert collapsed.levels == {} and collapsed.sizes == (2, 2, 2)


def test_collapsing_leaves_the_graded_labels_as_they_were():
    graded = read_labels(GRADED_TABLE)
    before = graded.codes.copy()
    graded.collapse("R", STRICT)
    assert (graded.codes == before).all() and graded.levels == GRADES and NOTE in str(graded.report)


def test_the_report_of_collapsed_labels_says_so_and_no_longer_asks_for_the_graded_model():
    report = read_labels(GRADED_TABLE).collapse("R", STRICT).report
    assert "R was collapsed to two values: fail 0, partial 0, success 1." in report.notes
    assert "model graded" not in str(report)
    assert {(c.spelling, c.code) for c in report.coerced} == {("fail", 0), ("partial", 0), ("success", 1)}


def test_a_mapping_may_name_levels_by_word_or_code():
    graded = read_labels(GRADED_TABLE)
    for mapping in (
        {0: 0, 1: 0, 2: 1},
        {"FAIL": False, "1": 0.0, 2: True},
        {"fail": 0, 0: 0, 1: 0, np.int8(2): np.int64(1)},
    ):
        assert graded.collapse("R", mapping).codes[:, 0].tolist() == [0, 1, 0, -1, 1]


def test_a_graded_judge_collapses_and_the_other_labels_stay():
    labels = read_labels(FOUR_TABLE, levels=FOUR)
    collapsed = labels.collapse("R_J", {"bad": 1, "fair": 1, "good": 0})
    assert collapsed.levels == {"R": FOUR["R"]} and collapsed.sizes == (4, 2, 2, 2)
    assert collapsed.codes[:, 3].tolist() == [1, 0, 0, -1, 1, -1]
    assert (collapsed.codes[:, :3] == labels.codes[:, :3]).all()


@pytest.mark.parametrize(
    "variable, mapping, parts",
    [
        ("R", {"fail": 0, "success": 1}, ['has none for "partial"', 'add "partial": 0 or "partial": 1']),
        ("R", {}, ['"fail", "partial", "success"']),
        ("R", {**STRICT, "parcial": 0}, ['"parcial", which is no level of R', 'Did you mean "partial"?']),
        ("R", {**STRICT, 3: 0}, ["3, which is no level of R", "0/1/2 or fail/partial/success"]),
        ("R", {**STRICT, "partial": 2}, ['"partial" of R to 2', "expected 0 or 1"]),
        ("R", {**STRICT, "partial": None}, ["expected 0 or 1"]),
        ("R", {**STRICT, 1: 1}, ['level "partial" of R to both 0 and 1']),
        ("R", ("fail", "success"), ["the 0 or 1 of every level of R"]),
        ("A", {0: 0, 1: 1}, ["A has no levels to collapse"]),
        ("r", STRICT, ['no label "r"', 'Did you mean "R"?']),
    ],
)
def test_a_collapse_that_makes_no_sense(variable, mapping, parts):
    with pytest.raises(LabelError) as caught:
        read_labels(GRADED_TABLE).collapse(variable, mapping)
    for part in parts:
        assert part in str(caught.value)


def test_a_collapse_cannot_make_an_abstention_correct():
    labels = read_labels(
        pd.DataFrame({"A": [1, 0], "T": ["bad", "good"], "count": [3, 1]}), levels={"T": ("bad", "so-so", "good")}
    )
    with pytest.raises(LabelError, match="A=1 and T=1 to 3 rows"):
        labels.collapse("T", {"bad": 1, "so-so": 0, "good": 0})
    assert labels.collapse("T", {"bad": 0, "so-so": 0, "good": 1}).codes[:, 2].tolist() == [0, 1]


def test_labels_built_by_hand_collapse_without_a_report():
    labels = Labels(
        ("R",), np.array([[2], [1]], np.int8), ("s",), np.zeros(2, np.int32), np.ones(2, int), levels=GRADES
    )
    collapsed = labels.collapse("R", STRICT)
    assert collapsed.codes[:, 0].tolist() == [1, 0] and collapsed.report is None
