"""The compiled programs that lanes stream through: fill slots, warm up, hand out draws.

Each is one call of a fixed number of leapfrogs in all slots; what happens between calls is in `sampler`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from rat_jax.inference.lanes.kernel import in_one_kernel
from rat_jax.inference.lanes.potentials import with_scale
from rat_jax.inference.lanes.transition import Drawn, Lanes, Potential, begin, leap, settle
from rat_jax.inference.lanes.warmup import Adaptation, Schedule, adapt, begin_adaptation


class Machine(NamedTuple):
    """What a program is compiled for: lanes that move on a potential with at most so many doublings, the leapfrogs of
    a call, and whether it is one kernel or as the compiler has it."""

    potential: Potential
    max_depth: int
    steps: int
    one_kernel: bool


@partial(jax.jit, static_argnums=(0, 1))
def renew(potential: Potential, max_depth: int, data: Any, z: Array, key: Array, fresh: Array, old: Any) -> Any:
    """The data, and lanes at their starts that have learned nothing yet; where not `fresh` [L], the old ones."""
    new = begin(potential, data, z, (key[0], key[1]), max_depth), begin_adaptation(data[2].scale)
    return data, *(new if old is None else jax.tree.map(lambda a, b: jnp.where(fresh, a, b), new, old))


@partial(jax.jit, static_argnums=0)
def warm(machine: Machine, data: Any, plan: Schedule, lanes: Lanes, learned: Adaptation) -> tuple[Lanes, Adaptation]:
    """Steps until all lanes are warmed up or the call is over."""
    work = partial(_warmed, machine)
    return (in_one_kernel(work) if machine.one_kernel else work)(data, plan, lanes, learned)


def _warmed(machine: Machine, data: Any, plan: Schedule, lanes: Lanes, learned: Adaptation) -> tuple[Lanes, Adaptation]:
    def going(carry: tuple[Array, Lanes, Adaptation]) -> Array:
        step, _, learned = carry
        return (step < machine.steps) & jnp.any(learned.done < plan.num_warmup)

    def step(carry: tuple[Array, Lanes, Adaptation]) -> tuple[Array, Lanes, Adaptation]:
        i, lanes, learned = carry
        lanes, drawn = settle(lanes)
        lanes, learned = adapt(plan, lanes, drawn, learned)
        lanes = leap(
            machine.potential, with_scale(data, learned.scale), jnp.exp(learned.log_step), lanes, machine.max_depth
        )
        return i + 1, lanes, learned

    _, lanes, learned = lax.while_loop(going, step, (jnp.int32(0), lanes, learned))
    return lanes, learned


@partial(jax.jit, static_argnums=0)
def sample(machine: Machine, data: Any, step_size: Array, lanes: Lanes) -> tuple[Lanes, dict[str, Array]]:
    """Steps of all lanes and what each step handed out, [steps, ..., L]."""
    work = partial(_sampled, machine)
    return (in_one_kernel(work) if machine.one_kernel else work)(data, step_size, lanes)


def _sampled(machine: Machine, data: Any, step_size: Array, lanes: Lanes) -> tuple[Lanes, dict[str, Array]]:
    def shown(drawn: Drawn) -> dict[str, Array]:
        choice = drawn.choice
        return {
            "code": drawn.code,
            "logits": data[2].logits(choice.z),
            "energy": choice.energy,
            "accepted": drawn.acceptance,
            "leaves": drawn.leaves,
        }

    def step(i: Array, carry: tuple[Lanes, dict[str, Array]]) -> tuple[Lanes, dict[str, Array]]:
        lanes, buffer = carry
        lanes, drawn = settle(lanes)
        put = lambda b, x: lax.dynamic_update_index_in_dim(b, x, i, 0)  # noqa: E731
        return leap(machine.potential, data, step_size, lanes, machine.max_depth), jax.tree.map(
            put, buffer, shown(drawn)
        )

    like = jax.eval_shape(lambda lanes: shown(settle(lanes)[1]), lanes)
    buffer = jax.tree.map(lambda x: jnp.zeros((machine.steps, *x.shape), x.dtype), like)
    return lax.fori_loop(0, machine.steps, step, (lanes, buffer))
