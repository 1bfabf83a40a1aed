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
    """NumPyro program of a network on a count table.

    p(theta | counts) is proportional to prior(theta) * prod_p (sum of allowed states' probabilities)^count_p.

    evidence: patterns of one system with `counts` [P], or of S systems with `counts` [S, P]: every parameter then
        has a first axis over systems, except those of tables that the network declares as shared.
    concentration: prior concentration per cell [M], from `priors.concentrations`; uniform if None.
    """
    systems = () if np.ndim(evidence.counts) == 1 else (len(evidence.counts),)
    log_cells = sample_log_cells(network, _given(network, concentration), systems)
    numpyro.factor("labels", jnp.sum(evidence.counts * log_pattern_probabilities(network, log_cells, evidence)))


def rowwise(
    codes: Array,
    concentration: Array | None = None,
    network: Network = RAT,
    system: Array | None = None,
    num_systems: int = 1,
) -> None:
    """NumPyro program of a network with one plate entry per row; missing labels are enumerated.

    Run it with an ordinary `numpyro.infer.MCMC(NUTS(rowwise))`.

    codes: int [N, V] in the order of the network's variables, -1 = missing (`Labels.codes[:, :3]` for RAT).
    concentration: prior concentration per cell [M]; uniform if None.
    system: int [N], which of `num_systems` systems each row belongs to (`Labels.system`), for several at once:
        parameters then have a first axis over systems, except those of tables that are shared. None: one system.

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
    systems = () if system is None else (num_systems,)
    cells = jnp.exp(sample_log_cells(network, _given(network, concentration), systems))
    lead = () if system is None else (jnp.asarray(system),)
    values: dict[str, Array] = {}
    with numpyro.plate("rows", codes.shape[0]):
        for column, (name, table, earlier) in enumerate(_in_order(network)):
            given = (*table.parents, *earlier)
            probabilities = _dense(network, cells, table, given)[(*lead, *(values[v] for v in given))]
            categorical = dist.CategoricalProbs(probabilities)
            value = jnp.asarray(numpyro.sample(name, categorical, infer={"enumerate": "parallel"}))
            values[name] = value
            # the label as evidence: `obs_mask` would leave a second enumerated site behind
            speaks_against = (codes[:, column] >= 0) & (value != codes[:, column])
            numpyro.factor(f"{name}_label", jnp.where(speaks_against, RULED_OUT, 0.0))


def sample_log_cells(network: Network, concentration: Array, systems: tuple[int, ...] = ()) -> Array:
    """Sample every free row from its prior; the log probabilities of all cells, [*systems, M].

    systems: () for one system, (S,) for S of them, which have the shared tables in common.
    """
    parts = []
    by_table = [[p for p in network.parameters if p.table == t] for t in range(len(network.tables))]
    for table, layout, parameters in zip(network.tables, network.layouts, by_table, strict=True):
        lead = () if table.shared else systems
        rows = [jnp.asarray(network.known_cells[layout.offset : layout.stop])] if table.known else []
        for p in parameters:
            prior = concentration[layout.offset : layout.stop].reshape(len(layout.rows), len(layout.outcomes))
            prior = prior if p.row is None else prior[p.row]
            prior = prior[0] if p.row is None and not table.parents else prior
            rows.append(_sample_log_row(p.name, prior, lead).reshape(*lead, -1))
        cells = jnp.concatenate(rows, axis=-1)
        parts.append(jnp.broadcast_to(cells, (*systems, layout.size)))
    return jnp.concatenate(parts, axis=-1)


def _sample_log_row(name: str, prior: Array, lead: tuple[int, ...]) -> Array:
    """Sample one parameter; the log probabilities of its outcomes, [*lead, ..., outcomes]."""
    prior = jnp.broadcast_to(prior, (*lead, *prior.shape))
    if prior.shape[-1] == 2:
        value = jnp.asarray(numpyro.sample(name, dist.Beta(prior[..., 1], prior[..., 0]).to_event(prior.ndim - 1)))
        return jnp.stack([jnp.log1p(-value), jnp.log(value)], axis=-1)
    return jnp.log(jnp.asarray(numpyro.sample(name, dist.Dirichlet(prior).to_event(prior.ndim - 1))))


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


def _dense(network: Network, cells: Array, table: Table, given: tuple[str, ...]) -> Array:
    """P(next variable | given) as an array [..., *given, levels of the variable], from cells [..., M].

    A table over several variables is unrolled by the chain rule. Configurations that cannot occur
    get a uniform row (nothing ever selects them); forced outcomes get probabilities 0 and 1.
    """
    joint = _dense_joint(network, cells, table)
    keep = cells.ndim - 1 + len(given) + 1
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
    # not 0, whose logarithm NumPyro refuses; nor near the smallest number, whose inverse overflows in gradients
    never = float(jnp.finfo(cells.dtype).tiny) ** 0.5
    forced = jnp.broadcast_to(jnp.array([never, 1.0], cells.dtype), (*cells.shape[:-1], 2))
    return jnp.concatenate([cells, forced], axis=-1)[..., index]


def _occurs(network: Network, names: tuple[str, ...], codes: tuple[int, ...]) -> bool:
    columns = [network.pipeline.index(n) for n in names]
    return bool((network.states[:, columns] == codes).all(axis=1).any())
