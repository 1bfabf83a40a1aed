"""How far expected widths of a plan are from labels that are drawn and fitted exactly.

Published configurations with some complete rows (and, for held rows, more that carry A alone) are fitted; every
purchase at several budgets is planned and tried. Run it with `python -m benchmarks.plan_error`.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pandas as pd

import rat_jax as rat
from rat_jax.model.rat import RAT
from rat_jax.studies.expected_information import Outlook
from rat_jax.studies.preposterior import simulate
from rat_jax.studies.purchases import held_rows, new_rows, read_costs
from rat_jax.studies.situation import Situation, read_situations

QUANTITIES = ("p_G", "p_T")


def labels(thetas: dict[str, float], complete: int, held: int, seed: int) -> pd.DataFrame:
    """Rows drawn from the thetas: so many complete ones, and so many with A alone."""
    rng, number = np.random.default_rng(seed), complete + held
    r = (rng.random(number) < thetas["theta_R"]).astype(int)
    a = (rng.random(number) < np.where(r == 1, thetas["theta_A_plus"], thetas["theta_A_minus"])).astype(int)
    t = ((rng.random(number) < np.where(r == 1, thetas["theta_T_plus"], thetas["theta_T_minus"])) & (a == 0)).astype(
        int
    )
    table = pd.DataFrame({"R": r, "A": a, "T": t}).astype(float)
    table.loc[complete:, ["R", "T"]] = np.nan
    return table


def errors(situation: Situation, held: bool, budgets: list[float], replicates: int) -> list[dict]:
    """Planned and tried width of every purchase alone."""
    costs, one = read_costs(RAT, None), situation
    bought = held_rows(RAT, costs, one.weights, one.patterns, one.counts) if held else new_rows(RAT, costs, one.weights)
    outlook, found = Outlook(one.scene(), bought), []
    for k, purchase in enumerate(bought):
        for budget in budgets:
            spent = np.zeros(len(bought))
            spent[k] = budget
            tried = simulate(one, bought, spent, replicates, 1)
            planned, width = float(outlook.widths(spent).mean()), float(tried.width.mean())
            error = float(tried.width.std() / np.sqrt(replicates) / width)
            found.append({"purchase": purchase.name, "budget": budget, "off": planned / width - 1, "error": error})
    return found


def run(configurations: int, replicates: int, complete: int = 100) -> pd.DataFrame:
    """All points, by configuration, quantity and kind of rows."""
    found = []
    for i, name in enumerate(rat.datasets.names()[:: max(1, 27 // configurations)][:configurations]):
        for held, more, budgets in ((False, 0, [50.0, 200.0, 1000.0, 2000.0]), (True, 300, [50.0, 150.0])):
            fit = rat.fit(labels(rat.datasets.thetas(name), complete, more, i))
            for quantity in QUANTITIES:
                key = {"configuration": name, "rows": "held" if held else "new", "quantity": quantity}
                points = errors(read_situations(fit, quantity)[0], held, budgets, replicates)
                found += [key | point for point in points]
    return pd.DataFrame(found)


def main() -> None:
    """Print how far off planned widths are, by kind of rows and quantity."""
    parser = argparse.ArgumentParser(description="Planned widths against labels drawn and fitted exactly.")
    parser.add_argument("--configurations", type=int, default=9)
    parser.add_argument("--replicates", type=int, default=60)
    given = parser.parse_args()
    start = time.monotonic()
    found = run(given.configurations, given.replicates)
    found["distance"] = found["off"].abs()
    grouped = found.groupby(["rows", "quantity"])["distance"]
    print(grouped.describe(percentiles=[0.5, 0.95])[["count", "50%", "95%", "max"]].round(4).to_string())
    print(found.sort_values("distance").tail(5).round(4).to_string(index=False))
    print(f"largest Monte Carlo error of a point {found['error'].max():.4f}; {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
