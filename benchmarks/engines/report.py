"""Records as a Markdown table with ratios, and as results.json. Computes ratios, measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.engines.engines import ENGINES

Record = dict[str, Any]
BATCHED_PEERS = ("blackjax", "numpyro-5", "numpyro-10", "nutpie")
TARGETS = {"mixed": {"best": 10.0, "pystan": 40.0}, "paper": {"best": 7.0}, "judge": {"best": 6.0}}
TITLES = {
    "mixed": "Tables of the allocation study",
    "paper": "The same tables, at the paper's settings",
    "judge": "The judge posterior: 23 dimensions, 5,200 rows",
}


def is_good(record: Record) -> bool:
    """Measured, and its answers are right."""
    return record["status"] == "measured" and record["score"]["is_right"]


def best(records: Sequence[Record], part: str, engine: str) -> Record | None:
    """The record of an engine that counts in a part: the most ESS per second of those that are right, else any."""
    own = [r for r in records if r["cell"]["part"] == part and r["cell"]["engine"] == engine]
    good = [r for r in own if is_good(r)]
    return max(good, key=lambda r: r["ess_per_second"]) if good else own[0] if own else None


def ratios(records: Sequence[Record], part: str) -> dict[str, float]:
    """How many times the ESS per second of each peer our lanes give; only where both were measured and are right."""
    ours = best(records, part, "lanes")
    if ours is None or not is_good(ours):
        return {}
    found = {}
    for name, engine in ENGINES.items():
        record = best(records, part, name)
        if not engine.is_ours and record is not None and is_good(record):
            found[name] = ours["ess_per_second"] / record["ess_per_second"]
    return found


def over_best(by_peer: Mapping[str, float]) -> tuple[str, float] | None:
    """The peer that comes closest, PyStan apart, and how many times its ESS per second ours is."""
    among = {name: ratio for name, ratio in by_peer.items() if name in BATCHED_PEERS}
    return min(among.items(), key=lambda item: item[1]) if among else None


def headline(records: Sequence[Record], part: str) -> str:
    """The ratios of a part beside their targets, in one sentence."""
    by_peer = ratios(records, part)
    closest = over_best(by_peer)
    if closest is None:
        return "No ratio: our lanes and at least one peer must be measured and right."
    name, ratio = closest
    words = [f"{ratio:.1f} times the ESS per second of the best peer ({ENGINES[name].label})"]
    words[0] += f", target {TARGETS[part]['best']:g}"
    if "pystan" in by_peer:
        target = TARGETS[part].get("pystan")
        words.append(f"{by_peer['pystan']:.0f} times that of PyStan" + (f", target {target:g}" if target else ""))
    absent = sorted(
        {ENGINES[r["cell"]["engine"]].label for r in records if r["cell"]["part"] == part and r["status"] == "missing"}
    )
    note = f" Not among the peers, because missing: {', '.join(absent)}." if absent else ""
    return f"**Our lanes give {'; '.join(words)}.**{note}"


def markdown(records: Sequence[Record], about: Mapping[str, Any]) -> str:
    """The whole table."""
    lines = [_origin(records, about), ""]
    for part, title in TITLES.items():
        if any(r["cell"]["part"] == part for r in records):
            lines += [f"### {title}", "", headline(records, part), "", *_part_table(records, part), ""]
    for title, table in (
        ("At least 1,000 effective draws of every quantity", _ladder_table(records)),
        ("A fresh process with empty caches: seconds to the first fit", _cold_table(records)),
        ("Growth", _curves_table(records)),
    ):
        if table:
            lines += [f"### {title}", "", *table, ""]
    return "\n".join(lines).rstrip() + "\n"


def _origin(records: Sequence[Record], about: Mapping[str, Any]) -> str:
    dates = sorted(r["date"] for r in records if "date" in r)
    when = f"{dates[0][:16]} to {dates[-1][:16]} UTC" if dates else "nothing measured"
    load = max((r["load_before"] for r in records if "load_before" in r), default=0.0)
    note = "" if load < 2.5 else f" The machine was busy with other work too (load up to {load:.1f})."
    quick = " **Small sizes (--quick): to see that it works, not to be quoted.**" if about["quick"] else ""
    return f"{when}; {about['machine']}; {versions_in_words(records)}.{note}{quick}"


def versions_in_words(records: Sequence[Record]) -> str:
    """Every package that worked, with its version."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name, version in record.get("versions", {}).items():
            found.setdefault(name, set()).add(version)
    return ", ".join(f"{name} {'/'.join(sorted(found[name]))}" for name in sorted(found, key=str.lower))


def _part_table(records: Sequence[Record], part: str) -> list[str]:
    by_peer = ratios(records, part)
    rows = []
    for name, engine in ENGINES.items():
        chosen = best(records, part, name)
        for record in [r for r in records if r["cell"]["part"] == part and r["cell"]["engine"] == name]:
            ratio = f"{by_peer[name]:.1f}" if name in by_peer and record is chosen else ""
            rows.append(_row(engine.label, record, ratio))
    head = ["engine", "tables", "s/fit", "ESS", "ESS/s", "build s", "memory MB", "answers", "lanes are x times it"]
    return _table(head, rows)


def _row(label: str, record: Record, ratio: str) -> list[str]:
    number = f"{record['cell']['number']:,}"
    if record["status"] != "measured":
        return [label, number, "", "", "", "", "", record.get("why", record["status"]), ""]
    score, build = record["score"], record["build_seconds"]
    return [
        label,
        number,
        digits(record["seconds_per_fit"]),
        f"{score['ess']:,.0f}",
        f"{record['ess_per_second']:,.0f}",
        "before" if build is None else f"{build:.1f}",
        f"{record['peak_bytes'] / 2**20:,.0f}",
        score["verdict"],
        ratio,
    ]


def _ladder_table(records: Sequence[Record]) -> list[str]:
    rows = []
    for record in records:
        part, (warm, draws, chains) = record["cell"]["part"], record["cell"]["settings"]
        if part == "ladder" and record["status"] == "measured":
            score = record["score"]
            effort = f"{chains} x ({warm:,} + {draws:,})"
            cells = [
                f"{record['cell']['number']:,}",
                digits(record["seconds_per_fit"]),
                f"{record['fits_seconds']:,.0f}",
            ]
            rows.append([record["label"], effort, *cells, f"{score['ess_least']:,.0f}", score["verdict"]])
        elif part == "study" and record["status"] == "measured":
            effort = f"{chains} x ({warm:,} + {draws:,})"
            whole = f"{record['study_seconds']:,.1f}, measured"
            per_fit = digits(record["study_seconds"] / record["fits"])
            least = f"{record['ess_least']:,.0f}"
            rows.append([record["label"], effort, f"{record['fits']:,}", per_fit, whole, least, "sampling included"])
        elif part in ("ladder", "ladder-search", "study"):
            rows.append([record["label"], "", "", "", "", "", record.get("why", record["status"])])
    return _table(["engine", "chains", "tables", "s/fit", "20,000 fits, s", "least ESS", "answers"], rows)


def _cold_table(records: Sequence[Record]) -> list[str]:
    rows = []
    for record in records:
        if record["cell"]["part"] == "cold":
            good = record["status"] == "measured"
            seconds = f"{record['cold_seconds']:.1f}" if good else ""
            rows.append([record["label"], seconds, "" if good else record.get("why", record["status"])])
    return _table(["engine", "s", ""], rows)


def _curves_table(records: Sequence[Record]) -> list[str]:
    rows = []
    for record in records:
        cell = record["cell"]
        if cell["part"] == "scaling":
            row = _row(record["label"], record, "")
            warm, draws, chains = cell["settings"]
            rows.append(
                [cell["curve"], f"{cell['x']:,.0f}", row[0], row[1], f"{chains} x ({warm:,} + {draws:,})", *row[2:8]]
            )
    head = ["curve", "at", "engine", "tables", "chains", "s/fit", "ESS", "ESS/s", "build s", "memory MB", "answers"]
    return _table(head, rows)


def digits(seconds: float) -> str:
    """Three significant digits, never as a power of ten."""
    places = 2
    while seconds and abs(seconds) < 10.0 ** (2 - places) and places < 6:
        places += 1
    return f"{seconds:.{places}f}"


def _table(head: list[str], rows: list[list[str]]) -> list[str]:
    if not rows:
        return []
    line = lambda cells: "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"  # noqa: E731
    return [line(head), "|" + "---|" * len(head), *map(line, rows)]
