"""What a row's missing labels probably are: P(R=1), P(A=1), P(T=1), P(G=1) given the labels it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from rat_jax.inference.posterior import Posterior
from rat_jax.labels import Labels, read_labels
from rat_jax.model.patterns import allowed_readings, allowed_states
from rat_jax.model.program import row_data
from rat_jax.model.quantities import state_probabilities
from rat_jax.naming import checked

SMALLEST = 1e-60  # probability; products of a few stay above the smallest number
LARGEST_ARRAY = 4e9  # bytes of a per-draw answer before we ask for fewer rows


def impute(fit: Posterior, labels: Any) -> pd.DataFrame:
    """Posterior probabilities of every row's labels, averaged over the draws.

    labels: rows of systems that `fit` knows, as `Labels` or anything `read_labels` takes; they need not be the
        rows it was fitted to.

    Returns a DataFrame with one line per row, in the order of the rows: `id` (where there are ids),
    `system`, and one column per label and policy: p_R, p_A, p_T, p_G, ..., in [0, 1]. A label that
    is present gives exactly 0 or 1.

    Raises ValueError for a system that `fit` does not have.

    Examples
    --------
    >>> import pandas as pd
    >>> import rat_jax as rat
    >>> labels = rat.read_labels(pd.DataFrame({"R": [1, None], "A": [0, 0], "T": [None, 1]}))
    >>> rat.impute(rat.fit(labels), labels).shape
    (2, 5)
    """
    labels = _read(fit, labels)
    kinds, row_of = _kinds_of_rows(fit, labels)
    averages = [_given_labels(fit, s, code).mean(axis=(1, 2)) for s, code in kinds]
    table = np.stack(averages)[row_of]
    lead = {} if labels.ids is None else {"id": labels.ids}
    columns = {name: table[:, i] for i, name in enumerate(_names(fit))}
    return pd.DataFrame({**lead, "system": np.array(labels.systems)[labels.system], **columns})


def impute_draws(fit: Posterior, labels: Any) -> xr.DataArray:
    """The same for every draw: dims (row, label, chain, draw), label in p_R, p_A, p_T, p_G.

    Raises ValueError if the answer would take more than 4 GB; `impute` has no such limit.
    """
    kinds, row_of = _kinds_of_rows(fit, _read(fit, labels))
    size = len(row_of) * len(_names(fit)) * fit.data.sizes["chain"] * fit.data.sizes["draw"] * 8
    if size > LARGEST_ARRAY:
        raise ValueError(
            f"impute_draws: {len(row_of):,} rows would take {size / 1e9:.1f} GB, over the limit of "
            f"{LARGEST_ARRAY / 1e9:.0f} GB; pass fewer rows or use impute"
        )
    values = np.stack([_given_labels(fit, s, code) for s, code in kinds])[row_of]
    coords = {"label": _names(fit), "chain": fit.data["chain"], "draw": fit.data["draw"]}
    return xr.DataArray(values, dims=("row", "label", "chain", "draw"), coords=coords)


def _read(fit: Posterior, labels: Any) -> Labels:
    """Labels whose levels are those of the fit, or a ValueError that names the first that differs."""
    words = {v.name: v.levels for v in fit.network.variables if v.levels != ("0", "1")}
    if not isinstance(labels, Labels):
        return read_labels(labels, levels=words or None)
    for name in set(labels.observed) & set(fit.network.levels):
        theirs, ours = labels.levels.get(name, ("0", "1")), words.get(name, ("0", "1"))
        if tuple(theirs) != tuple(ours):
            raise ValueError(
                f"impute: {name} has the levels {', '.join(theirs)} in these rows and {', '.join(ours)} in the fit; "
                "read the rows with the levels of the fit"
            )
    return labels


def _names(fit: Posterior) -> list[str]:
    pipeline = set(fit.network.pipeline)
    return [q.name for q in fit.network.probabilities if {v for v, _ in q.of} <= pipeline and not q.given] + list(
        fit.policies
    )


def _kinds_of_rows(fit: Posterior, labels: Labels) -> tuple[list[tuple[int, np.ndarray]], np.ndarray]:
    """Distinct (system of the fit, codes), and for every row which of them it is."""
    for name in labels.systems:
        checked(name, fit.systems, "system of the posterior")
    index = np.array([fit.systems.index(s) for s in labels.systems])[labels.system]
    rows = np.column_stack([index, row_data(fit.network, labels.codes, labels.variables)])
    distinct, row_of = np.unique(rows, axis=0, return_inverse=True)
    return [(int(row[0]), row[1:].astype(np.int8)) for row in distinct], row_of.reshape(-1)


def _given_labels(fit: Posterior, system: int, code: np.ndarray) -> np.ndarray:
    """P(label = 1 | the labels of one pattern, parameters), [label, chain, draw]."""
    network = fit.network
    cells = np.maximum(fit.cells[system], SMALLEST)  # a draw that rules the row out has an answer too
    weight = state_probabilities(network, cells) * allowed_states(network, code[None])[0]
    readings = allowed_readings(network, code[None])
    for t, rows, allowed in zip(network.measurements, network.measurement_rows, readings, strict=True):
        layout = network.layouts[t]
        table = cells[..., layout.offset : layout.stop].reshape(*cells.shape[:-1], len(layout.rows), -1)
        weight = weight * (table * allowed[0]).sum(axis=-1)[..., rows]
    posterior = weight / weight.sum(axis=-1, keepdims=True)
    events = [network.event(q.of) for q in network.probabilities if q.name in _names(fit)]
    return np.stack([posterior @ np.asarray(e) for e in (*events, *(p.weights for p in fit.policies.values()))])
