"""The joint posterior of systems that answered the same questions: every system's own posterior, coupled.

`pair` is the door. `units` says which systems share a parameter, `coupling` makes the draws of different units depend
on each other, `completing` explores a unit that shares an R which is not always known.
"""

from rat_jax.inference.paired.pair import pair, paired_or_why

__all__ = ["pair", "paired_or_why"]
