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
# # Where does the difference come from?
#
# `reference` does what it should on 85 % of the questions, `gpt-4o` on 74 % ([notebook 07](07_is_b_better_than_a.py)).
# Which part of `gpt-4o` would have to be mended? And does it decline where it should, and only there? A few seconds.

# %%
# %matplotlib inline
import rat_jax as rat

fit = rat.fit(rat.example_labels())

# %% [markdown]
# ## Three stages
#
# Retrieval finds the passages or not, then the system declines or answers, then the answer is good or not. Take
# `gpt-4o` and exchange its stages for those of `reference`, one after the other. How much each exchange brings
# depends on the order, so a stage's share is its average over all orders. The shares add up to the difference
# exactly.

# %%
shares = rat.attribute(fit, a="gpt-4o", b="reference", quantity="p_G")
rat.plot_attribution(shares).figure

# %%
print(shares.attrs["sentence"])
shares.round(3)

# %% [markdown]
# It is the answers: their share, 9 of the 10 points, is the only one whose sign is settled. Retrieval is the same for
# both (they were given the same passages), and its share is centred at 0; it keeps an interval because each system's
# rows are taken by themselves. Declining may bring 2 points or take 2.
#
# The shares of `p_T`, a good answer whether or not retrieval supports it, tell the same story:

# %%
print(rat.attribute(fit, a="gpt-4o", b="reference", quantity="p_T").attrs["sentence"])

# %% [markdown]
# Two systems that differ in nothing that can be seen have shares that cannot be seen either, and the sentence says so:

# %%
print(rat.attribute(fit, a="gpt-4o", b="llama-3.1-405b-instruct").attrs["sentence"])

# %% [markdown]
# ## Declining: both sides, at a price
#
# A system that declines more where it should as a rule also does so where it should not. The two rates belong
# together, and a table of costs weighs them. Here a wrong answer costs 3, declining without need 1, and a good answer
# without support nothing:

# %%
costs = {"wrong_answer": 3, "unneeded_abstention": 1, "unsupported_answer": 0}
found = rat.abstention(fit, costs=costs)
rat.plot_abstention(found)

# %%
for system in found.cost.index:
    print(found.sentence(system))

# %% [markdown]
# Left: all three hardly ever decline where they should not, and seldom where they should: in 17 to 29 % of the
# questions on which retrieval failed.
#
# Right: what would change if they declined more often, or less. The labels do not say how close an answered question
# was to being declined, so there are three lines, each with its assumption. To decline more by lot (dotted) costs
# more. If the system's hesitation says something of retrieval (black: all odds change by one factor), declining more
# saves, in units of the costs per question. With four times the odds:

# %%
stricter = found.moves.xs("same_odds", level="line").xs(4.0, level="odds")
stricter[["abstains", "change", "change_q2.5", "change_q97.5", "prob_cheaper"]].round(3)

# %% [markdown]
# For `gpt-4o` that is cheaper with probability 0.98; for `reference`, which declines more already, it is not settled.
#
# ## The decision
#
# - **Mend the generator of `gpt-4o`**, not its retrieval: 9 of the 10 points that it is behind are answers that are
#   wrong although the passages were there.
# - **Where its threshold can be moved, try a stricter one**, and label some of the questions that it then declines:
#   that tells which of the three lines it follows.
