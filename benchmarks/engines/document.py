"""A table put into a document, between two marks, with its figure beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def update(document: Path, table: str, figure: Path) -> None:
    """Replace what stands between the marks; the figure gets the document's name.

    Raises ValueError where the marks are not there.
    """
    text = document.read_text(encoding="utf-8")
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"{document}: expected one line {BEGIN} and behind it one line {END}")
    picture = document.with_suffix(figure.suffix)
    shutil.copyfile(figure, picture)
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    shown = f"![Effective draws per second by engine, and how they grow]({picture.name})"
    document.write_text(f"{before}{BEGIN}\n{table}\n{shown}\n{END}{after}", encoding="utf-8")
