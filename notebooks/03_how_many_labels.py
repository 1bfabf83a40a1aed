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
# # How many human retrieval labels do I need when GPT-4 labels everything?
#
# 500 questions, each with ten retrieved passages. Native speakers have marked for every question whether the passages
# contain the answer (`R`). GPT-4 has done the same (`R_J`), for next to nothing. Language models were then asked
# whether the answer is there, and some said no (`A`). How many of the human labels could have been saved? Run it from
# a clone of the repository, from the folder `notebooks`; a minute or two.

# %%
# %matplotlib inline
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import rat_jax as rat

warnings.filterwarnings("ignore", "IProgress not found")  # a progress bar that nothing here draws

table = pd.read_csv(Path("../tests/data/nomiracl_en.csv"))

# %% [markdown]
# ## First, what must be left out
#
# One of the eleven systems is GPT-4 itself. There the judge's verdict and the system's own refusal are one and the
# same bit, so the judge says nothing that A has not said already:

# %%
gpt4 = table[table["system"] == "gpt-4-azure"]
pd.crosstab(gpt4["A"], gpt4["R_J"])

# %% [markdown]
# It is left out. The other ten answered the same 500 questions, so they share R and R_J; one human label serves all
# ten. (For the same reason the judge's error table must not be fitted with `judge_shared=True` here: every question
# would count ten times.) We follow one of them.

# %%
system = "gpt-3.5-turbo-azure"
rows = table[table["system"] == system].reset_index(drop=True)
print(rat.read_labels(rows).report)

# %% [markdown]
# ## How good is the judge?

# %%
rows.groupby("R")["R_J"].agg(["mean", "size"]).round(3)

# %% [markdown]
# It recognises an answer that is there (95 %), but sees one in more than four of ten questions where people found
# none. Taken at its word it puts retrieval at 0.69; the truth is 0.50.
#
# Does it err together with the system? If GPT-4 and the system stumble over the same questions, they are not two
# witnesses:

# %%
rows.groupby(["R", "A"])["R_J"].agg(["mean", "size"]).round(3)

# %% [markdown]
# They do: where R = 0 and the system answered nevertheless, GPT-4 is wrong twice as often as where it declined. So the
# judge's error rates must be allowed to differ with A: `judge_structure="by_abstention"`.
#
# ## Hide labels, and look what is left
#
# The same 500 rows five times, with 25 to 500 of the human labels, the rest hidden at random. The number of labels
# takes the place of the system's name, so that one call fits all five.

# %%
SIZES = [25, 50, 100, 200, 500]
NAMES = [f"{size} labels" for size in SIZES]
order = np.random.default_rng(0).permutation(len(rows))
place = pd.Series(order).argsort()


def with_labels(size):
    return rows.assign(R=rows["R"].astype("Int64").where(place < size), system=f"{size} labels")


labels = rat.read_labels(pd.concat([with_labels(size) for size in SIZES]))
fit = rat.fit(labels, model="judge", judge_structure="by_abstention")
print(fit.diagnostics.verdict)

# %%
results = rat.baselines(fit, label="R").loc[NAMES]
truth = dict.fromkeys(fit.systems, rows["R"].mean())
rat.plot_estimates(results, truth).figure

# %% [markdown]
# The judge's own rate stays where it is, however many labels there are: wrong, and sure of it. The others are all
# honest. How wide are they?

# %%
width = (results["high"] - results["low"]).unstack("method").loc[NAMES]
width[["complete_case", "rogan_gladen", "ppi", "posterior"]].astype(float).round(3)

# %% [markdown]
# Rogan-Gladen is *wider* than the human labels alone: it throws their own rate away. PPI++ and the posterior are
# narrower. How many human labels is that worth? The width of the human labels alone shrinks with the square root of
# their number, so

# %%
gain = (width["complete_case"] / width["posterior"]).astype(float) ** 2
equal = pd.DataFrame({"labels with GPT-4": SIZES, "worth without": gain.to_numpy() * SIZES}, index=NAMES)
equal.iloc[:4].round().astype(int)

# %% [markdown]
# **The answer.** A hundred human labels with GPT-4 are worth about 140 without. A judge that errs so often does not
# replace people; it stretches their labels by a third to two fifths. (PPI++ gains about as much. It and Rogan-Gladen
# give this one rate and no other.)
#
# ## What the other methods do not answer
#
# A rate is not all one wants to know. How often does the system decline when it should (`theta_A_minus`), and when it
# should not (`theta_A_plus`)? None of the other methods says; the model does, from the same labels.

# %%
whole = rat.fit(rows)
known = whole.summary()["mean"][system]
summary = fit.summary()
WORDS = {"theta_A_minus": "declines, retrieval failed", "theta_A_plus": "declines, retrieval was ok"}
figure = Figure(figsize=(7, 3), layout="constrained")
ax = figure.add_subplot()
for colour, (quantity, name) in zip(("#D55E00", "#0072B2"), WORDS.items(), strict=True):
    mine = summary.xs(quantity, level="quantity").loc[NAMES]
    ax.vlines(range(5), mine["q2.5"], mine["q97.5"], color=colour)
    ax.plot(range(5), mine["mean"], "o", color=colour, label=name)
    ax.axhline(known[quantity], color=colour, linestyle=":", linewidth=1)
ax.set(xlabel="human labels of R", ylabel="mean and 95 % interval", ylim=(0, 1))
ax.set_xticks(range(5), SIZES)
ax.legend(frameon=False, loc="upper right", title="dotted: from all 500", alignment="left")
ax.spines[["top", "right"]].set_visible(False)
figure

# %% [markdown]
# ## What if one assumes too much about the judge?
#
# Suppose its verdict depended on R alone (`factorized`), with 100 labels:

# %%
hundred = rat.read_labels(with_labels(100))
too_simple = rat.fit(hundred, model="judge", judge_structure="factorized")
quantities = ["p_R", "theta_A_minus", "theta_A_plus"]
pd.DataFrame(
    {
        "all labels": known[quantities],
        "by_abstention": summary.loc["100 labels"].loc[quantities, "mean"],
        "factorized": too_simple.summary().loc["100 labels"].loc[quantities, "mean"],
        "factorized q2.5": too_simple.summary().loc["100 labels"].loc[quantities, "q2.5"],
        "factorized q97.5": too_simple.summary().loc["100 labels"].loc[quantities, "q97.5"],
    }
).round(3)

# %% [markdown]
# Off: the model takes two that err together for two witnesses. `compare_structures` asks the rows which structure
# predicts them best, here with all the labels there are:

# %%
print(rat.compare_structures(rows))

# %% [markdown]
# With few labels in common the rows often cannot tell. Then look at the answers under both structures; where they
# differ, the more general one is the safer.
#
# ## What this table cannot say
#
# T is known only where the system declined, and there it is 0. Whoever takes the mean of what is labelled concludes
# that no answer is ever correct, with confidence:

# %%
everything = rat.baselines(rows, label="T", methods=["complete_case"])
everything[["estimate", "low", "high", "rows_human"]].round(3)

# %%
print(fit.diagnostics.advice["100 labels", "p_T"])
