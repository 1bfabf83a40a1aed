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
# # How good is my RAG system, and which part fails?
#
# A table of labels goes in; what comes out is how often each system answers correctly, how often it
# does what it should, which step lets it down, and how sure one can be of each. The example ships
# with the package: 157 questions, three systems, labelled by people. Put the path of your own table
# in its place and run it again.
#
# This notebook is a plain Python file in the percent format. VS Code opens it as cells as it is; for
# Jupyter, `pip install jupytext`, then open it with "Open as Notebook", or convert it:
# `jupytext --to ipynb 01_first_look.py`.

# %%
# %matplotlib inline
from importlib.resources import files

import pandas as pd

import rat_jax as rat

# %% [markdown]
# ## What is in the table
#
# `R`: the passages contain the answer. `A`: the system declined. `T`: the answer is good. Any of
# them may be empty.

# %%
path = files("rat_jax") / "data" / "mtrag_human.csv"
labels = rat.read_labels(str(path))
print(labels.report)

# %% [markdown]
# The model never looks at rows again, only at how often each pattern of labels occurs:

# %%
labels.counts()

# %% [markdown]
# ## The fit
#
# All systems at once. First question, always: can the numbers be trusted?

# %%
fit = rat.fit(labels, seed=0)
print(fit.diagnostics.verdict)

# %% [markdown]
# ## How good is it?
#
# `p_T`: a correct answer reaches the user. `p_G`: the system did what it should, answering
# correctly with support and declining without.

# %%
summary = fit.summary()
summary.query("quantity in ['p_T', 'p_G']")[["mean", "sd", "q2.5", "q97.5"]]

# %%
rat.plot_forest(fit, quantities=("p_G", "p_T", "p_A", "p_R")).figure

# %% [markdown]
# ## Which part fails?
#
# A good system declines often when retrieval failed and seldom when it did not. The other pair shows
# how much an answer gains from support.

# %%
rat.plot_systems(fit).flat[0].figure

# %%
thetas = ["theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus"]
summary["mean"].unstack("quantity")[thetas].round(2)

# %% [markdown]
# Every system fails in the same place: with R = 0 it answers most of the time. Retrieval is the
# same for all three by construction here (they were given the same passages), so `theta_R` says
# nothing about a difference.
#
# ## What do the labels not say?
#
# This table informs every quantity. Take T away, as in a table where nobody has judged the answers
# yet, and see what remains:

# %%
table = pd.read_csv(str(path))
without_answers = rat.read_labels(table.drop(columns=["T", "T_J"]))
poorer = rat.fit(without_answers, seed=0)
for (system, quantity), advice in poorer.diagnostics.advice.items():
    if system == "gpt-4o":
        print(f"{quantity}: {advice}")

# %% [markdown]
# The sampling is fine and the exit code would be 0: the labels simply do not bear on these. Their
# means are those of the prior.
#
# ## What was probably true of one row?
#
# Hide R in every third row and ask the model for it. Each row gets the probability of its own
# missing labels, given its other labels and everything learned from the rest. Rows of one system with
# the same other labels get the same answer, so one row of each kind is shown.

# %%
table["R"] = table["R"].astype("Int64")
table.loc[table.index % 3 == 0, "R"] = pd.NA
gaps = rat.read_labels(table)
guesses = rat.impute(rat.fit(gaps, seed=0), gaps)
hidden = guesses[table["R"].isna()].join(table[["A", "T"]])
hidden.drop_duplicates(["system", "p_R", "p_A", "p_T", "p_G"]).drop(columns="id").round(3)

# %% [markdown]
# ## Keep it

# %%
fit.save("first_look.nc")
again = rat.load("first_look.nc")
assert again.summary().equals(summary)
