"""The example label table that ships with the package: 471 answers of three systems, all labelled."""

from __future__ import annotations

from importlib.resources import as_file, files

from .load import read_labels
from .table import Labels


def example_labels() -> Labels:
    """Labels of 157 questions from 20 conversations, answered by two generators and by a person.

    R, A and T are known in every row. `rat_jax/data/mtrag_human.md` states source, derivation and licence.

    Examples
    --------
    >>> import rat_jax as rat
    >>> rat.example_labels().systems
    ('gpt-4o', 'llama-3.1-405b-instruct', 'reference')
    """
    with as_file(files("rat_jax") / "data" / "mtrag_human.csv") as path:
        return read_labels(path)
