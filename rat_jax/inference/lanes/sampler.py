"""Draws of many chains by the lane transition: warm-up, then steps until every lane has its draws.

Lanes stream through the slots of a compiled program: where one is done another takes its place, so that none waits for
the slowest. Units of neighbouring lanes run beside each other in as many threads as there are processors: compiled
programs do not hold Python's lock. A lane's numbers depend on its own data, start and key, not on its neighbours or on
where it ran.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rat_jax.inference.apart import run_apart, worth_processes
from rat_jax.inference.lanes import programs
from rat_jax.inference.lanes.collected import Chains, Collected
from rat_jax.inference.lanes.devices import Grain, Workers
from rat_jax.inference.lanes.potentials import Data, Fused, with_scale
from rat_jax.inference.lanes.programs import Machine
from rat_jax.inference.lanes.transition import Lanes, Potential
from rat_jax.inference.lanes.warmup import Adaptation, schedule
from rat_jax.inference.settings import Settings

SECOND_KEY = np.uint32(0x9E3779B9)  # the draws' randomness must not repeat that of the warm-up


class Work(NamedTuple):
    """Lanes to be sampled (U of them): their data, positions [D, U], keys [2, U], deepest doublings [U], the
    acceptance that their step sizes aim at [U], and the variance that their scales are pulled towards [U]."""

    data: Data
    position: np.ndarray
    keys: np.ndarray
    max_depth: np.ndarray
    target: np.ndarray
    guess: np.ndarray

    def take(self, lanes: np.ndarray) -> Work:
        """Some of the lanes."""
        fixed, given, at = self.data
        given, at = jax.tree.map(lambda x: np.asarray(x)[..., lanes], (given, at))
        each = (self.max_depth[lanes], self.target[lanes], self.guess[lanes])
        return Work((fixed, given, at), self.position[:, lanes], self.keys[:, lanes], *each)


class Engaged(NamedTuple):
    """What the slots of a program hold: data of the lanes, their state, and what they learned or move by."""

    data: Any
    lanes: Lanes
    learned: Adaptation


def sample_lanes(
    potential: Potential,
    work: Callable[[np.ndarray], Work],
    num_lanes: int,
    settings: Settings,
    report: Callable[[int, int], None],
    precision: str = "float32",
    finish: Callable[[np.ndarray, Chains], dict[str, np.ndarray]] = lambda _, chains: chains.as_arrays(),
    together: int = 1,
    devices: Sequence[Any] | None = None,
    may_be_apart: bool = False,
) -> dict[str, np.ndarray]:
    """NUTS for all lanes.

    work: the data, starts and keys of the lanes at given positions.
    report: called with (draws done, draws in all), from any thread but one at a time.
    precision: "float32" or "float64", of what `work` gives.
    finish: what is kept of a unit, from the positions of its lanes and their chains; joined along the first axis.
    together: lanes that `finish` must see in one unit: multiples of so many neighbours stay together.
    devices: to work on; all local ones if not given.
    may_be_apart: whether much work may go to processes of its own, which are sent `work` and `finish` and send back
        what is kept.
    """
    workers = Workers(devices)
    grain = workers.grain
    units = _units(num_lanes, together, workers, settings.num_samples)
    total, done, lock = num_lanes * (settings.num_warmup + settings.num_samples), [0], threading.Lock()

    def advance(draws: int) -> None:
        with lock:
            done[0] += draws
            report(done[0], total)

    def one(lanes: np.ndarray) -> dict[str, np.ndarray]:
        with jax.enable_x64(precision == "float64"):  # a setting of each thread
            return finish(lanes, _run(potential, work(lanes), settings, grain, advance))

    def one_apart(lanes: np.ndarray) -> dict[str, np.ndarray]:
        cache = jax.config.values["jax_compilation_cache_dir"]
        found = run_apart(_unit_apart, cache, precision, potential, work, finish, lanes, settings, grain)
        advance(len(lanes) * (settings.num_warmup + settings.num_samples))
        return found

    apart = may_be_apart and workers.has_whole_processor and worth_processes(chain_steps=total)
    parts = workers.map(one_apart if apart else one, units)
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _unit_apart(
    cache: str | None,
    precision: str,
    potential: Potential,
    work: Callable[[np.ndarray], Work],
    finish: Callable[[np.ndarray, Chains], dict[str, np.ndarray]],
    lanes: np.ndarray,
    settings: Settings,
    grain: Grain,
) -> dict[str, np.ndarray]:
    """What is kept of a unit, in a process of its own."""
    jax.config.update("jax_compilation_cache_dir", cache)
    with jax.enable_x64(precision == "float64"), jax.default_device(jax.local_devices()[0]):
        return finish(lanes, _run(potential, work(lanes), settings, grain, lambda _: None))


def _units(num_lanes: int, together: int, workers: Workers, num_samples: int) -> list[np.ndarray]:
    """Positions of the lanes of each unit: of equal size as far as may be, one or several for every worker."""
    grain, count = workers.grain, workers.number
    most = max(1, min(grain.unit, grain.draws // num_samples) // together)
    whole = num_lanes // together
    number = min(whole, max(1, num_lanes // grain.sizes[0]), -(-whole // (most * count)) * count)
    return [part.reshape(-1) for part in np.array_split(np.arange(num_lanes).reshape(whole, together), number)]


def _run(potential: Potential, work: Work, settings: Settings, grain: Grain, advance: Callable[[int], None]) -> Chains:
    """The chains of a unit; lanes of one depth share a program."""
    number = len(work.max_depth)
    chains = Chains.empty(len(work.position), number, settings.num_samples, work.position.dtype)
    for depth in np.unique(work.max_depth):
        lanes = np.flatnonzero(work.max_depth == depth)
        program = _Program(potential, int(depth), work.take(lanes), grain, advance)
        warm, steps = program.warm_up(settings.num_warmup)
        program.sample(warm, np.argsort(-steps, kind="stable"), chains, lanes)
    return chains


_compiled: set[Any] = set()
_locks: dict[Any, threading.Lock] = {}  # of what is being compiled, so that threads do not do it twice
_registry = threading.Lock()
_refused: set[Potential] = set()  # what the compiler does not make one kernel of


def _fits_one(potential: Potential) -> bool:
    return isinstance(potential, Fused) and potential not in _refused


class Warm(NamedTuple):
    """Where lanes are at the end of their warm-up: positions and scales [D, U], step sizes [U]."""

    position: np.ndarray
    scale: np.ndarray
    step_size: np.ndarray


class _Program:
    """Lanes of a unit that stream through the slots of one compiled program."""

    def __init__(
        self, potential: Potential, max_depth: int, work: Work, grain: Grain, advance: Callable[[int], None]
    ) -> None:
        self.work, self.advance = work, advance
        self.device = jax.config.values["jax_default_device"]
        self.machine = Machine(
            potential, max_depth, grain.steps, self.device.platform == "cpu" and _fits_one(potential)
        )
        number = len(work.max_depth)
        self.size = next((s for s in grain.sizes if s >= number), grain.sizes[-1])
        self._compile()

    def warm_up(self, num_warmup: int) -> tuple[Warm, np.ndarray]:
        """Every lane's state at the end of its warm-up, and the leapfrogs it took [U]."""
        number, position = len(self.work.max_depth), self.work.position
        warm = Warm(np.empty_like(position), np.empty_like(position), np.empty(number, position.dtype))
        steps = np.zeros(number, np.int64)
        slots = _Slots(np.arange(number), self.size)
        engaged: Any = None
        plan: Any = None
        told = np.zeros(self.size, np.int64)
        while (fresh := slots.fill()).any() or slots.busy.any():
            if fresh.any():
                engaged = self._renewed(engaged, fresh, self.work.take(slots.lane), self.work.position[:, slots.lane])
                plan = schedule(num_warmup, self.work.target[slots.lane], self.work.guess[slots.lane])
            data, lanes, learned = engaged
            lanes, learned = programs.warm(self.machine, data, plan, lanes, learned)
            engaged = Engaged(data, lanes, learned)
            draws = np.where(slots.busy, np.clip(learned.done, 0, num_warmup), 0)
            self.advance(int((draws - told).sum()))
            done = slots.release(draws == num_warmup)
            told = np.where(done, 0, draws)
            if done.any():
                of = slots.lane[done]
                for mine, found in zip(warm, learned.kept, strict=True):
                    mine[..., of] = np.asarray(found)[..., done]
                steps[of] = np.asarray(lanes.random.step)[done]
        return warm, steps

    def sample(self, warm: Warm, order: np.ndarray, chains: Chains, rows: np.ndarray) -> None:
        """Draws of every lane, in this order, into the given rows of the chains."""
        work = self.work._replace(keys=self.work.keys ^ np.array([[0], [SECOND_KEY]], np.uint32))
        work = work._replace(data=with_scale(work.data, warm.scale))
        slots = _Slots(order, self.size)
        engaged: Any = None
        step_size: Any = None
        collected = Collected(chains, self.size)
        while (fresh := slots.fill()).any() or slots.busy.any():
            if fresh.any():
                engaged = self._renewed(engaged, fresh, work.take(slots.lane), warm.position[:, slots.lane])
                step_size = jnp.asarray(warm.step_size[slots.lane])
                collected.begin(fresh, np.where(slots.busy, rows[slots.lane], -1))
            data, lanes, learned = engaged
            lanes, drawn = programs.sample(self.machine, data, step_size, lanes)
            engaged = Engaged(data, lanes, learned)
            self.advance(collected.add(drawn))
            slots.release(collected.full)
        chains.stats["step_size"][rows] = warm.step_size[:, None]
        chains.stats["reached_max_treedepth"][rows] = chains.stats["n_steps"][rows] + 1 >= 1 << self.machine.max_depth

    def _compile(self) -> None:
        """Compile warm-up and sampling beside each other for slots of these shapes, unless that was done before."""
        first = self.work.take(np.zeros(self.size, int))
        shapes = tuple((x.shape, str(x.dtype)) for x in jax.tree.leaves(first))
        key = (self.machine, shapes, self.device)
        with _registry:
            lock = _locks.setdefault(key, threading.Lock())
        with lock:
            if key not in _compiled:
                self._compile_as_is_or_apart(first)
                _compiled.add(key)
        self.machine = self.machine._replace(one_kernel=self.machine.one_kernel and _fits_one(self.machine.potential))

    def _compile_as_is_or_apart(self, first: Work) -> None:
        """Compile; what the compiler cannot make one kernel of is left to its own ways."""
        try:
            self._compile_for(first)
        except jax.errors.JaxRuntimeError as error:
            if not (self.machine.one_kernel and "UNIMPLEMENTED" in str(error)):
                raise
            _refused.add(self.machine.potential)
            self.machine = self.machine._replace(one_kernel=False)
            self._compile_for(first)

    def _compile_for(self, first: Work) -> None:
        data, lanes, learned = self._renewed(None, np.ones(self.size, bool), first, first.position)

        def compile_sampling() -> None:
            with jax.enable_x64(first.position.dtype == np.float64), jax.default_device(self.device):  # of each thread
                jax.block_until_ready(programs.sample(self.machine, data, learned.kept[2], lanes))

        with ThreadPoolExecutor(1) as beside:
            sampling = beside.submit(compile_sampling)
            plan = schedule(0, first.target, first.guess)
            jax.block_until_ready(programs.warm(self.machine, data, plan, lanes, learned))
            sampling.result()

    def _renewed(self, engaged: Engaged | None, fresh: np.ndarray, work: Work, position: np.ndarray) -> Engaged:
        """The slots with new lanes, at these positions, where they are fresh."""
        old = None if engaged is None else engaged[1:]
        return Engaged(
            *programs.renew(self.machine.potential, self.machine.max_depth, work.data, position, work.keys, fresh, old)
        )


class _Slots:
    """Which lane each slot holds; lanes come in a given order. A slot without work repeats a lane that nobody heeds."""

    def __init__(self, order: np.ndarray, size: int) -> None:
        self._waiting = order
        self.lane = np.full(size, order[0])
        self.busy = np.zeros(size, bool)

    def fill(self) -> np.ndarray:
        """Give the free slots the next lanes; which ones have got one [slots]."""
        free = np.flatnonzero(~self.busy)[: len(self._waiting)]
        self.lane[free], self._waiting = self._waiting[: len(free)], self._waiting[len(free) :]
        fresh = np.zeros(len(self.busy), bool)
        fresh[free] = self.busy[free] = True
        return fresh

    def release(self, done: np.ndarray) -> np.ndarray:
        """Free the slots whose lane is done; which ones these are."""
        done = done & self.busy
        self.busy &= ~done
        return done
