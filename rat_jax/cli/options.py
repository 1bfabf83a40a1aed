"""The options of `fit` and `demo`, declared once: a record of them, and a decorator that turns it into options.

Options come in as the text that was typed; plain values go out. What a name may be is known to the package alone.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

_OUTPUT, _EFFORT = "Files to write", "Model and effort"

LabelFile = Annotated[
    Path, typer.Argument(metavar="LABELS", help="Label table: .csv, .tsv, .jsonl or .parquet.", show_default=False)
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="KNOWN=YOURS",
        help="Read a known column (R, A, T, system, ...) from one of another name; KNOWN= leaves it out. Repeatable.",
    ),
]


def _option(help: str, *names: str, panel: str = _EFFORT, **details: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **details)


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """Every option that `fit` and `demo` share, as it was typed. A field without a name of its own is named alike."""

    model: Annotated[str, _option("Which model: rat.", metavar="NAME")] = "rat"
    method: Annotated[
        str, _option("exact, nuts, numpyro, or auto: exact where it applies, else nuts.", metavar="NAME")
    ] = "auto"
    seed: Annotated[int, _option("The same seed gives the same numbers.")] = 0
    prior: Annotated[
        list[str] | None,
        _option(
            "Beta(A, B) prior of a parameter, such as theta_R=2,1; uniform otherwise. Repeatable.", metavar="NAME=A,B"
        ),
    ] = None
    num_warmup: Annotated[int, _option("Warm-up iterations of a chain.")] = 1000
    num_samples: Annotated[int, _option("Draws kept of a chain.")] = 1000
    num_chains: Annotated[int, _option("Chains of a system.")] = 4
    certify: Annotated[bool, _option("Hold the result against a second, independent engine.", "--certify")] = False
    unlabelled: Annotated[
        int | None,
        _option(
            "Rows of each system that nobody labelled, beyond the table: tells how far p_G could move if rows were "
            "chosen by what their label turned out to be.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = None
    json: Annotated[Path | None, _option("All figures and both verdicts as JSON.", metavar="FILE", panel=_OUTPUT)] = (
        None
    )
    output: Annotated[
        Path | None, _option("The posterior, for rat_jax.load (netCDF).", metavar="FILE", panel=_OUTPUT)
    ] = None
    plot: Annotated[Path | None, _option("A figure (.png, .pdf, .svg).", metavar="FILE", panel=_OUTPUT)] = None

    def priors(self) -> dict[str, list[float]]:
        """Concentrations by name of the parameter."""
        return {name: _numbers(name, text) for name, text in pairs("--prior", "NAME=A,B", self.prior)}

    def files(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.json, self.output, self.plot) if path is not None]


def with_fit_options(command: Callable[..., int]) -> Callable[..., int]:
    """The command with every field of `FitOptions` as an option, in the place of its own parameter `options`."""
    own = inspect.signature(command, eval_str=True)
    types = get_type_hints(FitOptions, include_extras=True)
    shared = [
        inspect.Parameter(f.name, inspect.Parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
        for f in dataclasses.fields(FitOptions)
    ]

    @wraps(command)
    def run(**given: Any) -> int:
        options = FitOptions(**{parameter.name: given.pop(parameter.name) for parameter in shared})
        return command(**given, options=options)

    kept = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
    run.__signature__ = own.replace(parameters=[*kept, *shared])  # type: ignore[attr-defined]
    return run


def pairs(option: str, form: str, values: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    """Name and text of every value of a repeatable option of the form NAME=TEXT.

    Raises ValueError for another form, or a name that is given twice.
    """
    seen: set[str] = set()
    for value in values or ():
        name, equals, rest = value.partition("=")
        if not (name and equals):
            raise ValueError(f"{option}: expected {form}, found {value}")
        if name in seen:
            raise ValueError(f"{option}: {name} is given twice")
        seen.add(name)
        yield name, rest


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"--prior {name}: expected numbers such as {name}=2,1, found {name}={text}") from error
