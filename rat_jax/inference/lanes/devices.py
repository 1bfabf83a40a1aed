"""Where lanes run: every device takes the next unit of lanes as soon as it is free.

Lanes are split over devices by whole units, each placed on one device, not by one program over all of them: such a
program ends its loops together, so that every device would wait for the slowest lane of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeVar

import jax

from rat_jax.inference.settings import processors

T = TypeVar("T")
R = TypeVar("R")


class Grain(NamedTuple):
    """How lanes are cut up for a kind of device.

    sizes: slots of a program, one compilation for each size that is used. steps: leapfrogs per compiled call, the
    grain at which lanes are replaced, and of progress. unit, draws: most lanes that are worked through as one piece,
    and most draws in all of them.
    """

    sizes: tuple[int, ...]
    steps: int
    unit: int
    draws: int


PROCESSOR = Grain((64,), 512, 1024, 5_000_000)
"""64 slots fill the vector units and stay in the nearest cache. There is one size, as code for another would round
otherwise: a lane's numbers must not depend on how many others there are."""

ACCELERATOR = Grain((64, 512, 4096, 16_384), 256, 65_536, 50_000_000)  # thousands of lanes fill a GPU


def chosen_devices(devices: Sequence[Any] | None) -> list[Any]:
    """The given devices, or all local ones; raises ValueError for what is no device of this process."""
    local = jax.local_devices()
    chosen = local if devices is None else list(devices)
    if not chosen or any(d not in local for d in chosen):
        raise ValueError(
            f"devices: expected some of this process's devices, {', '.join(map(str, local))}, found {devices!r}; "
            "pass a list such as jax.local_devices()[:1]"
        )
    return chosen


def device_kinds(devices: Sequence[Any] | None) -> list[str]:
    """The kinds of some devices, each once."""
    return sorted({d.device_kind for d in chosen_devices(devices)})


class Workers:
    """Devices that work beside each other; a processor is worth as many as its cores, in threads.

    devices: JAX devices of this process, all local ones if not given. Raises ValueError for anything else.
    """

    def __init__(self, devices: Sequence[Any] | None = None) -> None:
        chosen = chosen_devices(devices)
        on_processor = all(d.platform == "cpu" for d in chosen)
        self.grain = PROCESSOR if on_processor else ACCELERATOR
        self.has_whole_processor = on_processor and devices is None
        self.number = max(len(chosen), processors()) if self.has_whole_processor else len(chosen)
        self._free: SimpleQueue[Any] = SimpleQueue()
        for i in range(self.number):
            self._free.put(chosen[i % len(chosen)])

    def map(self, work: Callable[[T], R], units: Sequence[T]) -> list[R]:
        """What `work` makes of every unit, in their order; each runs with its device as JAX's default."""

        def one(unit: T) -> R:
            device = self._free.get()
            try:
                with jax.default_device(device):
                    return work(unit)
            finally:
                self._free.put(device)

        if self.number == 1:
            return [one(unit) for unit in units]
        pool = ThreadPoolExecutor(min(self.number, len(units)))
        try:
            return list(pool.map(one, units))
        finally:
            pool.shutdown(cancel_futures=True)
