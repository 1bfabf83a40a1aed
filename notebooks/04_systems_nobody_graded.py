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
# # What is p_T and p_G of nine systems that nobody graded?
#
# People graded the answers of three systems on the MTRAG benchmark, and a language model judged the same answers.
# Later nine other systems answered questions of that benchmark, and only the judge has seen them. Can the human labels
# of the first table calibrate the judge for the second? Run it from a clone of the repository, from the folder
# `notebooks`; a minute or two.

# %%
# %matplotlib inline
import warnings
from importlib.resources import files
from pathlib import Path

import pandas as pd

import rat_jax as rat

warnings.filterwarnings("ignore", "IProgress not found")  # a progress bar that nothing here draws

COLUMNS = ["id", "system", "R", "A", "T", "T_J"]
graded = pd.read_csv(str(files("rat_jax") / "data" / "mtrag_human.csv"))[COLUMNS]
ungraded = pd.read_csv(Path("../tests/data/mtrag_judge_only.csv"))[COLUMNS]

# %% [markdown]
# `R` is known in both tables: people marked whether the passages contain the answer. `T_J` is the judge's verdict.
# The second table has no human `T`, except that an answer that was declined (A = 1) is not a correct one (T = 0).

# %%
print(rat.read_labels(ungraded).report)

# %% [markdown]
# ## What the usual methods say
#
# Both tables in one, Rogan-Gladen with the judge's error rates from all graded rows:

# %%
everything = pd.concat([graded[graded["system"] != "reference"], ungraded])
labels = rat.read_labels(everything)
usual = rat.baselines(labels, judge_shared=True)
new = sorted(ungraded["system"].unique())
usual["estimate"].unstack("method").loc[new].round(2)

# %%
usual.loc[new].query("note != ''")["note"].groupby("method").value_counts()

# %% [markdown]
# - **The judge's own rate** has an answer for all, and no idea how wrong it is.
# - **Complete case**: the only labelled rows are the declined ones, so the rate of correct answers is 0, or missing.
# - **Rogan-Gladen** puts six of the nine above 1. What it divides by, tpr - fpr, is small:

# %%
both = everything[everything["T"].notna() & everything["T_J"].notna()]
both.groupby("T")["T_J"].mean().round(2)

# %% [markdown]
# - **PPI++** needs a system's own human labels, and gets declined answers at best: 0 as well, with an interval of no
#   width, or nothing.
#
# (Why the system `reference` was left out comes below.)
#
# ## The judge model with a shared error table
#
# The judge's error rates may differ between answers and refusals (`by_abstention`).

# %%
fit = rat.fit(labels, model="judge", judge_structure="by_abstention", judge_shared=True)
print(fit.diagnostics.verdict)

# %%
compared = rat.baselines(fit, judge_shared=True, methods=["naive", "rogan_gladen", "posterior"])
rat.plot_estimates(compared.loc[new]).figure

# %% [markdown]
# The posterior stays between 0 and 1 and is honest about its width. And it has `p_G`, which no other method has:

# %%
fit.summary().loc[new].query("quantity in ['p_T', 'p_G']")[["mean", "q2.5", "q97.5"]].round(2).unstack("quantity")

# %% [markdown]
# What would one know about these nine without the other table? The judge's error rates are then unknown, and its
# verdicts say nothing. That leaves R and A:

# %%
alone = rat.fit(ungraded)
print(alone.summary().xs("p_T", level="quantity")[["q2.5", "q97.5"]].round(2))
print(alone.diagnostics.advice["qwen3-8b", "p_T"])

# %% [markdown]
# ## Is that allowed?
#
# Everything above rests on one assumption: **the judge errs on the nine as it does on the graded systems**. The nine
# cannot tell, as nobody graded them. But the graded ones can: does a judge calibrated on one of these hold on the
# others?

# %%
transfer = rat.judge_transfer(graded, judge_structure="by_abstention")
print(transfer)

# %%
transfer.table.loc[:, ["rows", "own", "elsewhere", "difference_q2.5", "difference_q97.5", "verdict"]].round(2)

# %% [markdown]
# It does not hold on `reference`. No wonder: this judge compares an answer with the reference answer, and that system
# *is* the reference answer. That is why it was left out. Had it been left in:

# %%
with_reference = rat.read_labels(pd.concat([graded, ungraded]))
spoiled = rat.fit(with_reference, model="judge", judge_structure="by_abstention", judge_shared=True)
first, second = (one.summary().xs("p_T", level="quantity").loc[new, "mean"] for one in (fit, spoiled))
pd.DataFrame({"calibrated on two systems": first, "on three": second}).round(2)

# %% [markdown]
# And between the two that are left, the judge finds 80 % of the right answers of `gpt-4o` and 67 % of those of
# `llama-3.1-405b-instruct`; the labels cannot say whether that is chance. So, how far do the answers move if the judge
# treats the nine like the one, or like the other?

# %%
by_system = {"on both": fit}
for system in ("gpt-4o", "llama-3.1-405b-instruct"):
    one = rat.read_labels(pd.concat([graded[graded["system"] == system], ungraded]))
    by_system[f"on {system}"] = rat.fit(one, model="judge", judge_structure="by_abstention", judge_shared=True)
parts = {}
for name, one in by_system.items():
    part = one.summary().xs("p_T", level="quantity").loc[new, ["mean", "q2.5", "q97.5"]]
    parts[name] = part.set_axis(["estimate", "low", "high"], axis="columns")
moved = pd.concat(parts, names=["method"]).swaplevel().astype("Float64")
rat.plot_estimates(moved.loc[new]).figure

# %% [markdown]
# Less than their intervals are wide. The nine help: a judge that calls more of their answers right than it found right
# answers of `llama-3.1-405b-instruct` must be finding more.
#
# ## The answer
#
# Only if the judge errs alike on systems it never met with a human beside it. On the evidence here:
#
# - it does not always: it treats the reference answer unlike any other;
# - between the two generators it may differ by up to 23 points in what it recognises, and 157 questions each cannot
#   settle that;
# - the answers above hardly depend on which of the two it is calibrated on.
#
# So take the order of the extremes as known (`meno-lite+coref` is far behind) and the middle as open; the intervals say
# so. A few dozen human labels on one of the nine would test the assumption where it matters: put them into the table,
# and run `judge_transfer` again.
