"""Batched NUTS: every (system, chain) pair is a lane of one compiled function.

A count table goes in, draws of all cells come out. Data are arguments of the compiled functions, so
a second table of the same shape compiles nothing. The transition is NumPyro's own NUTS on the
network's log density.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpyro.infer.hmc import hmc

from rat_jax.inference.settings import MAX_TREE_DEPTH, Draws, Problem, Progress, Settings, system_seed
from rat_jax.inference.starts import scattered_starts
from rat_jax.model.coordinates import convert, state_order
from rat_jax.model.density import log_cells_from_logits, log_density, spread_logits
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, Evidence

USUAL_ACCEPTANCE, CAREFUL_ACCEPTANCE = 0.8, 0.9  # the latter for judges, whose posteriors have narrow places
CHUNK = 250  # iterations per compiled call: the grain of progress
MAX_LANES = 256  # in one batch: every lane waits for the deepest tree of its batch
FLOAT32_ROWS = 100_000  # beyond, the log-likelihood in float32 loses the differences NUTS needs


class Model(NamedTuple):
    """The network, and the factorization of it in whose logits the lanes move."""

    network: Network
    sampled: Network


class Data(NamedTuple):
    """One lane's data: the evidence of its G systems, the prior concentration of each cell [M], and the affine
    coordinates it is sampled in, logits = centre + scale * position, [G * own + shared] each."""

    evidence: Evidence
    concentration: Any
    centre: Any
    scale: Any


LANE_AXES = Data(Evidence(None, None, 0), None, 0, 0)  # type: ignore[arg-type]


def sample(problem: Problem, *, seed: int, settings: Settings, progress: Progress | None = None) -> Draws:
    """Draws from the posterior of every system of a problem by NumPyro's NUTS.

    A lane is a chain of one system, or of a group of systems that share a table. Works in float32 up to
    100,000 rows per lane and in local float64 beyond. Lanes run as one batch; more than 256 run in
    batches of equal size, compiled once.
    """
    groups = problem.groups
    rows = problem.table.evidence.counts.sum(axis=1)[groups].sum(axis=1)
    large = rows.max(initial=0) > FLOAT32_ROWS
    precision = "float64" if large else "float32"
    batches = _batches(len(groups), settings.num_chains)
    report = (lambda *_: None) if progress is None else progress
    total = settings.num_warmup + settings.num_samples
    parts = []
    with jax.enable_x64(True) if large else nullcontext():
        for b, batch in enumerate(batches):
            advance = lambda done, b=b: report(b * total + done, len(batches) * total)  # noqa: E731
            tables = [problem.table.take(groups[g]) for g in batch]
            lanes, position = _lanes(problem, tables, seed, settings.num_chains, precision)
            keys = _keys(tables, seed, settings.num_chains)
            parts.append(_run(Model(problem.network, problem.sampled), lanes, position, keys, settings, advance))
    cells, stats = jax.tree.map(lambda *xs: _by_group(xs, len(groups), settings.num_chains), *parts)
    cells = np.moveaxis(cells, 3, 1).reshape(-1, *cells.shape[1:3], cells.shape[-1])  # [S, C, D, M]
    return Draws(cells, {k: np.repeat(v, groups.shape[1], axis=0) for k, v in stats.items()}, precision)


def _batches(num_groups: int, num_chains: int) -> list[np.ndarray]:
    """Groups of each batch; the last one is filled up by repeating its last group."""
    size = min(num_groups, max(1, MAX_LANES // num_chains))
    starts = range(0, num_groups, size)
    return [np.minimum(np.arange(start, start + size), num_groups - 1) for start in starts]


def _by_group(parts: Sequence[np.ndarray], num_groups: int, num_chains: int) -> np.ndarray:
    """Lanes of all batches as [groups, C, D, ...], without the repetitions that filled up the last batch."""
    lanes = np.concatenate(parts)
    return lanes.reshape(-1, num_chains, *lanes.shape[1:])[:num_groups]


def _lanes(
    problem: Problem, tables: Sequence[CountTable], seed: int, num_chains: int, precision: str
) -> tuple[Data, Array]:
    """The data of every lane, and where it starts; one table per group."""
    network, sampled = problem.network, problem.sampled
    frame = scattered_starts(network, tables, problem.concentration, seed, num_chains, sampled)
    evidence = tables[0].evidence
    evidence = evidence._replace(allowed=evidence.allowed[:, state_order(network, sampled)])
    counts = np.repeat(np.stack([table.evidence.counts for table in tables]), num_chains, axis=0)
    data = Data(evidence._replace(counts=counts), problem.concentration, frame.centre, frame.scale)
    as_array = lambda x: jnp.asarray(x, None if x.dtype == bool else precision)  # noqa: E731
    return jax.tree.map(as_array, data), as_array(frame.position)


def _keys(tables: Sequence[CountTable], seed: int, num_chains: int) -> Array:
    """One key per lane, from the seed, the names of its systems and the chain's number."""
    names = ["\0".join(table.systems) for table in tables]
    words = [system_seed(seed, name, "nuts", str(chain)) for name in names for chain in range(num_chains)]
    return jax.random.wrap_key_data(jnp.asarray(np.array(words, np.uint32)), impl="threefry2x32")


def _run(
    model: Model, lanes: Data, position: Array, keys: Array, settings: Settings, report: Callable[[int], None]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Cells [lanes, D, G, M] and statistics [lanes, D] of one batch."""
    num_warmup, total = settings.num_warmup, settings.num_warmup + settings.num_samples
    state = _start(model, num_warmup, lanes, position, keys)
    kept: list[Any] = []
    done = 0
    while done < total:
        steps = min(CHUNK, (num_warmup if done < num_warmup else total) - done)
        state, chunk = _advance(model, num_warmup, lanes, state, steps)
        if done >= num_warmup:
            kept.append(jax.tree.map(lambda x, n=steps: np.asarray(x)[:, :n], chunk))
        done += steps
        jax.block_until_ready(state)
        report(done)
    log_cells, stats = jax.tree.map(lambda *xs: np.concatenate(xs, axis=1), *kept)
    return np.exp(log_cells.astype(np.float64)), stats


@partial(jax.jit, static_argnums=(0, 1))
def _start(model: Model, num_warmup: int, lanes: Data, position: Array, keys: Array) -> Any:
    start = lambda data, position, key: _kernel(model, num_warmup, data, position, key)[1]  # noqa: E731
    return jax.vmap(start, in_axes=(LANE_AXES, 0, 0))(lanes, position, keys)


@partial(jax.jit, static_argnums=(0, 1))
def _advance(model: Model, num_warmup: int, lanes: Data, state: Any, steps: Array) -> tuple[Any, Any]:
    """Advance all lanes by `steps` <= CHUNK iterations; a buffer [lanes, CHUNK, ...] holds the draws."""
    network, sampled = model

    def shown(data: Data, state: Any) -> Any:
        logits = spread_logits(sampled, _logits(data, state.z), len(data.evidence.counts))
        log_cells = log_cells_from_logits(sampled, logits)
        if sampled is not network:
            log_cells = convert(sampled, network, log_cells, jax.nn.logsumexp, jnp)
        return log_cells, _statistics(state)

    def one_step(data: Data, state: Any) -> tuple[Any, Any]:
        state = _kernel(model, num_warmup, data, state.z, state.rng_key)[0](data, state)
        return state, shown(data, state)

    step = jax.vmap(one_step, in_axes=(LANE_AXES, 0))

    def body(i: Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        state, buffer = carry
        state, out = step(lanes, state)
        put = lambda b, x: jax.lax.dynamic_update_index_in_dim(b, x, i, 1)  # noqa: E731
        return state, jax.tree.map(put, buffer, out)

    like = jax.eval_shape(jax.vmap(shown, in_axes=(LANE_AXES, 0)), lanes, state)
    buffer = jax.tree.map(lambda x: jnp.zeros((x.shape[0], CHUNK, *x.shape[1:]), x.dtype), like)
    return jax.lax.fori_loop(0, steps, body, (state, buffer))


def _kernel(model: Model, num_warmup: int, data: Data, position: Array, key: Array) -> Any:
    """NumPyro's NUTS transition for one lane, and the state it starts from at `position`.

    NumPyro's kernel learns its settings when it is initialised, so each trace initialises it; where
    only the transition is used, the compiler removes the unused start.
    """
    init, transition = hmc(potential_fn_gen=partial(_potential, model), algo="NUTS")
    accept = CAREFUL_ACCEPTANCE if model.network.measurements else USUAL_ACCEPTANCE
    settings = {"target_accept_prob": accept, "max_tree_depth": MAX_TREE_DEPTH}
    state = init(position, num_warmup, **settings, model_args=(data,), rng_key=key)
    return (lambda data, state: transition(state, (data,))), state


def _potential(model: Model, data: Data) -> Callable[[Array], Array]:
    network, sampled = model
    return lambda z: -log_density(network, data.evidence, data.concentration, _logits(data, z), sampled)


def _logits(data: Data, position: Array) -> Array:
    return data.centre + data.scale * position


def _statistics(state: Any) -> dict[str, Array]:
    """Per-draw statistics by ArviZ's names."""
    return {
        "diverging": state.diverging,
        "n_steps": state.num_steps,
        "tree_depth": jnp.ceil(jnp.log2(state.num_steps + 1.0)).astype(jnp.int32),
        "acceptance_rate": state.accept_prob,
        "lp": -state.potential_energy,
        "step_size": state.adapt_state.step_size,
    }
