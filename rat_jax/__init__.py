"""rat_jax tells how good a RAG system really is, and which part of it fails.

A label table goes in (retrieval R, abstention A, correctness T, any of them missing), one posterior
comes out. Start with `read_labels` and `fit`. Names are resolved on first use, so importing the
package is instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rat_jax.inference.fit import SamplingError, SamplingWarning, SelectionWarning, fit
    from rat_jax.inference.impute import impute, impute_draws
    from rat_jax.inference.paired import pair
    from rat_jax.inference.posterior import Posterior, load
    from rat_jax.inference.settings import PAPER_SETTINGS
    from rat_jax.inference.sweep import Sweep, sweep
    from rat_jax.inference.verdict import Diagnostics
    from rat_jax.labels import LabelError, Labels, datasets, example_labels, read_labels
    from rat_jax.model.network import Network, Policy, Probability, Table, Variable
    from rat_jax.model.priors import Priors
    from rat_jax.model.program import counted, rowwise
    from rat_jax.model.rat import RAT
    from rat_jax.report.abstention_plot import plot_abstention
    from rat_jax.report.allocation_plot import plot_allocation
    from rat_jax.report.attribution_plot import plot_attribution
    from rat_jax.report.calibration_plot import plot_calibration
    from rat_jax.report.comparison_plot import plot_ranking
    from rat_jax.report.estimates_plot import plot_estimates
    from rat_jax.report.judge_plot import plot_judge
    from rat_jax.report.plan_plot import plot_plan
    from rat_jax.report.plots import plot_forest, plot_systems
    from rat_jax.report.sensitivity_plot import plot_sensitivity
    from rat_jax.studies.abstention import Abstention, abstention
    from rat_jax.studies.agreement import Agreement, agreement
    from rat_jax.studies.allocation import KeptPieceWarning, allocation_study
    from rat_jax.studies.allocation_result import AllocationStudy
    from rat_jax.studies.attribute import attribute
    from rat_jax.studies.baselines import baselines
    from rat_jax.studies.calibrate import Calibration, calibrate
    from rat_jax.studies.certify import Certificate, certify
    from rat_jax.studies.compare import compare
    from rat_jax.studies.gate import Gate, gate
    from rat_jax.studies.information_gain import information_gain
    from rat_jax.studies.leave_one_out import LeaveOneOut, leave_one_out
    from rat_jax.studies.next_labels import next_labels
    from rat_jax.studies.paired_baselines import paired_baselines
    from rat_jax.studies.plan import plan
    from rat_jax.studies.plan_result import LabelPlan
    from rat_jax.studies.ranking import Ranking, best
    from rat_jax.studies.replaces import JudgeReplaces, judge_replaces
    from rat_jax.studies.sensitivity import Sensitivity, sensitivity
    from rat_jax.studies.structures import StructureComparison, compare_structures
    from rat_jax.studies.transfer import JudgeTransfer, judge_transfer
    from rat_jax.studies.worth import JudgeWorth, judge_worth

_HOMES = {
    "rat_jax.labels": ("LabelError", "Labels", "datasets", "example_labels", "read_labels"),
    "rat_jax.model.network": ("Network", "Policy", "Probability", "Table", "Variable"),
    "rat_jax.model.priors": ("Priors",),
    "rat_jax.model.program": ("counted", "rowwise"),
    "rat_jax.model.rat": ("RAT",),
    "rat_jax.inference.fit": ("SamplingError", "SamplingWarning", "SelectionWarning", "fit"),
    "rat_jax.inference.impute": ("impute", "impute_draws"),
    "rat_jax.inference.paired": ("pair",),
    "rat_jax.inference.posterior": ("Posterior", "load"),
    "rat_jax.inference.settings": ("PAPER_SETTINGS",),
    "rat_jax.inference.sweep": ("Sweep", "sweep"),
    "rat_jax.inference.verdict": ("Diagnostics",),
    "rat_jax.studies.abstention": ("Abstention", "abstention"),
    "rat_jax.studies.agreement": ("Agreement", "agreement"),
    "rat_jax.studies.allocation": ("KeptPieceWarning", "allocation_study"),
    "rat_jax.studies.allocation_result": ("AllocationStudy",),
    "rat_jax.studies.attribute": ("attribute",),
    "rat_jax.studies.baselines": ("baselines",),
    "rat_jax.studies.calibrate": ("Calibration", "calibrate"),
    "rat_jax.studies.certify": ("Certificate", "certify"),
    "rat_jax.studies.compare": ("compare",),
    "rat_jax.studies.gate": ("Gate", "gate"),
    "rat_jax.studies.information_gain": ("information_gain",),
    "rat_jax.studies.leave_one_out": ("LeaveOneOut", "leave_one_out"),
    "rat_jax.studies.next_labels": ("next_labels",),
    "rat_jax.studies.paired_baselines": ("paired_baselines",),
    "rat_jax.studies.plan": ("plan",),
    "rat_jax.studies.plan_result": ("LabelPlan",),
    "rat_jax.studies.replaces": ("JudgeReplaces", "judge_replaces"),
    "rat_jax.studies.ranking": ("Ranking", "best"),
    "rat_jax.studies.sensitivity": ("Sensitivity", "sensitivity"),
    "rat_jax.studies.structures": ("StructureComparison", "compare_structures"),
    "rat_jax.studies.transfer": ("JudgeTransfer", "judge_transfer"),
    "rat_jax.studies.worth": ("JudgeWorth", "judge_worth"),
    "rat_jax.report.abstention_plot": ("plot_abstention",),
    "rat_jax.report.allocation_plot": ("plot_allocation",),
    "rat_jax.report.attribution_plot": ("plot_attribution",),
    "rat_jax.report.calibration_plot": ("plot_calibration",),
    "rat_jax.report.comparison_plot": ("plot_ranking",),
    "rat_jax.report.estimates_plot": ("plot_estimates",),
    "rat_jax.report.sensitivity_plot": ("plot_sensitivity",),
    "rat_jax.report.judge_plot": ("plot_judge",),
    "rat_jax.report.plan_plot": ("plot_plan",),
    "rat_jax.report.plots": ("plot_forest", "plot_systems"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = "0.1.0"
__all__ = [
    "Abstention",
    "Agreement",
    "AllocationStudy",
    "Calibration",
    "Certificate",
    "Diagnostics",
    "Gate",
    "JudgeReplaces",
    "JudgeTransfer",
    "JudgeWorth",
    "KeptPieceWarning",
    "LabelError",
    "LabelPlan",
    "Labels",
    "LeaveOneOut",
    "Network",
    "PAPER_SETTINGS",
    "Policy",
    "Posterior",
    "Priors",
    "Probability",
    "RAT",
    "Ranking",
    "SamplingError",
    "SamplingWarning",
    "SelectionWarning",
    "Sensitivity",
    "StructureComparison",
    "Sweep",
    "Table",
    "Variable",
    "abstention",
    "agreement",
    "allocation_study",
    "attribute",
    "baselines",
    "best",
    "calibrate",
    "certify",
    "compare",
    "compare_structures",
    "counted",
    "datasets",
    "example_labels",
    "fit",
    "gate",
    "impute",
    "impute_draws",
    "information_gain",
    "judge_replaces",
    "judge_transfer",
    "judge_worth",
    "leave_one_out",
    "load",
    "next_labels",
    "pair",
    "paired_baselines",
    "plan",
    "plot_abstention",
    "plot_allocation",
    "plot_attribution",
    "plot_calibration",
    "plot_estimates",
    "plot_forest",
    "plot_judge",
    "plot_plan",
    "plot_ranking",
    "plot_sensitivity",
    "plot_systems",
    "read_labels",
    "rowwise",
    "sensitivity",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rat_jax' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value  # a submodule imported meanwhile must not hide the public name
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
