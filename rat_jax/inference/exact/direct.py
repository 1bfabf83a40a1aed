"""Independent posterior draws without any table, for labels whose likelihood is a product of Beta likelihoods.

Settled counts, priors and posterior means come in, draws go out. Rows that miss R but show A and T factor as P(A, T)
times P(R | A, T); rows that miss R and T, beside others that show R wherever they show T, factor as P(A) P(R | A)
P(T | R, A). Either way the data give five independent Betas; the RAT priors, written that way round, are not quite
Betas, and a draw is accepted with the ratio of the two, which is near one. Every accepted draw is an independent draw
from the posterior itself.

The ratio: in terms of the state probabilities pi, Beta priors along R -> A -> T are powers of the pi times
powers of P(R=r) and, in the first form, P(R=r, A=0). A negative power of a sum of pi is bounded by powers of the pi
(weighted arithmetic and geometric means), with equality at chosen shares; what is lost is exp(-KL(shares || theta)).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import xlogy

from rat_jax.inference.exact.split_rows import Scratch
from rat_jax.inference.exact.splits import A_MINUS, A_PLUS, T_MINUS, T_PLUS, R, Splits

Array = NDArray[np.float64]

LOWEST_RATE = 0.8
"""Below this expected share of accepted proposals the tables are faster."""

LOWEST_ALONE = 0.25
"""The same where the tables would be too large."""

LEAST_SHAPE = 0.05
"""Smallest Beta parameter to propose with: gammas of smaller shapes are zero too often."""

GUESS_STEPS = 25
"""Iterations of expectation maximisation behind a guess."""

AT_ONCE, SPARE = 8192, 64
"""Most proposals made together, and how many more than expected to be needed."""


@dataclass(frozen=True)
class DirectPlan:
    """What to propose and how to accept.

    correctness_last: which variables the proposals are Betas of. True: P(A) P(R | A) P(T | R, A); False: P(A, T)
    P(R | A, T). shape: [5, 2], Beta parameters, value 1 first. If correctness_last, of P(A=1), of P(R=1 | A) for A=1
    and A=0, and of theta_T_minus and theta_T_plus; else of P(A=1), P(T=1 | A=0) and P(R=1 | cell) for the cells A=1,
    wrong answer, right answer. target, strength: [4], shares and weights of the loss sum strength * KL(target || theta)
    for theta_A_minus, theta_A_plus, theta_T_minus, theta_T_plus. rate: about how many proposals are accepted.
    """

    correctness_last: bool
    shape: Array
    target: Array
    strength: Array
    rate: float


def plan_direct(
    splits: Splits, prior: Array, state_mean: Array, theta_var: Array, lowest_rate: float | None = None
) -> DirectPlan | None:
    """The plan for one data set, or None where the data or the priors do not allow it.

    prior: [5, 2]; state_mean [6] and theta_var [5]: posterior moments, which only steer how many proposals
    are accepted. lowest_rate: the expected share below which there is no plan, LOWEST_RATE by default. Where both
    factorizations apply, the one with T last loses less: its loss is a part of the other's.
    """
    if any(splits.unsure) or splits.abstained + splits.not_abstained == 0:
        return None
    lowest_rate = LOWEST_RATE if lowest_rate is None else lowest_rate
    if splits.wrong + splits.right:
        plan = _plan_retrieval_last(splits, prior, state_mean, theta_var)
    else:
        plan = _plan_correctness_last(splits, prior, state_mean)
    return plan if plan is not None and plan.rate > lowest_rate else None


def plan_without_tables(splits: Splits, prior: Array) -> DirectPlan | None:
    """The plan for a data set whose size does not matter: draws and moments of R and A need no split tables.

    None where some row shows T without R, or T=0 without A, where all labels are settled, and where the priors make
    proposals futile.
    """
    if splits.wrong + splits.right:
        return None
    return plan_direct(splits, prior, *guess_moments(splits, prior), LOWEST_ALONE)


def _powers_of_retrieval(splits: Splits, prior: Array) -> Array:
    """Powers of P(R=0) and P(R=1) left over in the density of the state probabilities: [2]."""
    rows, arms = splits.settled.astype(np.float64), slice(A_MINUS, A_PLUS + 1)
    return prior[R, ::-1] - prior[arms].sum(axis=1) + rows[R, ::-1] - rows[arms].sum(axis=1)


def _plan_retrieval_last(splits: Splits, prior: Array, state_mean: Array, theta_var: Array) -> DirectPlan | None:
    """The plan for P(A, T) P(R | A, T), whatever its rate; None where rows or priors leave positive powers."""
    rows = splits.settled.astype(np.float64)
    arms, answers = slice(A_MINUS, A_PLUS + 1), slice(T_MINUS, T_PLUS + 1)
    power_r = _powers_of_retrieval(splits, prior)
    power_a = prior[arms, 1] - prior[answers].sum(axis=1) + rows[arms, 1] - rows[answers].sum(axis=1)
    if np.any(power_r > 0) or np.any(power_a > 0):
        return None
    wrong, right, abstain = state_mean.reshape(2, 3).T
    target_a, target_t = abstain / (wrong + right + abstain), right / (wrong + right)
    strength_t = -power_a - power_r * (1 - target_a)
    after = prior + rows
    pi_abstain = after[arms, 0] + power_r * target_a
    pi_right, pi_wrong = after[answers, 0] - strength_t * target_t, after[answers, 1] - strength_t * (1 - target_t)
    if min(pi_abstain.min(), pi_right.min(), pi_wrong.min()) < LEAST_SHAPE:
        return None
    all_right, all_wrong = pi_right.sum() + splits.right, pi_wrong.sum() + splits.wrong
    shape = np.empty((5, 2))
    shape[0] = pi_abstain.sum() + splits.abstained, all_right + all_wrong + splits.answered
    shape[1] = all_right, all_wrong
    shape[2], shape[3], shape[4] = pi_abstain[::-1], pi_wrong[::-1], pi_right[::-1]
    target, strength = np.concatenate([target_a, target_t]), np.concatenate([-power_r, strength_t])
    lost = strength @ (theta_var[1:] / (2 * target * (1 - target))) + _lost_gammas(shape)
    return DirectPlan(False, shape, target, strength, float(np.exp(-lost)))


def _plan_correctness_last(splits: Splits, prior: Array, state_mean: Array) -> DirectPlan | None:
    """The plan for P(A) P(R | A) P(T | R, A), whatever its rate; None where rows or priors leave positive powers."""
    power_r = _powers_of_retrieval(splits, prior)
    after = prior + splits.settled
    arms, answers = after[A_MINUS : A_PLUS + 1], after[T_MINUS : T_PLUS + 1]
    if np.any(power_r > 0) or np.any(arms.sum(axis=1) + power_r < 2 * LEAST_SHAPE) or answers.min() < LEAST_SHAPE:
        return None
    strength = np.maximum(-power_r, 1e-12)
    wrong, right, abstain = state_mean.reshape(2, 3).T
    theta_a = abstain / (wrong + right + abstain)
    # any shares will do; these keep what is left of each parameter large enough, which the sums above allow
    most, least = (arms[:, 0] - LEAST_SHAPE) / strength, 1 - (arms[:, 1] - LEAST_SHAPE) / strength
    target = np.clip(np.minimum(np.maximum(theta_a, least), most), 1e-9, 1 - 1e-9)
    pi_abstain, pi_answer = arms[:, 0] + power_r * target, arms[:, 1] + power_r * (1 - target)
    shape = np.empty((5, 2))
    shape[0] = pi_abstain.sum() + splits.abstained, pi_answer.sum() + splits.answered
    shape[1], shape[2], shape[3:] = pi_abstain[::-1], pi_answer[::-1], answers
    # for a normal logit of theta_A, with the variance that proposals give it
    share = shape[:3] / shape[:3].sum(axis=1, keepdims=True)
    logit_var = (1 / shape[0]).sum() + (share[1:, ::-1] / shape[1:3]).sum(axis=0)[::-1]
    kept = 1 / np.sqrt(1 - power_r * target * (1 - target) * logit_var)
    lost = -power_r @ _divergence(target, theta_a) + _lost_gammas(shape)
    whole = np.concatenate([target, [0.5, 0.5]])
    return DirectPlan(True, shape, whole, np.append(-power_r, [0.0, 0.0]), float(kept.prod() * np.exp(-lost)))


def _lost_gammas(shape: Array) -> float:
    """About how many proposals Marsaglia and Tsang's method refuses."""
    return float((1 / (36 * np.maximum(shape, 1))).sum())


def guess_moments(splits: Splits, prior: Array) -> tuple[Array, Array]:
    """State probabilities [6] and theta variances [5] near the posterior's, by expectation maximisation.

    Good enough for `plan_direct`, where they only steer how many proposals are accepted, and a tenth of the
    time of the exact ones.
    """
    known = (prior + splits.settled).tolist()
    completed = [row[:] for row in known]
    for _ in range(GUESS_STEPS):
        r, a0, a1, t0, t1 = (yes / (yes + no) for yes, no in completed)
        abstained = splits.abstained * _odds(r * a1, (1 - r) * a0)
        in1, in0 = r * (1 - a1), (1 - r) * (1 - a0)
        right = splits.right * _odds(in1 * t1, in0 * t0)
        wrong = splits.wrong * _odds(in1 * (1 - t1), in0 * (1 - t0))
        answered = right + wrong + splits.answered * _odds(in1, in0)
        gained = [
            (abstained + answered, splits.abstained + splits.not_abstained - abstained - answered),
            (splits.abstained - abstained, splits.not_abstained - answered),
            (abstained, answered),
            (splits.right - right, splits.wrong - wrong),
            (right, wrong),
        ]
        completed = [[a + x, b + y] for (a, b), (x, y) in zip(known, gained, strict=True)]
    yes, no = np.array(completed).T
    r, a0, a1, t0, t1 = theta = yes / (yes + no)
    arms = [((1 - r) * a0, (1 - r) * (1 - a0), t0), (r * a1, r * (1 - a1), t1)]
    states = np.array([(answer * (1 - t), answer * t, abstain) for abstain, answer, t in arms]).ravel()
    return states, theta * (1 - theta) / (yes + no + 1)


def _odds(one: float, other: float) -> float:
    return one / (one + other)


def fill_direct(
    plan: DirectPlan, draws: Array, rng: np.random.Generator, scratch: Scratch, lowest_rate: float = 0.0
) -> bool:
    """Fill draws [D, 5] with independent posterior draws; False, and nothing usable, if fewer proposals than
    `lowest_rate` are accepted."""
    filled = 0
    while filled < len(draws):
        proposals = min(int((len(draws) - filled) / plan.rate) + SPARE, AT_ONCE)
        found = _propose(plan, proposals, rng, scratch)
        if found.shape[1] < lowest_rate * proposals:
            return False
        take = min(found.shape[1], len(draws) - filled)
        draws[filled : filled + take] = found[:, :take].T
        filled += take
    return True


def _propose(plan: DirectPlan, proposals: int, rng: np.random.Generator, scratch: Scratch) -> Array:
    """Accepted draws of the thetas among some proposals: [5, accepted]."""
    gammas, y, gamma_loss = _propose_gammas(plan.shape.reshape(10), proposals, rng, scratch)
    accept = rng.random(proposals)
    to_thetas = _thetas_correctness_last if plan.correctness_last else _thetas_retrieval_last
    thetas = to_thetas(gammas.reshape(5, 2, proposals), scratch)
    # KL(target || theta) <= (target - theta)^2 / (theta (1 - theta)), which settles most proposals without logarithms
    away, room = (scratch.array(name, 4, proposals) for name in ("away", "room"))
    np.subtract(thetas[1:], plan.target[:, None], out=away)
    away *= away
    np.subtract(1.0, thetas[1:], out=room)
    room *= thetas[1:]
    np.maximum(room, 1e-30, out=room)  # a refused gamma may put a theta outside its range: never settled here
    away /= room
    np.minimum(away, 1e30, out=away)  # 0 * inf in the next line would be NaN
    kept = accept < 1 - gamma_loss - plan.strength @ away
    # most others are settled by the exact loss alone: the gammas' probability lies between 1 - gamma_loss and 1
    unsure = np.flatnonzero(~kept)
    ratio = np.exp(-plan.strength @ _divergence(plan.target[:, None], thetas[1:, unsure]))
    kept[unsure] = accept[unsure] < ratio * (1 - gamma_loss[unsure])
    last = ~kept[unsure] & (accept[unsure] < ratio)
    unsure, ratio = unsure[last], ratio[last]
    shape = plan.shape.reshape(10, 1)
    kept[unsure] = accept[unsure] < ratio * np.exp(log_gamma_rate(shape + (shape < 1), y[:, unsure]).sum(axis=0))
    return thetas.take(np.flatnonzero(kept), axis=1)


def _propose_gammas(
    shape: Array, proposals: int, rng: np.random.Generator, scratch: Scratch
) -> tuple[Array, Array, Array]:
    """Proposed Gamma(shape[j]) variables [J, n], their c x [J, n], and a bound on the probability of refusal
    [n].

    Marsaglia and Tsang (ACM TOMS 26, 2000); shapes below one are raised by one and scaled by a power of a
    uniform.
    """
    small = np.flatnonzero(shape < 1)
    d = shape + (shape < 1) - 1 / 3
    y, gammas, fourth = (scratch.array(name, shape.size, proposals) for name in ("y", "gammas", "fourth"))
    rng.standard_normal(out=y)
    y *= (1 / np.sqrt(9 * d))[:, None]
    np.multiply(y, y, out=fourth)
    fourth *= fourth
    loss = (1.05 * d) @ fourth  # see log_gamma_rate
    fourth *= fourth
    loss += (3.6 * d) @ fourth
    np.add(y, 1.0, out=gammas)
    np.multiply(gammas, gammas, out=fourth)
    gammas *= fourth
    gammas *= d[:, None]
    for row in small:
        gammas[row] *= rng.random(proposals) ** (1 / shape[row])
    return gammas, y, loss


def log_gamma_rate(shape: Array, y: Array) -> Array:
    """Log of the probability with which d (1 + y)^3, d = shape - 1/3, is accepted; minus infinity for y <=
    -1.

    With d >= 2/3 that probability is at least 1 - d (1.05 y^4 + 3.6 y^8), or the latter is negative.
    """
    d = shape - 1 / 3
    inside = np.maximum(y, -1 + 1e-12)
    rate = d * (4.5 * inside * inside + 1 - (1 + inside) ** 3 + 3 * np.log1p(inside))
    return np.where(y > -1, rate, -np.inf)


def _thetas_retrieval_last(gammas: Array, scratch: Scratch) -> Array:
    """The five thetas [5, n] from pairs of gammas [5, 2, n] for the Betas of P(A, T) P(R | A, T)."""
    (abstain, answer), (right, wrong) = gammas[:2] / gammas[:2].sum(axis=1, keepdims=True)
    cell = np.stack([abstain, answer * wrong, answer * right])
    split = gammas[2:] * (cell / gammas[2:].sum(axis=1))[:, None]  # both parts, since one minus the other loses digits
    (abstain1, abstain0), (wrong1, wrong0), (right1, right0) = split
    answer1, answer0 = wrong1 + right1, wrong0 + right0
    thetas = _thetas_of_r_and_a(abstain0, answer0, abstain1, answer1, scratch)
    np.divide(right0, answer0, out=thetas[T_MINUS])
    np.divide(right1, answer1, out=thetas[T_PLUS])
    return thetas


def _thetas_correctness_last(gammas: Array, scratch: Scratch) -> Array:
    """The five thetas [5, n] from pairs of gammas [5, 2, n] for the Betas of P(A) P(R | A) P(T | R, A)."""
    of_a = gammas[0] / gammas[0].sum(axis=0)
    split = gammas[1:3] * (of_a / gammas[1:3].sum(axis=1))[:, None]
    (abstain1, abstain0), (answer1, answer0) = split
    thetas = _thetas_of_r_and_a(abstain0, answer0, abstain1, answer1, scratch)
    np.divide(gammas[3:, 0], gammas[3:].sum(axis=1), out=thetas[T_MINUS:])
    return thetas


def _thetas_of_r_and_a(abstain0: Array, answer0: Array, abstain1: Array, answer1: Array, scratch: Scratch) -> Array:
    """The thetas [5, n] with those of R and A filled in, from the probabilities of (A, R)."""
    thetas = scratch.array("thetas", 5, abstain0.size)
    np.add(abstain1, answer1, out=thetas[R])
    np.divide(abstain0, abstain0 + answer0, out=thetas[A_MINUS])
    np.divide(abstain1, thetas[R], out=thetas[A_PLUS])
    return thetas


def _divergence(target: Array, theta: Array) -> Array:
    """KL divergence of Bernoulli(theta) from Bernoulli(target); huge where theta is 0 or 1, or outside."""
    entropy = xlogy(target, target) + xlogy(1 - target, 1 - target)
    inside = np.clip(theta, 1e-300, 1 - 1e-16)
    value = entropy - target * np.log(inside) - (1 - target) * np.log(1 - inside)
    return np.where(inside == theta, value, 1e30)  # not inf, which times no strength at all would be NaN
