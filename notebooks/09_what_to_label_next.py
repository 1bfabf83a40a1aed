# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # What do I label next?
#
# Forty questions of `gpt-4o` are labelled, 117 more are there with its answers. Which labels tell the most for their
# price, how many does it take, and can a judge do it instead? All labels of these rows are known in truth (the
# example that ships with the package), so that in the end we can look whether the plan kept its word. Under a minute.
#
# **What is taken for granted.** To read the passages and mark `R` costs 2, to mark `T` of an answer 1. Whether the
# system declined (`A`) is found by matching strings and costs nothing.

# %%
# %matplotlib inline
import warnings
from importlib.resources import files

import numpy as np
import pandas as pd

import rat_jax as rat

warnings.filterwarnings("ignore", "IProgress not found")  # a progress bar that nothing here draws

COSTS = {"R": 2, "T": 1}
COLUMNS = ["id", "system", "R", "A", "T"]

table = pd.read_csv(str(files("rat_jax") / "data" / "mtrag_human.csv"))
known = table[table["system"] == "gpt-4o"].reset_index(drop=True)
is_pilot = np.random.default_rng(3).permutation(len(known)) < 40
held = known.assign(**{label: known[label].astype("Int64").where(is_pilot) for label in ("R", "T")})
labels = rat.read_labels(held[COLUMNS])
fit = rat.fit(labels)
fit.summary().loc[[("gpt-4o", "p_G")], ["mean", "q2.5", "q97.5"]].round(3)

# %% [markdown]
# ## What does a budget buy?
#
# `plan` goes through what can be bought for the rows at hand: `R`, `T`, both, `T` only where it still matters, and the
# mix that tells the most. The width of the interval of `p_G` is what it counts. The best of each budget is tried by
# simulation: labels are drawn from the present posterior, and fitted.

# %%
plan = rat.plan(fit, "p_G", budget=[25, 50, 75, 100, 150], costs=COSTS, rows="held", replicates=200)
print(plan)

# %%
rat.plot_plan(plan)

# %% [markdown]
# `T` alone is the best start and soon stops telling more, because without `R` nobody knows whether the answer should
# have been given. The mix goes on, and after 150 the interval would be a third narrower.
#
# ## What does a width cost?
#
# The reverse, on new rows: an interval 0.12 wide, 6 points to either side.

# %%
wanted = rat.plan(fit, "p_G", width=0.12, costs=COSTS, replicates=100)
wanted.answers[["budget", "purchase", "cost", "width", "reached"]].round(3)

# %% [markdown]
# Some 330 on average, and then it is reached every second time (`reached`). With `probability=0.9` the plan asks for
# enough to reach it nine times in ten.
#
# ## Which rows?
#
# `next_labels` names them: row, label, and what it tells for its cost. 60 labels at once, each ranked as if those
# before it were known:

# %%
chosen = rat.next_labels(fit, labels, k=60, quantity="p_G", costs=COSTS)
chosen.head(3)[["row", "variable", "gain_per_cost", "cost", "seen"]]

# %%
chosen.groupby(["variable", "seen"]).size().rename("labels").to_frame()

# %% [markdown]
# All of them `T`, and none of a declined question: there it is implied. What comes of it? The labels are bought, and
# the columns that drove the choice are told to `read_labels`, so that a fit which leaves one of them out would warn.

# %%
bought = held.copy()
for label in chosen.itertuples():
    bought.loc[label.row, label.variable] = known.loc[label.row, label.variable]
after = rat.fit(rat.read_labels(bought[COLUMNS], selected_by=chosen.attrs["selected_by"]))
everything = rat.fit(rat.read_labels(known[COLUMNS]))
rows = {"40 rows": fit, f"and {chosen['cost'].sum():.0f} spent": after, "all labels": everything}
result = pd.DataFrame(
    {name: one.summary().loc[("gpt-4o", "p_G"), ["mean", "q2.5", "q97.5"]] for name, one in rows.items()}
)
result = result.T.assign(width=lambda t: t["q97.5"] - t["q2.5"])
result.astype(float).round(3)

# %% [markdown]
# The plan promised a width between 0.18 and 0.19 for 60, on average over what was possible then. It became 0.20, and
# what all labels say lies within.
#
# ## Or a judge?
#
# A language model has judged all these answers (`T_J`). The judge model learns its error rates from the 40 rows that
# carry both its verdict and a human's. How many labels of people would its verdicts on further rows replace?

# %%
judged = rat.fit(rat.read_labels(held[[*COLUMNS, "T_J"]]), "judge", judge_structure="factorized")
print(judged.diagnostics.verdict)
worth = rat.judge_replaces(judged, "p_T", rows=[100, 1000, 10_000])
print(worth)

# %% [markdown]
# Some 14, at best. Forty rows do not tell how often this judge errs, and no number of its verdicts makes up for that.
# Its error rates:

# %%
judged.summary().loc["gpt-4o"].loc[["tpr_T", "fpr_T"], ["mean", "q2.5", "q97.5"]].round(2)

# %% [markdown]
# ## The decision
#
# - **Start with `T` of answered rows**; `next_labels` after every batch says when `R` is due.
# - **Some 330 is the price of 6 points to either side**, if that is what is wanted.
# - **Not this judge, not yet.** Whether it passes one wrong answer in fifty or two in five, forty rows cannot tell.
#   Every row that a person labels beside its verdict also makes it worth more.
