"""Draws of many chains by the lane transition: warm-up, then steps until every lane has its draws.

Lanes run in batches of a few fixed sizes, one compiled program per size, and batches run beside each other in as many
threads as there are processors: compiled programs do not hold Python's lock. A lane's numbers depend on its own data,
start and key, not on its neighbours or on where its batch ran.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from rat_jax.inference.lanes.potentials import with_scale
from rat_jax.inference.lanes.transition import DIVERGED, END, Drawn, Lanes, Potential, begin, leap, settle
from rat_jax.inference.lanes.warmup import Adaptation, Schedule, adapt, begin_adaptation, schedule
from rat_jax.inference.settings import MAX_TREE_DEPTH, Settings, processors

SIZES = (8, 32, 128, 256)
"""Lanes of a batch: the smallest that lets all processors work, multiples of a vector register."""

STEPS = 256
"""Leapfrogs per compiled call while sampling: the grain of progress and the size of the buffer."""

SECOND_KEY = np.uint32(0x9E3779B9)  # the draws' randomness must not repeat that of the warm-up


class Chains(NamedTuple):
    """Draws of L lanes, N each, [L, N, ...], and statistics [L, N] by ArviZ's names."""

    draws: np.ndarray
    stats: dict[str, np.ndarray]


class Work(NamedTuple):
    """Lanes to be sampled: data whose leaves end with the lane axis unless `fixed`, positions [D, L], keys [2, L]."""

    data: Any
    position: np.ndarray
    keys: np.ndarray


def sample_lanes(
    potential: Potential,
    work: Callable[[np.ndarray], Work],
    num_lanes: int,
    settings: Settings,
    target: float,
    report: Callable[[int, int], None],
    max_depth: int = MAX_TREE_DEPTH,
    precision: str = "float32",
    finish: Callable[[np.ndarray], np.ndarray] = lambda logits: np.moveaxis(logits, 0, -1),
) -> Chains:
    """NUTS for all lanes.

    work: the data, starts and keys of the lanes at given positions. target: acceptance that step sizes aim at.
    report: called with (draws done, draws in all), from any thread but one at a time.
    precision: "float32" or "float64", of what `work` gives.
    finish: what is kept [L, N, ...] of the logits [D, L, N] of a batch.
    """
    workers = processors()
    batches = _batches(num_lanes, workers)
    total, done, lock = len(batches) * (settings.num_warmup + settings.num_samples), [0], threading.Lock()

    def advance(draws: int) -> None:
        with lock:
            done[0] += draws
            report(done[0], total)

    in_precision = partial(jax.enable_x64, precision == "float64")  # a setting of each thread
    with in_precision():
        first = work(batches[0])
        _compile(potential, max_depth, first, in_precision)

    def one(lanes: np.ndarray) -> Chains:
        with in_precision():
            given = first if lanes is batches[0] else work(lanes)
            draws, stats = _run(potential, given, settings, target, max_depth, advance)
            return Chains(finish(draws), stats)

    pool = ThreadPoolExecutor(min(workers, len(batches)))
    try:
        parts = list(pool.map(one, batches))
    finally:
        pool.shutdown(cancel_futures=True)
    return jax.tree.map(lambda *xs: np.concatenate(xs)[:num_lanes], *parts)


def _batches(num_lanes: int, workers: int) -> list[np.ndarray]:
    """Positions of the lanes of each batch; the last one is filled up by repeating its last lane."""
    each = -(-num_lanes // workers)
    size = next((s for s in SIZES if s >= each), SIZES[-1])
    return [np.minimum(np.arange(i, i + size), num_lanes - 1) for i in range(0, num_lanes, size)]


def _run(
    potential: Potential, work: Work, settings: Settings, target: float, max_depth: int, advance: Callable[[int], None]
) -> Chains:
    data, keys, lanes, learned = _begun(potential, max_depth, work)
    plan = schedule(settings.num_warmup, target, learned.scale.dtype)
    before = 0
    while before < settings.num_warmup:
        lanes, learned, least = _warm(potential, max_depth, data, plan, lanes, learned)
        advance(min(int(least), settings.num_warmup) - before)
        before = min(int(least), settings.num_warmup)
    z, scale, step_size = learned.kept
    data = with_scale(data, scale)
    lanes = _begin(potential, max_depth, data, z, (keys[0], keys[1] ^ SECOND_KEY))
    kept = _Collected(z.shape, settings.num_samples, z.dtype)
    while not kept.full:
        before = kept.least
        lanes, drawn = _sample(potential, max_depth, data, step_size, lanes)
        kept.add(drawn)
        advance(kept.least - before)
    return Chains(kept.logits, kept.stats | {"step_size": _spread(step_size, kept.shape)})


def _spread(step_size: Array, shape: tuple[int, int]) -> np.ndarray:
    return np.broadcast_to(np.asarray(step_size)[:, None], shape).copy()


@partial(jax.jit, static_argnums=(0, 1))
def _begin(potential: Potential, max_depth: int, data: Any, z: Array, key: tuple[Array, Array]) -> Lanes:
    return begin(potential, data, z, key, max_depth)


def _begun(potential: Potential, max_depth: int, work: Work) -> tuple[Any, Array, Lanes, Adaptation]:
    """Data and keys as JAX arrays, lanes at their starts, and nothing learned yet."""
    data, keys = jax.tree.map(jnp.asarray, work.data), jnp.asarray(work.keys, jnp.uint32)
    lanes = _begin(potential, max_depth, data, jnp.asarray(work.position), (keys[0], keys[1]))
    return data, keys, lanes, begin_adaptation(data[1].scale)


_compiled: set[Any] = set()


def _compile(potential: Potential, max_depth: int, work: Work, in_precision: Callable[[], Any]) -> None:
    """Compile warm-up and sampling beside each other for lanes of these shapes, unless that was done before."""
    shapes = tuple((x.shape, str(x.dtype)) for x in jax.tree.leaves(work))
    if (key := (potential, max_depth, shapes)) in _compiled:
        return
    data, _, lanes, learned = _begun(potential, max_depth, work)

    def compile_sampling() -> None:
        with in_precision():
            jax.block_until_ready(_sample(potential, max_depth, data, learned.kept[2], lanes))

    beside = threading.Thread(target=compile_sampling)
    beside.start()
    jax.block_until_ready(_warm(potential, max_depth, data, schedule(0, 0.5, learned.scale.dtype), lanes, learned))
    beside.join()
    _compiled.add(key)


@partial(jax.jit, static_argnums=(0, 1))
def _warm(
    potential: Potential, max_depth: int, data: Any, plan: Schedule, lanes: Lanes, learned: Adaptation
) -> tuple[Lanes, Adaptation, Array]:
    """Steps until all lanes are warmed up or `STEPS` are done; the least number of draws a lane has done."""

    def going(carry: tuple[Array, Lanes, Adaptation]) -> Array:
        step, _, learned = carry
        return (step < STEPS) & jnp.any(learned.done < plan.num_warmup)

    def step(carry: tuple[Array, Lanes, Adaptation]) -> tuple[Array, Lanes, Adaptation]:
        i, lanes, learned = carry
        lanes, drawn = settle(lanes)
        lanes, learned = adapt(plan, lanes, drawn, learned)
        lanes = leap(potential, with_scale(data, learned.scale), jnp.exp(learned.log_step), lanes, max_depth)
        return i + 1, lanes, learned

    _, lanes, learned = lax.while_loop(going, step, (jnp.int32(0), lanes, learned))
    return lanes, learned, learned.done.min()


@partial(jax.jit, static_argnums=(0, 1))
def _sample(
    potential: Potential, max_depth: int, data: Any, step_size: Array, lanes: Lanes
) -> tuple[Lanes, dict[str, Array]]:
    """`STEPS` steps of all lanes and what each step handed out, [STEPS, ..., L]."""

    def shown(drawn: Drawn) -> dict[str, Array]:
        choice = drawn.choice
        return {
            "code": drawn.code,
            "logits": data[1].logits(choice.z),
            "energy": choice.energy,
            "accepted": drawn.acceptance,
        }

    def step(i: Array, carry: tuple[Lanes, dict[str, Array]]) -> tuple[Lanes, dict[str, Array]]:
        lanes, buffer = carry
        lanes, drawn = settle(lanes)
        put = lambda b, x: lax.dynamic_update_index_in_dim(b, x, i, 0)  # noqa: E731
        return leap(potential, data, step_size, lanes, max_depth), jax.tree.map(put, buffer, shown(drawn))

    like = jax.eval_shape(lambda lanes: shown(settle(lanes)[1]), lanes)
    buffer = jax.tree.map(lambda x: jnp.zeros((STEPS, *x.shape), x.dtype), like)
    return lax.fori_loop(0, STEPS, step, (lanes, buffer))


class _Collected:
    """The first N draws of every lane, gathered from the steps at which they were done."""

    def __init__(self, shape: tuple[int, ...], num_samples: int, dtype: Any) -> None:
        dim, num_lanes = shape
        self.shape = (num_lanes, num_samples)
        self.logits = np.empty((dim, num_lanes, num_samples), dtype)
        self.stats = {name: np.empty(self.shape, dtype) for name in ("lp", "acceptance_rate")}
        self.stats |= {name: np.empty(self.shape, kind) for name, kind in (("n_steps", np.int32), ("diverging", bool))}
        self._seen = np.full(num_lanes, -1)  # the first thing a lane hands out is its start
        self._since = np.zeros(num_lanes, np.int64)  # steps since the last draw was done

    @property
    def least(self) -> int:
        """Draws that every lane has."""
        return int(np.clip(self._seen.min(), 0, self.shape[1]))

    @property
    def full(self) -> bool:
        """Whether every lane has all its draws."""
        return self.least == self.shape[1]

    def add(self, drawn: dict[str, Array]) -> None:
        """Take over the draws among some steps."""
        found = {name: np.asarray(x) for name, x in drawn.items()}
        num_steps, num_lanes = found["code"].shape
        lane, step = np.nonzero((found["code"] & END).T)  # in order of lanes, then of steps
        number = np.bincount(lane, minlength=num_lanes)
        first = np.concatenate([[0], np.cumsum(number)[:-1]])
        place = np.arange(len(lane)) + (self._seen - first)[lane]
        steps = np.diff(step, prepend=0)
        opens = first[number > 0]
        steps[opens] = step[opens] + self._since[number > 0]
        self._since += num_steps
        self._since[number > 0] = num_steps - step[opens + number[number > 0] - 1]
        self._seen += number
        use = (place >= 0) & (place < self.shape[1])
        at, steps, to = (step * num_lanes + lane)[use], steps[use], (lane * self.shape[1] + place)[use]
        at_first = (step * self.logits.shape[0] * num_lanes + lane)[use]
        for d, logits in enumerate(self.logits):
            logits.reshape(-1)[to] = found["logits"].reshape(-1)[at_first + d * num_lanes]
        put = lambda name, values: self.stats[name].reshape(-1).__setitem__(to, values)  # noqa: E731
        put("lp", -found["energy"].reshape(-1)[at])
        put("n_steps", steps)
        put("acceptance_rate", found["accepted"].reshape(-1)[at] / steps)
        put("diverging", (found["code"].reshape(-1)[at] & DIVERGED) != 0)
