"""What a quantity means, in the words that tables, figures and files share; and text from files made harmless.

A quantity's name comes in, a few plain words come out. Names of systems are shown as they are, except for
characters that would move the cursor or be read as markup.
"""

from __future__ import annotations

import re

HEADLINES = ("p_R", "p_A", "p_T", "p_G")

MEANINGS = {
    "p_R": "retrieval is sufficient",
    "p_A": "system abstains",
    "p_T": "user gets a correct answer",
    "p_G": "system does what it should",
    "p_G_strict": "as it should; partial: abstain",
    "p_G_lenient": "as it should; partial: abstain or answer",
    "theta_R": "the same as p_R",
    "theta_A_minus": "abstains when retrieval failed",
    "theta_A_plus": "abstains when retrieval was ok",
    "theta_T_minus": "answer correct without support",
    "theta_T_plus": "answer correct with support",
}

# Of one level of retrieval, where it has more than two; the level's own word follows.
OF_A_LEVEL = {
    "theta_R": "retrieval is",
    "theta_A": "abstains, retrieval",
    "theta_T": "answer correct, retrieval",
}

# What one judge, {}, says.
OF_A_JUDGE = {
    "p_RJ": "{} says retrieval ok (raw rate)",
    "p_TJ": "{} says correct (raw rate)",
    "tpr_R": "{} says retrieval ok when it is",
    "fpr_R": "{} says retrieval ok when it is not",
    "tpr_T": "{} says correct when it is",
    "fpr_T": "{} says correct when it is not",
    "youden_R": "skill of {} on retrieval (0: none)",
    "youden_T": "skill of {} on correctness (0: none)",
    "tpr_R_answered": "{} says retrieval ok when it is, and system answered",
    "fpr_R_answered": "{} says retrieval ok when it is not, and system answered",
    "tpr_R_abstained": "{} says retrieval ok when it is, and system abstained",
    "fpr_R_abstained": "{} says retrieval ok when it is not, and system abstained",
    "fpr_T_answered": "{} says correct of an answer that is not",
    "fpr_T_abstained": "{} says correct of an abstention",
    "judge": "{} gives these verdicts in this state",
}


def meaning(quantity: str) -> str:
    """The meaning of a quantity in a few words; empty where there are none.

    An element such as `theta_A[partial]` and a named judge's `tpr_R.gpt4` are told from their names alone.

    >>> meaning("theta_A[partial]"), meaning("tpr_T.gpt4")
    ('abstains, retrieval partial', 'gpt4 says correct when it is')
    """
    base, judge, element = parts(quantity)
    if base in OF_A_JUDGE:
        return OF_A_JUDGE[base].format(judge or "judge")
    if element and base in OF_A_LEVEL:
        return f"{OF_A_LEVEL[base]} {element}"
    if base.startswith("p_G_") and base not in MEANINGS:
        return f"does as policy {base.removeprefix('p_G_')} wants"
    return MEANINGS.get(base, "")


def parts(quantity: str) -> tuple[str, str, str]:
    """A quantity's name, its judge's and its element's: "judge.gpt4[a,b]" -> ("judge", "gpt4", "a,b"); "" for none."""
    name, dot, judge = quantity.partition(".")
    if dot and name in OF_A_JUDGE and name != "judge":
        return name, judge, ""
    found = re.fullmatch(r"(theta_\w+|judge)(?:\.(.+?))?(?:\[([^\[]*)\])?", quantity, re.DOTALL)
    return found.groups(default="") if found else (quantity, "", "")  # type: ignore[return-value]


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
