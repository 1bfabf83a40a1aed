"""Every engine on the same tables in one run: results.json, performance.md and performance.png.

    python -m benchmarks.engines.install --environments DIR       # once
    python -m benchmarks.engines --out DIR --environments DIR     # half an hour on two idle cores
    python -m benchmarks.engines --out DIR --environments DIR --quick
    python -m benchmarks.engines --out DIR --part judge --only lanes,numpyro-5

Finished measurements are kept in DIR/cells: a run that was stopped goes on from there.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.engines import figure, ladder, plan, report
from benchmarks.engines.cells import Bench, stopwatch, write_json
from benchmarks.engines.document import update
from benchmarks.engines.engines import ENGINES

PARTS: dict[str, plan.Part] = {
    "mixed": plan.mixed,
    "paper": plan.paper,
    "judge": plan.judge,
    "ladder": ladder.ladder,
    "scaling": plan.scaling,
}
QUICK_PARTS = ("mixed",)


def main(arguments: list[str] | None = None) -> None:
    """Measure what is asked for and write the report after every part."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    elapsed = stopwatch()

    def say(words: str) -> None:
        print(f"[{elapsed() / 60:5.1f} min] {words}", file=sys.stderr, flush=True)

    out, environments = options.out.resolve(), options.environments
    bench = Bench(out, environments and environments.resolve(), say, **({"judge_draws": 500} if options.quick else {}))
    size = plan.QUICK if options.quick else plan.FULL
    records: list[dict[str, Any]] = []
    for part in options.part or (QUICK_PARTS if options.quick else tuple(PARTS)):
        records += PARTS[part](bench, size, options.only)
        _write(out, records, options)
    shutil.rmtree(out / "work", ignore_errors=True)
    if options.document:
        update(options.document, report.markdown(records, _about(options)), out / "performance.png")
    say(f"written to {options.out}: performance.md, performance.png, results.json")


def _write(out: Path, records: Sequence[dict[str, Any]], options: argparse.Namespace) -> None:
    about = _about(options)
    shown = {part: report.ratios(records, part) for part in report.TITLES}
    write_json(out / "results.json", {"about": about, "ratios": shown, "records": list(records)})
    (out / "performance.md").write_text(report.markdown(records, about), encoding="utf-8")
    figure.draw(records, out / "performance.png")


def _about(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "quick": options.quick,
        "parts": options.part,
        "engines": options.only,
    }


def machine() -> str:
    """Processor, how many of them and the system."""
    model, cpuinfo = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x.split(":", 1)[1].strip() for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0] if names else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}"


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engines", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the results")
    parser.add_argument("--environments", type=Path, help="folder that benchmarks.engines.install filled")
    parser.add_argument("--quick", action="store_true", help="small sizes, part mixed unless --part says otherwise")
    parser.add_argument("--only", type=_names, help=f"of {', '.join(ENGINES)} (--quick: one NumPyro only)")
    parser.add_argument("--part", action="append", choices=tuple(PARTS), help="may be given several times; all")
    parser.add_argument("--document", type=Path, help="Markdown file whose results are replaced by these")
    options = parser.parse_args(arguments)
    options.only = options.only or list(plan.QUICK_ENGINES if options.quick else ENGINES)
    return options


def _names(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in ENGINES]:
        raise argparse.ArgumentTypeError(f"expected engines of {', '.join(ENGINES)}, found {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    main()
