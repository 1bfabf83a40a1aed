"""What the commands do once the options are read: fit, write the files, and tell the result and its verdicts."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rat_jax.cli import studies
from rat_jax.cli.options import FitOptions, Fitting, pairs
from rat_jax.cli.terminal import BAD_VERDICT, COULD_NOT_RUN, DONE, complain, progress_bar, use_compilation_cache

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels, LoadReport
    from rat_jax.studies.certify import Certificate


def read(
    path: Path,
    column: Sequence[str] | None,
    level: Sequence[str] | None,
    model: str | None = None,
    selected_by: Sequence[str] | None = None,
) -> Labels:
    """The label table, its columns and levels named as on the command line; those of the model where none are."""
    import rat_jax as rat
    from rat_jax.inference.fit import read_for

    columns = {known: yours or None for known, yours in pairs("--column", "KNOWN=YOURS", column)}
    levels = {name: words.split(",") for name, words in pairs("--levels", "NAME=LOW,...,HIGH", level)}
    if levels or model is None:
        return rat.read_labels(path, columns=columns or None, levels=levels or None, selected_by=selected_by or ())
    return read_for(model, path, columns or None, selected_by or ())


def report_of(labels: Labels) -> LoadReport:
    assert labels.report is not None  # labels that were read always carry one
    return labels.report


def check_options(options: FitOptions, *inputs: Path) -> None:
    """Find what is misspelt, or a file that cannot be written, before any work is done."""
    options.fitting.arguments()
    if options.fitting.model != "judge" and (asked := options.studies()):
        raise ValueError(f"--{asked[0]} is about a judge: add --model judge")
    check_targets(inputs, options.files(), options.plot)


def check_targets(inputs: Sequence[Path], written: Sequence[Path], plot: Path | None) -> None:
    """Raise ValueError or OSError for a file that is named twice, cannot be written or is no kind of figure."""
    from rat_jax.report import files

    files.check_distinct([*inputs, *written])
    for path in written:
        files.check_target(path)
    if plot is not None:
        from rat_jax.report.figure import check_format

        check_format(plot)


def fit_and_tell(labels: Labels, options: FitOptions) -> int:
    """Fit the labels, write and tell everything that was asked for; returns the exit code."""
    posterior = fit_labels(labels, options.fitting)
    report = report_of(labels)
    _write(posterior, report.source, options)
    _tell(posterior, report.source, report.sentences(), options)
    if options.unlabelled is not None:
        _show_sensitivity(posterior, options.unlabelled)
    fitted = DONE if posterior.diagnostics.ok else BAD_VERDICT
    found: dict[str, Any] = {}  # goes into the JSON file
    codes = [_study(name, labels, posterior, options, found) for name in options.studies()]
    codes += [_certify(posterior, options, found)] if options.certify else []
    if found:
        _write_json(posterior, report.source, options, found)
    return max([fitted, *codes])


def fit_labels(labels: Labels, fitting: Fitting) -> Posterior:
    """The posterior of the labels, whatever its verdict, with a bar while it runs."""
    import rat_jax as rat

    use_compilation_cache()
    with progress_bar() as progress, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", rat.SelectionWarning)
        posterior = rat.fit(
            labels,
            **fitting.arguments(),
            progress=progress,
            on_failure="keep",  # the verdict is printed and is the exit code
        )
    for warning in caught:
        if issubclass(warning.category, rat.SelectionWarning):
            complain(str(warning.message), DONE)
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return posterior


def _show_sensitivity(posterior: Posterior, unlabelled: int) -> None:
    import rat_jax as rat
    from rat_jax.report.console import PlainConsole

    console = PlainConsole()
    console.print("\nWhat if rows were chosen for labelling by what the label turned out to be?", style="bold")
    for variable in ("R", "T"):
        console.print(str(rat.sensitivity(posterior, variable=variable, unlabelled=unlabelled)), markup=False)


def _study(name: str, labels: Labels, posterior: Posterior, options: FitOptions, found: dict[str, Any]) -> int:
    """Answer one question about the judge of a fit that is already written and told."""
    from rat_jax.report.console import PlainConsole

    with progress_bar() as progress:
        try:
            result = studies.run(name, labels, posterior, options, progress)
        except (ValueError, MemoryError) as error:
            return complain(f"no answer to --{name}: {error}", COULD_NOT_RUN)
    found[name] = result.to_dict()
    PlainConsole().print(f"\n{studies.QUESTIONS[name]}", style="bold")
    PlainConsole().print(str(result), markup=False)
    return DONE


def _certify(posterior: Posterior, options: FitOptions, found: dict[str, Any]) -> int:
    """Hold a fit that is already written and told against another engine; where that cannot be done, it stays."""
    import rat_jax as rat
    from rat_jax.report.document import certificate_facts

    try:
        certificate = rat.certify(posterior, seed=options.fitting.seed)
    except (ValueError, MemoryError) as error:
        return complain(f"not certifiable: {str(error).removeprefix('certify: ')}", COULD_NOT_RUN)
    found["certificate"] = certificate_facts(certificate)
    _show_certificate(certificate)
    return DONE if certificate.ok else BAD_VERDICT


def _write_json(posterior: Posterior, source: str, options: FitOptions, found: Mapping[str, Any] | None = None) -> None:
    from rat_jax.report.document import document, to_json
    from rat_jax.report.files import write_whole

    if options.json is not None:
        text = to_json(document(posterior, source, found))
        write_whole(options.json, lambda path: path.write_text(text, encoding="ascii"))


def _write(posterior: Posterior, source: str, options: FitOptions) -> None:
    from rat_jax.report.files import write_whole

    _write_json(posterior, source, options)
    if options.output is not None:
        write_whole(options.output, posterior.save)
    if options.plot is not None:
        from rat_jax.report.figure import save_figure

        write_whole(options.plot, lambda path: save_figure(posterior, path))


def _tell(posterior: Posterior, source: str, notes: Sequence[str], options: FitOptions) -> None:
    from rat_jax.report.console import PlainConsole
    from rat_jax.report.tables import fit_report

    console = PlainConsole()
    console.print(fit_report(posterior, source, notes))
    if written := options.files():
        console.print(f"\nWritten: {', '.join(map(str, written))}")
    if not posterior.diagnostics.ok:
        complain(f"exit code {BAD_VERDICT}: {posterior.diagnostics.verdict}", BAD_VERDICT)


def _show_certificate(certificate: Certificate) -> None:
    from rat_jax.report.certificate import certificate_report
    from rat_jax.report.console import PlainConsole

    PlainConsole().print(certificate_report(certificate))
    if not certificate.ok:
        complain(f"exit code {BAD_VERDICT}: the certificate was not met", BAD_VERDICT)
