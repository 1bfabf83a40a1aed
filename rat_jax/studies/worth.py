"""What is the judge worth? How much narrower p_G and p_T are with it than without it, on the very same rows.

A posterior of the judge model comes in. It is held against two fits without the judge: of the rows that carry human
labels, and of all its rows with the verdicts removed and abstention kept. The second is the fair comparison, because
rows that only a judge has seen carry abstention as well, and that is often most of the gain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.convergence import convergence
from rat_jax.inference.fit import fit as fit_labels
from rat_jax.inference.posterior import Posterior
from rat_jax.model.rat import RAT
from rat_jax.studies.error_rates import judged_posterior, rows_per_system

QUANTITIES = ("p_G", "p_T")
FITS = ("human", "with_A", "with_judge")
SHOWN = 12  # systems in the printed text


@dataclass(frozen=True, eq=False)
class JudgeWorth:
    """The result of `judge_worth`.

    table: indexed by (system, quantity). `width_human`, `width_with_A`, `width_with_judge`: widths of the 95 %
        intervals from rows with human labels, from all rows without the judge, and from all rows with it; `sd_...` the
        posterior standard deviations. `narrower` = 1 - width_with_judge / width_with_A, the judge's own worth,
        negative where it widens the interval, and `narrower_error`, its Monte Carlo standard error. `from_A`: the part
        of the whole gain that was there without the judge, from the sds (those without a judge are exact as a rule,
        widths are not): sd_human - sd_with_A over sd_human - sd_with_judge. Figures are missing where the labels of
        that fit do not inform the quantity; from_A also where nothing was gained.
    rows: per system `human` rows, with R or T; `added` rows, with other labels only; `judge`, rows with a verdict.
    shared: whether the judge's error table is shared between systems, so that others lend it strength.
    sampling_ok: whether the sampling of all three fits can be trusted.
    """

    table: pd.DataFrame
    rows: pd.DataFrame
    shared: bool
    sampling_ok: bool

    def sentence(self, system: str, quantity: str) -> str:
        """One answer in plain words."""
        row = self.table.loc[(system, quantity)].to_dict()
        name = f"{quantity} of {system}"
        if math.isnan(row["width_with_judge"]):
            return f"{name}: not informed by the labels, with the judge or without; there is no width to compare."
        width = f"95 % interval {row['width_with_judge']:.3f} wide with the judge"
        if math.isnan(row["width_with_A"]):
            return f"{name}: {width}; without it the labels do not inform the quantity at all."
        text = f"{name}: {width}, {row['width_with_A']:.3f} without it on the same rows: {_change(row)}."
        if math.isnan(row["width_human"]):
            return f"{text} Rows with human labels alone do not inform it."
        if math.isnan(row["from_A"]):
            return f"{text} The other rows narrow it by nothing that these draws could show."
        return f"{text} From human rows alone it is {row['width_human']:.3f}; {_share(row['from_A'])}."

    def sentences(self) -> list[str]:
        """All answers in plain words, and what to bear in mind."""
        found = [self.sentence(system, quantity) for system, quantity in self.table.index]
        if not self.sampling_ok:
            found.append("The sampling of one of the fits cannot be trusted: sample longer before believing these.")
        if self.shared:
            found.append("The error table is shared: part of the judge's worth was earned by labels of other systems.")
        return found

    def __str__(self) -> str:
        sentences = self.sentences()
        most = SHOWN * len(QUANTITIES)
        hidden = len(self.table) - most
        if hidden <= 0:
            return "\n".join(sentences)
        return "\n".join([*sentences[:most], f"({hidden} more rows in .table)", *sentences[len(self.table) :]])

    def to_dict(self) -> dict[str, Any]:
        """The same as plain JSON-able values; a missing figure is None."""
        table = self.table.reset_index().astype(object)
        return {
            "table": table.where(table.notna(), None).to_dict("records"),
            "rows": self.rows.reset_index().to_dict("records"),
            "shared": self.shared,
            "sampling_ok": self.sampling_ok,
            "sentences": self.sentences(),
        }


def judge_worth(fit: Posterior) -> JudgeWorth:
    """How much narrower p_G and p_T are with the judge than from the same rows without its verdicts.

    fit: a posterior of model "judge". The two fits without a judge use model "rat" with method "auto", the fit's own
        priors of the thetas, policy, seed and effort.

    Widths come from finite draws: with 4 x 1,000 of them `narrower` has a Monte Carlo error of 0.02 to 0.04, which
    is stated; use more draws for a sharper answer.

    Raises ValueError for anything but a posterior of model "judge".

    Examples
    --------
    >>> import pandas as pd
    >>> import rat_jax as rat
    >>> human = pd.DataFrame({"R": [0, 0, 0, 1, 1, 1], "A": 0, "T": [0, 1, 0, 0, 1, 1], "R_J": [0, 0, 1, 0, 0, 1]})
    >>> human["count"] = [20, 5, 5, 3, 2, 65]
    >>> added = pd.DataFrame({"A": 0, "R_J": [0, 1], "count": [600, 1400]})
    >>> worth = rat.judge_worth(rat.fit(pd.concat([human, added]), "judge", judge_structure="factorized"))
    >>> bool(worth.table.loc[("all", "p_G"), "narrower"] > 0.2)
    True

    Source: the paper's Table 5 measures against human rows alone (p_G: 0.094 wide from 200 rows, 0.080 with the judge
    on 5,000 more). By calculation the same 5,000 rows give 0.085 without the judge: three fifths of the gain.
    """
    fit = judged_posterior(fit, "judge_worth")
    kinds = _kinds_of_rows(fit)
    everything = np.full(len(fit.counts), True)
    fits = {
        "human": _without_judge(fit, kinds["human"]),
        "with_A": _without_judge(fit, everything),
        "with_judge": fit,
    }
    return JudgeWorth(
        table=_table({name: _figures(one, fit.systems) for name, one in fits.items()}),
        rows=rows_per_system(fit.counts, kinds, fit.systems),
        shared=bool(fit.network.is_shared.any()) and len(fit.systems) > 1,
        sampling_ok=all(one.sampling.ok for one in fits.values() if one is not None),
    )


def _kinds_of_rows(fit: Posterior) -> dict[str, np.ndarray]:
    """Which lines of the counts are human rows, other rows with labels, and rows with a verdict."""
    seen = {name: fit.counts[name].notna().to_numpy() for name in fit.network.levels}
    human = seen["R"] | seen["T"]
    verdict = np.any([seen[name] for name in seen if name not in fit.network.pipeline], axis=0)
    return {"human": human, "added": ~human & (seen["A"] | verdict), "judge": verdict}


def _without_judge(fit: Posterior, chosen: np.ndarray) -> Posterior | None:
    """The RAT posterior of the chosen rows' human labels, for the systems that have any; None if no system does."""
    labelled = fit.counts.loc[:, list(RAT.levels)].notna().to_numpy().any(axis=1)
    labels = fit.counts.loc[chosen & labelled, ["system", *RAT.levels, "count"]]
    if not len(labels):
        return None
    facts, thetas = fit.provenance, {p.name for p in RAT.parameters}
    return fit_labels(
        labels,
        "rat",
        priors={name: prior for name, prior in facts["priors"].items() if name in thetas},
        policy=fit.policies["p_G"],
        seed=facts["seed"],
        num_warmup=facts["num_warmup"],
        num_samples=facts["num_samples"],
        num_chains=facts["num_chains"],
        on_failure="keep",  # reported by `sampling_ok`
    )


def _figures(fit: Posterior | None, systems: tuple[str, ...]) -> pd.DataFrame:
    """Width, its Monte Carlo error, and sd by (system, quantity); missing where the quantity is not informed."""
    index = pd.MultiIndex.from_product([systems, QUANTITIES], names=["system", "quantity"])
    columns = ["width", "error", "sd", "sd_error"]
    if fit is None:
        return pd.DataFrame(np.nan, index=index, columns=columns)
    summary, errors = fit.summary(), fit.quantile_error()
    exact = fit.exact is not None  # then the sds are, too
    noise = {q: np.zeros(len(fit.systems)) if exact else convergence(fit.data[q]).mcse_sd for q in QUANTITIES}
    frame = pd.DataFrame(
        {
            "width": summary["q97.5"] - summary["q2.5"],
            "error": np.hypot(errors["q2.5"], errors["q97.5"]),
            "sd": summary["sd"],
        }
    )
    places = pd.MultiIndex.from_product([QUANTITIES, fit.systems]).swaplevel()
    frame["sd_error"] = pd.Series(np.concatenate(list(noise.values())), index=places)
    frame = frame.reindex(index)  # a system that this fit leaves out has no figures
    frame.loc[[not fit.diagnostics.informed.get(key, False) for key in index]] = np.nan
    return frame


def _table(figures: dict[str, pd.DataFrame]) -> pd.DataFrame:
    table = pd.DataFrame({f"{kind}_{name}": figures[name][kind] for kind in ("width", "sd") for name in FITS})
    before, after = table["width_with_A"], table["width_with_judge"]
    relative = {name: figures[name]["error"] / figures[name]["width"] for name in FITS}
    table["narrower"] = 1 - after / before
    table["narrower_error"] = after / before * np.hypot(relative["with_A"], relative["with_judge"])
    gain = table["sd_human"] - table["sd_with_judge"]
    error = np.hypot(figures["human"]["sd_error"], figures["with_judge"]["sd_error"])
    table["from_A"] = ((table["sd_human"] - table["sd_with_A"]) / gain).where(gain > 2 * error)
    return table


def _change(row: Mapping[str, float]) -> str:
    size, error = row["narrower"], row["narrower_error"]
    if abs(size) <= 2 * error:
        return f"no difference that these draws could show ({size:+.0%} +- {error:.0%})"
    return f"the judge makes it {abs(size):.0%} +- {error:.0%} {'narrower' if size > 0 else 'wider'}"


def _share(share: float) -> str:
    if share > 0.995:
        return "all of the gain is there without the judge"
    if share < 0.005:
        return "all of the gain is the judge's"
    return f"{share:.0%} of the gain is there without the judge, from abstention on the added rows"
