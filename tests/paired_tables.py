"""Tables of systems that answered the same questions, and second routes to their joint posterior; own code only."""

import numpy as np
import pandas as pd
from decisions import THETAS
from scipy.stats import norm


def correlated(rng, size, thetas, correlation, shared=False):
    """Complete rows of S systems with thetas [S, 5]; difficulty of a question moves all systems (probit)."""
    number = len(thetas)

    def chance():
        common, own = rng.standard_normal((size, 1)), rng.standard_normal((size, number))
        return norm.cdf(np.sqrt(correlation) * common + np.sqrt(1 - correlation) * own)

    u = chance()
    r = (np.repeat(u[:, :1], number, 1) if shared else u) < thetas[:, 0]
    a = chance() < np.where(r, thetas[:, 2], thetas[:, 1])
    t = ~a & (chance() < np.where(r, thetas[:, 4], thetas[:, 3]))
    table = pd.DataFrame({n: x.ravel().astype(float) for n, x in zip("RAT", (r, a, t), strict=True)})
    table["id"] = [f"q{i}" for i in np.repeat(np.arange(size), number)]
    table["system"] = np.tile([f"s{i:02d}" for i in range(number)], size)
    return table


def wide(table, column):
    """Labels of one kind, questions by systems."""
    return table.pivot(index="id", columns="system", values=column).to_numpy()


def g_of(r, a, t):
    return np.where(r == 1, (1 - a) * t, a)


def em_p_g(codes, weights):
    """Maximum-likelihood p_G of one system for many weightings at once: codes [N, 3] (NaN missing), weights [B, N]."""
    states = np.array([(0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0)])
    codes, place = np.unique(np.nan_to_num(codes, nan=-1), axis=0, return_inverse=True)
    weights = weights @ (place.reshape(-1, 1) == np.arange(len(codes)))
    fits = ((codes[:, None] < 0) | (codes[:, None] == states)).all(axis=2)  # [N, 6]
    pi = np.full((len(weights), 6), 1 / 6)
    for _ in range(300):
        share = fits[None] * pi[:, None]
        share /= share.sum(axis=2, keepdims=True)
        pi = np.einsum("bn,bnj->bj", weights, share) / weights.sum(axis=1, keepdims=True)
    return pi[:, 2] + pi[:, 4]


def thetas_of(posterior, system):
    return np.stack([posterior.draws(name, system=system).ravel() for name in THETAS], axis=1)
