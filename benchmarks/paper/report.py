"""The report: which of the paper's findings stand, as Markdown for a reader and as JSON for a program.

Sections with their claims come in; nothing is decided here.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import pandas as pd

import rat_jax as rat
from benchmarks.paper.allocation import Studies
from benchmarks.paper.claims import FAILS, HOLDS, MEANINGS, PARTLY, SLIP, Claim, Section

HEAD = ("no.", "claim", "where", "published", "ours", "difference", "verdict")
BRIEF = ("5.2h", "5.1h", "5.3c", "F a", "5.3e", "5.3n", "F e", "E b", "E d", "5.4c", "5.4e", "5.4b")
READ_ONLY = (
    "Read, not computed: the abstention label of FEVER is spelt NOT_ENOUGH_INFO in Appendix A.3 and NOT ENOUGH INFO in "
    "the prompt of Appendix B.1.1. Matching is by exact string (A.3), so one of the two is not what was matched."
)


def facts(command: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """When, with what and how."""
    versions = {"python": platform.python_version(), "jax": jax.__version__, "numpyro": numpyro.__version__}
    versions |= {"numpy": np.__version__, "rat_jax": rat.__version__}
    machine = f"{os.cpu_count()} cores, {jax.devices()[0].platform}"
    return {
        "date": date.today().isoformat(),
        "command": command,
        "versions": versions,
        "machine": machine,
        "settings": dict(settings),
    }


def write(out: Path, about: Mapping[str, Any], sections: Sequence[Section], studies: Studies) -> None:
    """report.md and report.json in `out`."""
    (out / "report.md").write_text(markdown(about, sections, studies), encoding="utf-8")
    document = {
        **about,
        "claims": [asdict(c) for s in sections for c in s.claims],
        "tables": {
            caption: json.loads(t.reset_index().to_json(orient="records", double_precision=10))
            for s in sections
            for caption, t in s.tables
        },
        "allocation": {r.name: r.study.to_dict() for r in studies.readings},
        "chains": None if studies.chains is None else studies.chains.to_dict(),
        "seconds": dict(studies.seconds),
    }
    (out / "report.json").write_text(json.dumps(document, indent=1, allow_nan=False, default=float), encoding="utf-8")


def markdown(about: Mapping[str, Any], sections: Sequence[Section], studies: Studies) -> str:
    """The whole report."""
    claims = [c for s in sections for c in s.claims]
    parts = [
        "# The paper, reproduced",
        _opening(about),
        "## Which findings stand",
        _counted(claims),
        _brief(claims),
        _words(),
        _table(claims),
        "## What does not stand, or only in part",
        _fallen(claims),
        "## Slips in the published numbers",
        _slips(claims),
    ]
    for section in sections:
        parts += [f"## {section.title}", *section.text, _details(section.claims)]
        for caption, table in section.tables:
            parts += [f"*{caption}*", frame(table)]
        parts += [f"![{caption}]({name})\n\n*{caption}*" for name, caption in section.figures]
    parts += ["## Time", _time(studies)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _opening(about: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {v}" for name, v in about["versions"].items())
    settings = ", ".join(f"{name} {value}" for name, value in about["settings"].items())
    return (
        '"The RAT: A Unified Bayesian Model for RAG Evaluation", recomputed from its printed parameters. The data are '
        "not public, so rows are laid out or simulated from Tables 1, 2, 4, 8 and 9. What this can check is whether "
        "the paper's numbers and sentences follow from its own parameters and model, not whether the parameters are "
        f"right for the systems.\n\n{about['date']}; {versions}; {about['machine']}.\n\n"
        f"```bash\n{about['command']}\n```\n\nSettings: {settings}."
    )


def _counted(claims: Sequence[Claim]) -> str:
    found = {word: sum(c.verdict == word for c in claims) for word in MEANINGS}
    return f"{len(claims)} claims: " + ", ".join(f"{n} *{word}*" for word, n in found.items() if n) + "."


def _brief(claims: Sequence[Claim]) -> str:
    found = {c.number: c for c in claims}
    lines = [f"- {c.claim}: **{c.verdict}**. {c.ours}." for c in (found[number] for number in BRIEF)]
    return "The main ones:\n\n" + "\n".join(lines)


def _words() -> str:
    lines = "\n".join(f"- *{word}*: {meaning}." for word, meaning in MEANINGS.items())
    return f"What the verdicts mean:\n\n{lines}\n\nClaims are in our words; 'se' is a standard error."


def _table(claims: Sequence[Claim]) -> str:
    rows = [
        (
            c.number,
            c.claim,
            c.where,
            c.published,
            c.ours,
            c.difference,
            f"**{c.verdict}**" if c.verdict != HOLDS else HOLDS,
        )
        for c in claims
    ]
    return frame(pd.DataFrame(rows, columns=list(HEAD)), index=False)


def _fallen(claims: Sequence[Claim]) -> str:
    lines = [f"- {c.claim} ({c.number}): **{c.verdict}**. {c.ours}." for c in claims if c.verdict in (FAILS, PARTLY)]
    return "\n".join(lines) or "Nothing."


def _slips(claims: Sequence[Claim]) -> str:
    lines = [
        f"- {c.where}: {c.claim}. Printed {c.published}; recomputed {c.ours}. {c.calculation}"
        for c in claims
        if c.verdict == SLIP
    ]
    return "\n".join([*lines, f"- {READ_ONLY}"])


def _details(claims: Sequence[Claim]) -> str:
    lines = [f"- **{c.number}** {c.claim}: {c.verdict}. {c.calculation}".rstrip() for c in claims if c.calculation]
    return "\n".join(lines)


def _time(studies: Studies) -> str:
    rows = []
    for stage, fits in studies.fits.items():
        seconds = studies.seconds.get(stage)
        told = (f"{seconds:.1f}", f"{fits / seconds:,.0f}") if seconds else ("gone on with after a stop", "")
        rows.append((stage, f"{fits:,}", *told))
    lines = [frame(pd.DataFrame(rows, columns=["study", "fits", "seconds", "fits per second"]), index=False)]
    times = studies.seconds
    if {"base", "rows"} <= set(times):
        lines.append(
            f"The paper's study, exact: {studies.fits['rows']:,} fits and {studies.fits['base']:,} of the base in "
            f"{times['rows'] + times['base']:.1f} s, sampling of rows and figures of every fit included. "
            "Seconds are wall time: other work on the machine is in them."
        )
    if {"chains", "rows"} <= set(times):
        per_fit = {stage: times[stage] / studies.fits[stage] for stage in ("chains", "rows")}
        lines.append(f"A fit by chains took {per_fit['chains'] / per_fit['rows']:.0f} times as long as an exact one.")
    return "\n\n".join(lines)


def frame(table: pd.DataFrame, *, index: bool = True) -> str:
    """A Markdown table; numbers to four decimals, an index as first columns unless it only counts."""
    shown = table.reset_index() if index and not isinstance(table.index, pd.RangeIndex) else table
    shown = shown.rename(columns={"index": "configuration"})
    lines = [list(map(str, shown.columns)), ["---"] * shown.shape[1]]
    lines += [[_cell(x) for x in row] for row in shown.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return (
            ""
            if np.isnan(value)
            else f"{value:.0f}"
            if float(value).is_integer() and abs(value) >= 2
            else f"{value:.4f}"
        )
    return str(value).replace("|", "\\|")
