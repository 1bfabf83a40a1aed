"""One command from the printed parameters to the report: fits, studies, claims, figures, report.md and report.json.

    python -m benchmarks.paper --out paper
    python -m benchmarks.paper --quick --out paper

Finished pieces are kept: a run that was killed goes on from there, to the same numbers.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.paper import (
    allocation,
    allocation_claims,
    behaviour,
    configurations,
    figures,
    graded,
    information,
    judge,
    published,
    report,
    rules,
)
from benchmarks.paper.claims import Section

QUICK, FULL = 10, 500  # replicates
CHAINS = {"num_chains": 4, "num_warmup": 500, "num_samples": 500}
PAPER_CHAINS = {"num_chains": 5, "num_warmup": 2000, "num_samples": 10_000}
GRADED_CHAINS = CHAINS | {"num_samples": 1000}


def main(arguments: list[str] | None = None) -> None:
    """Run everything and write the report."""
    options = _options(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    keep = options.keep or options.out / "pieces"
    replicates = options.replicates or (QUICK if options.quick else FULL)
    chains = PAPER_CHAINS if options.paper_settings else CHAINS if options.method == "nuts" else None
    nuts: dict[str, Any] | None = None if chains is None else {"method": "nuts", **chains}

    paper = published.read()
    _say("27 configurations, graded retrieval")
    fits = configurations.fit_all(paper, {"method": "exact"})
    drawn = None if nuts is None else configurations.fit_all(paper, nuts)
    of_grades = graded.fit(paper, PAPER_CHAINS if options.paper_settings else GRADED_CHAINS)
    number = options.chain_replicates or replicates
    studies = allocation.run(paper, replicates, keep, _progress, chains=nuts, chain_replicates=number)
    of_judges = judge.recomputed(replicates, keep / "table5.jsonl", _say) if options.table5 else judge.kept()
    _say("report")
    sections = [
        configurations.section(paper, fits, drawn),
        behaviour.section(paper, fits),
        information.section(paper),
        allocation_claims.section(paper, studies),
        judge.section(paper, of_judges),
        graded.section(paper, *of_grades),
        rules.section(studies),
    ]
    _attach(sections, figures.draw_all(fits, studies, options.out))
    settings: dict[str, Any] = {"replicates": replicates}
    settings |= {"chains": chains or "none"} | ({"replicates by chains": number} if chains else {})
    command = " ".join(["python -m benchmarks.paper", *_shown(options)])
    report.write(options.out, report.facts(command, settings), sections, studies)
    _say(f"written to {options.out}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.paper", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the report")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} replicates: under two minutes, most orders open")
    parser.add_argument("--replicates", type=_whole, help=f"samples per cell of the studies ({FULL})")
    parser.add_argument(
        "--method",
        choices=("exact", "nuts"),
        default="exact",
        help="nuts: fit the 27 configurations and the paper's cells by chains too (4 x (500 + 500)) and compare",
    )
    parser.add_argument(
        "--paper-settings", action="store_true", help="the same with chains of 5 x (2,000 + 10,000); a day or more"
    )
    parser.add_argument("--chain-replicates", type=_whole, help="samples per cell by chains, if fewer")
    parser.add_argument(
        "--table5", action="store_true", help="run the judge study again (hours) instead of the kept one"
    )
    parser.add_argument("--keep", type=Path, help="folder of finished pieces (OUT/pieces)")
    return parser.parse_args(arguments)


def _whole(text: str) -> int:
    if not text.isdigit() or int(text) < 2:
        raise argparse.ArgumentTypeError(f"expected a whole number >= 2, found {text!r}")
    return int(text)


def _shown(options: argparse.Namespace) -> list[str]:
    """The options that the numbers depend on, as they were given."""
    words = ["--quick"] * options.quick + ["--paper-settings"] * options.paper_settings + ["--table5"] * options.table5
    words += [f"--replicates {options.replicates}"] if options.replicates else []
    words += [f"--chain-replicates {options.chain_replicates}"] if options.chain_replicates else []
    words += ["--method nuts"] if options.method == "nuts" else []
    out = options.out.name if options.out.is_absolute() else options.out.as_posix()
    return [*words, f"--out {out}"]


def _attach(sections: list[Section], drawn: dict[str, str]) -> None:
    """Figures to the sections they belong to."""
    behaving, allocating, beyond = sections[1], sections[3], sections[-1]
    for name, caption in drawn.items():
        where = {"systems.png": behaving, "rules.png": beyond}.get(name, allocating)
        where.figures.append((name, caption))


def _say(words: str) -> None:
    if sys.stderr.isatty():
        print(words, file=sys.stderr, flush=True)


def _progress(stage: str) -> Callable[[int, int], None] | None:
    """A line on the terminal that counts fits; nothing elsewhere."""
    if not sys.stderr.isatty():
        return None

    def show(done: int, total: int) -> None:
        print(f"\r{stage}: {done:,} of {total:,} fits", end="\n" if done == total else "", file=sys.stderr, flush=True)

    return show


if __name__ == "__main__":
    main()
