"""The options of `fit` and `demo`, declared once: a record of them, and a decorator that turns a record into options.

Options come in as the text that was typed; plain values go out. What a name may be is known to the package alone.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

OUTPUT, EFFORT, JUDGES = "Files to write", "Model and effort", "Judges"

LabelFile = Annotated[
    Path, typer.Argument(metavar="LABELS", help="Label table: .csv, .tsv, .jsonl or .parquet.", show_default=False)
]
OptionalLabelFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="LABELS",
        help="Label table (for study with every label in every row); or none, with --configuration or --theta.",
        show_default=False,
    ),
]
LabelsOrPosterior = Annotated[
    Path,
    typer.Argument(
        metavar="LABELS",
        help="Label table: .csv, .tsv, .jsonl or .parquet; or a posterior that fit --output saved.",
        show_default=False,
    ),
]
OptionalLabelsOrPosterior = Annotated[
    Path | None,
    typer.Argument(
        metavar="LABELS",
        help="Label table or saved posterior; or none, with --configuration or --theta.",
        show_default=False,
    ),
]
Columns = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="KNOWN=YOURS",
        help="Read a known column (R, A, T, system, ...) from one of another name; KNOWN= leaves it out. Repeatable.",
    ),
]
Levels = Annotated[
    list[str] | None,
    typer.Option(
        "--levels",
        metavar="NAME=LOW,...,HIGH",
        help="Words of a label with more than two values, lowest first, such as R=fail,partial,success. Repeatable.",
    ),
]
SelectedBy = Annotated[
    list[str] | None,
    typer.Option(
        "--selected-by",
        metavar="COLUMN",
        help="A column by which rows were chosen for labelling: a model without it warns. Repeatable.",
    ),
]


def option(help: str, *names: str, panel: str = EFFORT, **details: Any) -> Any:
    return typer.Option(*names, help=help, rich_help_panel=panel, **details)


@dataclasses.dataclass(frozen=True)
class Fitting:
    """How labels are fitted, as it was typed: the options that every command with a fit shares."""

    model: Annotated[
        str, option("rat, judge (also takes a judge's labels) or graded (retrieval in levels).", metavar="NAME")
    ] = "rat"
    method: Annotated[
        str, option("exact, nuts, numpyro, or auto: exact where it applies, else nuts.", metavar="NAME")
    ] = "auto"
    seed: Annotated[int, option("The same seed gives the same numbers.")] = 0
    prior: Annotated[
        list[str] | None,
        option(
            "Beta(A, B) prior of a parameter, such as theta_R=2,1; uniform otherwise. Repeatable.", metavar="NAME=A,B"
        ),
    ] = None
    num_warmup: Annotated[int, option("Warm-up iterations of a chain.")] = 1000
    num_samples: Annotated[int, option("Draws kept of a chain.")] = 1000
    num_chains: Annotated[int, option("Chains of a system.")] = 4
    policy: Annotated[
        str | None,
        option("What p_G stands for: strict or lenient (model graded).", metavar="NAME", show_default=False),
    ] = None
    judge_structure: Annotated[
        str | None,
        option(
            "How a judge errs: joint (the default), factorized, by_abstention or fixed.",
            metavar="NAME",
            show_default=False,
            panel=JUDGES,
        ),
    ] = None
    judge_shared: Annotated[bool, option("One error table for all systems.", "--judge-shared", panel=JUDGES)] = False
    judge_rate: Annotated[
        list[str] | None,
        option(
            "A known error rate for structure fixed, such as tpr_R=0.77; all of them are needed. Repeatable.",
            metavar="NAME=VALUE",
            panel=JUDGES,
        ),
    ] = None

    def priors(self) -> dict[str, list[float]]:
        """Concentrations by name of the parameter."""
        given = pairs("--prior", "NAME=A,B", self.prior)
        return {name: numbers("--prior", name, text, "2,1") for name, text in given}

    def judge_rates(self) -> dict[str, float] | None:
        """Known error rates by name, or None where none is given."""
        return named_numbers("--judge-rate", "NAME=VALUE", self.judge_rate, "0.8") or None

    def effort(self) -> dict[str, int]:
        """How long to sample."""
        return {name: getattr(self, name) for name in ("num_warmup", "num_samples", "num_chains")}

    def arguments(self) -> dict[str, Any]:
        """What `fit` takes beside the labels. Raises ValueError for what cannot be read."""
        return {
            "model": self.model,
            "method": self.method,
            "seed": self.seed,
            "priors": self.priors(),
            "policy": self.policy,
            "judge_structure": self.judge_structure or "joint",
            "judge_shared": self.judge_shared,
            "judge_rates": self.judge_rates(),
            **self.effort(),
        }


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """Beside the type of a record within a record: options that a command does not have, and that stay as they are."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, *names: str) -> LeftOut:
        return cls(names)


@dataclasses.dataclass(frozen=True)
class FitOptions:
    """Every option that `fit` and `demo` share, as it was typed. A field without a name of its own is named alike."""

    fitting: Fitting = Fitting()
    certify: Annotated[bool, option("Hold the result against a second, independent engine.", "--certify")] = False
    unlabelled: Annotated[
        int | None,
        option(
            "Rows of each system that nobody labelled, beyond the table: tells how far p_G could move if rows were "
            "chosen by what their label turned out to be.",
            metavar="N",
            min=0,
            show_default=False,
        ),
    ] = None
    worth: Annotated[
        bool, option("How much the judge's labels add to the other labels of the same rows.", "--worth", panel=JUDGES)
    ] = False
    structures: Annotated[bool, option("Which error structure the labels support.", "--structures", panel=JUDGES)] = (
        False
    )
    transfer: Annotated[bool, option("Whether a judge errs alike on every system.", "--transfer", panel=JUDGES)] = False
    json: Annotated[Path | None, option("All figures and both verdicts as JSON.", metavar="FILE", panel=OUTPUT)] = None
    output: Annotated[
        Path | None, option("The posterior, for rat_jax.load (netCDF).", metavar="FILE", panel=OUTPUT)
    ] = None
    plot: Annotated[Path | None, option("A figure (.png, .pdf, .svg).", metavar="FILE", panel=OUTPUT)] = None

    def studies(self) -> list[str]:
        """The studies of the judge that were asked for."""
        return [name for name in ("worth", "structures", "transfer") if getattr(self, name)]

    def files(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.json, self.output, self.plot) if path is not None]


def with_options(record: type[Any]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """A decorator: the command with every field of a record as an option, in the place of its parameter `options`.

    A field that is itself a record stands for all of its fields, with the defaults that it has there.
    """
    default = record()
    shared = list(_parameters(default))

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        own = inspect.signature(command, eval_str=True)

        @wraps(command)
        def run(**given: Any) -> int:
            options = _filled(default, given)
            return command(**given, options=options)

        kept = [parameter for parameter in own.parameters.values() if parameter.name != "options"]
        run.__signature__ = own.replace(parameters=[*kept, *shared])  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(default: Any) -> Iterator[inspect.Parameter]:
    """The fields of a record as parameters of a command."""
    types = get_type_hints(type(default), include_extras=True)
    for field in dataclasses.fields(default):
        value, annotation = getattr(default, field.name), types[field.name]
        if dataclasses.is_dataclass(value):
            left_out = [name for note in get_args(annotation) if isinstance(note, LeftOut) for name in note.names]
            yield from (parameter for parameter in _parameters(value) if parameter.name not in left_out)
        else:
            yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=annotation)


def _filled(default: Any, given: dict[str, Any]) -> Any:
    """The record with what was given, which is taken out of `given`."""
    values = {}
    for field in dataclasses.fields(default):
        value = getattr(default, field.name)
        values[field.name] = _filled(value, given) if dataclasses.is_dataclass(value) else given.pop(field.name, value)
    return dataclasses.replace(default, **values)


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


def numbers(option: str, name: str, text: str, example: str, most: int | None = None) -> list[float]:
    """The numbers in a text such as "2,1"; raises ValueError for what is none, or more than `most` of them."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or (most and len(found) > most):
        what = "a number" if most == 1 else "numbers"
        raise ValueError(f"{option} {name}: expected {what} such as {name}={example}, found {name}={text}")
    return found


def named_numbers(option: str, form: str, values: Sequence[str] | None, example: str) -> dict[str, float]:
    """One number by name, from a repeatable option of the form NAME=NUMBER."""
    return {name: numbers(option, name, text, example, most=1)[0] for name, text in pairs(option, form, values)}


def parameters(configuration: str | None, theta: Sequence[str] | None) -> str | dict[str, Any]:
    """What stands instead of a label table: the name of a configuration, or parameters by name.

    Raises ValueError where both or neither of --configuration and --theta are given.
    """
    if (configuration is None) == (not theta):
        raise ValueError("expected a label table, --configuration or --theta: one of them")
    if configuration is not None:
        return configuration
    found = {name: numbers("--theta", name, text, "0.4") for name, text in pairs("--theta", "NAME=VALUE", theta)}
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
