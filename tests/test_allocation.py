"""The allocation study: held to the paper's widths, to a simulation in plain NumPy, and to itself after a kill."""

import json
import math
import signal
import statistics
import subprocess
import sys
import time
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import rat_jax as rat
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import elements
from rat_jax.model.rat import RAT
from rat_jax.studies.allocation import allocation_study
from rat_jax.studies.population import read_population
from rat_jax.studies.strategies import PAPER, allot, plan_of, read_strategies

QWEN = rat.datasets.thetas("HotpotQA/hybrid/Qwen3.5")
LOPSIDED = {"theta_R": 0.9, "theta_A_minus": 0.7, "theta_A_plus": 0.02, "theta_T_minus": 0.1, "theta_T_plus": 0.85}
WEIGHTS = {"p_G": np.array(RAT.policy.weights), "p_T": RAT.event((("T", 1),))}
STATES = [(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0)]
QUICK = {"replicates": 12, "num_samples": 100, "num_chains": 1}


def cell(study, strategy, additional, quantity):
    table = study.table
    return table[
        (table["strategy"] == strategy) & (table["additional"] == additional) & (table["quantity"] == quantity)
    ].iloc[0]


@pytest.fixture(scope="module")
def paper():
    """Qwen at 500 added rows."""
    return allocation_study(QWEN, additional=(500,), replicates=120)


@pytest.mark.parametrize(
    ("strategy", "quantity", "width"),
    [("all_R", "p_G", 0.105), ("all_T", "p_G", 0.132), ("all_T", "p_T", 0.075), ("all_R", "p_T", 0.150)],
)
def test_widths_are_those_of_appendix_e(paper, strategy, quantity, width):
    found = cell(paper, strategy, 500, quantity)
    assert found["ci_width"] == pytest.approx(width, rel=0.01, abs=0.0005)  # the paper rounds to 0.001


def complete_rows_by_hand(thetas, rows, replicates, seed):
    """MAE, bias and 95 % width of p_G where every row has every label, with nothing of the package."""
    p = thetas
    r, a0, a1, t0, t1 = (p[k] for k in ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus"))
    cells = [(1 - r) * (1 - a0) * (1 - t0), (1 - r) * (1 - a0) * t0, (1 - r) * a0]
    cells += [r * (1 - a1) * (1 - t1), r * (1 - a1) * t1, r * a1]
    counts = np.rint(10_000 * np.array(cells)).astype(int)
    counts[0] += 10_000 - counts.sum()

    def betas(n):
        return [
            (1 + n[3] + n[4] + n[5], 1 + n[0] + n[1] + n[2]), (1 + n[2], 1 + n[0] + n[1]), (1 + n[5], 1 + n[3] + n[4]),
            (1 + n[4], 1 + n[3]),
        ]  # fmt: skip

    def mean(n):
        r, a0, a1, t1 = (a / (a + b) for a, b in betas(n))
        return (1 - r) * a0 + r * (1 - a1) * t1

    rng = np.random.default_rng(seed)
    truth, errors, widths, covered = mean(counts), [], [], []
    for _ in range(replicates):
        n = rng.multivariate_hypergeometric(counts, rows)
        r, a0, a1, t1 = (rng.beta(a, b, 4000) for a, b in betas(n))
        low, high = np.quantile((1 - r) * a0 + r * (1 - a1) * t1, [0.025, 0.975])
        errors.append(mean(n) - truth)
        widths.append(high - low)
        covered.append(low <= truth <= high)
    return truth, np.abs(errors), np.array(errors), np.array(widths), np.array(covered, float)


@pytest.mark.parametrize("thetas", [QWEN, LOPSIDED], ids=["qwen", "lopsided"])
def test_complete_rows_agree_with_a_simulation_by_hand(thetas):
    study = allocation_study(thetas, base=50, additional=(30,), replicates=300, strategies=["all_joint"], seed=3)
    found = cell(study, "all_joint", 30, "p_G")
    truth, *by_hand = complete_rows_by_hand(thetas, 80, 1500, seed=8)
    assert found["truth"] == pytest.approx(truth, abs=1e-12)
    for name, values in zip(("mae", "bias", "ci_width", "coverage"), by_hand, strict=True):
        error = math.hypot(found[f"{name}_se"], values.std(ddof=1) / math.sqrt(len(values)))
        assert abs(found[name] - values.mean()) < 4 * error, name


@pytest.mark.chains
def test_a_study_by_chains_has_the_effective_draws_that_were_asked_for():
    options = {"additional": (60,), "replicates": 12, "strategies": ["all_R"], "method": "nuts", "num_warmup": 150}
    few = allocation_study(QWEN, num_samples=60, **options)
    more = allocation_study(QWEN, num_samples=60, min_ess=160, **options)
    assert few.health["ess_bulk"].item() < 160 <= more.health["ess_bulk"].item()
    with pytest.raises(ValueError, match="min_ess: expected"):
        allocation_study(QWEN, min_ess=-1)


@pytest.mark.chains
def test_chains_find_what_exact_draws_find():
    options = {"additional": (100,), "replicates": 20, "strategies": ["all_T"], "seed": 2}
    exact = allocation_study(QWEN, **options)
    chains = allocation_study(QWEN, method="nuts", num_samples=500, **options)
    for quantity in ("p_G", "p_T", "theta_A_plus"):
        one, other = (cell(s, "all_T", 100, quantity) for s in (exact, chains))
        # same rows, so only Monte Carlo error within fits is left: about width / 4 / sqrt(1000) per fit
        assert other["mae"] == pytest.approx(one["mae"], abs=4 * one["ci_width"] / 4 / math.sqrt(1000 * 20) + 2e-4)
        assert other["coverage_exact"] == pytest.approx(one["coverage"], abs=0.11)
    assert (chains.health["ess"] <= chains.health["ess_bulk"]).all()
    assert chains.method == "nuts" and chains.health["ess"].min() > 200 and chains.health["chains"].tolist() == [4]
    assert chains.to_dict()["health"] == chains.health.to_dict("records")
    assert exact.health.empty and exact.to_dict()["health"] == [] and "coverage_exact" not in exact.table


def test_rows_are_the_same_for_every_strategy_and_the_base_alone_is_no_strategy():
    study = allocation_study(QWEN, additional=(0, 40), strategies=["all_R", "all_T"], **QUICK)
    none = [cell(study, s, 0, "p_R")["rows"] for s in ("all_R", "all_T")]
    assert none == [0, 0]
    difference = study.versus("all_R", "all_T")
    paired = difference[(difference["additional"] == 40) & (difference["quantity"] == "p_G")].iloc[0]
    mae = [cell(study, s, 40, "p_G")["mae"] for s in ("all_R", "all_T")]
    assert paired["mae_difference"] == pytest.approx(mae[1] - mae[0], abs=1e-12)
    alone = {s: allocation_study(QWEN, additional=(40,), strategies=[s], **QUICK) for s in ("all_R", "all_T")}
    for s, one in alone.items():
        found = (cell(x, s, 40, "p_G") for x in (one, study))
        pd.testing.assert_series_equal(*found, check_names=False, check_index=False)
    widths = {
        s: one._estimates["all", s, 40.0]["high"] - one._estimates["all", s, 40.0]["low"] for s, one in alone.items()
    }
    place = list(dict.fromkeys(study.table["quantity"])).index("p_G")
    apart = [float(t - r) for r, t in zip(widths["all_R"][:, place], widths["all_T"][:, place], strict=True)]
    assert paired["width_difference"] == pytest.approx(statistics.mean(apart), abs=1e-14)
    assert paired["width_difference"] == pytest.approx(
        cell(alone["all_T"], "all_T", 40, "p_G")["ci_width"] - cell(alone["all_R"], "all_R", 40, "p_G")["ci_width"]
    )
    assert paired["width_difference_se"] == pytest.approx(statistics.stdev(apart) / math.sqrt(len(apart)), abs=1e-14)


def test_abstentions_everywhere_narrow_what_the_paper_leaves_wide():
    only = allocation_study(QWEN, base=200, additional=(0, 5000), replicates=60, strategies={"A": {"A": 1.0}})
    assert cell(only, "A", 0, "p_G")["ci_width"] == pytest.approx(0.136, rel=0.02)
    assert cell(only, "A", 5000, "p_G")["ci_width"] == pytest.approx(0.095, rel=0.02)
    annotated, everywhere = (
        allocation_study(QWEN, size=400, abstention=a, additional=(0,), strategies=["all_T"], **QUICK)
        for a in ("annotated", "all")
    )
    assert cell(everywhere, "all_T", 0, "p_A")["ci_width"] < 0.7 * cell(annotated, "all_T", 0, "p_A")["ci_width"]


def plan(name, costs=None):
    (strategy,) = read_strategies([name] if isinstance(name, str) else name, RAT)
    rows = np.array(STATES, np.int8)
    return plan_of(strategy, RAT, WEIGHTS, rows, costs or {"R": 1.0, "T": 1.0})


def labels_bought(p, kinds):
    return [tuple(np.array(["R", "A", "T"])[mask & ~p.kinds[0]]) for mask in p.kinds[kinds]]


def test_rules_never_ask_for_what_can_change_nothing():
    everything = np.arange(6)
    rule = plan("R_then_T")
    bought = dict(zip(STATES, labels_bought(rule, allot(rule, everything, 6, "rows")), strict=True))
    assert bought == {s: ("R", "T") if s[:2] == (1, 0) else ("R",) for s in STATES}
    rule = plan("T_where_answered")
    bought = dict(zip(STATES, labels_bought(rule, allot(rule, everything, 6, "rows")), strict=True))
    assert bought == {s: () if s[1] else ("T",) for s in STATES}


def test_a_budget_of_labels_is_spent_and_not_exceeded():
    rng = np.random.default_rng(0)
    for name in (*PAPER, "R_then_T", "T_where_answered"):
        p = plan(name)
        for budget in (0, 1, 7, 50):
            order = rng.integers(0, 6, 400)
            cost = p.costs[allot(p, order, budget, "labels")].sum()
            assert cost <= budget and (budget - cost < 2 if name in PAPER else cost == budget), (name, budget)


def test_the_label_that_the_budget_ends_on_is_kept_alone():
    p = plan("R_then_T")
    kinds = allot(p, np.array([4, 4, 4]), 3, "labels")  # R=1, A=0: two labels each
    assert labels_bought(p, kinds) == [("R", "T"), ("R",)]


def test_shares_are_whole_rows_that_add_up():
    p = plan({"thirds": {"RT": 1 / 3, "R": 1 / 3, "A": 1 / 3}})
    kinds = allot(p, np.zeros(100, int), 100, "rows")
    assert len(kinds) == 100 and set(np.bincount(kinds)) <= {33, 34}


@pytest.mark.parametrize("strategy", ["R_then_T", "T_where_answered"])
def test_intervals_cover_although_a_rule_chose_by_what_it_saw(strategy):
    """At a fixed truth no interval covers exactly 95 %; over truths drawn from the prior it does."""
    rng, covered = np.random.default_rng(5), []
    for seed in range(300):
        thetas = dict(zip(QWEN, rng.random(5), strict=True))
        options = {"base": 20, "additional": (60,), "replicates": 1, "num_samples": 500}
        study = allocation_study(thetas, strategies=[strategy], seed=seed, size=20_000, **options)
        covered.append([cell(study, strategy, 60, q)["coverage"] for q in ("p_G", "p_T", "p_R")])
    assert (np.abs(np.mean(covered, axis=0) - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 300)).all()


def test_a_rule_that_chose_by_what_nobody_saw_would_be_found_out(monkeypatch):
    def peeking(strategy, network, weights, rows, costs):
        honest = plan_of(strategy, network, weights, rows, costs)
        steps = tuple(s if row[2] else s[:1] for s, row in zip(honest.steps, rows, strict=True))
        return replace(honest, steps=steps)

    options = {"additional": (1000,), "replicates": 60, "strategies": ["R_then_T"]}
    honest = cell(allocation_study(QWEN, **options), "R_then_T", 1000, "p_R")
    monkeypatch.setattr("rat_jax.studies.allocation.plan_of", peeking)
    biased = cell(allocation_study(QWEN, **options), "R_then_T", 1000, "p_R")
    assert honest["coverage"] > 0.85 > 0.5 > biased["coverage"] and biased["bias"] > 0.04


def test_looking_before_asking_beats_asking_for_everything_per_label():
    names = ["all_joint", "all_R", "all_T", "R_then_T"]
    study = allocation_study(QWEN, additional=(300,), replicates=60, budget="labels", strategies=names)
    width = {name: cell(study, name, 300, "p_G")["ci_width"] for name in names}
    assert width["R_then_T"] < 0.93 * min(width[name] for name in names[:3])


# -- kept pieces ------------------------------------------------------------------------------------------


def kept_study(folder, **options):
    return allocation_study(QWEN, additional=(20, 40), strategies=["all_R", "all_T"], out=folder, **QUICK | options)


def test_a_study_resumes_to_the_same_numbers_and_says_what_it_could_not_use(tmp_path):
    whole = allocation_study(QWEN, additional=(20, 40), strategies=["all_R", "all_T"], **QUICK)
    first = kept_study(tmp_path)
    files = sorted(tmp_path.glob("*.npz"))
    assert len(files) == 4
    files[0].unlink()
    data = bytearray(files[1].read_bytes())
    data[len(data) // 2] ^= 0xFF
    files[1].write_bytes(bytes(data))
    files[2].write_bytes(files[2].read_bytes()[:100])
    with pytest.warns(rat.KeptPieceWarning, match="damaged"):
        resumed = kept_study(tmp_path)
    assert len(resumed.notes) == 2 and not first.notes
    for study in (first, resumed):
        pd.testing.assert_frame_equal(study.table, whole.table, check_exact=True)
    with pytest.warns(rat.KeptPieceWarning, match="another study"):
        other = kept_study(tmp_path, seed=1)
    assert not other.table.equals(whole.table) and len(other.notes) == 5


def test_finished_pieces_are_not_computed_again(tmp_path, monkeypatch):
    kept_study(tmp_path)
    monkeypatch.setattr("rat_jax.studies.resampling.draw_exact", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept_study(tmp_path)


SCRIPT = """
import sys
import rat_jax as rat
rat.fit(rat.example_labels(), num_samples=10)  # all that is imported late is there when the work begins
print("begins", flush=True)
rat.allocation_study({thetas}, out=sys.argv[1], **{options})
"""


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_at_random_it_goes_on_to_the_table_of_an_undisturbed_run(tmp_path, kills):
    options = {"additional": (20, 40, 60), "replicates": 60 * kills, "num_samples": 250}
    start = time.perf_counter()
    undisturbed = allocation_study(QWEN, **options)
    piece = (time.perf_counter() - start) / (15 if kills == 2 else 75)  # the study's pieces, a file each
    rng, kept, hit = np.random.default_rng(kills), tmp_path / "kept", 0
    command = [sys.executable, "-c", SCRIPT.format(thetas=QWEN, options=options), str(kept)]
    for _ in range(kills):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"begins\n"
            # The moment is told by the work, not by the clock alone: a busy machine may take its time to begin.
            enough = len(list(kept.glob("*.npz"))) + int(rng.integers(1, 4))
            while process.poll() is None and len(list(kept.glob("*.npz"))) < enough:
                time.sleep(piece / 20)
            time.sleep(float(rng.uniform(0, piece)))
            hit += process.poll() is None
            process.send_signal(signal.SIGKILL)
    assert hit > kills / 2 and any(kept.glob("*.npz"))  # the kills fell into the work, and some of it was done
    resumed = allocation_study(QWEN, out=kept, **options)
    pd.testing.assert_frame_equal(resumed.table, undisturbed.table, check_exact=True)
    assert not resumed.notes


# -- populations --------------------------------------------------------------------------------------------


def test_parameters_become_rounded_rows_and_the_remainder_is_wrong_answers_without_support():
    population = read_population(LOPSIDED, 995, "rat", "joint", None)
    assert population.counts.tolist() == [[26, 3, 70, 132, 746, 18]]  # 27, less the one too many that rounding gives
    assert population.rows.tolist() == [list(s) for s in STATES]


def test_labels_of_several_systems_are_studied_each_and_the_correction_narrows():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"system": np.repeat(["a", "b"], 150), "R": rng.integers(0, 2, 300), "A": 0})
    frame["T"] = rng.integers(0, 2, 300)
    study = allocation_study(frame, base=50, additional=(60,), strategies=["all_joint"], **QUICK)
    assert set(study.table["system"]) == {"a", "b"}
    assert study.table["sampled"].unique().tolist() == pytest.approx([110 / 150])
    narrow = study.table[study.table["coverage_corrected"] < study.table["coverage"]]
    assert (study.table["coverage_corrected"] <= study.table["coverage"]).all() and len(narrow)
    with pytest.raises(ValueError, match=r"150 rows of system 'a', found 50 \+ 200; at most 100 can be added"):
        allocation_study(frame, base=50, additional=(200,), **QUICK)


def test_coverage_is_corrected_replicate_by_replicate():
    """By hand from what is kept of every replicate; under this budget each has bought another number of rows."""
    options = {"base": 40, "additional": (90.0,), "replicates": 30, "budget": "labels", "num_samples": 100}
    study = allocation_study(QWEN, size=300, strategies=["R_then_T"], **options)
    ((_, found),) = study._estimates.items()
    assert len(set(found["rows"])) > 3
    names = list(study.table["quantity"])
    for q, truth in enumerate(study.table["truth"]):
        inside = []
        for b in range(30):
            left = math.sqrt((300 - 40 - found["rows"][b]) / 300)
            mean, low, high = (found[name][b, q] for name in ("mean", "low", "high"))
            inside.append(left * (low - mean) <= truth - mean <= left * (high - mean))
        assert cell(study, "R_then_T", 90, names[q])["coverage_corrected"] == np.mean(inside)
    assert study.table["sampled"].unique() == pytest.approx((40 + found["rows"].mean()) / 300)


def test_half_a_population_covers_itself_too_often_until_corrected():
    study = allocation_study(QWEN, size=2000, base=1000, additional=(0,), strategies=["all_joint"], replicates=400)
    for quantity in ("p_R", "p_A", "p_T", "p_G"):
        found = cell(study, "all_joint", 0, quantity)
        # half of the variance is left: 1.96 standard errors become 1.96 sqrt(2)
        assert abs(found["coverage"] - 0.9944) < 4 * math.sqrt(0.9944 * 0.0056 / 400)
        assert abs(found["coverage_corrected"] - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 400)


def test_the_labels_of_mtrag_human_are_a_population_of_157_rows_a_system():
    labels = rat.example_labels()
    options = {"base": 40, "strategies": ["all_joint", "R_then_T"], "replicates": 200, "num_samples": 250}
    study = allocation_study(labels, additional=(40,), **options)
    assert set(study.table["system"]) == set(labels.systems) and len(labels.systems) == 3
    assert study.table["sampled"].unique().tolist() == pytest.approx([80 / 157])
    assert "%*" in str(study) and "* More than 10% of the population is sampled" in str(study)
    assert max(map(len, str(study).splitlines())) < 80
    fit = rat.fit(labels).summary()["mean"]
    for row in study.table.query("quantity in ['p_G', 'p_T', 'p_R']").to_dict("records"):
        assert row["truth"] == pytest.approx(fit[row["system"], row["quantity"]], abs=1e-12)
        assert row["coverage"] >= row["coverage_corrected"]
        assert abs(row["coverage_corrected"] - 0.95) < 4 * math.sqrt(0.95 * 0.05 / 200) and row["coverage"] > 0.96
    with pytest.raises(ValueError, match=r"157 rows of system 'gpt-4o', found 40 \+ 118; at most 117 can be added"):
        allocation_study(labels, additional=(118,), **options)


def test_few_rows_of_a_large_population_need_no_correction(paper):
    assert paper.table["sampled"].max() < 0.1 and "*" not in str(paper)


def judged_by_hand(population, rng, draws):
    """Means of the posterior of a complete judged table (joint errors, uniform priors), with plain arrays."""
    table = dict(zip(map(tuple, population.rows.tolist()), population.counts[0].tolist(), strict=True))

    def rows(**known):
        return sum(n for row, n in table.items() if all(row["RATrt".index(v)] == code for v, code in known.items()))

    def beta(yes, no):
        return rng.beta(1 + yes, 1 + no, draws)

    right = beta(rows(R=1), rows(R=0))
    a = [beta(rows(R=r, A=1), rows(R=r, A=0)) for r in (0, 1)]
    t = [beta(rows(R=r, T=1), rows(R=r, A=0, T=0)) for r in (0, 1)]
    joint, verdicts = {}, {}
    for r, abstains, correct in STATES:
        share = (right if r else 1 - right) * (a[r] if abstains else 1 - a[r])
        joint[r, abstains, correct] = share * (1.0 if abstains else t[r] if correct else 1 - t[r])
        seen = [rows(R=r, A=abstains, T=correct, r=x, t=y) for x in (0, 1) for y in (0, 1)]
        verdicts[r, abstains, correct] = rng.dirichlet(np.array(seen) + 1.0, draws).reshape(draws, 2, 2)

    def rate(place, code):
        """P(the judge says 1 | R or T = code); place 0 for R, 2 for T."""
        some = [s for s in STATES if s[place] == code]
        said = {s: verdicts[s][:, 1].sum(axis=1) if place == 0 else verdicts[s][:, :, 1].sum(axis=1) for s in some}
        return sum(joint[s] * said[s] for s in some) / sum(joint[s] for s in some)

    found = {f"{kind}_{v}": rate(p, c) for v, p in (("R", 0), ("T", 2)) for kind, c in (("tpr", 1), ("fpr", 0))}
    found |= {"p_T": joint[0, 0, 1] + joint[1, 0, 1], "p_G": joint[0, 1, 0] + joint[1, 0, 1]}
    return {name: (x.mean(), x.std() / math.sqrt(draws)) for name, x in found.items()}


@pytest.mark.parametrize("thetas", [QWEN, LOPSIDED], ids=["qwen", "lopsided"])
def test_the_truth_of_a_ratio_is_its_posterior_mean_as_for_every_quantity(thetas):
    """It is taken at the posterior mean of the cells. By hand over draws: what differs is within Monte Carlo error."""
    rates = {"tpr_R": 0.95, "fpr_R": 0.6, "tpr_T": 0.9, "fpr_T": 0.1}
    population = read_population(thetas | rates, 150, "judge", "joint", None)
    network = population.network
    cells = population.posterior_mean_cells(0, concentrations(network, None))
    truth = elements(network, network.policies, cells)
    for name, (mean, error) in judged_by_hand(population, np.random.default_rng(4), 200_000).items():
        assert error < 3e-4 and abs(truth[name] - mean) < 4 * error + 1e-4, name


def test_graded_retrieval_has_rules_without_new_code():
    thetas = {"theta_R": [0.5, 0.2, 0.3], "theta_A": [0.8, 0.4, 0.1], "theta_T": [0.1, 0.3, 0.6]}
    population = read_population(thetas, 1000, "graded", "joint", None)
    network = population.network
    weights = {"p_G": np.array(network.policy.weights), "p_T": network.event((("T", 1),))}
    (strategy,) = read_strategies(["R_then_T"], network)
    p = plan_of(strategy, network, weights, population.rows, {"R": 1.0, "T": 1.0})
    everything = np.arange(len(population.rows))
    for row, bought in zip(population.rows, labels_bought(p, allot(p, everything, 9, "rows")), strict=True):
        assert bought == (("R", "T") if row[0] == 2 and row[1] == 0 else ("R",))


@pytest.mark.chains
def test_verdicts_are_a_kind_of_row_of_their_own():
    rates = {"tpr_R": 0.8, "fpr_R": 0.2, "tpr_T": 0.9, "fpr_T": 0.4}
    study = allocation_study(
        QWEN | rates, model="judge", judge_structure="factorized", base=60, additional=(50,), replicates=2,
        strategies={"judged": {"judge": 1.0}, "more": {"RT+judge": 1.0}}, num_warmup=200, num_samples=50, num_chains=2,
    )  # fmt: skip
    assert cell(study, "judged", 50, "p_G")["labels"] == 100 and cell(study, "judged", 50, "p_G")["cost"] == 0
    assert cell(study, "more", 50, "p_G")["cost"] == 100
    assert cell(study, "more", 50, "tpr_R")["truth"] == pytest.approx(0.8, abs=0.01)


def test_the_result_is_plain_json_and_readable():
    study = allocation_study(QWEN, additional=(20,), strategies=["all_R"], **QUICK | {"replicates": 1})
    rows = json.loads(json.dumps(study.to_dict(), allow_nan=False))["table"]
    assert rows[0]["mae_se"] is None and rows[0]["replicates"] == 1
    assert "all_R" in str(study) and "p_G = " in str(study) and "nan" not in str(study)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strategies": ["all_r"]}, "did you mean 'all_R'"),
        ({"strategies": {"x": {"RT": 0.5}}}, "must add up to 1, found 0.5"),
        ({"strategies": {"x": {"RQ": 1.0}}}, "unknown label in strategies 'RQ'; did you mean 'R'"),
        ({"strategies": {"x": {"judge": 1.0}}}, "model 'rat' has no judge"),
        ({"strategies": []}, "expected at least one"),
        ({"additional": (20.5,)}, "expected whole numbers of rows >= 0, found 20.5"),
        ({"additional": (20, 20)}, "each once"),
        ({"strategies": {"all_R": {"RT": 1.0}}}, "expected a name of its own .* found 'all_R'"),
        ({"strategies": {" ": {"RT": 1.0}}}, "expected a name of its own"),
        ({"additional": ()}, "each once, found none"),
        ({"additional": (20_000,)}, r"within the population of 10,000 rows .* at most 9,900"),
        ({"additional": (1e99,)}, r"found 100 \+ 1e\+99; at most"),
        ({"base": 20_000}, "base: system 'all' has a population of 10,000 rows, found a base of 20,000"),
        ({"judge_structure": "fixed"}, "judge_structure: only model 'judge' has it"),
        ({"judge_rates": {"tpr_R": 0.9}}, "judge_rates: only model 'judge' has it"),
        ({"model": "graded"}, "theta_A, theta_T; found|unknown parameter of model 'graded'"),
        ({"costs": {"A": 1}}, "costs: A is free"),
        ({"base": 0}, "base: expected a whole number >= 1, found 0"),
        ({"replicates": 0}, "replicates: expected a whole number >= 1"),
        ({"budget": "money"}, "unknown budget 'money'"),
        ({"abstention": "some"}, "unknown abstention 'some'"),
        ({"costs": {"Q": 1}}, "unknown label in costs 'Q'"),
        ({"costs": {"R": -1}}, "costs: expected a number >= 0 for R"),
        ({"size": 0}, "size: expected a whole number"),
        ({"budget": "labels", "strategies": {"x": {"A": 1.0}}}, "cost nothing"),
        ({"budget": "labels", "size": 150, "additional": (60,), "strategies": ["R_then_T"]}, "lower the budget"),
    ],
)
def test_what_cannot_be_studied_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        allocation_study(QWEN, **QUICK | {"additional": (20,)} | options)


@pytest.mark.parametrize(
    ("R", "T", "message"),
    [
        ([0, 1, 1, 0], [1, None, 0, 0], r"^T is missing in row 2 \(counted from 1, .*label T there, leave those rows"),
        ([0, None, 1, None], [1, 0, None, 0], r"^R is missing in rows 2, 4 \("),
        ([0, 1, 1, 0], None, "^T is missing in every row: a population needs R, A, T of every row"),
        ([None, *[1, None] * 7], 0, r"^R is missing in rows 1, 3, 5, 7, 9 and 3 more \("),
    ],
)
def test_a_gap_is_told_by_its_rows(R, T, message):
    frame = pd.DataFrame({"R": R, "A": 0, "T": T})
    with pytest.raises(ValueError, match=message):
        allocation_study(frame, base=1, additional=(1,))


def test_rows_that_stand_for_none_are_counted_when_a_gap_is_told():
    frame = pd.DataFrame({"R": [1, 1, 0], "A": 0, "T": [1, 0, None], "count": [0, 5, 5]})
    with pytest.raises(ValueError, match=r"^T is missing in row 3 \("):
        allocation_study(frame, base=1, additional=(1,))


def test_T_of_an_abstention_may_be_left_empty():
    whole = pd.DataFrame({"system": ["x"] * 60 + ["y"] * 50, "R": [0, 1] * 55, "A": [0, 0, 1, 0, 1] * 22})
    whole["T"] = np.where(whole["A"] == 1, 0, [1, 1, 0, 0, 0] * 22)
    empty = whole.assign(T=whole["T"].astype("Int64").where(whole["A"] == 0))
    options = {"base": 10, "additional": (20,), "strategies": ["all_joint", "R_then_T"], **QUICK}
    one, other = (allocation_study(frame, **options).table for frame in (whole, empty))
    pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_yes_and_no_are_no_graded_retrieval():
    with pytest.raises(ValueError, match="'graded' needs R in levels such as fail, partial, success, found yes and no"):
        allocation_study(rat.example_labels(), model="graded", **QUICK)
    with pytest.raises(ValueError, match=r"expected 3 .*numbers .* for theta_R, found 0.5"):
        allocation_study({"theta_R": 0.5, "theta_A": [0.1] * 3, "theta_T": [0.1] * 3}, model="graded", **QUICK)


def test_pieces_are_kept_in_a_folder_only(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ValueError, match="out: expected a folder to keep finished pieces in, .*taken is a file"):
        allocation_study(QWEN, out=tmp_path / "taken", additional=(20,), **QUICK)


def test_wrong_parameters_are_named():
    with pytest.raises(ValueError, match="found no value for theta_T_plus"):
        allocation_study({k: v for k, v in QWEN.items() if k != "theta_T_plus"})
    with pytest.raises(ValueError, match=r"a number in \[0, 1\] for theta_R, found 1.5"):
        allocation_study(QWEN | {"theta_R": 1.5})
    with pytest.raises(ValueError, match="unknown parameter of model 'rat' 'theta_Q'"):
        allocation_study(QWEN | {"theta_Q": 0.5})
    assert rat.allocation_study is allocation_study
