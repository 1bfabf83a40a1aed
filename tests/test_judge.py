"""The judge model by NUTS: held to a Gibbs reference in every quantity, and to what judges can and cannot tell."""

import numpy as np
import pandas as pd
import pytest
from judge_reference import figures, gibbs, quantities, scalars
from judge_tables import (
    APERTUS,
    COLUMNS,
    CONTRARY,
    GOOD,
    PAPER,
    STRONG,
    TIMID,
    frame,
    simulated,
    ten_tables,
)

import rat_jax as rat
from rat_jax.inference.convergence import convergence

pytestmark = pytest.mark.chains

TEN = ten_tables()
RATES = {"tpr_R": 0.77, "fpr_R": 0.19, "tpr_T": 0.88, "fpr_T": 0.43}
SHORT = {"num_warmup": 400, "num_samples": 600, "on_failure": "keep"}
PRECISE = {"num_warmup": 500, "num_samples": 3000, "on_failure": "keep"}


def by_position(fit, system):
    """Draws of every scalar quantity [C, D] by (name, *position), as the reference names them."""
    found = {}
    for name in fit.quantities:
        draws = fit.draws(name, system=system)
        for at in np.ndindex(*draws.shape[2:]):
            found[name, *at] = draws[(slice(None), slice(None), *at)]
    return found


def disagreements(fit, sampled, system, number=4.5):
    """Scalar quantities whose mean or sd is more than `number` joint standard errors from the reference's."""
    ours, theirs = by_position(fit, system), scalars(quantities(sampled), sampled.systems.index(system))
    assert ours.keys() == theirs.keys()
    draws = np.stack(list(ours.values()))
    constant = draws.std(axis=(1, 2)) < 1e-9
    squares = (draws - draws.mean(axis=(1, 2), keepdims=True)) ** 2
    mean_error, square_error = (convergence(x[~constant]).mcse_mean for x in (draws, squares))
    bad, precise = [], 0
    for key in np.array(list(ours), dtype=object)[constant]:
        if abs(ours[tuple(key)].mean() - theirs[tuple(key)].mean()) > 1e-7:
            bad.append(f"{key} is a constant, and another")
    varying = [key for key, same in zip(ours, constant, strict=True) if not same]
    for key, mean_se, square_se in zip(varying, mean_error, square_error, strict=True):
        truth, sd = figures(theirs[key]), ours[key].std()
        off = abs(ours[key].mean() - truth.mean) / np.hypot(mean_se, truth.mean_se)
        wide = abs(sd - truth.sd) / np.hypot(square_se / (2 * sd), truth.sd_se)
        precise += np.hypot(mean_se, truth.mean_se) < 0.08 * truth.sd
        if max(off, wide) > number:
            bad.append(f"{key}: mean {ours[key].mean():.4f} against {truth.mean:.4f}, sd {sd:.4f}, {truth.sd:.4f}")
    assert precise == len(varying), "too few effective draws to tell"
    return bad


# -- against the reference -----------------------------------------------------------------------------

OPPOSITE = [(r, a, t, 1 - rj, 1 - tj, n) for r, a, t, rj, tj, n in TEN["worse than chance"]]
UNCHECKED = simulated(TIMID, GOOD, [(200, ".A.RT")], 21)


@pytest.fixture(scope="module")
def joint():
    """The ten tables and two that tests below ask about, as systems of one fit."""
    systems = TEN | {"its mirror image": OPPOSITE, "nothing human": UNCHECKED}
    return rat.fit(frame(systems), model="judge", seed=4, **SHORT | {"num_samples": 700, "num_chains": 3})


@pytest.fixture(scope="module")
def joint_reference():
    return gibbs(TEN, COLUMNS, chains=32, burn=250, draws=400, seed=5)


@pytest.mark.parametrize("system", TEN)
def test_joint_judge_agrees_with_the_reference(joint, joint_reference, system):
    assert not disagreements(joint, joint_reference, system)


def test_states_and_verdicts_are_named_in_the_order_of_the_reference(joint):
    table = joint.data["judge"]
    codes = {dim: ["".join(filter(str.isdigit, name)) for name in table[dim].values] for dim in ("state", "verdict")}
    assert codes == {"state": "000 001 010 100 101 110".split(), "verdict": "00 01 10 11".split()}


THREE = {
    "gaps": simulated(TIMID, PAPER, [(60, "RATRT"), (60, "RA.RT"), (40, "R..R."), (60, ".AT.T"), (150, ".A.RT")], 11),
    "lopsided": simulated(STRONG, GOOD, [(90, "RATRT"), (240, ".A.RT")], 12),
    "contrary": simulated(APERTUS, CONTRARY, [(120, "RATRT"), (120, "..TR."), (60, ".A.RT")], 13),
}


def test_known_rates_agree_with_the_reference():
    fit = rat.fit(frame(THREE), model="judge", judge_structure="fixed", judge_rates=RATES, seed=6, **SHORT)
    sampled = gibbs(THREE, COLUMNS, "fixed", rates=RATES, chains=32, burn=200, draws=300, seed=7)
    assert not {name: bad for name in THREE if (bad := disagreements(fit, sampled, name))}


SHARING = {
    "checked": simulated(TIMID, PAPER, [(150, "RATRT"), (100, ".A.RT")], 14),
    "judged": simulated(STRONG, PAPER, [(3, "RATRT"), (200, ".A.RT"), (20, "...R.")], 15),
}


def test_rates_by_abstention_shared_by_two_systems_agree_with_the_reference():
    """The second system has hardly a human label: what is known of the judge comes from the first."""
    options = {"judge_structure": "by_abstention", "judge_shared": True}
    fit = rat.fit(frame(SHARING), model="judge", seed=8, **options, **SHORT)
    sampled = gibbs(SHARING, COLUMNS, "by_abstention", shared=True, chains=32, burn=250, draws=400, seed=9)
    assert not {name: bad for name in SHARING if (bad := disagreements(fit, sampled, name))}
    assert np.array_equal(*(fit.draws("tpr_R_answered", system=name) for name in SHARING))


TWO_JUDGES = ("R_J.first", "T_J.first", "T_J.second")


def rows_of_two_judges():
    rng = np.random.default_rng(16)
    rows = []
    for *labels, count in simulated(STRONG, GOOD, [(100, "RATRT"), (150, ".A.RT"), (60, ".A.R."), (40, "RA..T")], 17):
        for _ in range(count):
            says = None if rng.random() < 0.3 else int(rng.random() < (0.7 if labels[4] else 0.4))
            rows.append((*labels, says, 1))
    return {"all": rows}


@pytest.mark.parametrize("structure", ["factorized", pytest.param("joint", marks=pytest.mark.slow)])
def test_two_judges_agree_with_the_reference(structure):
    systems = rows_of_two_judges()
    fit = rat.fit(frame(systems, TWO_JUDGES), model="judge", judge_structure=structure, seed=10, **SHORT)
    sampled = gibbs(systems, TWO_JUDGES, structure, chains=32, burn=250, draws=400, seed=11)
    assert not disagreements(fit, sampled, "all")


@pytest.mark.slow
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("structure", ["joint", "factorized", "by_abstention", "fixed"])
def test_every_table_under_every_structure_agrees_with_the_reference(structure, shared):
    """Eighty posteriors, more precisely than in the short run."""
    options = {"rates": RATES if structure == "fixed" else None, "shared": shared}
    judge = {"judge_structure": structure, "judge_shared": shared, "judge_rates": options["rates"]}
    fit = rat.fit(frame(TEN), model="judge", num_samples=2000, seed=12, on_failure="keep", **judge)
    sampled = gibbs(TEN, COLUMNS, structure, chains=48, burn=300, draws=600, thin=2, seed=13, **options)
    assert not {name: bad for name in TEN if (bad := disagreements(fit, sampled, name, 5.0))}


# -- what a judge is worth -----------------------------------------------------------------------------

PIPELINE = ("p_R", "p_A", "p_T", "p_G")
APART = TEN["human and judge on different rows"]


def without_verdicts(table):
    return table.drop(columns=list(COLUMNS))


def assert_same_answers(judged, plain, system):
    """Means within Monte Carlo error, widths within 3 %: of the sd, which chains settle sooner than an interval."""
    ours, theirs = judged.summary().loc[system], plain.summary().loc[system]
    for name in PIPELINE:
        a, b = ours.loc[name], theirs.loc[name]
        assert abs(a["mean"] - b["mean"]) < 4.5 * np.hypot(a["mcse_mean"], b["mcse_mean"]), name
        assert a["sd"] == pytest.approx(b["sd"], rel=0.03), name


@pytest.mark.slow
def test_a_judge_known_to_guess_leaves_the_answers_of_the_same_rows_without_it():
    """TPR = FPR makes every verdict as probable in all states: the likelihood is that of the other labels."""
    guess = {"tpr_R": 0.6, "fpr_R": 0.6, "tpr_T": 0.3, "fpr_T": 0.3}
    table = frame({"all": simulated(TIMID, PAPER, [(120, "RATRT"), (400, ".A.RT"), (40, "..TRT")], 18)})
    judged = rat.fit(table, model="judge", judge_structure="fixed", judge_rates=guess, seed=14, **PRECISE)
    assert_same_answers(judged, rat.fit(without_verdicts(table)), "all")


@pytest.fixture(scope="module")
def guessing_and_unchecked():
    """With their verdicts and without: a judge that answers alike in every state, and one nobody has checked."""
    human = [(0, 0, 0, 14), (0, 0, 1, 6), (0, 1, 0, 20), (1, 0, 0, 8), (1, 0, 1, 30), (1, 1, 0, 4)]
    said = [(0, 0, 1), (0, 1, 2), (1, 0, 3), (1, 1, 4)]
    rows = [(*labels, *verdict, count * times) for *labels, count in human for *verdict, times in said]
    rows += [(None, a, None, *verdict, 12 * times) for a in (0, 1) for *verdict, times in said]
    table = frame({"guessing": rows, "unchecked": APART})
    return rat.fit(table, model="judge", seed=15, **PRECISE), rat.fit(without_verdicts(table))


def test_a_judge_that_is_found_to_guess_leaves_the_answers_of_the_same_rows_without_it(guessing_and_unchecked):
    assert_same_answers(*guessing_and_unchecked, "guessing")


def test_rows_of_a_judge_nobody_checked_add_hardly_anything_beyond_their_abstentions(guessing_and_unchecked):
    """Whatever such a judge says is put down to its unknown errors."""
    ours, plain = (fit.summary().loc["unchecked"] for fit in guessing_and_unchecked)
    for name in PIPELINE:
        a, b = ours.loc[name], plain.loc[name]
        assert abs(a["mean"] - b["mean"]) < 0.2 * b["sd"] + 4.5 * a["mcse_mean"], name
        assert a["sd"] == pytest.approx(b["sd"], rel=0.05), name


def test_a_judge_worse_than_chance_is_as_good_as_its_mirror_image(joint):
    """Calling every verdict its opposite changes nothing but the judge's own rates."""
    ours, theirs = (joint.summary().loc[system] for system in ("worse than chance", "its mirror image"))
    assert ours.loc["youden_R", "q97.5"] < 0 < theirs.loc["youden_R", "q2.5"]
    signs = {"p_G": 1, "p_T": 1, "p_R": 1, "youden_R": -1, "youden_T": -1}
    for name, sign in signs.items():
        error = np.hypot(ours.loc[name, "mcse_mean"], theirs.loc[name, "mcse_mean"])
        assert abs(ours.loc[name, "mean"] - sign * theirs.loc[name, "mean"]) < 4.5 * error, name


@pytest.mark.parametrize("system", ["judged rows are most", "worse than chance"])
def test_verdicts_narrow_what_they_speak_of_better_and_worse_than_chance(joint, system):
    plain = rat.fit(without_verdicts(frame({system: TEN[system]}))).summary().loc[system]
    for name in ("p_R", "p_T", "p_G"):
        assert joint.summary().loc[(system, name), "sd"] < 0.95 * plain.loc[name, "sd"], name


# -- what the labels inform ----------------------------------------------------------------------------

RATE_NAMES = ("tpr_R", "fpr_R", "tpr_T", "fpr_T", "youden_R", "youden_T")


def test_human_and_judge_on_different_rows_do_not_say_how_the_judge_errs(joint):
    """The false positive rates may be bounded by how rarely the judge says 1 at all; that is all there is."""
    informed = joint.diagnostics.informed
    rates = [name for name in RATE_NAMES if not name.startswith("fpr")]
    assert not [name for name in rates if informed["human and judge on different rows", name]]
    assert all(informed["human and judge on different rows", name] for name in (*PIPELINE, "p_RJ", "p_TJ"))


def test_human_and_judge_on_the_same_rows_inform_everything(joint):
    informed = joint.diagnostics.informed
    assert all(informed["judged rows are most", name] for name in (*RATE_NAMES, *PIPELINE, "p_RJ", "p_TJ"))


def test_without_any_human_label_only_what_was_seen_is_informed(joint):
    informed = joint.diagnostics.informed
    assert not [name for name in ("p_R", "p_T", "p_G", *RATE_NAMES) if informed["nothing human", name]]
    assert all(informed["nothing human", name] for name in ("p_A", "p_RJ", "p_TJ"))


# -- what must not matter ------------------------------------------------------------------------------


SAME_SHAPE = frame({"gaps": THREE["gaps"], "lopsided": THREE["lopsided"]})


def short_draws(table):
    """As many systems, patterns and warm-up steps as a fit above has: nothing is compiled again."""
    fit = rat.fit(table, model="judge", seed=17, **PRECISE | {"num_samples": 10})
    return fit.data["p_G"].to_numpy()


def test_order_and_repetition_of_rows_change_no_draw():
    repeated = SAME_SHAPE.loc[SAME_SHAPE.index.repeat(SAME_SHAPE["count"].astype(int))].drop(columns="count")
    shuffled = repeated.sample(frac=1.0, random_state=1)
    assert np.array_equal(short_draws(SAME_SHAPE), short_draws(shuffled))


def test_order_of_systems_and_columns_changes_no_draw():
    assert np.array_equal(short_draws(SAME_SHAPE), short_draws(SAME_SHAPE.iloc[::-1, ::-1]))


def test_a_judge_that_says_nothing_is_no_part_of_the_model():
    assert np.array_equal(short_draws(SAME_SHAPE), short_draws(SAME_SHAPE.assign(**{"T_J.silent": pd.NA})))
