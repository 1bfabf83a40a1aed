"""What a quantity means, in the words that tables, figures and files share; and text from files made harmless.

A quantity's name comes in, a few plain words come out. Names of systems are shown as they are, except for
characters that would move the cursor or be read as markup.
"""

from __future__ import annotations

HEADLINES = ("p_R", "p_A", "p_T", "p_G")

MEANINGS = {
    "p_R": "retrieval is sufficient",
    "p_A": "system abstains",
    "p_T": "user gets a correct answer",
    "p_G": "system does what it should",
    "theta_R": "the same as p_R",
    "theta_A_minus": "abstains when retrieval failed",
    "theta_A_plus": "abstains when retrieval was ok",
    "theta_T_minus": "answer correct without support",
    "theta_T_plus": "answer correct with support",
}


def meaning(quantity: str) -> str:
    """The meaning of a quantity in a few words; empty where there are none. `theta_A[partial]` is read as `theta_A`."""
    return MEANINGS.get(quantity) or MEANINGS.get(quantity.partition("[")[0], "")


def printable(text: str) -> str:
    """The text with every control character spelled out, so that it cannot move the cursor or ring a bell."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def shortened(text: str, most: int) -> str:
    """At most `most` characters; the middle is left out, because names often differ at the end."""
    text = printable(text)
    if len(text) <= most:
        return text
    head = (most - 3) // 2
    return f"{text[:head]}...{text[len(text) - (most - 3 - head) :]}"


def plural(number: int, noun: str) -> str:
    """ "1 row", "2,000 rows"."""
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
