"""What the commands do once the options are read: fit, write the files, and tell the result and its verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rat_jax.cli.options import FitOptions, pairs
from rat_jax.cli.terminal import BAD_VERDICT, COULD_NOT_RUN, DONE, complain, progress_bar, use_compilation_cache

if TYPE_CHECKING:
    from rat_jax.inference.posterior import Posterior
    from rat_jax.labels import Labels, LoadReport
    from rat_jax.studies.certify import Certificate


def read(path: Path, column: Sequence[str] | None) -> Labels:
    """The label table, its columns named as on the command line."""
    import rat_jax as rat

    columns = {known: yours or None for known, yours in pairs("--column", "KNOWN=YOURS", column)}
    return rat.read_labels(path, columns=columns or None)


def report_of(labels: Labels) -> LoadReport:
    assert labels.report is not None  # labels that were read always carry one
    return labels.report


def check_options(options: FitOptions, *inputs: Path) -> None:
    """Find what is misspelt, or a file that cannot be written, before any work is done."""
    from rat_jax.report import files

    options.priors()
    files.check_distinct([*inputs, *options.files()])
    for path in options.files():
        files.check_target(path)
    if options.plot is not None:
        from rat_jax.report.plots import check_format

        check_format(options.plot)


def fit_and_tell(labels: Labels, options: FitOptions) -> int:
    """Fit the labels, write and tell everything that was asked for; returns the exit code."""
    posterior = _fit(labels, options)
    report = report_of(labels)
    _write(posterior, report.source, options)
    _tell(posterior, report.source, report.sentences(), options)
    if options.unlabelled is not None:
        _show_sensitivity(posterior, options.unlabelled)
    fitted = DONE if posterior.diagnostics.ok else BAD_VERDICT
    return max(fitted, _certify(posterior, report.source, options)) if options.certify else fitted


def _fit(labels: Labels, options: FitOptions) -> Posterior:
    import rat_jax as rat

    use_compilation_cache()
    with progress_bar() as progress:
        return rat.fit(
            labels,
            model=options.model,
            method=options.method,
            seed=options.seed,
            priors=options.priors(),
            num_warmup=options.num_warmup,
            num_samples=options.num_samples,
            num_chains=options.num_chains,
            progress=progress,
            on_failure="keep",  # the verdict is printed and is the exit code
        )


def _show_sensitivity(posterior: Posterior, unlabelled: int) -> None:
    import rat_jax as rat
    from rat_jax.report.console import PlainConsole

    console = PlainConsole()
    console.print("\nWhat if rows were chosen for labelling by what the label turned out to be?", style="bold")
    for variable in ("R", "T"):
        console.print(str(rat.sensitivity(posterior, variable=variable, unlabelled=unlabelled)), markup=False)


def _certify(posterior: Posterior, source: str, options: FitOptions) -> int:
    """Hold a fit that is already written and told against another engine; where that cannot be done, it stays."""
    import rat_jax as rat

    try:
        certificate = rat.certify(posterior, seed=options.seed)
    except (ValueError, MemoryError) as error:
        return complain(f"not certifiable: {str(error).removeprefix('certify: ')}", COULD_NOT_RUN)
    _write_json(posterior, source, options, certificate)
    _show_certificate(certificate)
    return DONE if certificate.ok else BAD_VERDICT


def _write_json(posterior: Posterior, source: str, options: FitOptions, certificate: Certificate | None = None) -> None:
    from rat_jax.report.document import document, to_json
    from rat_jax.report.files import write_whole

    if options.json is not None:
        text = to_json(document(posterior, source, certificate))
        write_whole(options.json, lambda path: path.write_text(text, encoding="ascii"))


def _write(posterior: Posterior, source: str, options: FitOptions) -> None:
    from rat_jax.report.files import write_whole

    _write_json(posterior, source, options)
    if options.output is not None:
        write_whole(options.output, posterior.save)
    if options.plot is not None:
        from rat_jax.report.plots import save_figure

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
