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
# # Is partial retrieval good enough?
#
# A question that needs two documents often gets one of them. Should the system answer, or decline? With retrieval
# graded in three levels (fail, partial, success) the table can say what an answer from partial support is worth. The
# rows here are simulated from the published figures of three generators on HotpotQA with hybrid retrieval, so we know
# what should come out. Run it from a clone of the repository, from the folder `notebooks`; under a minute.

# %%
# %matplotlib inline
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import rat_jax as rat

warnings.filterwarnings("ignore", "IProgress not found")  # a progress bar that nothing here draws

# %% [markdown]
# ## A table with graded retrieval
#
# The published share of partial retrieval, the share of full success, and for each generator how often it declines and
# how often its answers are correct at each level:

# %%
paper = Path("../tests/data/paper")
setup = {"dataset": "HotpotQA", "retriever": "hybrid"}


def published(file):
    table = pd.read_csv(paper / file)
    return table[(table["dataset"] == setup["dataset"]) & (table["retriever"] == setup["retriever"])]


partial = published("table8_partial_retrievals.csv")["partial_of_10000"].item() / 10_000
success = published("table1_marginals.csv")["p_R"].iloc[0]
shares = {"fail": 1 - partial - success, "partial": partial, "success": success}
rates = published("table9_graded_retrieval.csv").set_index("generator").drop(columns=["dataset", "retriever"])
print(pd.Series(shares).round(3).to_string())
rates

# %% [markdown]
# 400 questions for each generator:

# %%
rng = np.random.default_rng(1)
rows = []
for generator, rate in rates.iterrows():
    R = rng.choice(list(shares), size=400, p=list(shares.values()))
    A = rng.random(400) < rate[[f"theta_A_{level}" for level in R]].to_numpy()
    T = ~A & (rng.random(400) < rate[[f"theta_T_{level}" for level in R]].to_numpy())
    rows.append(pd.DataFrame({"system": generator, "R": R, "A": A, "T": T}))
labels = rat.read_labels(pd.concat(rows))
print(labels.report)

# %% [markdown]
# ## The fit
#
# The model knows two policies, strict and lenient. A third is ours: with partial support a correct answer is worth 1,
# declining 0.4. More on all three below.


# %%
def undecided(state):
    if state["R"] == 1:  # partial
        return 0.4 if state["A"] else state["T"]
    return state["A"] if state["R"] == 0 else state["T"]


fit = rat.fit(labels, model="graded", policies={"undecided": undecided})
print(fit.diagnostics.verdict)

# %%
rat.plot_systems(fit).flat[0].figure

# %% [markdown]
# From fail over partial to success an answer becomes more often correct, for all three, and partial is a middle thing.
# Gemma3 and Qwen3.5 decline accordingly, Apertus hardly ever. Are these the numbers that the rows were made from?

# %%
summary = fit.summary()
theta_T = summary[summary.index.get_level_values("quantity").str.startswith("theta_T")]
known = [rates.loc[system, f"theta_T_{name[8:-1]}"] for system, name in theta_T.index]
theta_T[["mean", "q2.5", "q97.5"]].round(3).assign(simulated=known)

# %% [markdown]
# ## What is an answer from partial support worth?
#
# `theta_T[partial]` above is the answer: the chance that such an answer is correct. It is also the break-even. If a
# correct answer is worth 1 to you and a wrong one 0, answering from partial support pays where declining is worth less
# than that. How sure is it that answering pays, for some worths of declining?

# %%
correct = {system: fit.draws("theta_T", system=system)[..., 1] for system in fit.systems}
pays = {system: [(draws > worth).mean() for worth in (0.2, 0.3, 0.4, 0.5, 0.6)] for system, draws in correct.items()}
pd.DataFrame(pays, index=pd.Index([0.2, 0.3, 0.4, 0.5, 0.6], name="declining is worth")).round(2)

# %% [markdown]
# ## Strict or lenient?
#
# The same question for the score of the whole system. **strict**: only success is good enough, with anything less the
# system should decline. **lenient**: with partial support a correct answer is as good as declining. **undecided**: the
# one above, in between.

# %%
rat.plot_forest(fit, quantities=("p_G_strict", "p_G_undecided", "p_G_lenient")).figure

# %%
policies = ["p_G_strict", "p_G_undecided", "p_G_lenient"]
pairs = pd.concat({policy: rat.compare(fit, quantity=policy).set_index(["a", "b"]) for policy in policies})
pairs[["mean", "q2.5", "q97.5", "prob_b_greater"]].round(3)

# %% [markdown]
# The score depends on the policy, the order of the systems does not. Where systems trade places between the policies,
# settle the policy first.
#
# ## Where do the wrong answers come from?
#
# Of 100 questions, so many are answered wrongly, by what retrieval had found:

# %%
wrong = {}
for code, level in enumerate(shares):
    draws = fit.quantity(lambda s, code=code: s["R"] == code and s["A"] == 0 and s["T"] == 0)
    wrong[level] = 100 * draws.mean(["chain", "draw"]).to_series()
pd.DataFrame(wrong).round(1)

# %% [markdown]
# ## What would a table with two levels have said?
#
# Partial has to count as one or the other then:

# %%
as_failure = rat.fit(labels.collapse("R", {"fail": 0, "partial": 0, "success": 1}))
as_success = rat.fit(labels.collapse("R", {"fail": 0, "partial": 1, "success": 1}))
three, failure, success = (one.summary()["mean"].unstack("quantity") for one in (fit, as_failure, as_success))
pd.DataFrame(
    {
        "strict": three["p_G_strict"],
        "partial as failure": failure["p_G"],
        "lenient": three["p_G_lenient"],
        "partial as success": success["p_G"],
        "correct without support": failure["theta_T_minus"],
        "correct with fail": three["theta_T[fail]"],
        "correct with partial": three["theta_T[partial]"],
    }
).round(3)

# %% [markdown]
# Partial as failure gives the strict score, as it must. Partial as success is not the lenient one: it takes a refusal
# with partial support for a mistake, and so the most careful system loses its lead. And `theta_T_minus`, correctness
# without support, mixes two quite different rates.
#
# ## The answer
#
# With partial support an answer of these systems is right in three to five cases of ten, with full support in five to
# six. That is good enough only where a refusal is worth less than that to you. More of their wrong answers come from
# partial retrieval than from anything else: for fewer of them, retrieve better, or let the system decline there.
