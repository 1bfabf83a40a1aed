"""A loop of many small operations compiled as one function, on processors.

XLA's runtime for processors hands every fused operation to a pool of threads. The steps of lanes are some seventy
operations of a few microseconds each, so that the handing over costs half as much again as the work, and keeps the
other cores busy with it. A call that carries the hint below is emitted as one function instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend.core import jaxpr_as_fun

HINT = {"inlineable": "false", "xla_cpu_small_call": "true"}  # attributes that other compilers do not heed


def in_one_kernel(work: Callable[..., Any]) -> Callable[..., Any]:
    """`work` on arrays, for use inside `jax.jit` on a processor: its operations are compiled as one function.

    They are traced before the hint is given, which is meant for the call alone and not for the calls within.
    """

    def hinted(*args: Any) -> Any:
        traced, like = jax.make_jaxpr(work, return_shape=True)(*args)
        with set_xla_metadata(**HINT):
            found = jax.jit(jaxpr_as_fun(traced))(*jax.tree.leaves(args))
        return jax.tree.unflatten(jax.tree.structure(like), found)

    return hinted
