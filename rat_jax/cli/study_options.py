"""The options of `study`, declared once, and what they say: which population, which strategies, which budgets.

Options come in as the text that was typed; the arguments of `allocation_study` go out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from rat_jax.cli.options import OUTPUT, Fitting, LeftOut, named_numbers, option, parameters

_DESIGN, _PARAMETERS, _HOSTS = "Strategies and budgets", "Instead of a label table", "Several hosts"
FORM = "NAME[=LABELS:SHARE,...]"


@dataclasses.dataclass(frozen=True)
class StudyOptions:
    """Every option of `study`, as it was typed. A field without a name of its own is named alike."""

    strategy: Annotated[
        list[str] | None,
        option(
            "all_joint, half_joint_R, half_joint_T, all_R, all_T (these five by default), R_then_T, T_where_answered, "
            "or one of your own such as mine=RT:0.5,A:0.5. Repeatable.",
            metavar=FORM,
            panel=_DESIGN,
        ),
    ] = None
    base: Annotated[int, option("Rows with every label, before the budget.", panel=_DESIGN)] = 100
    additional: Annotated[
        list[str] | None,
        option("Budgets beyond the base; 60,100,200,500 by default. Repeatable.", metavar="N,N,...", panel=_DESIGN),
    ] = None
    budget: Annotated[
        str, option("What a budget counts: rows, or labels at their costs.", metavar="NAME", panel=_DESIGN)
    ] = "rows"
    cost: Annotated[
        list[str] | None,
        option(
            "Cost of one label, such as T=2; R and T cost 1, a judge's labels 0, A is free. Repeatable.",
            metavar="LABEL=COST",
            panel=_DESIGN,
        ),
    ] = None
    abstention: Annotated[
        str, option("A is seen in annotated rows only, or in all rows.", metavar="NAME", panel=_DESIGN)
    ] = "annotated"
    replicates: Annotated[int, option("Samples per strategy and budget.", panel=_DESIGN)] = 500
    configuration: Annotated[
        str | None,
        option(
            "A published configuration, such as HotpotQA/hybrid/Qwen3.5.",
            metavar="NAME",
            show_default=False,
            panel=_PARAMETERS,
        ),
    ] = None
    theta: Annotated[
        list[str] | None,
        option(
            "A parameter, such as theta_R=0.4; all of the model's are needed. Repeatable.",
            metavar="NAME=VALUE",
            panel=_PARAMETERS,
        ),
    ] = None
    size: Annotated[
        int | None, option("Rows to make from the parameters; 10000 by default.", show_default=False, panel=_PARAMETERS)
    ] = None
    fitting: Annotated[Fitting, LeftOut.of("judge_shared")] = Fitting(num_warmup=500)
    out: Annotated[
        Path | None,
        option("Folder that keeps finished pieces; a study that was stopped goes on.", metavar="DIR", panel=OUTPUT),
    ] = None
    json: Annotated[Path | None, option("All figures as JSON.", metavar="FILE", panel=OUTPUT)] = None
    csv: Annotated[
        Path | None, option("The table of every quantity, in full precision.", metavar="FILE", panel=OUTPUT)
    ] = None
    plot: Annotated[
        Path | None, option("Error against budget for p_G and p_T (.png, .pdf, .svg).", metavar="FILE", panel=OUTPUT)
    ] = None
    distributed: Annotated[
        bool,
        option(
            "One of several processes with this command; Slurm, Open MPI, TPU pods and Kubernetes are recognised.",
            "--distributed",
            panel=_HOSTS,
        ),
    ] = False
    coordinator: Annotated[
        str | None,
        option("Where process 0 listens, if that is not found.", metavar="HOST:PORT", show_default=False, panel=_HOSTS),
    ] = None
    num_processes: Annotated[int | None, option("How many there are.", show_default=False, panel=_HOSTS)] = None
    process_id: Annotated[int | None, option("Which this is, from 0.", show_default=False, panel=_HOSTS)] = None

    def files(self) -> list[Path]:
        """The files to write."""
        return [path for path in (self.json, self.csv, self.plot) if path is not None]

    def population(self) -> dict[str, Any]:
        """Parameters by name, a number or a list of numbers each.

        Raises ValueError unless one of --configuration and --theta is given.
        """
        found = parameters(self.configuration, self.theta)
        if isinstance(found, str):
            from rat_jax.labels import datasets

            return dict(datasets.thetas(found))
        return found

    def together(self) -> dict[str, Any] | None:
        """What `jax.distributed.initialize` takes; None where this process works alone. Raises ValueError."""
        given = {"--coordinator": self.coordinator, "--num-processes": self.num_processes}
        given["--process-id"] = self.process_id
        missing = [name for name, value in given.items() if value is None]
        if len(missing) == len(given):
            return {} if self.distributed else None
        if missing:
            raise ValueError(f"expected {', '.join(given)} together, or --distributed alone; {missing[0]} is missing")
        assert self.coordinator is not None and self.num_processes is not None and self.process_id is not None
        host, _, port = self.coordinator.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError(f"--coordinator: expected HOST:PORT such as node1:1234, found {self.coordinator!r}")
        if not 0 <= self.process_id < self.num_processes:
            raise ValueError(
                f"--process-id: expected 0 to {self.num_processes - 1} of {self.num_processes} processes, found "
                f"{self.process_id}"
            )
        return {f: getattr(self, f) for f in ("num_processes", "process_id")} | {
            "coordinator_address": self.coordinator
        }

    def arguments(self) -> dict[str, Any]:
        """What `allocation_study` takes beside the population."""
        named = {f: getattr(self, f) for f in ("base", "budget", "abstention", "replicates", "out")}
        fitting = {f: getattr(self.fitting, f) for f in ("model", "method", "seed", "policy")} | self.fitting.effort()
        chosen: dict[str, Any] = {
            "strategies": self._strategies(),
            "costs": named_numbers("--cost", "LABEL=COST", self.cost, "2") or None,
            "priors": self.fitting.priors(),
            "judge_rates": self.fitting.judge_rates(),
        }
        if self.additional:
            text = ",".join(self.additional)
            chosen["additional"] = tuple(_number("--additional", part, text) for part in text.split(","))
        if self.size is not None:
            chosen["size"] = self.size
        if self.fitting.judge_structure is not None:
            chosen["judge_structure"] = self.fitting.judge_structure
        return named | fitting | chosen

    def _strategies(self) -> Mapping[str, Any] | None:
        """Shares by name of the strategy, None for one that is known by its name."""
        found: dict[str, Any] = {}
        for text in self.strategy or ():
            name, equals, shares = text.partition("=")
            if name in found:
                raise ValueError(f"--strategy: {name} is given twice")
            found[name] = _shares(text, shares) if equals else None
        return found or None


def _shares(text: str, shares: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for part in shares.split(","):
        labels, colon, share = part.partition(":")
        if not (labels and colon) or labels in found:
            raise ValueError(f"--strategy: expected {FORM}, such as mine=RT:0.5,A:0.5, found {text}")
        found[labels] = _number("--strategy", share, text)
    return found


def _number(name: str, part: str, text: str) -> float:
    try:
        return float(part)
    except ValueError:
        raise ValueError(f"{name}: expected numbers, found {part!r} in {text!r}") from None
