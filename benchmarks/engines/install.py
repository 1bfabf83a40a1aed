"""One virtual environment per peer, with pinned versions; an environment that already holds them is left alone.

    python -m benchmarks.engines.install --environments DIR            # all of them, some 2 GB
    python -m benchmarks.engines.install --environments DIR nutpie     # or by name

Needs Python 3.11 or 3.12, and for PyStan a C++ compiler.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

from benchmarks.engines.engines import ENVIRONMENTS, interpreter

HOLDS = "import sys; from importlib.metadata import version; sys.exit(any(version(p) != v for p, v in {pins!r}))"


def main(arguments: list[str] | None = None) -> int:
    """Make what is asked for; the number of environments that could not be made."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engines.install",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--environments", type=Path, required=True, help="folder of the environments")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)} (all)")
    options = parser.parse_args(arguments)
    if unknown := sorted(set(options.names) - set(ENVIRONMENTS)):
        parser.error(f"expected names of {', '.join(ENVIRONMENTS)}, found {', '.join(unknown)}")
    names = options.names or list(ENVIRONMENTS)
    failed = [name for name in names if not install(options.environments / name, ENVIRONMENTS[name])]
    if failed:
        print(f"not installed: {', '.join(failed)}; what pip said is above", file=sys.stderr)
    return len(failed)


def install(folder: Path, pins: tuple[str, ...]) -> bool:
    """Make one environment; whether it now holds what was asked for."""
    if holds(folder, pins):
        print(f"{folder.name}: there already", flush=True)
        return True
    print(f"{folder.name}: installing {', '.join(pins)}", flush=True)
    venv.create(folder, with_pip=True, clear=True)
    command = [str(interpreter(folder)), "-m", "pip", "install", "--quiet", *pins]
    return subprocess.run(command, check=False).returncode == 0


def holds(folder: Path, pins: tuple[str, ...]) -> bool:
    """Whether an environment has exactly these versions."""
    python = interpreter(folder)
    pairs = [tuple(pin.split("==")) for pin in pins]
    if python is None:
        return False
    asked = subprocess.run([str(python), "-c", HOLDS.format(pins=pairs)], capture_output=True, check=False)
    return asked.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
