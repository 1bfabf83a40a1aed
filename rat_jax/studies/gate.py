"""Requirements on a posterior, for a machine that has to decide: met, not met, or no verdict.

A posterior and sentences such as "p_G[new] - p_G[old] > -0.01 with 0.95" come in. Out comes, for each of them, how
probable it is, and whether that is enough.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rat_jax.inference.convergence import convergence
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES
from rat_jax.naming import checked
from rat_jax.studies.asked import asked
from rat_jax.studies.wording import of_draws, with_interval

EXAMPLE = "p_G[new] - p_G[old] > -0.01 with 0.95"
SHAPE = re.compile(r"^(?P<left>.+?)\s*(?P<sign>[<>])\s*(?P<bound>\S+)\s+with\s+(?P<needed>\S+)$")
TERM = re.compile(
    r"\s*(?P<sign>[+-]?)\s*(?:(?P<times>\d[\d.]*)\s*\*\s*)?(?P<name>[A-Za-z_]\w*(?:\.\w+)*)(?P<of>(?:\[[^\]]*\])*)\s*"
)
CLOSE = 2.0  # Monte Carlo errors between the probability and the one that is needed


@dataclass(frozen=True)
class Requirement:
    """One sentence and what the posterior says of it.

    mean, low, high: of the left side, mean and 95 % interval. probability: of the sentence, in [0, 1]; mcse: its
    Monte Carlo error; needed: the probability that was asked for, in (0, 1).
    problems: why there is no verdict, in sentences; empty where there is one.
    """

    text: str
    mean: float
    low: float
    high: float
    probability: float
    mcse: float
    needed: float
    problems: tuple[str, ...] = ()

    @property
    def met(self) -> bool | None:
        """Whether the sentence is as probable as it has to be; None where there is no verdict."""
        return None if self.problems else self.probability >= self.needed

    @property
    def is_close(self) -> bool:
        """Whether other draws could have turned the verdict."""
        return abs(self.probability - self.needed) < CLOSE * self.mcse

    def sentence(self) -> str:
        """The verdict and what it rests on."""
        if self.problems:
            return f"NO VERDICT  {self.text}: {'; '.join(self.problems)}"
        word = "met" if self.met else "NOT MET"
        close = "; close: other draws could turn it, sample longer" if self.is_close else ""
        side = f"{self.mean:.3f} {with_interval(self.low, self.high, sign=False)}"
        return f"{word}  {self.text}: probability {of_draws(self.probability)}, left side {side}{close}"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values."""
        figures = {"mean": self.mean, **dict(zip(QUANTILES, (self.low, self.high), strict=True))}
        chance = {"probability": self.probability, "mcse": self.mcse, "needed": self.needed, "close": self.is_close}
        return {"requirement": self.text, "met": self.met, **figures, **chance, "problems": list(self.problems)}


@dataclass(frozen=True)
class Gate:
    """All requirements together."""

    requirements: tuple[Requirement, ...]

    @property
    def ok(self) -> bool:
        """Whether every requirement has a verdict and is met."""
        return all(one.met is True for one in self.requirements)

    def __str__(self) -> str:
        return "\n".join(one.sentence() for one in self.requirements)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values: `ok` and the list of `requirements`."""
        return {"ok": self.ok, "requirements": [one.to_dict() for one in self.requirements]}


def gate(fit: Posterior, require: str | Sequence[str]) -> Gate:
    """Whether a posterior meets one or several requirements.

    require: sentences of the shape "LEFT > NUMBER with PROBABILITY" (or <). LEFT adds and subtracts scalar quantities
        of systems, "p_G[new] - p_G[old]", each perhaps times a number, "0.5 * p_T[new]"; the system may be left out
        where there is one. PROBABILITY is in (0, 1).

    A requirement is met where its posterior probability is at least PROBABILITY. There is no verdict where the sampling
    cannot be trusted or the labels do not inform a quantity on the left. The Monte Carlo error of the probability is
    told, and where it could turn the verdict that is said.

    Raises ValueError for a sentence of another shape, and for unknown quantities and systems.

    Examples
    --------
    >>> import rat_jax as rat
    >>> found = rat.gate(rat.fit(rat.example_labels()), "p_G[reference] - p_G[gpt-4o] > -0.01 with 0.95")
    >>> found.ok
    True
    """
    sentences = [require] if isinstance(require, str) else list(require)
    if not sentences:
        raise ValueError(f'require: expected a sentence such as "{EXAMPLE}", found none')
    return Gate(tuple(_required(fit, sentence) for sentence in sentences))


@dataclass(frozen=True)
class Term:
    """A quantity of a system (None: not named), times a number."""

    times: float
    name: str
    system: str | None


@dataclass(frozen=True)
class Sentence:
    """A requirement as it was written: terms on the left, > or <, a bound, and the probability that is needed."""

    terms: tuple[Term, ...]
    sign: str
    bound: float
    needed: float


def read_requirement(text: str) -> Sentence:
    """The parts of a requirement; what stands in the last brackets of a term is taken for the system.

    Raises ValueError for another shape.

    >>> read_requirement("p_T[a] > 0.5 with 0.9").terms
    (Term(times=1.0, name='p_T', system='a'),)
    """
    found = SHAPE.match(text.strip())
    if found is None:
        raise ValueError(f'requirement {text!r}: expected the shape "{EXAMPLE}"')
    needed = _number(text, found["needed"], "the probability after 'with'")
    if not 0 < needed < 1:
        raise ValueError(f"requirement {text!r}: expected a probability between 0 and 1 after 'with', found {needed:g}")
    return Sentence(_terms(text, found["left"]), found["sign"], _number(text, found["bound"], "the bound"), needed)


def _terms(text: str, left: str) -> tuple[Term, ...]:
    terms, at = [], 0
    while at < len(left):
        found = TERM.match(left, at)
        if found is None or (terms and not found["sign"]):
            raise ValueError(
                f"requirement {text!r}: cannot read {left[at:].strip()!r}; expected quantities of systems, added or "
                "subtracted, such as p_G[new] - p_G[old]"
            )
        times = _number(text, found["times"], "the factor") if found["times"] else 1.0
        brackets = re.findall(r"\[([^\]]*)\]", found["of"])
        name = found["name"] + "".join(f"[{b}]" for b in brackets[:-1])
        terms.append(Term(-times if found["sign"] == "-" else times, name, brackets[-1] if brackets else None))
        at = found.end()
    return tuple(terms)


def _number(text: str, written: str, what: str) -> float:
    try:
        value = float(written)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"requirement {text!r}: expected {what} to be a number, found {written!r}")
    return value


def _required(fit: Posterior, text: str) -> Requirement:
    sentence = read_requirement(text)
    draws, mean, problems = np.zeros(1), 0.0, []
    for term in sentence.terms:
        name, system = _placed(fit, text, term)
        one = asked(fit, name, [system])
        draws = draws + term.times * one.draws[0]
        mean += term.times * float(one.table["mean"].iloc[0])
        problems += one.problems()
    holds = (draws > sentence.bound) if sentence.sign == ">" else (draws < sentence.bound)
    low, high = np.quantile(draws, list(QUANTILES.values()))
    probability = float(holds.mean())
    return Requirement(
        text=text.strip(),
        mean=mean,
        low=float(low),
        high=float(high),
        probability=probability,
        mcse=_error(fit, holds, probability),
        needed=sentence.needed,
        problems=tuple(dict.fromkeys(problems)),
    )


def _placed(fit: Posterior, text: str, term: Term) -> tuple[str, str]:
    """Quantity and system of a term; where there is one system the brackets may belong to the quantity."""
    known = {str(q) for q in fit.summary().index.unique("quantity")}
    if term.system is None or (term.system not in fit.systems and f"{term.name}[{term.system}]" in known):
        name = term.name if term.system is None else f"{term.name}[{term.system}]"
        if len(fit.systems) > 1:
            raise ValueError(
                f"requirement {text!r}: {name} of which system? Name it in brackets, {name}[{fit.systems[0]}]; "
                f"there are {', '.join(map(repr, fit.systems[:5]))}"
            )
        return name, fit.systems[0]
    return term.name, checked(term.system, fit.systems, f"requirement {text!r}: system")


def _error(fit: Posterior, holds: np.ndarray, probability: float) -> float:
    """Monte Carlo error of a probability from its yes and no at every draw, chains end to end."""
    spread = math.sqrt(probability * (1 - probability))
    if spread == 0:
        return 1.5 / len(holds)  # none among n draws says: under 3 / n, with 95 % certainty
    chains = fit.data.sizes["chain"]
    size = convergence(holds.reshape(chains, -1).astype(float)).ess_mean if chains > 1 else len(holds)
    return spread / math.sqrt(float(size))
