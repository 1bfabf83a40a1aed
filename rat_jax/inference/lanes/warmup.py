"""Warm-up of lanes: each finds its own step size and scales, as Stan does, at its own pace.

Step sizes by dual averaging; scales from the variance of the draws in windows of growing length. A scale is kept in
the lane's coordinates, so that momenta are always standard normal. A lane that has done its warm-up is remembered as it
was at that moment and moves on unheeded until the last one is done: what is sampled does not depend on its neighbours.

Source: Hoffman and Gelman (JMLR 2014), section 3.2; the windows of the Stan reference manual, section 15.2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.infer.hmc_util import build_adaptation_schedule

from rat_jax.inference.lanes.transition import END, Drawn, Lanes

GAMMA, DELAY, KAPPA = 0.05, 10.0, 0.75
"""Of dual averaging, as in Stan."""

FIRST_STEP_SIZE = 1.0
PULL = 5.0  # draws that the guess of a variance is worth, as in Stan
MOST_WINDOWS = 24


class Schedule(NamedTuple):
    """When scales are learned: warm-up draws [first, last), and the draws that close a window, padded with -1; and the
    acceptance that each lane aims at and the variance that its scales are pulled towards [L]."""

    first: Any
    last: Any
    closing: Any
    num_warmup: Any
    target: Any
    guess: Any


class Adaptation(NamedTuple):
    """What each lane has learned: `done` warm-up draws [L], step size by dual averaging [L], and the running mean and
    squares of the positions of a window [D, L]; `scale` [D, L] is the present one.

    kept: position, scale and step size at the end of the lane's warm-up.
    """

    done: Array
    log_step: Array
    averaged: Array
    error: Array
    count: Array
    anchor: Array
    drawn: Array
    mean: Array
    squares: Array
    scale: Array
    kept: tuple[Array, Array, Array]


def schedule(num_warmup: int, target: np.ndarray, guess: np.ndarray) -> Schedule:
    """The windows for a number of warm-up draws, and what each lane aims at and is pulled towards [L]."""
    windows = build_adaptation_schedule(num_warmup)
    slow = windows[1:-1] if len(windows) > 1 else []
    closing = np.full(MOST_WINDOWS, -1, np.int32)
    closing[: len(slow)] = [w.end for w in slow]
    first, last = (slow[0].start, slow[-1].end + 1) if slow else (0, 0)
    return Schedule(np.int32(first), np.int32(last), closing, np.int32(num_warmup), target, guess)


def begin_adaptation(scale: Array) -> Adaptation:
    """Nothing learned yet, from these scales [D, L]."""
    dim, num_lanes = scale.shape
    flat, wide = jnp.zeros(num_lanes, scale.dtype), jnp.zeros_like(scale)
    log_step = flat + np.log(FIRST_STEP_SIZE)
    return Adaptation(
        jnp.full(num_lanes, -1, jnp.int32), log_step, flat, flat, flat, log_step + np.log(10.0), flat, wide, wide,
        scale, (wide, scale, jnp.exp(log_step)),
    )  # fmt: skip


def adapt(plan: Schedule, lanes: Lanes, drawn: Drawn, state: Adaptation) -> tuple[Lanes, Adaptation]:
    """Learn from the draws that are done, and give the lanes that begin a new one their new scale."""
    ended = (drawn.code & END) != 0
    number = state.done  # of the draw that has just ended; -1 for the start
    learns = ended & (number >= 0) & (number < plan.num_warmup)
    closes = learns & jnp.any(plan.closing[:, None] == number, axis=0)

    acceptance = drawn.acceptance / jnp.maximum(drawn.leaves, 1).astype(drawn.acceptance.dtype)
    count = state.count + 1
    error = state.error + (plan.target - acceptance - state.error) / (count + DELAY)
    log_step = state.anchor - jnp.sqrt(count) / GAMMA * error
    weight = count**-KAPPA
    averaged = (1 - weight) * state.averaged + weight * log_step

    in_window = learns & (number >= plan.first) & (number < plan.last)
    z, g = drawn.choice.z, drawn.choice.g
    drawn_so_far = state.drawn + 1
    away = z - state.mean
    mean = state.mean + away / drawn_so_far
    squares = state.squares + away * (z - mean)
    n = drawn_so_far
    variance = (n * squares / jnp.maximum(n - 1, 1) + PULL * plan.guess) / (n + PULL)
    factor = jnp.where(closes, jnp.sqrt(variance), 1.0)
    scale = state.scale * factor
    lanes = lanes._replace(tree=drawn.choice._replace(z=z / factor, g=g * factor))

    select = lambda condition, new, old: jnp.where(condition, new, old)  # noqa: E731
    restart = lambda new, old: jnp.where(closes, jnp.zeros_like(old), select(in_window, new, old))  # noqa: E731
    settled = select(closes, jnp.zeros_like(count), select(learns, count, state.count))
    finished = learns & (number == plan.num_warmup - 1)
    final = jnp.exp(averaged)
    kept = (
        select(finished, lanes.tree.z, state.kept[0]),
        select(finished, scale, state.kept[1]),
        select(finished, final, state.kept[2]),
    )
    new = Adaptation(
        done=number + ended,
        log_step=select(closes, averaged, select(learns, log_step, state.log_step)),
        averaged=select(closes, jnp.zeros_like(averaged), select(learns, averaged, state.averaged)),
        error=select(closes, jnp.zeros_like(error), select(learns, error, state.error)),
        count=settled,
        anchor=select(closes, averaged + np.log(10.0), state.anchor),
        drawn=restart(drawn_so_far, state.drawn),
        mean=restart(mean, state.mean),
        squares=restart(squares, state.squares),
        scale=scale,
        kept=kept,
    )
    return lanes, new
