"""netCDF files: named groups of datasets and one JSON text, written and read back unchanged. No pickle."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from rat_jax.labels.pairing import Pairing

FORMAT = "rat_jax posterior 1"


def write(path: str | os.PathLike[str], groups: dict[str, xr.Dataset], about: dict[str, Any]) -> None:
    """Write groups and JSON-able facts to a netCDF file; an existing file is replaced only once all is written."""
    target = Path(path)
    if target.is_dir() or not target.parent.is_dir():
        raise ValueError(f"cannot write {target}: expected a file name in an existing directory")
    tree = xr.DataTree.from_dict({f"/{name}": with_safe_names(dataset) for name, dataset in groups.items()})
    tree.attrs = {"format": FORMAT, "about": json.dumps(about, allow_nan=False)}
    partial = target.with_name(f".{target.name}.partial")
    try:
        tree.to_netcdf(partial, engine="h5netcdf")
        os.replace(partial, target)
    except OSError as error:
        raise ValueError(f"cannot write {target}: {error.strerror or 'the file system refused'}") from error


def read(path: str | os.PathLike[str]) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """Groups and facts of a file written by `write`.

    Raises FileNotFoundError if there is no such file, ValueError if it is not one of ours.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no such file: {path}")
    try:
        tree = xr.load_datatree(path, engine="h5netcdf")
    except Exception as error:
        raise ValueError(f"{path}: expected a netCDF file written by Posterior.save; cannot read it") from error
    if tree.attrs.get("format") != FORMAT:
        found = tree.attrs.get("format", "no format mark")
        raise ValueError(f"{path}: expected a posterior saved by rat_jax ({FORMAT!r}), found {found!r}")
    groups = {name: _with_own_names(node.to_dataset()) for name, node in tree.children.items()}
    return groups, json.loads(tree.attrs["about"])


def with_safe_names(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with "/" spelled out in names of variables (as of a judge "openai/gpt-4"): it separates groups."""
    safe = {name: str(name).replace("%", "%25").replace("/", "%2F") for name in dataset.data_vars}
    return dataset.rename({name: new for name, new in safe.items() if new != name})


def _with_own_names(dataset: xr.Dataset) -> xr.Dataset:
    own = {name: str(name).replace("%2F", "/").replace("%25", "%") for name in dataset.data_vars}
    return dataset.rename({name: old for name, old in own.items() if old != name})


def counts_to_dataset(counts: pd.DataFrame) -> xr.Dataset:
    """The pattern counts of a fit as arrays, -1 = missing."""
    labels = [c for c in counts if c not in ("system", "count")]
    columns = {c: ("row", counts[c].fillna(-1).to_numpy(np.int8)) for c in labels}
    columns["count"] = ("row", counts["count"].to_numpy(np.int64))
    return xr.Dataset(columns, coords={"system": ("row", counts["system"].to_numpy(str))})


def counts_from_dataset(dataset: xr.Dataset) -> pd.DataFrame:
    """What `counts_to_dataset` wrote, as `Labels.counts()` gave it."""
    labels = [c for c in dataset.data_vars if c != "count"]
    columns = {"system": dataset["system"].to_numpy().astype(str)}
    columns |= {c: pd.array(dataset[c].to_numpy(), dtype="Int64") for c in labels}
    frame = pd.DataFrame(columns | {"count": dataset["count"].to_numpy()})
    for c in labels:
        frame[c] = frame[c].mask(frame[c] < 0)
    return frame


def pairing_to_dataset(pairing: Pairing) -> xr.Dataset:
    """Questions lined up over systems, as arrays."""
    names = [pairing.names.get(int(number), "") for number in pairing.retriever]
    columns = {
        "codes": (("pattern", "system", "variable"), pairing.codes),
        "count": ("pattern", pairing.count),
        "retriever": ("system", pairing.retriever.astype(np.int64)),
        "retriever_name": ("system", np.array(names, dtype=str)),
    }
    return xr.Dataset(columns, coords={"system": list(pairing.systems), "variable": list(pairing.variables)})


def pairing_from_dataset(dataset: xr.Dataset) -> Pairing:
    """What `pairing_to_dataset` wrote."""
    retriever = dataset["retriever"].to_numpy()
    names = zip(retriever.tolist(), map(str, dataset["retriever_name"].to_numpy()), strict=True)
    return Pairing(
        systems=tuple(map(str, dataset["system"].to_numpy())),
        variables=tuple(map(str, dataset["variable"].to_numpy())),
        codes=dataset["codes"].to_numpy().astype(np.int8),
        count=dataset["count"].to_numpy(),
        retriever=retriever,
        names={int(number): name for number, name in names if name},
    )
