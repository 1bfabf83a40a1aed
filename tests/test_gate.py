"""Gates: probabilities by closed form, no verdict without a basis, sentences that are not understood."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refusal, without_cache, working_folder
from scipy import integrate, stats

import rat_jax as rat
from rat_jax import cli
from rat_jax.studies.gate import read_requirement


def table(**right):
    """Systems of 40 rows with every label; so many of them have R = 1, always answered, correct where R = 1."""
    frames = []
    for system, ones in right.items():
        r = np.arange(40) < ones
        frames.append(pd.DataFrame({"R": r, "A": False, "T": r}).astype(int).assign(system=system))
    return pd.concat(frames)


@pytest.fixture(scope="module")
def fit():
    return rat.fit(table(old=24, new=31), seed=1, num_samples=25_000)


def beats(a, b, margin):
    """P(b > a + margin) of two Betas by quadrature."""
    return integrate.quad(lambda x: a.pdf(x) * b.sf(x + margin), 0, 1, epsabs=1e-10)[0]


def test_probabilities_are_those_of_the_closed_form(fit):
    old, new = stats.beta(25, 17), stats.beta(32, 10)
    cases = {
        "theta_R[new] - theta_R[old] > 0.05 with 0.5": beats(old, new, 0.05),
        "theta_R[old] - theta_R[new] < 0.02 with 0.5": beats(old, new, -0.02),
        "theta_R[new] > 0.75 with 0.5": new.sf(0.75),
        "-2 * theta_R[old] < -1.3 with 0.5": old.sf(0.65),
    }
    found = rat.gate(fit, list(cases))
    for one, expected in zip(found.requirements, cases.values(), strict=True):
        assert abs(one.probability - expected) < 4.5 * one.mcse and 0 < one.mcse < 0.002, one.text
        assert one.met == (expected > 0.5) and not one.is_close
    assert found.requirements[0].mean == pytest.approx(new.mean() - old.mean(), abs=1e-9)


def test_all_must_hold_and_a_narrow_verdict_is_called_close(fit):
    good, bad = "theta_R[new] > 0.5 with 0.95", "theta_R[new] < 0.5 with 0.95"
    assert rat.gate(fit, good).ok and not rat.gate(fit, bad).ok and not rat.gate(fit, [good, bad]).ok
    assert "NOT MET" in str(rat.gate(fit, bad)) and str(rat.gate(fit, good)).startswith("met")
    likely = rat.gate(fit, "theta_R[new] > 0.75 with 0.5").requirements[0].probability
    close = rat.gate(fit, f"theta_R[new] > 0.75 with {likely:.4f}")
    assert close.requirements[0].is_close and "sample longer" in str(close)


def test_chains_count_their_effective_draws():
    labels = table(one=24)
    chains = rat.gate(rat.fit(labels, method="nuts", seed=1), "theta_R > 0.55 with 0.5").requirements[0]
    assert abs(chains.probability - stats.beta(25, 17).sf(0.55)) < 4.5 * chains.mcse
    assert chains.mcse > 0.5 * (0.25 / 4000) ** 0.5


def test_there_is_no_verdict_without_a_basis(fit):
    blind = rat.fit(table(old=24, new=31).drop(columns="R"), seed=1)
    found = rat.gate(blind, ["p_G[new] > 0.001 with 0.5", "p_T[new] > 0.1 with 0.5"])
    assert [one.met for one in found.requirements] == [None, True] and not found.ok
    assert "not informed" in str(found) and found.to_dict()["requirements"][0]["met"] is None
    short = rat.fit(table(old=24), method="nuts", num_warmup=3, num_samples=8, on_failure="keep")
    assert rat.gate(short, "p_R > 0.001 with 0.5").requirements[0].met is None


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("p_G[new] over 0.5", "expected the shape"),
        ("p_G[new] > 0.5", "expected the shape"),
        ("p_G[new] > a with 0.5", "the bound to be a number, found 'a'"),
        ("p_G[new] > 0.5 with 95", "between 0 and 1 after 'with', found 95"),
        ("p_G[new] p_G[old] > 0.5 with 0.9", "cannot read 'p_G\\[old\\]'"),
        ("p_G[newest] > 0.5 with 0.9", "'newest'"),
        ("p_G > 0.5 with 0.9", "of which system"),
        ("p_X[new] > 0.5 with 0.9", "'p_X'"),
    ],
)
def test_what_is_not_understood_is_said(fit, sentence, said):
    with pytest.raises(ValueError, match=said):
        rat.gate(fit, sentence)


def test_systems_with_odd_names_and_elements_of_quantities():
    assert read_requirement("p_G[gpt-4o mini] - p_G[a > b] > 0 with 0.9").terms[0].system == "gpt-4o mini"
    graded = rat.fit(
        pd.DataFrame({"R": ["fail", "partial", "success"] * 9, "A": [1, 0, 0] * 9, "T": [0, 0, 1] * 9}), "graded"
    )
    found = rat.gate(graded, "theta_A[fail] > 0.3 with 0.9")
    assert found.ok and found.requirements[0].mean == pytest.approx(10 / 11, abs=1e-2)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    without_cache(monkeypatch)
    return working_folder(tmp_path, monkeypatch, {"labels.csv": table(old=24, new=31).to_csv(index=False)})


def test_the_command_answers_with_its_exit_code_and_a_file(folder, capsys):
    met, not_met = "p_G[new] - p_G[old] > -0.05 with 0.9", "p_G[new] - p_G[old] < -0.05 with 0.9"
    assert cli.main(["gate", "labels.csv", "--require", met, "--json", "gate.json"]) == 0
    assert capsys.readouterr().out.startswith("met")
    facts = json.loads(Path("gate.json").read_text())
    assert facts["ok"] is True and facts["requirements"][0]["needed"] == 0.9 and facts["diagnostics"]["ok"] is True
    assert cli.main(["gate", "labels.csv", "--require", met, "--require", not_met, "--json", "gate.json"]) == 2
    assert "NOT MET" in capsys.readouterr().out and json.loads(Path("gate.json").read_text())["ok"] is False


def test_bad_sentences_are_found_before_anything_is_fitted(folder, capsys):
    assert "expected --require" in refusal(["gate", "labels.csv"], capsys)
    assert "expected the shape" in refusal(["gate", "labels.csv", "--require", "p_G[new] is good"], capsys)
