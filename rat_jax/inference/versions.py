"""Versions that numbers depend on, as a posterior and a study carry them."""

from __future__ import annotations

from importlib import import_module, metadata


def version(package: str) -> str:
    """Version of an installed package, and of this one also where it runs from a folder that was never installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        own = import_module(__name__.partition(".")[0])
        if package != own.__name__.replace("_", "-"):
            raise
        return own.__version__
