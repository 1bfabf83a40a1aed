"""The judge model: RAT, and what one or several judges say of every row.

P(R, A, T, R_J, T_J) = P(R) P(A | R) P(T | A, R) P(R_J, T_J | R, A, T). A judge only reads the state, so the states stay
RAT's six. Its error structure is a choice: which states share error rates, and whether its two verdicts err together.

Source: the paper's section 3, "The Automated Judge Extension", and section 5.4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real

from rat_jax.model.declaration import Conditional, Contrast, Probability, Table, Variable
from rat_jax.model.network import Network
from rat_jax.model.rat import RAT
from rat_jax.naming import checked

STRUCTURES = ("joint", "factorized", "by_abstention", "fixed")


@dataclass(frozen=True)
class Judge:
    """One judge: its name ("" for the unnamed one) and the labels it gives a verdict on, "R", "T" or both."""

    name: str
    labels: tuple[str, ...]

    @property
    def suffix(self) -> str:
        """What its columns and quantities end with: ".gpt4", or nothing."""
        return f".{self.name}" if self.name else ""

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Its columns, such as R_J.gpt4 and T_J.gpt4."""
        return tuple(f"{label}_J{self.suffix}" for label in self.labels)

    def rates(self) -> list[str]:
        """Names of its error rates, false positive before true positive."""
        return [f"{kind}_{label}{self.suffix}" for label in self.labels for kind in ("fpr", "tpr")]


def judges_of(variables: Sequence[str]) -> tuple[Judge, ...]:
    """The judges behind columns such as R_J, T_J, R_J.gpt4: the unnamed one first, others by name.

    >>> [(judge.name, judge.labels) for judge in judges_of(["T_J.llama", "R_J", "T_J"])]
    [('', ('R', 'T')), ('llama', ('T',))]
    """
    heard = [v.partition(".") for v in variables if v.partition(".")[0] in ("R_J", "T_J")]
    names = sorted({name for _, _, name in heard})
    return tuple(Judge(n, tuple(x for x in "RT" if any(h[0] == f"{x}_J" and h[2] == n for h in heard))) for n in names)


def judge_network(
    readings: Sequence[str],
    structure: str = "joint",
    shared: bool = False,
    rates: Mapping[str, float] | None = None,
) -> Network:
    """The judge model for the judges' columns that are there.

    readings: names of judges' columns: R_J, T_J, R_J.<name>, T_J.<name>.
    structure: how a judge errs.
        "joint": its verdicts have a distribution of their own in each of the six states (18 degrees of freedom for a
        judge of both labels), uniform Dirichlet priors.
        "factorized": P(R_J | R) P(T_J | T); a true and a false positive rate for each label.
        "by_abstention": the same, with rates of their own where the system abstained.
        "fixed": factorized with known `rates`.
    shared: one error table for all systems.
    rates: for "fixed", every rate by name, such as {"tpr_R": 0.77, "fpr_R": 0.19}, strictly between 0 and 1.

    Raises ValueError for no judge, an unknown structure, and rates that are missing, unknown or out of range.
    """
    checked(structure, STRUCTURES, "judge_structure")
    judges = judges_of(readings)
    if not judges:
        raise ValueError(
            "model 'judge' needs a judge's column: R_J, T_J, R_J.<name> or T_J.<name>; found none. Without a judge use "
            "model='rat'"
        )
    known = _checked_rates(judges, structure, rates)
    tables = [table for judge in judges for table in _tables(judge, structure, shared, known)]
    given = {name for table in tables for name in table.row_names if not table.known}
    probabilities = [q for judge in judges for q in _probabilities(judge) if q.name not in given]
    conditionals = [Conditional(f"judge{j.suffix}", j.variables, "verdict") for j in judges if structure != "joint"]
    return replace(
        RAT,
        name="judge",
        variables=(*RAT.variables, *(Variable(v) for table in tables for v in table.variables)),
        tables=(*RAT.tables, *tables),
        probabilities=(*RAT.probabilities, *probabilities),
        contrasts=tuple(_youden(label, judge) for judge in judges for label in judge.labels),
        conditionals=tuple(conditionals),
    )


def _checked_rates(judges: Sequence[Judge], structure: str, rates: Mapping[str, float] | None) -> dict[str, float]:
    needed = [name for judge in judges for name in judge.rates()]
    if structure != "fixed":
        if rates:
            raise ValueError(f"judge_rates: only judge_structure='fixed' takes known rates, found {structure!r}")
        return {}
    if rates is not None and not isinstance(rates, Mapping):
        raise ValueError(f"judge_rates: expected a mapping such as {{'tpr_R': 0.9, 'fpr_R': 0.1}}, found {rates!r}")
    known = dict(rates or {})
    for name in known:
        checked(name, needed, "judge_rates")
    if missing := [name for name in needed if name not in known]:
        example = ", ".join(f"{name!r}: {0.9 if name.startswith('tpr') else 0.1}" for name in needed)
        raise ValueError(f"judge_rates: {missing[0]} is missing; judge_structure='fixed' needs all of {{{example}}}")
    for name, value in known.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not 0.0 < value < 1.0:
            never = (
                value in (0, 1) and "; the verdicts of a judge that never errs are labels: put them in column R or T"
            )
            raise ValueError(f"judge_rates: expected {name} strictly between 0 and 1, found {value!r}{never or ''}")
    return {name: float(value) for name, value in known.items()}


def _tables(judge: Judge, structure: str, shared: bool, known: Mapping[str, float]) -> list[Table]:
    end = judge.suffix
    if structure == "joint":
        table = Table(f"judge{end}", judge.variables, ("R", "A", "T"), row_dim="state", outcome_dim="verdict")
        return [replace(table, measures=True, shared=shared)]
    tables = []
    for label, variable in zip(judge.labels, judge.variables, strict=True):
        parents, rows = (label,), (f"fpr_{label}", f"tpr_{label}")
        if structure == "by_abstention":
            parents = ("A", label)
            rows = tuple(f"{kind}_{label}_{case}" for case in ("answered", "abstained") for kind in ("fpr", "tpr"))
            if label == "T":  # an abstention is never correct
                rows = ("fpr_T_answered", "tpr_T", "fpr_T_abstained")
        table = Table(f"judge_{label}{end}", (variable,), parents, tuple(f"{row}{end}" for row in rows), measures=True)
        rates = tuple((1.0 - known[row], known[row]) for row in table.row_names) if known else ()
        tables.append(replace(table, shared=shared, known=rates))
    return tables


def _probabilities(judge: Judge) -> list[Probability]:
    """What a judge says on average, and its error rates given the truth."""
    found = []
    for label, variable in zip(judge.labels, judge.variables, strict=True):
        found.append(Probability(f"p_{label}J{judge.suffix}", ((variable, 1),)))
        found.extend(_rate(kind, label, judge) for kind in ("tpr", "fpr"))
    return found


def _rate(kind: str, label: str, judge: Judge) -> Probability:
    verdict = ((f"{label}_J{judge.suffix}", 1),)
    return Probability(f"{kind}_{label}{judge.suffix}", verdict, given=((label, int(kind == "tpr")),))


def _youden(label: str, judge: Judge) -> Contrast:
    return Contrast(f"youden_{label}{judge.suffix}", _rate("tpr", label, judge), _rate("fpr", label, judge))
