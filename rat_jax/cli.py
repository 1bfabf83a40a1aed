"""The command line `rat-jax`: it reads options, calls the package, and writes what comes back.

Exit codes: 0 done; 1 could not run, with one sentence on stderr; 2 it ran, but its verdict is bad. Everything heavy is
imported inside the commands, so that --help answers at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rat_jax import __version__

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels, LoadReport
    from rat_jax.studies.certify import Certificate

DONE, COULD_NOT_RUN, BAD_VERDICT, INTERRUPTED = 0, 1, 2, 130

# Usage errors of the parser. typer carries its own click or uses the installed one, depending on its version.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="rat-jax",
    help="How good is a RAG system, which part fails, and how sure can one be: from a table of labels.",
    add_completion=False,
    pretty_exceptions_enable=False,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    arguments: what follows `rat-jax`; by default that of the process.
    """
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal's encoding lacks must not end the run
        if reconfigure := getattr(stream, "reconfigure", None):
            reconfigure(errors="backslashreplace")
    try:
        code = app(list(sys.argv[1:] if arguments is None else arguments), prog_name="rat-jax", standalone_mode=False)
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", INTERRUPTED)
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except UsageError as error:
        return _complain(_usage(error), COULD_NOT_RUN)
    except (ValueError, OSError) as error:
        return _complain(str(error), COULD_NOT_RUN)
    except (MemoryError, OverflowError) as error:
        return _complain(f"more work than this machine can hold ({error}); lower --num-samples", COULD_NOT_RUN)
    return DONE if code is None else int(code)


# ---------------------------------------------------------------------------------------------------- options

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
Model = Annotated[str, typer.Option(metavar="NAME", help="Which model: rat.", rich_help_panel=_EFFORT)]
Method = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="exact, nuts, numpyro, or auto: exact where it applies, else nuts.",
        rich_help_panel=_EFFORT,
    ),
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same numbers.", rich_help_panel=_EFFORT)]
Warmup = Annotated[int, typer.Option("--num-warmup", help="Warm-up iterations of a chain.", rich_help_panel=_EFFORT)]
Samples = Annotated[int, typer.Option("--num-samples", help="Draws kept of a chain.", rich_help_panel=_EFFORT)]
Chains = Annotated[int, typer.Option("--num-chains", help="Chains of a system.", rich_help_panel=_EFFORT)]
PriorOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--prior",
        metavar="NAME=A,B",
        help="Beta(A, B) prior of a parameter, such as theta_R=2,1; uniform otherwise. Repeatable.",
        rich_help_panel=_EFFORT,
    ),
]
JsonFile = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="All figures and both verdicts as JSON.", rich_help_panel=_OUTPUT),
]
PosteriorFile = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="The posterior, for rat_jax.load (netCDF).", rich_help_panel=_OUTPUT),
]
FigureFile = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="A figure (.png, .pdf, .svg).", rich_help_panel=_OUTPUT)
]

Certify = Annotated[
    bool,
    typer.Option("--certify", help="Hold the result against a second, independent engine.", rich_help_panel=_EFFORT),
]
Unlabelled = Annotated[
    int | None,
    typer.Option(
        "--unlabelled",
        metavar="N",
        min=0,
        help="Rows of each system that nobody labelled, beyond the table: tells how far p_G could move if rows were "
        "chosen by what their label turned out to be.",
        rich_help_panel=_EFFORT,
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Job:
    """What to fit and how, as given on the command line."""

    model: str
    method: str
    seed: int
    priors: dict[str, list[float]]
    num_warmup: int
    num_samples: int
    num_chains: int
    certify: bool
    unlabelled: int | None


@dataclass(frozen=True)
class Outputs:
    """Files to write; None where not asked for."""

    json: Path | None
    posterior: Path | None
    figure: Path | None

    def named(self) -> list[Path]:
        return [path for path in (self.json, self.posterior, self.figure) if path is not None]


# --------------------------------------------------------------------------------------------------- commands


@app.callback(invoke_without_command=True)
def _rat_jax(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        typer.echo(f"rat-jax {__version__}")
        raise typer.Exit(DONE)
    if context.invoked_subcommand is None:
        raise UsageError("Name a command: fit, check or demo.", context)


@app.command()
def fit(
    labels: LabelFile,
    column: Columns = None,
    model: Model = "rat",
    method: Method = "auto",
    seed: Seed = 0,
    prior: PriorOptions = None,
    num_warmup: Warmup = 1000,
    num_samples: Samples = 1000,
    num_chains: Chains = 4,
    certify: Certify = False,
    unlabelled: Unlabelled = None,
    json: JsonFile = None,
    output: PosteriorFile = None,
    plot: FigureFile = None,
) -> int:
    """Fit every system of a label table and tell how good it is, what fails, and how sure that is."""
    job = Job(model, method, seed, _priors(prior), num_warmup, num_samples, num_chains, certify, unlabelled)
    outputs = Outputs(json, output, plot)
    _check_outputs(outputs, labels)
    return _fit_and_tell(_read(labels, column), job, outputs)


@app.command()
def check(labels: LabelFile, column: Columns = None) -> int:
    """Read a label table without fitting it, and show what was read, coerced, missing or ignored."""
    read = _read(labels, column)
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.tables import load_report

    PlainConsole().print(load_report(_report(read)))
    return DONE


@app.command()
def demo(
    model: Model = "rat",
    method: Method = "auto",
    seed: Seed = 0,
    prior: PriorOptions = None,
    num_warmup: Warmup = 1000,
    num_samples: Samples = 1000,
    num_chains: Chains = 4,
    certify: Certify = False,
    unlabelled: Unlabelled = None,
    json: JsonFile = None,
    output: PosteriorFile = None,
    plot: FigureFile = None,
) -> int:
    """The same as fit, on the example labels that ship with the package."""
    import rat_jax as rat
    from rat_jax.report.console import PlainConsole

    job = Job(model, method, seed, _priors(prior), num_warmup, num_samples, num_chains, certify, unlabelled)
    outputs = Outputs(json, output, plot)
    _check_outputs(outputs)
    code = _fit_and_tell(rat.example_labels(), job, outputs)
    PlainConsole().print("\nYour own labels: rat-jax check labels.csv, then rat-jax fit labels.csv")
    return code


# ------------------------------------------------------------------------------------------- reading options


def _read(path: Path, column: Sequence[str] | None) -> Labels:
    import rat_jax as rat

    columns = {known: yours or None for known, yours in _pairs("--column", "KNOWN=YOURS", column)}
    return rat.read_labels(path, columns=columns or None)


def _report(labels: Labels) -> LoadReport:
    assert labels.report is not None  # labels that were read always carry one
    return labels.report


def _priors(options: Sequence[str] | None) -> dict[str, list[float]]:
    return {name: _numbers(name, text) for name, text in _pairs("--prior", "NAME=A,B", options)}


def _numbers(name: str, text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        raise ValueError(f"--prior {name}: expected numbers such as {name}=2,1, found {name}={text}") from error


def _pairs(option: str, form: str, values: Sequence[str] | None) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()
    for value in values or ():
        name, equals, rest = value.partition("=")
        if not (name and equals):
            raise ValueError(f"{option}: expected {form}, found {value}")
        if name in seen:
            raise ValueError(f"{option}: {name} is given twice")
        seen.add(name)
        yield name, rest


def _check_outputs(outputs: Outputs, *inputs: Path) -> None:
    """Find a file that cannot be written before any work is done."""
    from rat_jax.report import files

    files.check_distinct([*inputs, *outputs.named()])
    for path in outputs.named():
        files.check_target(path)
    if outputs.figure is not None:
        from rat_jax.report.plots import check_format

        check_format(outputs.figure)


# ------------------------------------------------------------------------------------------ fitting and telling


def _fit_and_tell(labels: Labels, job: Job, outputs: Outputs) -> int:
    import rat_jax as rat

    use_compilation_cache()
    with _progress() as progress:
        posterior = rat.fit(
            labels,
            model=job.model,
            method=job.method,
            seed=job.seed,
            priors=job.priors,
            num_warmup=job.num_warmup,
            num_samples=job.num_samples,
            num_chains=job.num_chains,
            progress=progress,
            on_failure="keep",  # the verdict is printed and is the exit code
        )
    report = _report(labels)
    _write(posterior, report.source, outputs)
    _tell(posterior, report.source, report.sentences(), outputs)
    if job.unlabelled is not None:
        _show_sensitivity(posterior, job.unlabelled)
    fitted = DONE if posterior.diagnostics.ok else BAD_VERDICT
    return max(fitted, _certify(posterior, job.seed, report.source, outputs)) if job.certify else fitted


def _show_sensitivity(posterior: Posterior, unlabelled: int) -> None:
    import rat_jax as rat
    from rat_jax.report.console import PlainConsole

    console = PlainConsole()
    console.print("\nWhat if rows were chosen for labelling by what the label turned out to be?", style="bold")
    for variable in ("R", "T"):
        console.print(str(rat.sensitivity(posterior, variable=variable, unlabelled=unlabelled)), markup=False)


def _certify(posterior: Posterior, seed: int, source: str, outputs: Outputs) -> int:
    """Hold a fit that is already written and told against another engine; where that cannot be done, it stays."""
    import rat_jax as rat

    try:
        certificate = rat.certify(posterior, seed=seed)
    except (ValueError, MemoryError) as error:
        return _complain(f"not certifiable: {str(error).removeprefix('certify: ')}", COULD_NOT_RUN)
    _write_json(posterior, source, outputs, certificate)
    _show_certificate(certificate)
    return DONE if certificate.ok else BAD_VERDICT


def _write_json(posterior: Posterior, source: str, outputs: Outputs, certificate: Certificate | None = None) -> None:
    from rat_jax.report.document import document, to_json
    from rat_jax.report.files import write_whole

    if outputs.json is not None:
        text = to_json(document(posterior, source, certificate))
        write_whole(outputs.json, lambda path: path.write_text(text, encoding="ascii"))


def _write(posterior: Posterior, source: str, outputs: Outputs) -> None:
    from rat_jax.report.files import write_whole

    _write_json(posterior, source, outputs)
    if outputs.posterior is not None:
        write_whole(outputs.posterior, posterior.save)
    if outputs.figure is not None:
        from rat_jax.report.plots import save_figure

        write_whole(outputs.figure, lambda path: save_figure(posterior, path))


def _tell(posterior: Posterior, source: str, notes: Sequence[str], outputs: Outputs) -> None:
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.tables import fit_report

    console = PlainConsole()
    console.print(fit_report(posterior, source, notes))
    if outputs.named():
        console.print(f"\nWritten: {', '.join(map(str, outputs.named()))}")
    if not posterior.diagnostics.ok:
        _complain(f"exit code {BAD_VERDICT}: {posterior.diagnostics.verdict}", BAD_VERDICT)


def _show_certificate(certificate: Certificate) -> None:
    from rat_jax.report.certificate import certificate_report
    from rat_jax.report.console import PlainConsole

    PlainConsole().print(certificate_report(certificate))
    if not certificate.ok:
        _complain(f"exit code {BAD_VERDICT}: the certificate was not met", BAD_VERDICT)


def use_compilation_cache() -> None:
    """Keep what XLA compiles in the user's cache folder, so that the next process starts fast.

    Only the command line does this. Without a writable folder, or where the user chose another one, nothing changes.
    """
    folder = cache_folder()
    if folder is None or os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(folder, os.W_OK | os.X_OK):
        os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)  # read when JAX is imported, if it is
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "0")


def cache_folder() -> Path | None:
    """Where this platform keeps caches; None where there is no home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    chosen = os.environ.get("LOCALAPPDATA" if sys.platform == "win32" else "XDG_CACHE_HOME", "")
    usual = home / ("Library/Caches" if sys.platform == "darwin" else ".cache")
    return (Path(chosen) if Path(chosen).is_absolute() else usual) / "rat_jax" / "compiled"


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr while the fit runs; nothing where stderr is not a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    looks = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*looks, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("preparing", total=None)
        yield lambda done, total: bar.update(task, description="sampling", completed=done, total=total)


def _usage(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "rat-jax"
    said = error.format_message()  # type: ignore[attr-defined]
    return f"{said.rstrip('.')}. Try '{where} --help'."


def _complain(message: str, code: int) -> int:
    from rat_jax.report.words import printable

    with suppress(BrokenPipeError):
        print(f"rat-jax: {printable(message)}", file=sys.stderr)
    return code
