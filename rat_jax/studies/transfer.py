"""Does a judge calibrated on some systems hold on others?

Labels of several systems come in. The judge model is fitted with one error table for all of them and with one for each.
Which predicts the rows better goes out, and for every system how its judge's error rates differ from those elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from rat_jax.inference.fit import fit as fit_labels
from rat_jax.inference.posterior import Posterior
from rat_jax.inference.settings import QUANTILES, Progress, checked_seed
from rat_jax.labels import Labels, read_labels
from rat_jax.naming import checked
from rat_jax.studies.elsewhere import Elsewhere, calibrated_rows, log_odds, multiplied, refitted
from rat_jax.studies.error_rates import calibrating, error_rates, rows_per_system
from rat_jax.studies.leave_one_out import LeaveOneOut, elpd_difference, leave_one_out
from rat_jax.studies.ranks import holm
from rat_jax.studies.structures import SMALLEST_DIFFERENCE, part_of

STRUCTURES = ("factorized", "by_abstention", "joint")
ERROR_RATE = 0.05
"""Chance that a judge which errs alike everywhere is called different anywhere (familywise)."""

SHOWN = 6


@dataclass(frozen=True, eq=False)
class JudgeTransfer:
    """The result of `judge_transfer`.

    table: indexed by (system, rate), for rates of judges with calibrated rows in that system. `rows` calibrated rows,
        with a human label and the judge's verdict on it; `own`, `own_q2.5`, `own_q97.5` the rate from the system's own
        table; `shared`, ... from one table for all; `elsewhere`, ... in the other systems; `difference`, ... own minus
        elsewhere; `p_adjusted` of no difference, adjusted for the number of rates; `verdict`: "holds", "differs" or
        "cannot be told".
    systems: one row per system and "all": `rows` with any label, `calibrated` rows, `elpd_diff` by which own tables
        predict the rows better than a shared one (nats; negative: worse), its standard error `se_diff`, and `verdict`:
        "holds", "does not hold", "cannot be told", or "not checkable" where no row is calibrated, here or elsewhere.
    tolerance: difference of a rate taken for none. thorough: whether elsewhere is a fit to the other systems.
    unreliable_rows: rows whose elpd cannot be trusted. sampling_ok: whether the sampling of the two fits can be.
    """

    table: pd.DataFrame
    systems: pd.DataFrame
    tolerance: float
    thorough: bool
    unreliable_rows: int
    sampling_ok: bool

    @property
    def holds(self) -> bool | None:
        """Whether the judge errs alike on all systems that can be checked; None where that cannot be told."""
        return {"holds": True, "does not hold": False}.get(str(self.systems.loc["all", "verdict"]))

    def sentences(self) -> list[str]:
        """The verdict in plain words, the evidence, and what cannot be said."""
        systems: dict[str, list[str]] = {}
        for system, line in list(self.systems.to_dict("index").items())[:-1]:
            systems.setdefault(line["verdict"], []).append(str(system))
        found = [
            f"Does not hold for {system}: {self._different(system)}." for system in systems.get("does not hold", [])
        ]
        if alike := systems.get("holds"):
            found.append(f"Holds for {_listed(alike)}: every rate within {self.tolerance:g} of elsewhere.")
        if unclear := [f"{system} ({self._possible(system)})" for system in systems.get("cannot be told", [])]:
            found.append(f"Cannot be told, too few rows: {_listed(unclear)}.")
        if unseen := systems.get("not checkable"):
            found.append(
                f"Not checkable: {_listed(unseen)}. That takes rows with a human label and the judge's verdict on it, "
                "in the system itself and in another."
            )
        found.append(self._prediction())
        if self.unreliable_rows:
            found.append(f"The predictive accuracy is unreliable for {self.unreliable_rows} rows (high pareto_k).")
        if not self.sampling_ok:
            found.append("The sampling of one of the fits cannot be trusted: sample longer before believing this.")
        return found

    def __str__(self) -> str:
        return "\n".join(self.sentences())

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values."""
        return {
            "holds": self.holds,
            "systems": self.systems.reset_index().to_dict("records"),
            "rates": self.table.reset_index().to_dict("records"),
            "tolerance": self.tolerance,
            "thorough": self.thorough,
            "unreliable_rows": self.unreliable_rows,
            "sampling_ok": self.sampling_ok,
            "sentences": self.sentences(),
        }

    def _lines(self, system: str, verdict: str) -> dict[str, dict[str, Any]]:
        lines = self.table.to_dict("index").items()
        return {rate: line for (s, rate), line in lines if s == system and line["verdict"] == verdict}

    def _different(self, system: str) -> str:
        lines = self._lines(system, "differs").items()
        gain = self.systems.loc[system].to_dict()
        return (
            ", ".join(f"{rate} {x['own']:.2f} against {x['elsewhere']:.2f} elsewhere" for rate, x in lines)
            + f" (its own table predicts its rows by {gain['elpd_diff']:+.1f} +- {gain['se_diff']:.1f} nats)"
        )

    def _possible(self, system: str) -> str:
        """The rate that could differ most, and by how much."""
        lines = self._lines(system, "cannot be told")
        low, high = _ends("difference")
        far = {rate: max((-x[low], "lower"), (x[high], "higher")) for rate, x in lines.items()}
        rate = max(far, key=lambda name: far[name])
        return f"{rate} up to {far[rate][0]:.2f} {far[rate][1]}"

    def _prediction(self) -> str:
        line = self.systems.loc["all"].to_dict()
        gain, error = line["elpd_diff"], line["se_diff"]
        size = f"{abs(gain):.1f} +- {error:.1f} nats over {line['rows']:,} rows"
        if abs(gain) < max(SMALLEST_DIFFERENCE, 2 * error):
            return f"On the whole, one error table for all predicts the rows as well as one for each ({size} apart)."
        side = "worse" if gain > 0 else "better"
        return f"On the whole, one error table for all predicts the rows {side} than one for each ({size})."


def judge_transfer(
    labels: Any,
    *,
    judge_structure: str = "factorized",
    tolerance: float = 0.1,
    thorough: bool = False,
    priors: Mapping[str, Sequence[float]] | None = None,
    seed: int = 0,
    num_warmup: int = 1000,
    num_samples: int = 1000,
    num_chains: int = 4,
    progress: Progress | None = None,
) -> JudgeTransfer:
    """Whether a judge errs alike on all systems, so that labels of some can calibrate it for others.

    labels: `Labels` of two systems or more, anything `read_labels` takes, or {"shared": fit, "separate": fit}, two
        posteriors of the judge model for the same labels, with and without judge_shared.
    judge_structure: "factorized", "by_abstention" or "joint", see `fit`. Each of its rates is compared: the chance of a
        verdict of 1 in each row of an error table.
    tolerance: error rates that differ by less are as good as equal, in (0, 1).
    thorough: a system's rates are held against a fit to all other systems, one more fit for each. Otherwise the other
        systems' own posteriors are multiplied together, as normal distributions of the rates' log odds: quick, and
        close where each has more than a handful of calibrated rows. Either way a system that clearly stands apart from
        the others is not part of what these are held against.
    priors, seed, num_warmup, num_samples, num_chains: as in `fit`. progress: over all fits together.

    A rate *differs* where the difference from elsewhere is significant (5 % familywise over all systems and rates, by
    Holm's rule) and may exceed the tolerance; it *holds* where the 95 % interval of the difference lies within the
    tolerance; otherwise it cannot be told. A system's judge holds if all its rates do. Two systems that agree with each
    other say nothing about a third: "elsewhere" is the average of what was labelled.

    Raises ValueError for a single system, an unknown structure, a tolerance out of range, posteriors that do not
    belong together, and whatever `fit` raises.

    Examples
    --------
    >>> import pandas as pd
    >>> import rat_jax as rat
    >>> rows = pd.DataFrame({"R": [0, 0, 1, 1], "A": 0, "T": [0, 1, 0, 1], "R_J": [0, 1, 0, 1]})
    >>> parts = [rows.assign(system=s, count=n) for s, n in {"a": [90, 10, 9, 91], "b": [50, 50, 10, 90]}.items()]
    >>> found = rat.judge_transfer(pd.concat(parts))
    >>> found.table.loc[("b", "fpr_R"), "verdict"], found.table.loc[("b", "tpr_R"), "verdict"]
    ('differs', 'holds')

    Source: leave-one-out predictive accuracy as in `leave_one_out`; Holm, Scand. J. Statistics 6, 1979.
    """
    if isinstance(tolerance, bool) or not isinstance(tolerance, int | float) or not 0 < tolerance < 1:
        raise ValueError(f"tolerance: expected a difference of rates between 0 and 1, found {tolerance!r}")
    effort: dict[str, Any] = {"num_warmup": num_warmup, "num_samples": num_samples, "num_chains": num_chains}
    effort["seed"] = checked_seed(seed)
    if isinstance(labels, Mapping) and any(isinstance(x, Posterior) for x in labels.values()):
        shared, separate = _checked_fits(labels)
    else:
        checked(judge_structure, STRUCTURES, "judge_structure")
        labels = labels if isinstance(labels, Labels) else read_labels(labels)
        _check_systems(labels.systems)
        parts = 2 + (len(labels.systems) if thorough else 0)
        settings: dict[str, Any] = {
            "judge_structure": judge_structure,
            "priors": priors,
            "on_failure": "keep",
            **effort,
        }
        shared, separate = (
            fit_labels(labels, "judge", judge_shared=together, progress=part_of(progress, i, parts), **settings)
            for i, together in enumerate((True, False))
        )
    elsewhere, apart = multiplied(separate, seed)
    if thorough:
        elsewhere = refitted(separate, apart, effort, progress)
    return _judged(shared, separate, elsewhere, tolerance, thorough)


def _check_systems(systems: Sequence[str]) -> None:
    if len(systems) < 2:
        raise ValueError(
            f"judge_transfer: expected at least two systems, found {', '.join(map(repr, systems))} only; the table "
            "needs a column 'system'"
        )


def _checked_fits(fits: Mapping[str, Any]) -> tuple[Posterior, Posterior]:
    if set(fits) != {"shared", "separate"}:
        raise ValueError(f"judge_transfer: expected posteriors 'shared' and 'separate', found {sorted(map(str, fits))}")
    for name, fit in fits.items():
        together = name == "shared"
        if not isinstance(fit, Posterior) or fit.model != "judge" or bool(fit.network.is_shared.any()) != together:
            raise ValueError(f"judge_transfer: {name!r} must be a fit of model 'judge' with judge_shared={together}")
    if error_rates(fits["shared"].network) != error_rates(fits["separate"].network):
        raise ValueError("judge_transfer: the two posteriors have different error tables; fit both with the same")
    _check_systems(fits["separate"].systems)
    return fits["shared"], fits["separate"]


def _judged(
    shared: Posterior, separate: Posterior, elsewhere: Elsewhere, tolerance: float, thorough: bool
) -> JudgeTransfer:
    calibrated = calibrated_rows(separate)
    table = _rate_table(shared, separate, elsewhere, calibrated, tolerance)
    together, apart = leave_one_out(shared), leave_one_out(separate)
    return JudgeTransfer(
        table=table,
        systems=_system_table(table, together, apart, separate),
        tolerance=float(tolerance),
        thorough=thorough,
        unreliable_rows=max(together.unreliable_rows, apart.unreliable_rows),
        # independent draws need no diagnosis, and asking for it costs more than all the rest
        sampling_ok=all(fit.sample_stats is None or fit.sampling.ok for fit in (shared, separate)),
    )


def _rate_table(
    shared: Posterior, separate: Posterior, elsewhere: Elsewhere, calibrated: pd.DataFrame, tolerance: float
) -> pd.DataFrame:
    lines, p_values = {}, {}
    for s, system in enumerate(separate.systems):
        for rate in error_rates(separate.network):
            rows, other = int(calibrated.loc[system, rate.variable]), elsewhere.get((system, rate.name))
            if other is None or not 0 < rows < calibrated[rate.variable].sum():  # calibrated here and elsewhere
                continue
            own, one = (rate.draws(fit.cells[s]).ravel() for fit in (separate, shared))
            apart = own - np.resize(other, own.shape)
            parts = {"own": own, "shared": one, "elsewhere": other, "difference": apart}
            lines[system, rate.name] = {"rows": rows} | {
                name: value for part, draws in parts.items() for name, value in _figures(part, draws).items()
            }
            p_values[system, rate.name] = _p_value(own, other)
    names = ["rows", *(n for part in ("own", "shared", "elsewhere", "difference") for n in (part, *_ends(part)))]
    index = pd.MultiIndex.from_tuples(list(lines), names=["system", "rate"])
    table = pd.DataFrame(list(lines.values()), index=index, columns=names)
    adjusted = holm(p_values)
    table["p_adjusted"] = [adjusted[key] for key in lines]
    low, high = (table[end] for end in _ends("difference"))
    alike = (low > -tolerance) & (high < tolerance)
    differs = ~alike & (table["p_adjusted"] <= ERROR_RATE)
    table["verdict"] = np.select([alike, differs], ["holds", "differs"], "cannot be told")
    return table


def _system_table(table: pd.DataFrame, together: LeaveOneOut, apart: LeaveOneOut, separate: Posterior) -> pd.DataFrame:
    systems = elpd_difference(together, apart)
    by_any = np.any(list(calibrating(separate.network, separate.counts).values()), axis=0)
    calibrated = rows_per_system(separate.counts, {"calibrated": by_any}, separate.systems)["calibrated"].to_dict()
    found = list(zip(table.index.get_level_values("system"), map(str, table["verdict"]), strict=True))
    verdicts = {system: {verdict for s, verdict in found if s == system} for system in separate.systems}
    verdicts["all"] = set().union(*verdicts.values())
    systems.insert(0, "calibrated", [*calibrated.values(), sum(calibrated.values())])
    return systems.assign(verdict=[_verdict(verdicts[system]) for system in map(str, systems.index)])


def _verdict(of_rates: set[str]) -> str:
    if not of_rates:
        return "not checkable"
    if "differs" in of_rates:
        return "does not hold"
    return "cannot be told" if "cannot be told" in of_rates else "holds"


def _p_value(own: np.ndarray, other: np.ndarray) -> float:
    """Two-sided, of equal log odds that are normal."""
    (m, v), (n, w) = log_odds(own), log_odds(other)
    return float(2 * ndtr(-abs(m - n) / np.sqrt(v + w)))


def _figures(name: str, draws: np.ndarray) -> dict[str, float]:
    ends = np.quantile(draws, list(QUANTILES.values()))
    return {name: float(draws.mean()), **dict(zip(_ends(name), map(float, ends), strict=True))}


def _ends(name: str) -> list[str]:
    return [f"{name}_{q}" for q in QUANTILES]


def _listed(names: Sequence[str]) -> str:
    rest = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(list(names)[:SHOWN]) + rest
