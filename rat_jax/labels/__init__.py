"""Label tables come in at this door: they are read, checked, and turned into codes and counts.

Start with `read_labels`; the rest is what it returns or raises, and `example_labels` to try it on.
`datasets` holds published tables.
"""

from . import datasets
from .example import example_labels
from .load import read_labels
from .report import Coercion, LoadReport
from .table import Labels, counts_frame
from .vocabulary import LabelError

__all__ = [
    "Coercion",
    "LabelError",
    "Labels",
    "LoadReport",
    "counts_frame",
    "datasets",
    "example_labels",
    "read_labels",
]
