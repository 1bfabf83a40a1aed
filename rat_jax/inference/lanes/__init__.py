"""NUTS for thousands of small posteriors at once: every chain of every data set is a lane of whole-array steps."""

from rat_jax.inference.lanes.devices import device_kinds
from rat_jax.inference.lanes.engine import condense, sample

__all__ = ["condense", "device_kinds", "sample"]
