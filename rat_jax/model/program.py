"""The same model written twice as a NumPyro program, on purpose.

`rowwise` has one plate entry per row and enumerates what is missing: it is the specification, the
place to add covariates, and what imputes labels. `counted` sums the missing labels out of each
pattern and works on the count table, so a thousand rows and a billion cost the same. A test holds
the two to the same log density and gradient.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax import Array

from rat_jax.model.density import log_pattern_probabilities
from rat_jax.model.network import Network, Table
from rat_jax.model.patterns import Evidence
from rat_jax.model.priors import concentrations
from rat_jax.model.rat import RAT

RULED_OUT = -1e10  # exp of it is 0; NumPyro's discrete sampling refuses -inf


def counted(evidence: Evidence, concentration: Array | None = None, network: Network = RAT) -> None:
    """NumPyro program of a network on one system's count table.

    p(theta | counts) is proportional to prior(theta) * prod_p (sum of allowed states' probabilities)^count_p.

    evidence: patterns of one system; `counts` [P].
    concentration: prior concentration per cell [M], from `priors.concentrations`; uniform if None.
    """
    log_cells = sample_log_cells(network, _given(network, concentration))
    log_patterns = log_pattern_probabilities(network, log_cells, evidence)
    numpyro.factor("labels", jnp.sum(evidence.counts * log_patterns))


def rowwise(codes: Array, concentration: Array | None = None, network: Network = RAT) -> None:
    """NumPyro program of a network with one plate entry per row; missing labels are enumerated.

    Run it with an ordinary `numpyro.infer.MCMC(NUTS(rowwise))`.

    codes: int [N, V] in the order of the network's variables, -1 = missing (`Labels.codes[:, :3]` for RAT).
    concentration: prior concentration per cell [M]; uniform if None.

    Examples
    --------
    >>> import jax, numpy as np
    >>> from numpyro.infer import MCMC, NUTS
    >>> from rat_jax.model.program import rowwise
    >>> mcmc = MCMC(NUTS(rowwise), num_warmup=50, num_samples=50, progress_bar=False)
    >>> mcmc.run(jax.random.key(0), np.array([[1, 0, 1], [0, 1, 0], [-1, 0, 1]]))
    >>> sorted(mcmc.get_samples())
    ['theta_A_minus', 'theta_A_plus', 'theta_R', 'theta_T_minus', 'theta_T_plus']
    """
    codes = jnp.asarray(codes)
    cells = jnp.exp(sample_log_cells(network, _given(network, concentration)))
    values: dict[str, Array] = {}
    with numpyro.plate("rows", codes.shape[0]):
        for column, (name, table, earlier) in enumerate(_in_order(network)):
            given = (*table.parents, *earlier)
            probabilities = _dense(network, cells, table, name, given)[tuple(values[v] for v in given)]
            categorical = dist.CategoricalProbs(probabilities)
            value = jnp.asarray(numpyro.sample(name, categorical, infer={"enumerate": "parallel"}))
            values[name] = value
            # the label as evidence: `obs_mask` would leave a second enumerated site behind
            speaks_against = (codes[:, column] >= 0) & (value != codes[:, column])
            numpyro.factor(f"{name}_label", jnp.where(speaks_against, RULED_OUT, 0.0))


def sample_log_cells(network: Network, concentration: Array) -> Array:
    """Sample every free row from its prior; the log probabilities of all cells, [M]."""
    parts = []
    for p in network.parameters:
        layout = network.layouts[p.table]
        prior = concentration[layout.offset : layout.stop].reshape(len(layout.rows), len(layout.outcomes))
        prior = prior if p.row is None else prior[p.row]
        if p.row is None and not network.tables[p.table].parents:
            prior = prior[0]
        if len(layout.outcomes) == 2:
            beta = dist.Beta(prior[..., 1], prior[..., 0]).to_event(prior.ndim - 1)
            value = jnp.asarray(numpyro.sample(p.name, beta))
            log_row = jnp.stack([jnp.log1p(-value), jnp.log(value)], axis=-1)
        else:
            value = numpyro.sample(p.name, dist.Dirichlet(prior).to_event(prior.ndim - 1))
            log_row = jnp.log(value)
        parts.append(log_row.reshape(-1))
    return jnp.concatenate(parts)


def row_data(network: Network, codes: np.ndarray, variables: tuple[str, ...]) -> np.ndarray:
    """Label codes [N, variables] rearranged to the network's variables [N, V]; absent ones missing."""
    columns = [
        codes[:, variables.index(v.name)] if v.name in variables else np.full(len(codes), -1, codes.dtype)
        for v in network.variables
    ]
    return np.stack(columns, axis=1)


def _given(network: Network, concentration: Array | None) -> Array:
    return jnp.asarray(concentrations(network, None) if concentration is None else concentration)


def _in_order(network: Network) -> list[tuple[str, Table, tuple[str, ...]]]:
    """Each variable with its table and the variables of the same table that come before it."""
    return [(v, table, table.variables[:k]) for table in network.tables for k, v in enumerate(table.variables)]


def _dense(network: Network, cells: Array, table: Table, name: str, given: tuple[str, ...]) -> Array:
    """P(name | given) as an array with one axis per variable of `given` and a last axis for `name`.

    A table over several variables is unrolled by the chain rule. Configurations that cannot occur
    get a uniform row (nothing ever selects them); forced outcomes get probabilities 0 and 1.
    """
    joint = _dense_joint(network, cells, table)
    keep = len(given) + 1
    joint = joint.sum(axis=tuple(range(keep, joint.ndim)))
    return joint / joint.sum(axis=-1, keepdims=True)


def _dense_joint(network: Network, cells: Array, table: Table) -> Array:
    t = network.tables.index(table)
    layout = network.layouts[t]
    axes = [network.levels[v] for v in (*table.parents, *table.variables)]
    index = np.full(axes, network.num_cells, np.int32)  # points at `never`, appended below
    for position in np.ndindex(*axes):
        row, outcome = position[: len(table.parents)], position[len(table.parents) :]
        if row in layout.rows:
            index[position] = layout.offset + layout.rows.index(row) * len(layout.outcomes)
            index[position] += layout.outcomes.index(outcome)
        elif network.is_possible(dict(zip((*table.parents, *table.variables), position, strict=True))):
            index[position] = network.num_cells + 1
        elif not _occurs(network, table.parents, row):
            index[position] = network.num_cells + 1
    never = jnp.finfo(cells.dtype).tiny  # not 0, whose logarithm NumPyro's discrete sampling refuses
    return jnp.concatenate([cells, jnp.array([never, 1.0], cells.dtype)])[index]


def _occurs(network: Network, names: tuple[str, ...], codes: tuple[int, ...]) -> bool:
    columns = [network.pipeline.index(n) for n in names]
    return bool((network.states[:, columns] == codes).all(axis=1).any())
