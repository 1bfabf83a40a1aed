"""The report on the paper: one command writes it, every claim can fail, and the kept one is what the code says."""

import dataclasses
import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from benchmarks import table5
from benchmarks.paper import (
    __main__,
    allocation,
    allocation_claims,
    behaviour,
    configurations,
    graded,
    information,
    interval_claims,
    judge,
    published,
)
from benchmarks.paper.claims import FAILS, HOLDS, MEANINGS, OPEN, PARTLY, SLIP, below, verdict_of
from rat_jax.studies.information_gain import open_cells

DOCS = Path(__file__).parent.parent / "docs" / "paper"
PAPER = published.read()


# -- the words ------------------------------------------------------------------------------------------------
def test_a_comparison_within_two_standard_errors_is_open():
    assert below(-1.0, 0.4) is True and below(1.0, 0.4) is False
    assert below(-1.0, 0.6) is None and below(1.0, 0.6) is None and below(-1.0, math.nan) is None
    assert below(0.9, limit=1.0) is True and below(1.0, limit=1.0) is False


def test_verdicts_follow_from_outcomes():
    assert verdict_of([True, np.True_]) == HOLDS
    assert verdict_of([True, None]) == verdict_of([True, False]) == PARTLY
    assert verdict_of([None, None]) == OPEN
    assert verdict_of([False, None]) == verdict_of([np.False_]) == FAILS
    with pytest.raises(ValueError, match="at least one"):
        verdict_of([])


def test_laid_out_rows_are_within_one_of_their_share():
    for name in PAPER.configurations.index:
        shares = published.cells(PAPER.thetas(name))
        rows = published.laid_out(shares, name)
        assert rows["count"].sum() == published.ROWS and math.isclose(sum(shares.values()), 1)
        for row in rows.itertuples():
            assert abs(row.count - published.ROWS * shares[row.R, row.A, row.T]) < 1


# -- the whole, small -----------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    __main__.main(["--quick", "--replicates", "4", "--out", str(out)])
    return out, json.loads((out / "report.json").read_text("utf-8")), (out / "report.md").read_text("utf-8")


def test_one_command_writes_report_and_figures(quick):
    out, document, text = quick
    linked = re.findall(r"!\[.*?\]\((.*?)\)", text)
    assert len(linked) == len(set(linked)) == len(list(out.glob("*.png"))) == 6
    assert all((out / name).stat().st_size > 10_000 for name in linked)
    assert {c["verdict"] for c in document["claims"]} <= set(MEANINGS)
    numbers = [c["number"] for c in document["claims"]]
    assert len(numbers) == len(set(numbers)) > 60


def test_every_table_figure_and_section_has_a_claim(quick):
    where = " ".join(c["where"] for c in quick[1]["claims"])
    for part in ("Table 1", "Table 2", "Tables 3(a), 10", "Tables 3(b), 11", "Table 4(a)", "Table 4(b)", "Table 5",
                 "Table 8", "Table 9", "Figure 2", "Figure 3", "Appendix C", "Appendix E", "Appendix F",
                 "Section 5.1", "Section 5.2", "Section 5.3", "Section 5.4"):  # fmt: skip
        assert part in where, part


def test_markdown_and_json_tell_the_same_verdicts(quick):
    assert verdicts_in(quick[2]) == {c["number"]: c["verdict"] for c in quick[1]["claims"]}


def verdicts_in(text):
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return {row[0]: row[-1].strip("* ") for row in rows if row[-1].strip("* ") in MEANINGS}


# -- every claim can fail -------------------------------------------------------------------------------------
def fixed_claims(paper, study=None, shift=0.0):
    """Verdicts of all claims in which nothing is random, and of those of the graded fit at its printed values."""
    fits = configurations.fit_all(paper, {"method": "exact"})
    fits = dataclasses.replace(fits, mean=fits.mean + shift)
    sections = [configurations.section(paper, fits), behaviour.section(paper, fits), information.section(paper)]
    sections.append(judge.section(paper, study or judge.kept()))
    sections.append(graded.section(paper, paper.graded + shift, paper.graded * 0 + 0.002, ""))
    return {c.number: c for s in sections for c in s.claims}


def altered(**tables):
    return dataclasses.replace(PAPER, **tables)


def generators_exchanged():
    table = PAPER.configurations.rename(lambda n: n.replace("Apertus", "?").replace("Qwen3.5", "Apertus"))
    return altered(configurations=table.rename(lambda n: n.replace("?", "Qwen3.5")).loc[PAPER.configurations.index])


def data_sets_exchanged():
    table = PAPER.configurations.rename(lambda n: n.replace("FEVER", "?").replace("HotpotQA", "FEVER"))
    return altered(configurations=table.rename(lambda n: n.replace("?", "HotpotQA")).loc[PAPER.configurations.index])


def retrieval_reversed():
    pairs = (("theta_A_minus", "theta_A_plus"), ("theta_T_minus", "theta_T_plus"))
    names = {a: b for pair in pairs for a, b in (pair, pair[::-1])}
    return altered(configurations=PAPER.configurations.rename(columns=names))


def generators_alike():
    """All abstain where retrieval failed, answers differ: success and adherence differ by correctness alone."""
    table = PAPER.configurations.copy()
    table[["theta_A_minus", "theta_A_plus"]] = 0.3, 0.2
    table["theta_T_plus"] = [0.2, 0.5, 0.9] * 9
    table["theta_T_minus"] = 0.1
    return altered(configurations=table)


def generators_perfect():
    """Retrieval differs clearly, answers get better with it, and nothing else matters."""
    table = PAPER.configurations.copy()
    table[["theta_A_minus", "theta_A_plus", "theta_T_minus"]] = 0.002, 0.001, 0.0
    for name in table.index:
        dataset, retriever, generator = name.split("/")
        order = ("dense", "hybrid", "sparse") if dataset == "HotpotQA" else ("dense", "sparse", "hybrid")
        i = order.index(retriever)
        right = (0.4, 0.8, 0.98)[i] + 0.005 * published.GENERATORS.index(generator)
        table.loc[name, ["theta_R", "theta_T_plus"]] = (0.2, 0.5, 0.8)[i], right
    return altered(configurations=table)


def retrieval_hopeless():
    table = PAPER.configurations.copy()
    table["theta_R"] = 0.005
    table["theta_A_plus"] *= np.linspace(1, 1.1, len(table))
    return altered(configurations=table)


def numbers_off():
    table = PAPER.retrieval_judge.assign(p_RJ=0.1)
    tasks = PAPER.task_judge.assign(p_TJ=0.2, p_T=[0.329, 0.304, 0.315])
    table_8 = PAPER.partial.where(PAPER.partial.index.get_level_values(0) == "HotpotQA", 0) + 0
    backwards = PAPER.graded.rename(columns=lambda c: c.replace("fail", "?").replace("success", "fail"))
    backwards = backwards.rename(columns=lambda c: c.replace("?", "success"))[PAPER.graded.columns]
    repaired = PAPER.configurations.copy()
    repaired.loc["NQ/hybrid/Apertus", "p_T"] = 0.254
    return altered(
        configurations=repaired, joint=PAPER.joint.replace({"Qwen3.5": 0.2}, 0.4), gains=PAPER.gains + 0.05,
        retrieval_judge=table, task_judge=tasks, partial=table_8, graded=backwards,
    )  # fmt: skip


def judge_otherwise():
    """Verdicts that help much, learned or not; abstention that does nothing; errors that are not those printed."""
    table = judge.kept().table.copy()
    n = table.index.get_level_values("n_add")
    reading = table.index.get_level_values("reading")
    table.loc[reading.str.startswith("joint") & (n > 0), "width"] *= 0.5
    table.loc[reading == "fixed", "width"] = 0.0802
    table.loc[reading == "A alone", "width"] = 0.06
    table["mae"] *= np.where(n > 0, 0.5, 2.0)
    return judge.JudgeStudy(table, "altered")


def other_conventions(monkeypatch):
    """Another policy, natural logarithms, other printed steps."""
    lenient = {"policy": lambda s: s["T"] == 1}
    monkeypatch.setattr(information, "open_cells", lambda **options: open_cells(**options, **lenient))
    monkeypatch.setattr(information, "h", lambda p, h=information.h: h(p) * math.log(2))
    monkeypatch.setattr(information, "STEPS", {k: (a + 0.1, b + 0.1) for k, (a, b) in information.STEPS.items()})
    monkeypatch.setattr(information, "SHARES", {k: x + 0.1 for k, x in information.SHARES.items()})


@pytest.fixture(scope="module")
def as_printed():
    return fixed_claims(PAPER)


def test_every_fixed_claim_changes_its_verdict_under_some_altered_numbers(as_printed, monkeypatch):
    papers = (generators_exchanged, data_sets_exchanged, retrieval_reversed, generators_alike,
              generators_perfect, retrieval_hopeless, numbers_off)  # fmt: skip
    others = [fixed_claims(make()) for make in papers]
    others.append(fixed_claims(PAPER, judge_otherwise(), shift=0.02))
    other_conventions(monkeypatch)
    others.append(fixed_claims(PAPER))
    monkeypatch.setattr(information, "ENTROPIES", {p: float(information.h(p)) for p in information.ENTROPIES})
    others.append(fixed_claims(PAPER))
    stuck = [n for n, c in as_printed.items() if all(other[n].verdict == c.verdict for other in others)]
    assert not stuck


def test_slips_are_slips_only_as_long_as_the_numbers_disagree(as_printed):
    assert {n for n, c in as_printed.items() if c.verdict == SLIP} == {
        "T1 slip", "5.1c", "T4 slip", "F h(0.969)", "F h(0.216)", "F h(0.678)"}  # fmt: skip
    repaired = fixed_claims(numbers_off())
    assert repaired["T1 slip"].verdict == repaired["T4 slip"].verdict == repaired["5.1c"].verdict == HOLDS


def test_information_gain_favours_task_labels_in_four_configurations():
    """By counting bits over the six cells with numpy alone."""

    def left(cells, seen):
        groups = {}
        for (r, a, t), p in cells.items():
            g = int((r == 0 and a == 1) or (r == 1 and a == 0 and t == 1))
            groups.setdefault(tuple({"R": r, "A": a, "T": t}[v] for v in seen), [0.0, 0.0])[g] += p
        return -sum(p * math.log2(p / sum(pair)) for pair in groups.values() for p in pair if p)

    tables = {n: published.cells(PAPER.thetas(n)) for n in PAPER.configurations.index}
    favoured = {n for n, c in tables.items() if left(c, "AT") < left(c, "AR")}
    assert favoured == {f"NQ/{r}/{g}" for r in ("dense", "hybrid") for g in ("Apertus", "Gemma3")}
    claim = next(c for c in information.section(PAPER).claims if c.number == "F a")
    assert claim.verdict == PARTLY and all(name in claim.ours for name in favoured)


# -- claims on the studies, in pretended worlds ---------------------------------------------------------------
STRATEGIES = allocation.FIVE
AS_TOLD = {
    ("Apertus", "p_G"): (0.50, 0.49, 0.40, 0.30, 0.10),
    ("Qwen3.5", "p_G"): (0.50, 0.52, 0.35, 0.51, 0.10),
    ("Apertus", "p_T"): (0.50, 0.25, 0.49, 0.01, 0.495),
    ("Qwen3.5", "p_T"): (0.50, 0.25, 0.49, 0.02, 0.495),
}
OTHERWISE = {
    ("Apertus", "p_G"): (0.50, 0.10, 0.60, 0.55, 0.70),
    ("Qwen3.5", "p_G"): (0.50, 0.10, 0.60, 0.05, 0.70),
    ("Apertus", "p_T"): (0.20, 0.60, 0.10, 0.70, 0.05),
    ("Qwen3.5", "p_T"): (0.20, 0.60, 0.10, 0.70, 0.05),
}


class World:
    """Stands in for a reading of the budget: errors fall from 0.03 by the share that a strategy gains at 500."""

    def __init__(self, gains, width_gains=None, covered=0.95):
        self.name, self.gains, self.width_gains = "pretended", gains, width_gains or gains
        keys = itertools.product(published.STUDIED, STRATEGIES, allocation.BUDGETS, ("p_G", "p_T"))
        table = pd.DataFrame(keys, columns=["system", "strategy", "additional", "quantity"])
        table = table.assign(coverage=covered, coverage_se=0.001, replicates=10**6)
        self.study = type("Study", (), {"table": table})

    def value(self, system, strategy, additional, quantity, column):
        if column.endswith("_se"):
            return 1e-6
        printed = PAPER.widths.query("strategy == @strategy and quantity == @quantity and additional == @additional")
        if column == "ci_width" and system == "Qwen3.5" and len(printed) and self.width_gains is AS_TOLD:
            return float(printed["ci_width"].iloc[0])
        gains = self.gains if column == "mae" else self.width_gains
        gain = dict(zip(STRATEGIES, gains[system, quantity], strict=True))[strategy]
        levels_off = strategy == "all_T" and quantity == "p_G" and gain < 0.2
        spent = min(additional, 200) / 200 if levels_off else additional / 500
        return {"mae": 0.03, "ci_width": 0.153}[column] * (1 - gain * spent)

    def at_base(self, system, quantity, column):
        return self.value(system, "all_R", 0, quantity, column)

    def difference(self, a, b, system, additional, quantity, measure="mae"):
        return self.value(system, a, additional, quantity, measure) - self.value(
            system, b, additional, quantity, measure
        ), 1e-6


def verdicts(world, monkeypatch):
    monkeypatch.setattr(allocation_claims, "_table", lambda r: pd.DataFrame())
    section = allocation_claims.section(PAPER, allocation.Studies((world,)))
    return {c.number: c.verdict for c in section.claims}


def test_study_claims_hold_in_a_world_as_told(monkeypatch):
    found = verdicts(World(AS_TOLD), monkeypatch)
    # the paper's own statements cannot all be true: half-joint-R ahead of all-joint is not between the extremes
    assert {n for n, v in found.items() if v != HOLDS} <= {"5.3l", "E c", "E e"}
    assert FAILS not in found.values()


def test_every_study_claim_fails_in_some_other_world(monkeypatch):
    worlds = [World(OTHERWISE, covered=0.8), World(AS_TOLD, OTHERWISE), World(OTHERWISE, AS_TOLD)]
    found = [verdicts(w, monkeypatch) for w in worlds]
    assert not [number for number in found[0] if all(f[number] == HOLDS for f in found)]


def test_chains_that_disagree_are_found_out(tmp_path):
    studies = allocation.run(PAPER, 4, tmp_path, lambda stage: None)
    five = studies.readings[0].five
    off = dataclasses.replace(five, table=five.table.assign(mae=five.table["mae"] + 2 * five.table["mae_se"]))
    same = dataclasses.replace(five, table=five.table.assign(coverage_exact=0.95))  # chains bring that column
    for chains, verdict in ((same, HOLDS), (off, FAILS)):
        assert (
            allocation_claims.engines_agree(dataclasses.replace(studies, chains=chains, beside=five)).verdict == verdict
        )


def unjudged(reading, table, rates, settings):
    """Stands in for the judge's fits: fast, and different for each reading."""
    chains = {"num_warmup": 20, "num_samples": 10, "num_chains": 2}
    return rat.fit(table, method="nuts", seed=len(reading), on_failure="keep", **chains)


def test_the_judge_study_run_again_gives_the_same_claims_as_random_ones(tmp_path, monkeypatch, as_printed):
    monkeypatch.setattr(table5, "fit_reading", unjudged)
    study = judge.recomputed(3, tmp_path / "table5.jsonl", lambda words: None)
    claims = {c.number: c for c in judge.section(PAPER, study).claims}
    assert set(claims) <= set(as_printed)
    assert {n for n, c in claims.items() if not c.fixed} == {n for n in claims if n[:3] in ("T5 ", "5.4")} - {"5.4a"}


# -- going on after a stop ------------------------------------------------------------------------------------
def test_a_stopped_run_goes_on_to_the_same_numbers_and_is_not_timed(tmp_path):
    whole = allocation.run(PAPER, 4, tmp_path, lambda stage: None)
    again = allocation.run(PAPER, 4, tmp_path, lambda stage: None)
    assert again.seconds == whole.seconds and set(whole.seconds) == {"base", "rows", "labels"}
    for path in sorted((tmp_path / "rows").glob("*.npz"))[::2]:
        path.unlink()
    kept = json.loads((tmp_path / "seconds.json").read_text("utf-8"))
    (tmp_path / "seconds.json").write_text(json.dumps(kept | {"rows, 4 replicates": None}), encoding="utf-8")
    gone_on = allocation.run(PAPER, 4, tmp_path, lambda stage: None)
    for one, other in zip(whole.readings, gone_on.readings, strict=True):
        pd.testing.assert_frame_equal(one.study.table, other.study.table, check_exact=True)
    assert set(gone_on.seconds) == {"base", "labels"}


# -- what is kept in the docs ---------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def kept_report():
    return json.loads((DOCS / "report.json").read_text("utf-8")), (DOCS / "report.md").read_text("utf-8")


def test_kept_report_names_its_date_versions_and_figures(kept_report):
    document, text = kept_report
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", document["date"]) and document["date"] in text
    assert {"python", "jax", "numpyro", "numpy", "rat_jax"} == set(document["versions"])
    assert all(f"{name} {version}" in text for name, version in document["versions"].items())
    assert document["settings"]["replicates"] == 500
    assert all((DOCS / name).exists() for name in re.findall(r"!\[.*?\]\((.*?)\)", text))
    assert verdicts_in(text) == {c["number"]: c["verdict"] for c in document["claims"]}


def test_kept_report_says_what_the_code_says_now(kept_report, as_printed):
    kept = {c["number"]: c for c in kept_report[0]["claims"]}
    for number, claim in as_printed.items():
        if claim.fixed:
            assert (kept[number]["verdict"], kept[number]["ours"]) == (claim.verdict, claim.ours), number


def test_kept_widths_are_those_of_appendix_e(kept_report):
    rows = kept_report[0]["allocation"]["rows"]["table"]
    found = {(r["system"], r["strategy"], r["additional"], r["quantity"]): r["ci_width"] for r in rows}
    for row in PAPER.widths.to_dict("records"):
        key = (row["generator"], row["strategy"], row["additional"], row["quantity"])
        assert found[key] == pytest.approx(row["ci_width"], rel=interval_claims.WIDTHS)


def test_shipped_parameters_are_the_printed_ones():
    for name in PAPER.configurations.index:
        assert rat.datasets.thetas(name) == PAPER.thetas(name)
