"""Requirements on a posterior, for a machine that has to decide: met, not met, or no verdict.

A posterior and sentences such as "p_G[new] - p_G[old] > -0.01 with 0.95" come in. Out comes, for each of them, how
probable it is, and whether that is enough.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rat_jax.inference.convergence import convergence
from rat_jax.inference.fit import selection_problem
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES
from rat_jax.model.declaration import Policy
from rat_jax.model.network import Network
from rat_jax.model.quantities import elements
from rat_jax.naming import checked
from rat_jax.studies.asked import asked, dependence_note, judged, paired_fit
from rat_jax.studies.requirement import EXAMPLE, HOLDS, Sentence, Term, read_requirement
from rat_jax.studies.wording import of_draws, with_interval

CLOSE = 2.0  # Monte Carlo errors between the probability and the one that is needed
MET, NOT_MET, NONE = "met", "not met", "none"


@dataclass(frozen=True)
class Requirement:
    """One sentence and what the posterior says of it.

    left: the quantities of the sentence, brought to one side; mean, low, high: posterior mean and 95 % interval of it.
    probability: of the sentence, in [0, 1]; mcse: its Monte Carlo error; needed: the probability that was asked for,
    in (0, 1). problems: why there is no verdict, in sentences; empty where there is one.
    """

    text: str
    left: str
    mean: float
    low: float
    high: float
    probability: float
    mcse: float
    needed: float
    problems: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """ "met" where the sentence is at least as probable as it has to be, else "not met"; "none" for no verdict."""
        return NONE if self.problems else MET if self.probability >= self.needed else NOT_MET

    @property
    def met(self) -> bool | None:
        """Whether the sentence is as probable as it has to be; None where there is no verdict."""
        return None if self.problems else self.verdict == MET

    @property
    def is_close(self) -> bool:
        """Whether other draws could have turned the verdict."""
        return abs(self.probability - self.needed) < CLOSE * self.mcse

    @property
    def is_open(self) -> bool:
        """Whether it is not met for lack of labels: its opposite is not as probable as it has to be either."""
        return self.verdict == NOT_MET and self.probability > 1 - self.needed

    def sentence(self) -> str:
        """The verdict and what it rests on, on two lines."""
        if self.problems:
            return f"NO VERDICT: {self.text}\n    {'; '.join(problem.rstrip('.') for problem in self.problems)}."
        lead = f"met: {self.text}" if self.met else f"NOT MET: {self.text}"
        said = [f"probability {of_draws(self.probability)}"]
        said += [f"{self.left} is {self.mean:.3f} {with_interval(self.low, self.high, sign=False)}"]
        if self.is_close:
            said.append(f"close: Monte Carlo error {self.mcse:.4f}, other draws could turn it; raise num_samples")
        if self.is_open:
            said.append("open: its opposite is not certain either, more labels can settle it (see plan)")
        return f"{lead}\n    {'; '.join(said)}."

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values."""
        figures = {"mean": self.mean, **dict(zip(QUANTILES, (self.low, self.high), strict=True))}
        chance = {"probability": self.probability, "mcse": self.mcse, "needed": self.needed}
        verdict = {"verdict": self.verdict, "met": self.met, "close": self.is_close, "open": self.is_open}
        facts = {"requirement": self.text, **verdict, **chance, "left": self.left, **figures}
        return facts | {"problems": list(self.problems)}


@dataclass(frozen=True)
class Gate:
    """All requirements together; true in a condition where the gate is passed.

    notes: what to know of the posterior although it forbids no verdict, in sentences.
    """

    requirements: tuple[Requirement, ...]
    notes: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether every requirement has a verdict and is met."""
        return all(one.verdict == MET for one in self.requirements)

    def __bool__(self) -> bool:
        return self.ok

    def conclusion(self) -> str:
        """Passed or not, and how many of the requirements are met, in one sentence."""
        verdicts = [one.verdict for one in self.requirements]
        others = {f"{verdicts.count(NOT_MET)} not met": NOT_MET, f"{verdicts.count(NONE)} without a verdict": NONE}
        said = [f"{verdicts.count(MET)} of {len(verdicts)} met", *(t for t, v in others.items() if v in verdicts)]
        return f"The gate is {'' if self.ok else 'not '}passed: {', '.join(said)}."

    def __str__(self) -> str:
        notes = [f"Note: {note}" for note in self.notes]
        return "\n".join([*(one.sentence() for one in self.requirements), *notes, self.conclusion()])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-able values: `ok`, the list of `requirements`, and `notes`."""
        return {
            "ok": self.ok,
            "requirements": [one.to_dict() for one in self.requirements],
            "notes": list(self.notes),
        }


def gate(fit: Posterior, require: str | Sequence[str], *, paired: bool | None = None) -> Gate:
    """Whether a posterior meets one or several requirements.

    require: sentences of the shape "QUANTITIES > NUMBER with PROBABILITY" (or <, >=, <=). Scalar quantities of systems
        are added and subtracted, "p_G[new] - p_G[old]", each perhaps times a number, "0.5 * p_T[new]"; they and
        numbers may stand on both sides. The system may be left out where there is one; an element of a quantity comes
        before it, "theta_A[partial][new]". PROBABILITY is in (0, 1).
    paired: whether a requirement on several systems takes them as they answered the same questions, as in `compare`:
        where ids match if not given.

    A requirement is met where its posterior probability is at least PROBABILITY. There is no verdict where the sampling
    cannot be trusted, or the labels do not inform a quantity of it or what is asked of a system's quantities together.
    The Monte Carlo error of the probability is told, and where it could turn the verdict that is said.

    Raises ValueError for a sentence of another shape, and for unknown quantities and systems.

    Examples
    --------
    >>> import rat_jax as rat
    >>> fit = rat.fit(rat.example_labels())
    >>> found = rat.gate(fit, "p_G[reference] - p_G[gpt-4o] > -0.01 with 0.95")
    >>> found.ok
    True
    >>> print(rat.gate(fit, ["p_G[reference] > p_G[gpt-4o] with 0.9", "p_T[reference] > 0.95 with 0.9"]).conclusion())
    The gate is not passed: 1 of 2 met, 1 not met.
    """
    sentences = [require] if isinstance(require, str) else require
    if not isinstance(sentences, Sequence) or not sentences:
        raise ValueError(f'require: expected a sentence such as "{EXAMPLE}", or a list of them, found {require!r}')
    asked_for = [read_requirement(sentence) for sentence in sentences]
    check_names(asked_for, fit.network, fit.policies, fit.systems)
    selection = selection_problem(fit.network, fit.provenance.get("selected_by", ()))
    notes = [] if selection is None else [selection]
    is_joint = [_is_of_several(fit, sentence) for sentence in asked_for]
    joint = fit
    if any(is_joint):
        joint = paired_fit(fit, paired)
        notes.append(dependence_note(joint))
    found = (_required(joint if several else fit, one) for several, one in zip(is_joint, asked_for, strict=True))
    return Gate(tuple(found), tuple(notes))


def check_names(
    sentences: Sequence[Sentence], network: Network, policies: Mapping[str, Policy], systems: Sequence[str]
) -> None:
    """Raises ValueError for a quantity or a system that is not there; nothing needs to be fitted for that."""
    known = _known(network, policies)
    for sentence in sentences:
        for term in sentence.terms:
            _placed(sentence, term, known, systems)


def _known(network: Network, policies: Mapping[str, Policy]) -> list[str]:
    return list(elements(network, policies, np.full(network.num_cells, 0.5)))


def _placed(sentence: Sentence, term: Term, known: Sequence[str], systems: Sequence[str]) -> tuple[str, str]:
    """Quantity and system of a term: the last brackets are a system, or an element where there is one system only."""
    try:
        last = term.brackets[-1] if term.brackets else None
        if last is not None and (system := _named(last, systems)):
            return _quantity(str(Term(1.0, term.name, term.brackets[:-1])), known), system
        has_elements = any(quantity.startswith(f"{term.name}[") for quantity in known)
        if last is not None and not (has_elements and len(term.brackets) == 1):
            checked(last, systems, "system")
        quantity = _quantity(str(term), known)
        if len(systems) > 1:
            raise ValueError(
                f"expected a system in brackets after {quantity}, such as {quantity}[{systems[0]}]; there are "
                f"{', '.join(map(repr, systems[:10]))}"
            )
        return quantity, systems[0]
    except ValueError as error:
        raise ValueError(f"requirement {sentence.text!r}: {error}") from error


def _named(text: str, systems: Sequence[str]) -> str | None:
    """The system that is called so, blanks at the ends left aside; None where there is none."""
    return text if text in systems else text.strip() if text.strip() in systems else None


def _quantity(name: str, known: Sequence[str]) -> str:
    if name not in known and (element := next((q for q in known if q.startswith(f"{name}[")), None)):
        raise ValueError(f"expected a quantity with one value, {name} has several; name one such as {element}")
    return checked(name, known, "quantity")


def _is_of_several(fit: Posterior, sentence: Sentence) -> bool:
    known = _known(fit.network, fit.policies)
    return len({_placed(sentence, term, known, fit.systems)[1] for term in sentence.terms}) > 1


def _required(fit: Posterior, sentence: Sentence) -> Requirement:
    known = _known(fit.network, fit.policies)
    draws, mean, problems = np.zeros(1), 0.0, []
    parts: dict[str, list[tuple[float, str]]] = {}
    for term in sentence.terms:
        name, system = _placed(sentence, term, known, fit.systems)
        one = asked(fit, name, [system])
        draws = draws + term.times * one.draws[0]
        mean += term.times * float(one.table["mean"].iloc[0])
        problems += one.problems() if one.sampling_ok else [_sampling(fit)]
        parts.setdefault(system, []).append((term.times, name))
    if not problems:
        problems = _together(fit, parts)
    holds = HOLDS[sentence.relation](draws, sentence.bound)
    low, high = np.quantile(draws, list(QUANTILES.values()))
    probability = float(holds.mean())
    return Requirement(
        text=sentence.text,
        left=_written(sentence.terms),
        mean=mean,
        low=float(low),
        high=float(high),
        probability=probability,
        mcse=_error(fit, draws, holds, probability),
        needed=sentence.needed,
        problems=tuple(dict.fromkeys(problems)),
    )


def _written(terms: Sequence[Term]) -> str:
    """Quantities added up, as they are written: "p_G[new] - 0.5 * p_G[old]"."""
    parts = []
    for term in terms:
        size = "" if abs(term.times) == 1 else f"{abs(term.times):g} * "
        sign = ("- " if term.times < 0 else "+ ") if parts else ("-" if term.times < 0 else "")
        parts.append(f"{sign}{size}{term}")
    return " ".join(parts)


def _sampling(fit: Posterior) -> str:
    """Why the draws cannot be trusted and what to do about it."""
    found = fit.diagnostics
    return "; ".join([found.verdict.rstrip("."), *found.problems])


def _together(fit: Posterior, parts: Mapping[str, Sequence[tuple[float, str]]]) -> list[str]:
    """Where each quantity of a system is informed, but what is asked of them together is not, in sentences."""
    problems = []
    for system, terms in parts.items():
        if len(terms) < 2:
            continue
        name = _written([Term(times, quantity) for times, quantity in terms])
        verdict = judged(fit, {name: _sum(fit, terms)}, [system])[system, name]
        if not verdict.ok:
            problems.append(f"{name} of {system} is not informed by the labels: {verdict.advice}")
    return problems


def _sum(fit: Posterior, terms: Sequence[tuple[float, str]]) -> Callable[[np.ndarray], np.ndarray]:
    def value(cells: np.ndarray) -> np.ndarray:
        found = elements(fit.network, fit.policies, cells)
        return np.sum([times * found[name] for times, name in terms], axis=0)

    return value


def _error(fit: Posterior, draws: np.ndarray, holds: np.ndarray, probability: float) -> float:
    """Monte Carlo error of a probability from the draws and its yes or no at each of them, chains end to end."""
    spread = math.sqrt(probability * (1 - probability))
    if fit.sample_stats is None:
        size = len(holds)
    else:
        chains = fit.data.sizes["chain"]
        marks = (holds if spread else draws).reshape(chains, -1).astype(float)
        size = float(convergence(marks).ess_mean)
    return spread / math.sqrt(size) if spread else 1.5 / size  # none among n says: under 3 / n, with 95 % certainty
