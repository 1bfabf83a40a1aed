"""Every member of the model family is calibrated by simulation, and engines that are wrong on purpose are flagged."""

import numpy as np
import pytest

from rat_jax.inference.engines import run_nuts
from rat_jax.studies import controls
from rat_jax.studies.calibrate import calibrate

DESIGN = {"R+A+T+R_J+T_J": 60, "A+R_J+T_J": 100, "R+A": 20}  # every label, the judge alone, R alone
RATES = {"tpr_R": 0.8, "fpr_R": 0.3, "tpr_T": 0.9, "fpr_T": 0.4}
EFFORT = {"method": "nuts", "num_warmup": 300, "num_samples": 400}
MEMBERS = {
    "joint": {"model": "judge"},
    "factorized": {"model": "judge", "judge_structure": "factorized"},
    "by_abstention": {"model": "judge", "judge_structure": "by_abstention"},
    "fixed": {"model": "judge", "judge_structure": "fixed", "judge_rates": RATES},
    "shared": {"model": "judge", "judge_structure": "factorized", "judge_shared": True, "systems": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("member", MEMBERS)
def test_the_judge_is_calibrated_in_every_structure(member):
    result = calibrate(DESIGN, 500, **MEMBERS[member], **EFFORT)
    assert result.ok, str(result)


def test_graded_retrieval_is_calibrated():
    result = calibrate({"RAT": 60, "AT": 60, "RA": 20}, 200, model="graded", **EFFORT)
    assert result.ok, str(result)


def test_known_rates_are_not_ranked():
    result = calibrate(DESIGN, 100, **MEMBERS["fixed"], **EFFORT)
    assert result.ok, str(result)
    assert "p_TJ" in result.table.index and "tpr_T" not in result.table.index


WRONG = {
    "missing labels taken for 0": controls.missing_as_zero(run_nuts),
    "draws a tenth too narrow": controls.shrunk_draws(0.9, run_nuts),
    "a prior that favours one verdict": controls.wrong_prior({"tpr_R": (9, 1)}, run_nuts),
}


@pytest.mark.slow
@pytest.mark.parametrize("fault", WRONG)
def test_a_wrong_judge_engine_is_flagged(fault):
    assert not calibrate(DESIGN, 500, engine=WRONG[fault], **MEMBERS["factorized"], num_warmup=300, num_samples=400).ok


def test_judges_come_from_the_design():
    result = calibrate({"R+A+T+T_J.b": 20}, 20, model="judge", judge_structure="factorized", **EFFORT)
    assert {"tpr_T.b", "p_TJ.b"} <= set(result.table.index)
    with pytest.raises(ValueError, match="needs a judge's column"):
        calibrate({"RAT": 20}, 20, model="judge", **EFFORT)
    with pytest.raises(ValueError, match="need judge_shared=True"):
        calibrate(DESIGN, 20, model="judge", systems=2, **EFFORT)
    with pytest.raises(ValueError, match="expected a whole number >= 1, found 0"):
        calibrate(DESIGN, 20, **(MEMBERS["shared"] | {"systems": 0}), **EFFORT)
    assert np.isfinite(result.table.to_numpy()).all()
