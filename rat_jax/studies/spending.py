"""How a budget is best spent: every purchase alone, and the mix that buys the most at every step.

The information that purchases are expected to give comes in; amounts per purchase go out, and the cost at which a
wanted width is met.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rat_jax.studies.expected_information import Outlook
from rat_jax.studies.purchases import HELD, NEW

STEPS = 40  # of a budget that is spent where it buys the most
SMALLEST_SHARE = 0.05  # of a mix; less goes to its largest part
AS_GOOD = 0.005  # a single purchase whose width is this close to the best mix is preferred: it is simpler
MOST_UNITS = 1e6  # labels of the cheapest kind after which a width is given up
BISECTIONS = 40

MIX = "mix"


@dataclass(frozen=True, eq=False)
class Option:
    """One way to spend money: a purchase alone, in all rows it can be made for. shares: [K] of each unit of cost."""

    name: str
    shares: np.ndarray
    most: float

    def spend(self, amount: float) -> np.ndarray:
        """Amounts per purchase [K]."""
        return min(amount, self.most) * self.shares


def options(outlook: Outlook) -> list[Option]:
    """Every purchase alone. One of held rows is made in all kinds of rows it suits, in proportion to their number."""
    groups: dict[tuple[bool, str], list[int]] = {}
    for k, purchase in enumerate(outlook.purchases):
        groups.setdefault((purchase.is_new, purchase.name), []).append(k)
    both = len({is_new for is_new, _ in groups}) > 1
    price, most = outlook.price.mean(axis=1), outlook.room(np.zeros(len(outlook.purchases)))
    found = []
    for (is_new, name), places in groups.items():
        rows = np.zeros(len(price))
        rows[places] = [1.0 if is_new else outlook.purchases[k].available for k in places]
        total = float(rows @ price)
        label = f"{name}, {NEW if is_new else HELD} rows" if both else name
        found.append(Option(label, rows * price / total, math.inf if is_new else float(most[places].sum())))
    return found


def greedy(outlook: Outlook, stops: Sequence[float]) -> list[np.ndarray]:
    """Amounts per purchase [K] at each of the rising `stops`: every step goes where it narrows the interval most."""
    spent, found = np.zeros(len(outlook.purchases)), []
    grid = np.unique(np.concatenate([np.linspace(0, max(stops), STEPS + 1)[1:], stops]))
    for stop in grid:
        while (left := stop - spent.sum()) > 1e-9 * stop:
            rate = outlook.marginal(spent)
            best = int(np.argmax(rate))
            if rate[best] <= 0:
                break
            spent[best] += min(left, float(outlook.room(spent)[best]))
        if stop in stops:
            found.append(_tidy(outlook, spent))
    return found


def _tidy(outlook: Outlook, spent: np.ndarray) -> np.ndarray:
    """The same without crumbs, if the largest part has room for them."""
    crumbs = spent < SMALLEST_SHARE * spent.sum()
    tidy = np.where(crumbs, 0.0, spent)
    largest = int(np.argmax(tidy))
    if spent[crumbs].sum() > outlook.room(tidy)[largest]:
        return spent.copy()
    tidy[largest] += spent[crumbs].sum()
    return tidy


def recommended(
    outlook: Outlook, singles: Sequence[Option], mixes: Sequence[np.ndarray], budgets: Sequence[float]
) -> list[tuple[str, np.ndarray]]:
    """For each budget the name and amounts [K] of the best way to spend it."""
    found = []
    for budget, mix in zip(budgets, mixes, strict=True):
        widths = {single.name: float(outlook.widths(single.spend(budget)).mean()) for single in singles}
        best = min(widths, key=widths.__getitem__)
        if widths[best] <= (1 + AS_GOOD) * float(outlook.widths(mix).mean()):
            found.append((best, next(s for s in singles if s.name == best).spend(budget)))
        else:
            found.append((MIX, mix))
    return found


def smallest(is_met: Callable[[float], bool], low: float, high: float) -> float | None:
    """The smallest amount between the ends, to one part in a thousand, at which a rising condition is met; or None."""
    top = low
    while not is_met(top):
        if top >= high:
            return None
        top = min(4 * top, high)
    bottom = 0.0 if top == low else top / 4
    for _ in range(BISECTIONS):
        if top - bottom <= 1e-3 * top:
            break
        middle = (bottom + top) / 2
        bottom, top = (bottom, middle) if is_met(middle) else (middle, top)
    return top
