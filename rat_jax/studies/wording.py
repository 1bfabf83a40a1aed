"""How the answers about decisions are worded: a probability that draws can bear, a difference with its sign.

Numbers come in, a few characters go out.
"""

from __future__ import annotations

from collections.abc import Sequence

DECIMALS = 3


def of_draws(probability: float) -> str:
    """A probability to two decimals, near 0 and 1 to three; never 0 or 1, which a number of draws cannot show.

    >>> of_draws(0.5012), of_draws(0.9912), of_draws(1.0)
    ('0.50', '0.991', 'over 0.999')
    """
    if probability > 0.9985:
        return "over 0.999"
    if probability < 0.0015:
        return "under 0.001"
    return f"{probability:.{2 if 0.02 <= probability <= 0.98 else 3}f}"


def signed(value: float) -> str:
    """A difference with its sign; what rounds to nothing has none.

    >>> signed(0.1048), signed(-0.02), signed(-0.0001)
    ('+0.105', '-0.020', '0.000')
    """
    text = f"{value:+.{DECIMALS}f}"
    return text[1:] if float(text) == 0 else text


def with_interval(low: float, high: float, sign: bool = True) -> str:
    """The ends of an interval in brackets.

    >>> with_interval(-0.02, 0.1), with_interval(0.02, 0.1, sign=False)
    ('[-0.020, +0.100]', '[0.020, 0.100]')
    """
    ends = [signed(end) if sign else f"{end:.{DECIMALS}f}" for end in (low, high)]
    return f"[{ends[0]}, {ends[1]}]"


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence with commas, and "and" before the last.

    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
