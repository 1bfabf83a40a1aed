"""A certificate on the command line: the verdict in words, then the comparisons nearest to failing."""

from __future__ import annotations

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from rat_jax.report.words import plural, printable, shortened
from rat_jax.studies.certify import Certificate

NAME_WIDTH = 12
LEGEND = (
    "mean off: chains minus exact; MC err: that in Monte Carlo standard errors; sd: ratio; cdf off: largest "
    "difference of the distribution functions, refused beyond limit"
)


def certificate_report(certificate: Certificate) -> Group:
    """The sentences of a certificate and its closest calls, in 80 columns."""
    shown = certificate.closest_calls()
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("system", no_wrap=True)
    table.add_column("quantity", no_wrap=True)
    for head in ("mean off", "MC err", "sd", "cdf off", "limit"):
        table.add_column(head, justify="right", no_wrap=True)
    for system, quantity in shown.index:
        row = shown.loc[(system, quantity)]
        has_cdf = not quantity.startswith("draws of ")  # draws are held against exact moments only
        table.add_row(
            Text(shortened(printable(system), NAME_WIDTH)),
            quantity,
            f"{row['difference']:.5f}",
            f"{row['z']:.1f}",
            f"{row['sd_ratio']:.2f}",
            f"{row['cdf_distance']:.3f}" if has_cdf else "-",
            f"{row['cdf_threshold']:.3f}" if has_cdf else "-",
        )
    hidden = len(certificate.table) - len(shown)
    rest = [Text(f"and {plural(hidden, 'closer comparison')}", style="dim")] if hidden else []
    legend = Text(LEGEND, style="dim")
    return Group(Text(), *(Text(line) for line in certificate.sentences()), Text(), table, *rest, legend)
