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
# # Is B better than A?
#
# Three systems answered the same 157 questions, and people labelled what came of it (the example that ships with the
# package; `reference` are answers that people wrote or mended). Which one to ship, how sure is that, and what does it
# cost to be wrong? A few seconds.

# %%
# %matplotlib inline
import rat_jax as rat

fit = rat.fit(rat.example_labels())

# %% [markdown]
# ## Pair by pair
#
# `p_G` is how often a system does what it should: a good answer where retrieval found the passages, none where it
# did not. One row per pair; `mean` and the 95 % interval are of b - a.

# %%
pairs = rat.compare(fit, quantity="p_G", margin=-0.02)
pairs.round(3)

# %% [markdown]
# `reference` is ahead of both others, by about 10 points, and 0 is outside of the interval. Of `gpt-4o` and
# `llama-3.1-405b-instruct` nothing is known but that they are less than some 9 points apart: *open* does not mean
# *alike*. With `margin=-0.02`,
# `prob_b_greater_by_margin` is the probability that b is at most 2 points worse: 0.66 of these two, not enough to
# rely on. To say that they are alike takes a region that counts as no difference, and enough labels. With 3 points:

# %%
rat.compare(fit, rope=0.03)[["a", "b", "prob_equivalent", "verdict"]].round(2)

# %% [markdown]
# As likely as not. And now even the lead of `reference` is open: that it is ahead is sure, that it is so by more than 3
# points is not.
#
# ## Which one to ship
#
# With many systems the pairs grow beyond reading. `best` gives each system its chance of being best and the expected
# loss of picking it: how far it stays behind the best one, on average over what is still possible.

# %%
found = rat.best(fit, "p_G")
rat.plot_ranking(found).figure

# %%
print(found.sentence())
print(found.comparisons_sentence())

# %% [markdown]
# Picking `gpt-4o` in place of `reference` would cost 0.105: of 1,000 questions, some 105 more would go wrong. Whether
# it is `gpt-4o` or `llama-3.1-405b-instruct` that comes second is a coin toss:

# %%
found.rank_probabilities.round(2)

# %% [markdown]
# ## Another question, another answer
#
# Perhaps it is wrong answers that hurt, and nothing else. Any weighting of the joint states of R, A and T is a
# quantity; here the share of questions that are answered wrongly, of which less is better:

# %%
wrong = rat.best(fit, lambda state: state["A"] == 0 and state["T"] == 0, prefer="low")
print(wrong.sentence())
wrong.table[["mean", "q2.5", "q97.5", "prob_best", "expected_loss"]].round(3)

# %% [markdown]
# ## For a machine
#
# The same as a gate that a build can pass or fail. `llama-3.1-405b-instruct` is to replace `gpt-4o` if it is at most 5
# points worse:

# %%
gate = rat.gate(fit, "p_G[llama-3.1-405b-instruct] - p_G[gpt-4o] > -0.05 with 0.95")
print(gate)

# %% [markdown]
# Not passed, and not for being worse: 157 questions do not show it. On the command line
# `rat-jax gate labels.csv --require "..."` ends with exit code 2 here, `rat-jax compare labels.csv` does all of the
# above.
#
# ## The decision
#
# - **Ship `reference`**: best with probability 0.98, and 0.99 against each of the others.
# - **Do not choose between the other two by these labels.** Either choice is as good, or it takes more labels: see
#   [notebook 09](09_what_to_label_next.py).
