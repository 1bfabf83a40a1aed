"""One step of NUTS for thousands of lanes at once, each at its own place in its own trajectory.

A lane is a little machine: every step makes one leapfrog in every lane, and a lane whose trajectory is complete begins
the next draw in the same step, so none waits for the deepest tree among its neighbours. The lanes are the last axis of
every array. What a step decides (`code`) is applied at the start of the next one: what is carried over is in memory,
and the compiler does not work it out again for each array that needs it.

The transition is multinomial NUTS with the generalised U-turn test: trajectories double until their ends turn towards
each other, leaves are drawn by their weight within a doubling and the new half is favoured between doublings.

Source: Hoffman and Gelman (JMLR 2014); Betancourt (arXiv 1701.02434), appendix A; the iterative tree of Phan, Pradhan
and Jankowiak (arXiv 1912.11554); lanes as state machines: Dance, Glaser, Orbanz and Adams (ICML 2025).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from rat_jax.inference.lanes.bits import normal, step_bits, uniform

Potential = Callable[[Any, Array], tuple[Array, Array]]
"""Data of the lanes and their positions [D, L] in; energies [L] and their gradients [D, L] out."""

TAKE, TREE, END, DOUBLE, TURN_BACK, DIVERGED = 1, 2, 4, 8, 16, 32
"""What a step decided: leaf becomes the subtree's choice, subtree's choice becomes the tree's, the draw is done, the
tree doubles, it doubles from its other end, and the leaf diverged."""

LARGEST_ERROR = 1000.0  # of the energy along a trajectory, in nats; beyond, it has diverged


class Point(NamedTuple):
    """Position, momentum and gradient, each [D, L]."""

    z: Array
    r: Array
    g: Array


class Choice(NamedTuple):
    """A state that may become the next draw: position and gradient [D, L], potential energy [L]."""

    z: Array
    g: Array
    energy: Array


class Randomness(NamedTuple):
    """Key and step of each lane, the words of this step, and the momentum if a draw begins at it."""

    key: tuple[Array, Array]
    step: Array
    words: tuple[Array, Array, Array]
    momentum: Array


class Lanes(NamedTuple):
    """All lanes between two steps (D dimensions, L lanes, K deepest doubling).

    leaf: the last state reached, and its energy. other: the other end of the trajectory.
    subtree, tree: the state chosen so far in the doubling that is under way, and in the trajectory before it.
    sums, weights: of momenta [D, L] and of leaf weights [L], for (subtree, tree).
    start_energy: where the trajectory began. direction: signed step size. index: of the leaf in its subtree.
    depth: doublings done. accepted, leaves: sum of acceptance probabilities and number of leaves.
    marks: momenta and sums of momenta at earlier leaves of the subtree, [K - 1, D, L] each.
    """

    leaf: Point
    energy: Array
    other: Point
    subtree: Choice
    tree: Choice
    sums: tuple[Array, Array]
    weights: tuple[Array, Array]
    start_energy: Array
    direction: Array
    index: Array
    depth: Array
    accepted: Array
    leaves: Array
    marks: tuple[Array, Array]
    random: Randomness
    code: Array


class Drawn(NamedTuple):
    """What a step hands out: the decisions [L], and where a draw is done its state and its acceptance."""

    code: Array
    choice: Choice
    acceptance: Array
    leaves: Array


def begin(potential: Potential, data: Any, z: Array, key: tuple[Array, Array], max_depth: int) -> Lanes:
    """Lanes whose first step begins a draw at `z` [D, L]; key: two uint32 words per lane."""
    energy, g = potential(data, z)
    dim, num_lanes = z.shape
    flat, count = jnp.zeros(num_lanes, z.dtype), jnp.zeros(num_lanes, jnp.int32)
    wide, marks = jnp.zeros_like(z), jnp.zeros((max_depth - 1, dim, num_lanes), z.dtype)
    point, choice = Point(z, wide, g), Choice(z, g, energy)
    step = jnp.zeros(num_lanes, jnp.uint32)
    momentum = normal(step_bits(key, step - 1, dim)[2], z.dtype)
    random = Randomness(key, step, step_bits(key, step, dim), momentum)
    code = jnp.full(num_lanes, END, jnp.int32)
    return Lanes(
        point, energy, point, choice, choice, (wide, wide), (flat, flat), flat, flat, count, count, flat, count,
        (marks, marks), random, code,
    )  # fmt: skip


def settle(lanes: Lanes) -> tuple[Lanes, Drawn]:
    """Apply what the last step decided about choices: afterwards `tree` is the draw wherever one is done."""
    take, tree = _decided(lanes.code, TAKE), _decided(lanes.code, TREE)
    leaf = Choice(lanes.leaf.z, lanes.leaf.g, lanes.energy)
    inner = Choice(*(jnp.where(take, a, b) for a, b in zip(leaf, lanes.subtree, strict=True)))
    outer = Choice(*(jnp.where(tree, a, b) for a, b in zip(inner, lanes.tree, strict=True)))
    return lanes._replace(subtree=inner, tree=outer), Drawn(lanes.code, outer, lanes.accepted, lanes.leaves)


def leap(potential: Potential, data: Any, step_size: Array, lanes: Lanes, max_depth: int) -> Lanes:
    """One leapfrog in every settled lane, from the end that the last step decided on, and the next decision."""
    end, double, back = (_decided(lanes.code, bit) for bit in (END, DOUBLE, TURN_BACK))
    fresh, momentum = end | double, lanes.random.momentum
    pick = lambda new, turned, same: jnp.where(end, new, jnp.where(back, turned, same))  # noqa: E731
    started = Point(lanes.tree.z, momentum, lanes.tree.g)
    near = Point(*map(pick, started, lanes.other, lanes.leaf))
    far = Point(*map(pick, started, lanes.leaf, lanes.other))
    start_energy = jnp.where(end, lanes.tree.energy + 0.5 * _dot(momentum, momentum), lanes.start_energy)
    one, other, _ = lanes.random.words
    side = jnp.where((one & 1) == 1, -step_size, step_size)
    direction = jnp.where(end, side, jnp.where(back, -lanes.direction, lanes.direction))

    half = near.r - 0.5 * direction * near.g
    z = near.z + direction * half
    energy, g = potential(data, z)
    r = half - 0.5 * direction * g
    error = energy + 0.5 * _dot(r, r) - start_energy
    error = jnp.where(jnp.isnan(error), jnp.inf, error)
    weight = jnp.exp(jnp.minimum(-error, 60.0))  # no further up, so that sums stay finite

    sum_tree = jnp.where(end, momentum, jnp.where(double, lanes.sums[1] + lanes.sums[0], lanes.sums[1]))
    sum_sub = jnp.where(fresh, 0.0, lanes.sums[0]) + r
    weight_tree = jnp.where(end, 1.0, jnp.where(double, lanes.weights[1] + lanes.weights[0], lanes.weights[1]))
    weight_sub = jnp.where(fresh, 0.0, lanes.weights[0]) + weight
    index = jnp.where(fresh, 0, lanes.index + 1)
    depth = jnp.where(end, 0, jnp.where(double, lanes.depth + 1, lanes.depth))

    turned, marks = _turned_inside(lanes.marks, index, r, sum_sub, max_depth)
    diverged = error > LARGEST_ERROR
    stop = turned | diverged
    full = (index + 1 == (1 << depth)) & ~stop
    turned_outside = _turns(far.r, r, sum_tree + sum_sub) | (depth + 1 >= max_depth)
    goes_on = full & ~turned_outside
    code = (
        _bit(uniform(one, z.dtype) * weight_sub < weight, TAKE)
        | _bit(full & (uniform(other, z.dtype) * weight_tree < weight_sub), TREE)
        | _bit(stop | (full & turned_outside), END)
        | _bit(goes_on, DOUBLE)
        | _bit(goes_on & ((other & 1) == 1), TURN_BACK)
        | _bit(diverged, DIVERGED)
    )
    random = lanes.random
    following = Randomness(
        random.key,
        random.step + 1,
        step_bits(random.key, random.step + 1, z.shape[0]),
        normal(random.words[2], z.dtype),
    )
    return Lanes(
        Point(z, r, g), energy, far, lanes.subtree, lanes.tree, (sum_sub, sum_tree), (weight_sub, weight_tree),
        start_energy, direction, index, depth,
        jnp.where(end, 0.0, lanes.accepted) + jnp.minimum(weight, 1.0),
        jnp.where(end, 0, lanes.leaves) + 1,
        marks, following, code,
    )  # fmt: skip


def _turned_inside(
    marks: tuple[Array, Array], index: Array, r: Array, total: Array, max_depth: int
) -> tuple[Array, tuple[Array, Array]]:
    """Whether the leaf closes a smaller subtree that has turned, and the marks with this leaf among them.

    Every even leaf opens subtrees and leaves a mark; every odd one closes as many as its number has trailing ones in
    binary. Which mark belongs to a subtree that a leaf closes is found by counting ones (Phan et al., section 3.2).
    """
    momenta, sums = marks
    even = (index & 1) == 0
    last = lax.population_count(index >> 1)
    first = last - lax.population_count((index ^ (index + 1)) >> 1) + 1
    turned = jnp.zeros(index.shape, bool)
    for k in range(max_depth - 1):
        closes = ~even & (first <= k) & (k <= last)
        turned = turned | (closes & _turns(momenta[k], r, total - sums[k] + momenta[k]))
    slot = lax.broadcasted_iota(jnp.int32, (max_depth - 1, index.shape[0]), 0)
    here = (even & (last == slot))[:, None]
    return turned, (jnp.where(here, r, momenta), jnp.where(here, total, sums))


def _turns(one_end: Array, other_end: Array, total: Array) -> Array:
    """Whether a trajectory with these momenta at its ends and this sum of momenta has begun to come back.

    Half of each end is left out of the sum, as NumPyro does: the test then sees the way between the two ends.
    """
    between = total - 0.5 * (one_end + other_end)
    return (_dot(one_end, between) <= 0) | (_dot(other_end, between) <= 0)


def _dot(a: Array, b: Array) -> Array:
    """Inner product over the first axis, [L]. Written as a sum of rows, which stay vectors of lanes."""
    product = a * b
    total = product[0]
    for row in range(1, product.shape[0]):
        total = total + product[row]
    return total


def _decided(code: Array, bit: int) -> Array:
    return (code & bit) != 0


def _bit(condition: Array, bit: int) -> Array:
    return jnp.where(condition, jnp.int32(bit), jnp.int32(0))
