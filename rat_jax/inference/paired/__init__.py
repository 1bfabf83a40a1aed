"""The joint posterior of systems that answered the same questions: every system's own posterior, coupled.

`pair` is the door. `units` says which systems share a parameter and what their labels say, `coupling` makes the draws
of different systems depend on each other.
"""

from rat_jax.inference.paired.pair import pair, paired_or_why

__all__ = ["pair", "paired_or_why"]
