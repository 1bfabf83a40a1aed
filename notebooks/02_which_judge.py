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
# # Which of three judges can I trust, and does the ranking of 12 systems survive if I hide 90 % of the human labels?
#
# People have graded the answers of 12 question answering systems, and so have three automatic judges: GPT-4,
# InstructGPT (`text-davinci-003`) and BEM, a classifier. Since all human labels are known here, we can hide most of
# them, ask every method for the rate of correct answers, and look up who was right. Run it from a clone of the
# repository, from the folder `notebooks`; a minute or two.

# %%
# %matplotlib inline
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

import rat_jax as rat

warnings.filterwarnings("ignore", "IProgress not found")  # a progress bar that nothing here draws

path = Path("../tests/data/nq301_judges.csv")
table = pd.read_csv(path)
truth = table.groupby("system")["T"].mean()
JUDGES = {"T_J": "GPT-4", "T_J_davinci": "InstructGPT", "T_J_bem": "BEM"}

# %% [markdown]
# `T` is the human verdict, and the `T_J` columns are the judges'. Two of the systems, `text-davinci-003_zeroshot` and
# `text-davinci-003_fewshot-n64`, see no passages at all (R = 0); for the other ten nobody recorded what they were
# given, so R is missing.

# %%
print(rat.read_labels(table, columns={"T_J.davinci": "T_J_davinci", "T_J.bem": "T_J_bem"}).report)

# %% [markdown]
# ## Who can be trusted?
#
# How often does a judge call a wrong answer right (`fpr`), and a right answer right (`tpr`), system by system? With
# all human labels at hand this is plain counting. Each dot is a system.

# %%
wrong, right = table[table["T"] == 0], table[table["T"] == 1]
rates = {"fpr": wrong.groupby("system")[list(JUDGES)].mean(), "tpr": right.groupby("system")[list(JUDGES)].mean()}

# %%
LANGUAGE_MODELS = {"text-davinci-003_zeroshot": "zero-shot", "text-davinci-003_fewshot-n64": "few-shot"}
figure = Figure(figsize=(9, 3), layout="constrained")
TITLES = {"fpr": "calls a wrong answer right (fpr)", "tpr": "calls a right answer right (tpr)"}
for ax, (name, values) in zip(figure.subplots(1, 2, sharey=True), rates.items(), strict=True):
    for place, judge in enumerate(JUDGES):
        for system, value in values[judge].items():
            is_model = system in LANGUAGE_MODELS
            ax.plot(value, place, "s" if is_model else "o", color="#D55E00" if is_model else "#8C8C8C")
            if is_model:
                above = system.endswith("zeroshot")
                ax.annotate(LANGUAGE_MODELS[system], (value, place), (0, 8 if above else -16), ha="center",
                            textcoords="offset points", size="small", color="#D55E00")  # fmt: skip
    ax.set(title=TITLES[name], xlim=(0, 0.5) if name == "fpr" else (0.5, 1), ylim=(2.6, -0.6))
    ax.set_yticks(range(3), JUDGES.values())
    ax.grid(axis="x", color="0.9")
    ax.spines[["top", "right", "left"]].set_visible(False)
figure

# %% [markdown]
# GPT-4 errs at much the same rates everywhere. InstructGPT is lenient with one system: its own zero-shot answers.
# BEM, the classifier, stands apart on both systems that are language models.
#
# Is that more than chance? `judge_transfer` asks it of any table with several systems: do the error rates hold from
# one to the other? Here for the two systems of the same language model.

# %%
named = {"T_J": "T_J.GPT-4", "T_J_davinci": "T_J.InstructGPT", "T_J_bem": "T_J.BEM"}
own = table[table["system"].isin(LANGUAGE_MODELS)].rename(columns=named)
found = rat.judge_transfer(own)
found.table.loc["text-davinci-003_zeroshot", ["own", "elsewhere", "p_adjusted", "verdict"]].round(3)

# %% [markdown]
# Only for InstructGPT is it certain: of its own zero-shot answers it lets four wrong ones in ten pass, of its few-shot
# answers about one in ten. For most other rates these rows cannot tell.
#
# GPT-4 is the one to go on with. It is no oracle: it misses one right answer in eight, and passes one wrong answer in
# six.
#
# ## Hide nine human labels of ten
#
# Thirty human labels per system stay, chosen at random; all of GPT-4's verdicts stay.

# %%
rng = np.random.default_rng(1)
kept = table.groupby("system")["T"].transform(lambda column: rng.permutation(len(column)) < 30)
hidden = table.assign(T=table["T"].astype("Int64").where(kept))
labels = rat.read_labels(hidden[["id", "system", "R", "A", "T", "T_J"]])

# %% [markdown]
# The judge model, with one error table for all systems (`judge_shared=True`), because GPT-4 errs alike on all of
# them. Its verdict depends on whether the answer is correct (`factorized`).

# %%
fit = rat.fit(labels, model="judge", judge_structure="factorized", judge_shared=True)
print(fit.diagnostics.verdict)

# %%
results = rat.baselines(fit)
order = truth.sort_values(ascending=False).index
rat.plot_estimates(results.loc[order], truth).figure

# %% [markdown]
# `posterior` is this package's; the black line is what all human labels say. In numbers, with one method more:
# Rogan-Gladen with the judge's error rates from the rows of all systems. `error` and `width` are the mean distance from
# the truth and the mean width of the interval; then come how many of the twelve intervals hold the truth, and the rank
# correlation with it.

# %%
pooled = rat.baselines(labels, judge_shared=True, methods=["rogan_gladen"])
pooled = pooled.rename(index={"rogan_gladen": "rogan_gladen_pooled"}, level="method")
results = pd.concat([results, pooled])

# %%
error = results["estimate"].sub(truth, level="system")
inside = (results["low"].sub(truth, level="system") <= 0) & (results["high"].sub(truth, level="system") >= 0)
ranks = results["estimate"].astype(float).unstack("method").corrwith(truth, method="spearman")
by_method = pd.DataFrame(
    {
        "error": error.abs().groupby("method").mean(),
        "width": (results["high"] - results["low"]).groupby("method").mean(),
        "hold the truth": inside.groupby("method").sum(),
        "rank correlation": ranks,
    }
).sort_values("error")
by_method.astype(float).round(3)

# %% [markdown]
# - **Human labels alone** are honest, and too few: wide intervals, a scrambled ranking.
# - **The judge alone** ranks well, because it errs alike everywhere. Its rates are too low, and its intervals promise
#   95 % and hold the truth less often: they know nothing of the judge's errors.
# - **PPI++** and **Rogan-Gladen** learn the judge's errors from one system's thirty labels, about nine of them of wrong
#   answers. Rogan-Gladen is lost with that; PPI++ is safe, and no closer than the human labels alone.
# - **The posterior** and **Rogan-Gladen pooled** use that the judge errs alike on all systems. Their error and their
#   intervals are about half of those of the human labels. That the two agree is a good sign, as they share no code.
#
# So the ranking survives. How much of a ranking was there? The systems lie close together. Of the 66 pairs, how many
# can be ordered with a probability of 97.5 %, and is that order the one of all human labels?

# %%
fits = {
    "30 human labels": rat.fit(labels),
    "30 human labels and GPT-4": fit,
    "all human labels": rat.fit(table[["id", "system", "R", "A", "T"]]),
}
for name, one in fits.items():
    pairs = rat.compare(one, quantity="p_T")
    sure = pairs[(pairs["prob_b_greater"] > 0.975) | (pairs["prob_b_greater"] < 0.025)]
    same = (sure["mean"] > 0) == (truth[sure["b"]].to_numpy() > truth[sure["a"]].to_numpy())
    print(f"{name}: {len(sure)} of {len(pairs)} pairs ordered, {same.sum()} of them as all human labels order them")

# %% [markdown]
# ## What happens with a judge that does not err alike
#
# Pool InstructGPT's error rates over all systems, and it carries its favour for its own answers along:

# %%
biased = hidden.drop(columns=["T_J", "T_J_bem"]).rename(columns={"T_J_davinci": "T_J"})
corrected = rat.baselines(biased, judge_shared=True, methods=["naive", "complete_case", "rogan_gladen"])
print(f"truth: {truth['text-davinci-003_zeroshot']:.3f}")
corrected.loc["text-davinci-003_zeroshot", ["estimate", "low", "high", "rows_human", "rows_judge"]].round(3)

# %% [markdown]
# The correction moves the wrong way, and its interval is off the truth. The check above is what guards against it, so
# make it before you share an error table.
#
# ## Are three judges better than one?
#
# They would be if they erred independently of each other. Among wrong answers, how often do all three say right, and
# how often would they if they erred independently?

# %%
together = (wrong[list(JUDGES)] == 1).all(axis=1).mean()
print(f"all three wrong: {together:.3f}; if independent: {(wrong[list(JUDGES)] == 1).mean().prod():.3f}")

# %% [markdown]
# They are fooled by the same answers. The model takes judges as independent given the labels, so with all three of
# them in the table it would take their agreement for proof. Use the best one.
#
# ## What this table cannot say
#
# Without R nothing tells whether a good answer had support. `p_G` is not averaged over what might have been; it is
# refused:

# %%
print(fit.diagnostics.advice["EMDR2", "p_G"])
