"""The posterior density of many count tables at once, with its gradient, written for lanes: the last axis of every
array is the data set.

The log density of a table is a sum of counts times logarithms of cells, and for patterns that leave the state open of
counts times logarithms of sums of products of cells. Its gradient needs no differentiation: it is what the E-step of
expectation maximisation gives, expected counts. A prior that is stated in another factorization than the one sampled in
adds sums of the same kind, with fixed and perhaps negative counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import Array

from rat_jax.model.coordinates import state_order
from rat_jax.model.declaration import Layout
from rat_jax.model.density import stick_matrices
from rat_jax.model.network import Network
from rat_jax.model.patterns import all_patterns, allowed_readings, allowed_states

MOST_TERMS = 400
"""Products in all patterns together; beyond, the program would be too long to compile quickly."""

Term = tuple[tuple[int, ...], ...]
"""A product of factors, each a sum of cells."""

Terms = tuple[Term, ...]
"""A sum of products."""


class Counts(NamedTuple):
    """What the lanes have counted: for every logit its stick taken and left, [logits, L] each; open patterns [P, L]."""

    taken: Any
    left: Any
    patterns: Any


@dataclass(frozen=True)
class LaneDensity:
    """The density of a network on tables whose rows miss certain variables.

    takes, leaves: the logits of the sticks that each cell takes or leaves; known: log probability of constant cells.
    patterns: for each open pattern its terms.
    """

    takes: tuple[tuple[int, ...], ...]
    leaves: tuple[tuple[int, ...], ...]
    known: tuple[float, ...]
    patterns: tuple[Terms, ...]

    @property
    def num_terms(self) -> int:
        """Products in all open patterns together."""
        return sum(len(terms) for terms in self.patterns)

    def energy(self, counts: Counts, x: Array) -> tuple[Array, Array]:
        """Minus the log density [L] of logits x [logits, L] up to a constant, and its gradient [logits, L]."""
        small, taken, left = _sticks(x)
        log_both = jnp.log(1 + small)
        log_taken, log_left = jnp.minimum(x, 0) - log_both, -jnp.maximum(x, 0) - log_both
        told = counts.taken * log_taken + counts.left * log_left
        value = sum(told[1:], start=told[0])
        yes, no, log_sums = self._completed(counts, taken, left)
        return -(value + log_sums), (yes + no) * taken - yes

    def information(self, counts: Counts, x: Array) -> Array:
        """Second derivatives [logits, L] that the energy would have if open patterns were filled in by expectation."""
        _, taken, left = _sticks(x)
        yes, no, _ = self._completed(counts, taken, left)
        return (yes + no) * taken * left

    def _completed(self, counts: Counts, taken: Array, left: Array) -> tuple[Array, Array, Array]:
        """Counts of sticks taken and left [logits, L], expected ones among them, and the log of the open sums [L]."""
        expected, log_sums = self._expected(counts.patterns, self._cells(taken, left))
        yes, no = list(counts.taken), list(counts.left)
        for cell, rows in expected.items():
            for logit in self.takes[cell]:
                yes[logit] = yes[logit] + rows
            for logit in self.leaves[cell]:
                no[logit] = no[logit] + rows
        return jnp.stack(yes), jnp.stack(no), log_sums

    def _cells(self, taken: Array, left: Array) -> dict[int, Array | float]:
        """Probabilities of the cells that open patterns use."""
        cells: dict[int, Array | float] = {}
        for cell in sorted({c for terms in self.patterns for term in terms for factor in term for c in factor}):
            value: Array | float = float(np.exp(self.known[cell]))
            for rows, logits in ((taken, self.takes[cell]), (left, self.leaves[cell])):
                for logit in logits:
                    value = value * rows[logit]
            cells[cell] = value
        return cells

    def _expected(self, counts: Array, cells: dict[int, Array | float]) -> tuple[dict[int, Array], Array]:
        """Expected counts of the cells behind open patterns, and the patterns' part of the log density [L]."""
        expected: dict[int, Array] = {}
        log_sums = jnp.zeros(counts.shape[1:], counts.dtype)
        products: dict[Term, Array] = {}
        for p, terms in enumerate(self.patterns):
            values = [_product(term, cells, products) for term in terms]
            total = jnp.maximum(sum(values[1:], start=values[0]), jnp.finfo(counts.dtype).tiny)
            log_sums = log_sums + counts[p] * jnp.log(total)
            per_chance = counts[p] / total
            for term, value in zip(terms, values, strict=True):
                rows = value * per_chance
                for factor in term:
                    whole = _sum(factor, cells)
                    for cell in factor:
                        share = rows if len(factor) == 1 else rows * (cells[cell] / whole)
                        expected[cell] = expected[cell] + share if cell in expected else share
        return expected, log_sums


def _sticks(x: Array) -> tuple[Array, Array, Array]:
    """exp(-|x|), and the shares that sticks with logits x take and leave."""
    small = jnp.exp(-jnp.abs(x))
    larger = 1 / (1 + small)
    return small, jnp.where(x >= 0, larger, small * larger), jnp.where(x >= 0, small * larger, larger)


def cells_of_lanes(network: Network, sampled: Network, x: Array) -> Array:
    """Cells of `network` [M, ...] from logits of `sampled` [logits, ...], neither with shared tables."""
    _, taken, left = _sticks(x)
    take, leave = stick_matrices(sampled)
    own = [
        jnp.asarray(np.exp(known), x.dtype) * _product_of([*taken[np.flatnonzero(t)], *left[np.flatnonzero(s)]], x)
        for known, t, s in zip(sampled.known_cells, take, leave, strict=True)
    ]
    if sampled is network:
        return jnp.stack(own)
    states = [_product_of([own[c] for (c,) in term], x) for term in _state_terms(network, sampled)]
    cells = []
    for table, layout in zip(network.tables, network.layouts, strict=True):
        if table.measures:
            first = _layout(sampled, table.name).offset
            cells += own[first : first + layout.size]
            continue
        for cell in range(layout.offset, layout.stop):
            reached = network.state_cells[:, _row(layout, cell)].max(axis=1)
            cells.append(_total(states, network.state_cells[:, cell]) / _total(states, reached))
    return jnp.stack(cells)


def _product_of(factors: Sequence[Array], like: Array) -> Array:
    whole = jnp.ones_like(like[0])
    for factor in factors:
        whole = whole * factor
    return whole


def _total(states: Sequence[Array], uses: np.ndarray) -> Array:
    chosen = [state for state, used in zip(states, uses, strict=True) if used]
    return sum(chosen[1:], start=chosen[0])


def _row(layout: Layout, cell: int) -> np.ndarray:
    """All cells of the row that a cell belongs to."""
    width = len(layout.outcomes)
    return layout.offset + (cell - layout.offset) // width * width + np.arange(width)


@dataclass(frozen=True, eq=False)
class LanePlan:
    """How tables are counted for a `LaneDensity`.

    Rows of a pattern go to cells (`to_cells` [P, M]) or to an open pattern (`to_open` [P, open]); what the prior adds
    is linear in 1 and the concentration of the network's cells: `prior_cells` [1 + M', M], `prior_open` [1 + M', open].
    """

    density: LaneDensity
    to_cells: np.ndarray
    to_open: np.ndarray
    prior_cells: np.ndarray
    prior_open: np.ndarray
    sticks: tuple[np.ndarray, np.ndarray]

    def counts(self, rows: np.ndarray, concentration: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`Counts` as float64 arrays, from rows per pattern [lanes, P] and prior concentration [M']."""
        given = np.concatenate([[1.0], concentration])
        cells = rows @ self.to_cells + given @ self.prior_cells
        take, leave = self.sticks
        return (cells @ take).T, (cells @ leave).T, (rows @ self.to_open + given @ self.prior_open).T


def plan_lanes(network: Network, sampled: Network, codes: np.ndarray) -> LanePlan | None:
    """The density of tables with these patterns [P, V] in the logits of `sampled`; None where it would be too long, or
    where systems share tables.

    Without judges it depends only on which variables some row misses, so that tables of one kind share a program.
    """
    if network.is_shared.any():
        return None
    wanted = codes if network.measurements else _same_kind(network, codes)
    plan = _plan(network, sampled, tuple(map(tuple, codes.tolist())), tuple(map(tuple, wanted.tolist())))
    return plan if plan.density.num_terms <= MOST_TERMS else None


def _same_kind(network: Network, codes: np.ndarray) -> np.ndarray:
    """All patterns that miss no variable but those that some of the given patterns miss."""
    possible = all_patterns(network)
    never_missed = ~(codes == -1).any(axis=0)
    return possible[(possible[:, never_missed] >= 0).all(axis=1)]


@lru_cache(maxsize=256)
def _plan(network: Network, sampled: Network, codes: tuple, wanted: tuple) -> LanePlan:
    given, kind = (np.array(c, np.int8).reshape(-1, len(network.variables)) for c in (codes, wanted))
    prior = list(_prior_terms(network, sampled))
    rows, sums = _pattern_terms(network, sampled, given), _pattern_terms(network, sampled, kind)
    everything = [_reduced(sampled, terms) for terms in (*sums, *rows, *(terms for terms, _ in prior))]
    patterns = tuple(dict.fromkeys(open_terms for _, open_terms in everything if open_terms))
    to_cells, to_open = _weights(sampled, patterns, zip(rows, np.eye(len(rows)), strict=True), len(rows))
    prior_cells, prior_open = _weights(sampled, patterns, prior, 1 + network.num_cells)
    take, leave = stick_matrices(sampled)
    logits_of = lambda sticks: tuple(tuple(np.flatnonzero(cell).tolist()) for cell in sticks)  # noqa: E731
    density = LaneDensity(logits_of(take), logits_of(leave), tuple(sampled.known_cells.tolist()), patterns)
    return LanePlan(density, to_cells, to_open, prior_cells, prior_open, (take, leave))


def _weights(
    sampled: Network, patterns: Sequence[Terms], given: Iterable[tuple[Terms, np.ndarray]], size: int
) -> tuple[np.ndarray, np.ndarray]:
    """What each of `size` numbers counts for cells [size, M] and for open patterns [size, open].

    given: sums of products with how often each number counts their logarithm [size].
    """
    to_cells, to_open = np.zeros((size, sampled.num_cells)), np.zeros((size, len(patterns)))
    for terms, times in given:
        common, open_terms = _reduced(sampled, terms)
        for cell in common:
            to_cells[:, cell] += times
        if open_terms:
            to_open[:, patterns.index(open_terms)] += times
    return to_cells, to_open


def _pattern_terms(network: Network, sampled: Network, codes: np.ndarray) -> list[Terms]:
    """For each pattern, a product per state that it allows: the state's cells and what was seen of it."""
    states = _state_terms(network, sampled)
    readings = allowed_readings(network, codes)
    found = []
    for p, allowed in enumerate(allowed_states(network, codes)):
        terms = []
        for j in np.flatnonzero(allowed):
            seen = []
            for t, rows, outcomes in zip(network.measurements, network.measurement_rows, readings, strict=True):
                if not outcomes[p].all():
                    layout = _layout(sampled, network.tables[t].name)
                    first = layout.offset + int(rows[j]) * len(layout.outcomes)
                    seen.append(tuple(first + int(o) for o in np.flatnonzero(outcomes[p])))
            terms.append((*states[j], *seen))
        found.append(tuple(terms))
    return found


def _state_terms(network: Network, sampled: Network) -> list[Term]:
    """Every state of `network`, in its order, as a product of cells of `sampled`."""
    cells = sampled.state_cells[state_order(sampled, network)]
    return [tuple((int(c),) for c in np.flatnonzero(uses)) for uses in cells]


def _prior_terms(network: Network, sampled: Network) -> Iterator[tuple[Terms, np.ndarray]]:
    """The prior of `network` and the change of variables: sums of products, each with how often its logarithm counts,
    [1 + M'], linear in 1 and the concentration of the network's cells."""
    unit = np.eye(1 + network.num_cells)
    if sampled is network:
        yield from (((((cell,),),), unit[1 + cell]) for cell in range(network.num_cells))
        return
    yield from (((((cell,),),), unit[0]) for cell in range(sampled.num_cells))  # the logits' own measure
    states = _state_terms(network, sampled)
    for table, layout in zip(network.tables, network.layouts, strict=True):
        for cell in range(layout.offset, layout.stop):
            beyond = unit[1 + cell] - unit[0]
            if table.measures:
                yield (((_layout(sampled, table.name).offset + cell - layout.offset,),),), beyond
                continue
            reached = network.state_cells[:, _row(layout, cell)].max(axis=1)
            yield _sum_of(states, network.state_cells[:, cell]), beyond
            yield _sum_of(states, reached), -beyond
    yield from ((terms, times * unit[0]) for terms, times in _volume_terms(sampled, _state_terms(sampled, sampled)))
    yield from ((terms, -times * unit[0]) for terms, times in _volume_terms(network, states))


def _volume_terms(network: Network, states: list[Term]) -> Iterator[tuple[Terms, float]]:
    """d state probabilities / d cells: every free row of the pipeline is reached (outcomes - 1) times."""
    for table, layout in zip(network.tables, network.layouts, strict=True):
        width = len(layout.outcomes)
        for first in range(layout.offset, layout.stop, width) if not table.measures else ():
            yield _sum_of(states, network.state_cells[:, first : first + width].max(axis=1)), width - 1.0


def _sum_of(states: list[Term], uses: np.ndarray) -> Terms:
    return tuple(states[j] for j in np.flatnonzero(uses))


def _layout(network: Network, table: str) -> Layout:
    return network.layouts[[t.name for t in network.tables].index(table)]


@lru_cache(maxsize=4096)
def _reduced(sampled: Network, terms: Terms) -> tuple[tuple[int, ...], Terms]:
    """A sum of products as the cells that all products share, and the sum of what remains: () where that is 1."""
    shared = set(terms[0]).intersection(*terms[1:])
    common = {factor for factor in shared if len(factor) == 1}
    rest = tuple(sorted(tuple(f for f in term if f not in common) for term in terms))
    is_one = all(abs(_value(rest, cells) - 1) < 1e-9 for cells in _random_cells(sampled))
    return tuple(sorted(cell for (cell,) in common)), () if is_one else rest


def _value(terms: Terms, cells: np.ndarray) -> float:
    return sum(float(np.prod([cells[list(factor)].sum() for factor in term])) for term in terms)


@lru_cache
def _random_cells(network: Network) -> tuple[np.ndarray, ...]:
    """Cells of two random parameters: a sum of products that is 1 for both is 1 for all."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(2):
        rows = [rng.dirichlet(np.ones(len(x.outcomes)), len(x.rows)).reshape(-1) for x in network.layouts]
        found.append(np.where(network.is_known, np.exp(network.known_cells), np.concatenate(rows)))
    return tuple(found)


def _product(term: Term, cells: dict[int, Any], made: dict[Term, Any]) -> Any:
    """The product of a term's factors; products that terms have in common are made once."""
    if term not in made:
        last = _sum(term[-1], cells)
        made[term] = last if len(term) == 1 else _product(term[:-1], cells, made) * last
    return made[term]


def _sum(factor: tuple[int, ...], cells: dict[int, Any]) -> Any:
    return sum((cells[c] for c in factor[1:]), start=cells[factor[0]])
