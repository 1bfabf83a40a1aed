"""Real tables with human and judge labels: what they can answer is answered, what they cannot is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat

DATA = Path(__file__).parent / "data"
CLOSED_BOOK = {"text-davinci-003_zeroshot", "text-davinci-003_fewshot"}
EFFORT = {"num_warmup": 400, "num_samples": 500, "on_failure": "keep"}


@pytest.fixture(scope="module")
def nq301():
    labels = rat.read_labels(DATA / "nq301_judges.csv", columns={"T_J.davinci": "T_J_davinci", "T_J.bem": "T_J_bem"})
    return labels, rat.fit(labels, model="judge", judge_structure="factorized", **EFFORT)


def test_where_r_was_never_observed_p_g_is_refused_and_p_t_and_the_judges_are_answered(nq301):
    _, fit = nq301
    informed, rows = fit.diagnostics.informed, fit.counts
    with_r = set(rows.loc[rows["R"].notna(), "system"])
    assert len(fit.systems) == 12 and len(with_r) == 2
    for system in fit.systems:
        assert informed[system, "p_G"] == informed[system, "p_R"] == (system in with_r), system
        for judge in ("", ".davinci", ".bem"):
            assert all(informed[system, f"{name}_T{judge}"] for name in ("tpr", "fpr", "youden")), system
        assert informed[system, "p_T"], system
    refused = next(s for s in fit.systems if s not in with_r)
    assert "label R" in fit.diagnostics.advice[refused, "p_G"]


def test_rates_of_three_judges_are_the_raw_proportions(nq301):
    """T and the verdicts are nearly complete, so a judge's rates are the shares anyone can count."""
    labels, fit = nq301
    frame = pd.DataFrame(labels.codes, columns=list(labels.variables)).assign(
        system=np.array(labels.systems)[labels.system]
    )
    summary = fit.summary()
    for system, rows in frame.groupby("system"):
        for judge in ("", ".davinci", ".bem"):
            both = rows[(rows["T"] >= 0) & (rows[f"T_J{judge}"] >= 0)]
            for name, truth in (("tpr", 1), ("fpr", 0)):
                said = both.loc[both["T"] == truth, f"T_J{judge}"]
                row = summary.loc[(system, f"{name}_T{judge}")]
                assert row["mean"] == pytest.approx(
                    (said.sum() + 1) / (len(said) + 2), abs=5 * row["mcse_mean"] + 0.004
                )


def test_chains_agree_on_all_that_is_informed_although_r_has_mirror_images(nq301):
    _, fit = nq301
    r_hat, informed = fit.summary()["r_hat"], fit.diagnostics.informed
    assert max(value for key, value in r_hat.items() if informed[key]) < 1.05


@pytest.mark.chains
def test_hidden_human_labels_are_recovered_with_the_judges_and_with_known_truth_covered():
    """Nine tenths of nq301's human labels hidden: intervals of p_T hold the share among all of them."""
    whole = pd.read_csv(DATA / "nq301_judges.csv").drop(columns=["R", "R_J"])
    whole = whole.rename(columns={"T_J_davinci": "T_J.davinci", "T_J_bem": "T_J.bem"})
    few = whole.assign(T=whole["T"].where(np.random.default_rng(5).random(len(whole)) < 0.1))
    columns = ["system", "A", "T", "T_J", "T_J.davinci", "T_J.bem"]
    shared = rat.fit(few[columns], model="judge", judge_structure="factorized", judge_shared=True, **EFFORT)
    alone = rat.fit(few[["system", "A", "T"]])
    truth = whole.groupby("system")["T"].mean()
    inside, width, width_alone = [], [], []
    for system, share in truth.items():
        row, without = shared.summary().loc[(system, "p_T")], alone.summary().loc[(system, "p_T")]
        inside.append(row["q2.5"] <= share <= row["q97.5"])
        width.append(row["q97.5"] - row["q2.5"])
        width_alone.append(without["q97.5"] - without["q2.5"])
    assert np.sum(inside) >= 9  # judges do not err alike on all systems; see the notebook on this table
    assert np.mean(width) < 0.6 * np.mean(width_alone)


def test_a_human_sufficiency_label_calibrates_the_judge_of_retrieval():
    table = pd.read_csv(DATA / "nomiracl_en.csv")
    table = table[table["system"] != "gpt-4-azure"][["system", "R", "A", "R_J"]]
    one = table[table["system"] == table["system"].iloc[0]]
    fit = rat.fit(one, model="judge", judge_structure="factorized", **EFFORT)
    both = one.dropna(subset=["R", "R_J"])
    for name, truth in (("tpr_R", 1), ("fpr_R", 0)):
        said = both.loc[both["R"] == truth, "R_J"]
        row = fit.summary().loc[(fit.systems[0], name)]
        assert row["mean"] == pytest.approx((said.sum() + 1) / (len(said) + 2), abs=5 * row["mcse_mean"])
    assert not fit.diagnostics.informed[fit.systems[0], "p_G"]  # nobody judged whether answers are correct


def test_readers_of_the_same_questions_are_compared_on_them():
    """T of twelve readers on 301 questions, R of hardly any: the paired interval is near that of the paired z-test."""
    labels = rat.read_labels(DATA / "nq301_judges.csv")
    fit = rat.fit(labels)
    options = {"quantity": "p_T", "systems": ["FiD", "FiD-KD"]}
    apart, together = (rat.compare(fit, paired=paired, **options).iloc[0] for paired in (False, None))
    z = rat.paired_baselines(labels, a="FiD", b="FiD-KD", quantity="p_T").loc["paired_z"]
    assert together["q97.5"] - together["q2.5"] == pytest.approx(z["high"] - z["low"], rel=0.07)
    assert together["q97.5"] - together["q2.5"] < 0.85 * (apart["q97.5"] - apart["q2.5"])
    assert together["mean"] == pytest.approx(z["difference"], abs=0.01) and together["questions"] > 290
