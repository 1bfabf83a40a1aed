"""NUTS for thousands of small posteriors at once: every chain of every data set is a lane of whole-array steps."""

from rat_jax.inference.lanes.devices import chosen_devices, device_kinds
from rat_jax.inference.lanes.engine import condense, sample

__all__ = ["condense", "chosen_devices", "device_kinds", "sample"]
