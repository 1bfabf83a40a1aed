"""The labels to buy next as text: kinds of rows and how many of each, then the rows. Computes nothing but sums."""

from __future__ import annotations

import pandas as pd

from rat_jax.report.words import shortened

MOST_ROWS = 20


def next_report(chosen: pd.DataFrame, quantity: str) -> str:
    """What `next_labels` chose, as a few lines: which label of which rows, and the rows themselves.

    Lines of the table are counted from 1, the header not counted.
    """
    if chosen.empty:
        return f"No label of a row in the table would tell anything about {quantity}."
    lines = [f"The next {len(chosen)} labels for {quantity}, each ranked as if those before it were known:"]
    kinds = chosen.groupby(["system", "variable", "seen"], sort=False).agg(n=("share", "size"), best=("share", "max"))
    for (system, variable, seen), row in kinds.iterrows():  # type: ignore[misc]
        of = "" if set(chosen["system"]) == {"all"} else f" of {shortened(str(system), 30)}"
        lines.append(
            f"  {variable} of {int(row['n'])} rows{of} with {seen}: the first takes {row['best']:.1%} of the variance"
        )
    lines += ["", f"  {'row':>6}  label"]
    for row in chosen.head(MOST_ROWS).to_dict("records"):
        name = "" if row["id"] is None or pd.isna(row["id"]) else f"  {shortened(str(row['id']), 40)}"
        lines.append(f"  {row['row'] + 1:>6}  {row['variable']}{name}")
    if len(chosen) > MOST_ROWS:
        lines.append(f"  ({len(chosen) - MOST_ROWS} more; --csv FILE lists all)")
    return "\n".join(lines)
