"""How does the judge err? Error structures held against each other on the user's own rows.

Labels come in and the judge model is fitted once per structure. How well each predicts a row it has not seen goes out,
which of them the rows can tell apart, and whether the choice changes the answer at all.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.fit import fit as fit_labels
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import Progress
from rat_jax.labels import Labels, read_labels
from rat_jax.model.judge import STRUCTURES
from rat_jax.model.network import Network
from rat_jax.naming import checked
from rat_jax.studies.error_rates import calibrating
from rat_jax.studies.leave_one_out import LeaveOneOut, elpd_difference, leave_one_out

SMALLEST_DIFFERENCE = 4.0  # nats; below, models predict alike, and the error of a difference is not to be trusted
FEW_ROWS = 100  # below, the standard error of a difference is too small itself
QUANTITIES = ("p_G", "p_T")
SHOWN = 6


@dataclass(frozen=True, eq=False)
class StructureComparison:
    """The result of `compare_structures`.

    table: one row per structure, the best first: `elpd`, expected log predictive density of the rows in nats (higher
        is better) and its standard error `se`; `elpd_diff` to the best (0 or negative) and `se_diff`, the standard
        error of that difference, row by row; `mc_error` of elpd from the finite number of draws; `p_loo`, effective
        number of parameters; `unreliable_rows`, where leaving a row out by weighting cannot be trusted; `free_rates`,
        free numbers in the error tables; `sampling_ok`.
    answers: indexed by (system, quantity, structure): `mean`, `q2.5`, `q97.5` of p_G and p_T, and `informed`.
    rows: rows with any label; calibration_rows: those that carry a human label and a judge's verdict on it.
    alike: structures that the rows cannot tell from the best, the best included.
    recommended: the simplest of these whose rates are estimated; None where the rows cannot decide.
    """

    table: pd.DataFrame
    answers: pd.DataFrame
    rows: int
    calibration_rows: int
    alike: tuple[str, ...]
    recommended: str | None

    def sentences(self) -> list[str]:
        """What the rows say about the structures, and what that means for the answers."""
        return [*_about_structures(self), *_about_answers(self)]

    def __str__(self) -> str:
        head = (
            f"Error structures of the judge, by {self.rows:,} rows, {self.calibration_rows:,} of them with human and "
            "judge labels together"
        )
        return "\n".join([head, "", _printed(self.table), "", *self.sentences()])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values."""
        return {
            "structures": self.table.reset_index().to_dict("records"),
            "answers": self.answers.reset_index().to_dict("records"),
            "rows": self.rows,
            "calibration_rows": self.calibration_rows,
            "alike": list(self.alike),
            "recommended": self.recommended,
            "sentences": self.sentences(),
        }


def compare_structures(
    labels: Any,
    structures: Sequence[str] = ("joint", "factorized", "by_abstention"),
    *,
    judge_rates: Mapping[str, float] | None = None,
    judge_shared: bool = False,
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Any = None,
    seed: int = 0,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    progress: Progress | None = None,
) -> StructureComparison:
    """Which error structure of the judge the rows support, and whether the choice changes the answer.

    labels: `Labels`, anything `read_labels` takes, or posteriors of the judge model by name, all fitted to the same
        labels, which are then compared as they are.
    structures: names of error structures, see `fit`.
    judge_rates: known rates; "fixed" is then compared too, which tells whether the rows contradict them.
    priors: of the thetas only; error tables keep their uniform priors, because each structure names them differently.
    judge_shared, policy, seed, num_warmup, num_samples, num_chains: as in `fit`. progress: over all fits together.

    Method: leave-one-out cross-validation with one row as the unit, `leave_one_out`. Two structures count as alike
    where their difference is below 4 nats or below its standard error. Of those alike, the one with the
    fewest free rates is recommended; never "fixed" while an estimated one is as good, because it takes its rates for
    certain. Log marginal likelihoods are not reported on purpose: they depend on how wide the priors of the error
    rates are even where the rows decide everything else, and with uniform priors on 18 numbers against 4 they mostly
    measure that.

    Raises ValueError for an unknown structure, "fixed" without judge_rates, fewer than two structures, posteriors of
    other labels, and whatever `fit` raises.

    Examples
    --------
    >>> import rat_jax as rat
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"R": [0, 0, 1, 1], "A": 0, "T": [0, 1, 0, 1], "R_J": [0, 1, 0, 1]})
    >>> rows["count"] = [80, 20, 10, 90]
    >>> found = rat.compare_structures(rows, ["factorized"], judge_rates={"tpr_R": 0.2, "fpr_R": 0.2})
    >>> found.recommended, found.alike
    ('factorized', ('factorized',))

    Source: Vehtari, Gelman and Gabry 2017 (see `leave_one_out`); when a difference can be trusted: Sivula, Magnusson,
    Matamoros and Vehtari, "Uncertainty in Bayesian leave-one-out cross-validation based model comparison",
    arXiv:2008.10296.
    """
    if isinstance(labels, Mapping) and any(isinstance(x, Posterior) for x in labels.values()):
        fits = _checked_fits(labels)
    else:
        names = _names(structures, judge_rates)
        labels = labels if isinstance(labels, Labels) else read_labels(labels)
        fits = {}
        for i, name in enumerate(names):
            fits[name] = fit_labels(
                labels,
                "judge",
                judge_structure=name,
                judge_shared=judge_shared,
                judge_rates=judge_rates if name == "fixed" else None,
                priors=priors,
                policy=policy,
                seed=seed,
                num_warmup=num_warmup,
                num_samples=num_samples,
                num_chains=num_chains,
                progress=part_of(progress, i, len(names)),
                on_failure="keep",  # its verdict is in the table
            )
    return _compared(fits)


def part_of(progress: Progress | None, part: int, parts: int) -> Progress | None:
    """The progress of one of several fits of equal length, as progress of all of them."""
    if progress is None:
        return None
    return lambda done, total: progress(part * total + done, parts * total)


def _names(structures: Sequence[str], judge_rates: Mapping[str, float] | None) -> list[str]:
    if isinstance(structures, str):
        structures = [structures]
    names = list(dict.fromkeys(checked(name, STRUCTURES, "judge_structure") for name in structures))
    if judge_rates and "fixed" not in names:
        names.append("fixed")
    if "fixed" in names and not judge_rates:
        raise ValueError("compare_structures: 'fixed' needs judge_rates, such as {'tpr_R': 0.77, 'fpr_R': 0.19}")
    if len(names) < 2:
        raise ValueError(f"structures: expected at least two to compare, found {', '.join(names) or 'none'}")
    return names


def _checked_fits(fits: Mapping[str, Any]) -> dict[str, Posterior]:
    for name, fit in fits.items():
        if not isinstance(fit, Posterior) or fit.model != "judge":
            found = f"a posterior of model {fit.model!r}" if isinstance(fit, Posterior) else type(fit).__name__
            raise ValueError(f"compare_structures: expected posteriors of model 'judge', found {found} as {name!r}")
    if len(fits) < 2:
        raise ValueError("compare_structures: expected at least two posteriors to compare, found one")
    return dict(fits)


def _compared(fits: Mapping[str, Posterior]) -> StructureComparison:
    accuracy = {name: leave_one_out(fit) for name, fit in fits.items()}
    names = sorted(fits, key=lambda name: -accuracy[name].elpd)
    best = names[0]
    lines = {name: _line(fits[name], accuracy[best], accuracy[name]) for name in names}
    alike = tuple(name for name in names if _is_alike(lines[name], lines[best]))
    counts = fits[best].counts
    calibrated = np.any(list(calibrating(fits[best].network, counts, abstentions=False).values()), axis=0)
    rows = int(counts["count"].to_numpy()[calibrated].sum())
    usable = [name for name in alike if lines[name]["sampling_ok"]] if rows else []
    estimated = [name for name in usable if lines[name]["free_rates"]] or usable
    return StructureComparison(
        table=pd.DataFrame.from_dict(lines, orient="index").rename_axis("structure"),
        answers=_answers(fits),
        rows=accuracy[best].rows,
        calibration_rows=rows,
        alike=alike,
        recommended=min(estimated, key=lambda name: lines[name]["free_rates"], default=None),
    )


def _line(fit: Posterior, best: LeaveOneOut, own: LeaveOneOut) -> dict[str, Any]:
    difference = elpd_difference(best, own).loc["all"].to_dict()
    return {
        "elpd": own.elpd,
        "se": own.se,
        "elpd_diff": difference["elpd_diff"],
        "se_diff": difference["se_diff"],
        "mc_error": own.mc_error,
        "p_loo": own.p_loo,
        "unreliable_rows": own.unreliable_rows,
        "free_rates": free_rates(fit.network),
        "sampling_ok": fit.sampling.ok,
    }


def free_rates(network: Network) -> int:
    """Free numbers in the tables of the judges."""
    tables = [(network.tables[t], network.layouts[t]) for t in network.measurements]
    return sum(len(layout.rows) * (len(layout.outcomes) - 1) for table, layout in tables if not table.known)


def _is_alike(own: Mapping[str, Any], best: Mapping[str, Any]) -> bool:
    error = np.linalg.norm([own["se_diff"], own["mc_error"], best["mc_error"]])
    return bool(-own["elpd_diff"] < max(SMALLEST_DIFFERENCE, error))  # in doubt the richer structure stays


def _answers(fits: Mapping[str, Posterior]) -> pd.DataFrame:
    lines = {}
    summaries = {structure: fit.summary() for structure, fit in fits.items()}
    systems = next(iter(fits.values())).systems
    for system, quantity, (structure, fit) in itertools.product(systems, QUANTITIES, fits.items()):
        figures = summaries[structure].loc[(system, quantity), ["mean", "q2.5", "q97.5"]].to_dict()
        lines[system, quantity, structure] = figures | {"informed": bool(fit.diagnostics.informed[system, quantity])}
    index = pd.MultiIndex.from_tuples(list(lines), names=["system", "quantity", "structure"])
    return pd.DataFrame(list(lines.values()), index=index)


def _about_structures(result: StructureComparison) -> list[str]:
    lines, alike = result.table.to_dict("index"), result.alike
    if not result.calibration_rows:
        return [
            "No row carries a human label and a judge's verdict on it, so the rows cannot tell how the judge errs; "
            "what differs here are mostly the priors. Label some rows that the judge has seen."
        ]
    found = []
    if bad := [str(name) for name, line in lines.items() if not line["sampling_ok"]]:
        found.append(f"The sampling of {_listed(bad)} cannot be trusted: sample longer before believing its line.")
    worse = {str(name): line for name, line in lines.items() if name not in alike}
    gaps = [f"{name} (by {-line['elpd_diff']:.1f} +- {line['se_diff']:.1f} nats)" for name, line in worse.items()]
    if len(alike) == 1:
        found.append(f"The rows support {alike[0]}.")
    else:
        found.append(f"The rows cannot tell {_listed(alike)} apart (under 4 nats, or under one standard error).")
    if gaps:
        found.append(f"New rows are predicted worse by {_listed(gaps)}.")
    if result.recommended:
        why = (
            "" if len(alike) == 1 else ": of those with estimated rates that predict as well as any it is the simplest"
        )
        found.append(f"Use {result.recommended}{why}.")
    if "fixed" in alike and result.recommended != "fixed":
        found.append("The given rates are not contradicted; using them as fixed takes them for certain.")
    if "fixed" in worse:
        found.append("The given rates do not fit these rows.")
    if result.calibration_rows < FEW_ROWS:
        found.append(f"With only {result.calibration_rows} rows of human and judge labels this is a rough guide.")
    return found


def _about_answers(result: StructureComparison) -> list[str]:
    """How far each answer moves with the structure, those that move most against their interval first."""
    answers: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for (system, quantity, structure), line in zip(
        result.answers.index.tolist(), result.answers.to_dict("records"), strict=True
    ):
        answers.setdefault((system, quantity), {})[structure] = line
    moves, refused = [], []
    for (system, quantity), lines in answers.items():
        if all(line["informed"] for line in lines.values()):
            own = lines[result.recommended or str(result.table.index[0])]
            moves.append(_move(f"{quantity} of {system}", lines, own))
        else:
            refused.append(f"{quantity} of {system}")
    moves.sort(key=lambda move: -move[0])
    found = [text for _, text in moves[:SHOWN]]
    if len(moves) > SHOWN:
        found.append(f"{len(moves) - SHOWN} more answers, all moved less for their width, are in .answers.")
    if refused:
        found.append(f"Not informed by these labels, at least under one structure: {_listed(refused)}.")
    return found


def _move(name: str, lines: Mapping[str, Mapping[str, Any]], own: Mapping[str, Any]) -> tuple[float, str]:
    """How far an answer moves for its width, and that in words."""
    moved, half = max(abs(x["mean"] - own["mean"]) for x in lines.values()), (own["q97.5"] - own["q2.5"]) / 2
    sides = ", ".join(f"{n} {x['mean']:.3f} [{x['q2.5']:.3f}, {x['q97.5']:.3f}]" for n, x in lines.items())
    size = "more than" if moved > half else "less than"
    return moved / max(half, 1e-12), (
        f"{name}: {sides}. The choice moves it by up to {moved:.3f}, {size} half of its interval ({half:.3f})."
    )


def _printed(table: pd.DataFrame) -> str:
    lines = [f"{'':<15}{'elpd':>10}{'se':>7}{'diff':>8}{'se diff':>8}{'p_loo':>7}{'k high':>7}{'rates':>6}  chains"]
    for name, line in table.to_dict("index").items():
        lines.append(
            f"{name!s:<15}{line['elpd']:>10.1f}{line['se']:>7.1f}{line['elpd_diff']:>8.1f}{line['se_diff']:>8.1f}"
            f"{line['p_loo']:>7.1f}{line['unreliable_rows']:>7d}{line['free_rates']:>6d}  "
            f"{'ok' if line['sampling_ok'] else 'NOT OK'}"
        )
    return "\n".join(lines)


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(list(names)[:SHOWN]) + rest
