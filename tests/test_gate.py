"""Gates: probabilities by closed form, no verdict without a basis, sentences that are not understood."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command_line import refusal, without_cache, working_folder
from scipy import integrate, stats

import rat_jax as rat
from rat_jax import cli
from rat_jax.studies.gate import check_names
from rat_jax.studies.requirement import read_requirement


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
    assert rat.gate(fit, good) and not rat.gate(fit, bad)  # as it stands in an `assert`
    assert str(rat.gate(fit, bad)).startswith("NOT MET: theta_R") and str(rat.gate(fit, good)).startswith("met: ")
    assert "not passed: 1 of 2 met, 1 not met." in str(rat.gate(fit, [good, bad]))
    likely = rat.gate(fit, "theta_R[new] > 0.75 with 0.5").requirements[0].probability
    close = rat.gate(fit, f"theta_R[new] > 0.75 with {likely:.4f}")
    assert close.requirements[0].is_close and "raise num_samples" in str(close)
    assert not rat.gate(fit, f"theta_R[new] > 0.75 with {likely + 0.05:.4f}").requirements[0].is_close


def test_at_the_threshold_it_is_met_and_one_draw_below_it_is_not():
    one = rat.fit(table(one=24), num_samples=5)  # 20 draws
    ordered = np.sort(one.draws("theta_R").ravel())
    for needed, above in itertools.product((0.05, 0.3, 0.55, 0.7, 0.95), (0, 1)):
        bound = ordered[20 - round(20 * needed) - 1 + above]  # so many draws, less `above`, are larger
        found = rat.gate(one, f"theta_R > {float(bound)!r} with {needed}").requirements[0]
        assert found.met is (above == 0) and found.is_close and found.probability == (20 * needed - above) / 20


def test_a_constant_tells_more_than_from_at_least(fit):
    found = rat.gate(fit, [f"theta_R[new] - theta_R[new] {sign} 0 with 0.9" for sign in (">", ">=", "<", "<=")])
    assert [one.probability for one in found.requirements] == [0, 1, 0, 1]
    assert all(math.isfinite(x) for one in found.requirements for x in (one.mean, one.low, one.high, one.mcse))


def test_what_more_labels_could_settle_is_called_open(fit):
    middling, hopeless = rat.gate(fit, ["theta_R[new] > 0.75 with 0.95", "theta_R[new] > 0.95 with 0.95"]).requirements
    assert middling.is_open and "more labels can settle it" in middling.sentence()
    assert not hopeless.is_open and hopeless.verdict == "not met" and "more labels" not in hopeless.sentence()


def test_figures_are_those_of_the_draws_counted_by_hand():
    fit = rat.fit(rat.example_labels(), seed=4)
    new, old = (fit.draws("p_G", system=s)[0] for s in ("reference", "gpt-4o"))
    correct = fit.draws("p_T", system="gpt-4o")[0]
    sentence = "2 * p_G[reference] - p_G[gpt-4o] > 0.5 * p_T[gpt-4o] + 0.55 with 0.9"
    found = rat.gate(fit, sentence, paired=False).requirements[0]
    values = [2 * a - b - 0.5 * c for a, b, c in zip(new, old, correct, strict=True)]
    assert found.probability == sum(v > 0.55 for v in values) / len(values)
    assert found.left == "2 * p_G[reference] - p_G[gpt-4o] - 0.5 * p_T[gpt-4o]"
    assert (found.low, found.high) == pytest.approx(np.quantile(values, [0.025, 0.975]).tolist())
    assert found.mean == pytest.approx(np.mean(values), abs=5 * np.std(values) / len(values) ** 0.5)


def test_chains_count_their_effective_draws():
    labels = table(one=24)
    chains = rat.gate(rat.fit(labels, method="nuts", seed=1), "theta_R > 0.55 with 0.5").requirements[0]
    assert abs(chains.probability - stats.beta(25, 17).sf(0.55)) < 4.5 * chains.mcse
    assert chains.mcse > 0.5 * (0.25 / 4000) ** 0.5


def test_the_stated_error_is_that_between_seeds():
    labels = table(one=24)
    for options in ({}, {"method": "nuts", "num_warmup": 300}, {"method": "nuts", "num_warmup": 300, "num_chains": 1}):
        runs = [rat.fit(labels, seed=s, num_samples=500, on_failure="keep", **options) for s in range(24)]
        found = [rat.gate(run, "theta_R > 0.6 with 0.5").requirements[0] for run in runs]
        spread, stated = np.std([one.probability for one in found], ddof=1), np.mean([one.mcse for one in found])
        assert 0.6 < spread / stated < 1.6, options


def test_there_is_no_verdict_without_a_basis(fit):
    blind = rat.fit(table(old=24, new=31).drop(columns="R"), seed=1)
    found = rat.gate(blind, ["p_G[new] > 0.001 with 0.5", "p_T[new] > 0.1 with 0.5"])
    assert [one.met for one in found.requirements] == [None, True] and not found.ok
    assert "not informed" in str(found) and found.to_dict()["requirements"][0]["met"] is None
    short = rat.fit(table(old=24), method="nuts", num_warmup=3, num_samples=8, on_failure="keep")
    denied = rat.gate(short, "p_R > 0.001 with 0.5")
    assert denied.requirements[0].met is None and not denied
    assert "SAMPLING CANNOT BE TRUSTED" in str(denied) and "raise num_samples" in str(denied)  # why, and what to do


def test_quantities_that_are_informed_may_differ_by_what_is_not():
    """p_G - p_T = P(R=0, A=1) - P(R=0, A=0, T=1); the second is 0, and nobody labelled R of an abstention."""
    answered = pd.DataFrame({"R": [1] * 300 + [0] * 100, "A": 0, "T": [1] * 300 + [0] * 100}).astype("Int64")
    rows = pd.concat([answered, pd.DataFrame({"R": pd.NA, "A": [1] * 12, "T": 0})])
    fit = rat.fit(rows)
    alone = rat.gate(fit, ["p_T > 0.1 with 0.9", "p_G > 0.1 with 0.9"]).requirements
    together = rat.gate(fit, "p_G - p_T > 0.001 with 0.5").requirements[0]
    assert alone[0].met and alone[1].met
    assert together.met is None and "p_G - p_T of all is not informed" in together.problems[0]


def test_a_posterior_of_rows_chosen_by_what_its_model_leaves_out_says_so():
    labels = rat.read_labels(table(one=24).assign(R_J=1), selected_by=["R_J"])
    with pytest.warns(rat.SelectionWarning):
        found = rat.gate(rat.fit(labels), "theta_R > 0.1 with 0.9")
    assert found.ok and "chosen for labelling by R_J" in str(found) and len(found.to_dict()["notes"]) == 1


@pytest.mark.parametrize(
    ("sentence", "said"),
    [
        ("p_G[new] over 0.5", r"expected \+, -, > or < at character 10, found 'over'; the shape is"),
        ("p_G[new] p_G[old] > 0.5 with 0.9", r"expected \+, -, > or < at character 10, found 'p_G'"),
        ("p_G[new] / p_G[old] > 1 with 0.9", r"expected \+, -, > or < at character 10, found '/'"),
        ("p_G[new] > 0.5", "expected 'with' and a probability, such as with 0.95 at character 15, found the end"),
        ("0 < p_G[new] < 0.1 with 0.9", "for a bound on both sides write two requirements"),
        ("p_G[new] > with 0.5", "a quantity such as .* at character 12, found 'with'"),
        ("p_G[new] > 0.5 with likely", "a probability such as 0.95 after 'with' at character 21, found 'likely'"),
        ("p_G[new] > 0.5 with 0,9", "a probability such as 0.95 .* found '0,9'"),
        ("p_G[new] > 1e999 with 0.9", "expected a finite number at character 12, found '1e999'"),
        ("p_G[new] > 0.5 with 95", "above 0 and below 1 after 'with', found 95; for 95 % write 0.95"),
        ("p_G[new] > 0.5 with 1", "above 0 and below 1 after 'with', found 1$"),
        ("p_G[new] > 0.5 with 0", "above 0 and below 1 after 'with', found 0$"),
        ("p_G[new] > 0.5 with 0.9 or so", "expected nothing more at character 25, found 'or'"),
        ("p_G[new > 0.5 with 0.9", "the bracket at character 4 is not closed"),
        ("0.5 > 0.4 with 0.9", "expected a quantity such as p_G, found numbers only"),
        ("", "expected a quantity .* found the end"),
        ("p_G[nwe] > 0.5 with 0.9", "unknown system 'nwe'; did you mean 'new'"),
        ("p_G > 0.5 with 0.9", r"expected a system in brackets after p_G, such as p_G\[new\]"),
        ("p_X[new] > 0.5 with 0.9", "unknown quantity 'p_X'; did you mean 'p_"),
        ("p_G[new] > a with 0.9", "unknown quantity 'a'"),
    ],
)
def test_what_is_not_understood_is_said(fit, sentence, said):
    with pytest.raises(ValueError, match=said) as caught:
        rat.gate(fit, sentence)
    assert str(caught.value).startswith(f"requirement {sentence!r}: ") and "\n" not in str(caught.value)


@pytest.mark.parametrize("require", [[], None, 3, [3]])
def test_what_is_no_sentence_is_refused(fit, require):
    with pytest.raises(ValueError, match="expected a sentence such as"):
        rat.gate(fit, require)


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("p_G[new] > p_G[old] - 0.01 with 0.9", "p_G[new] - p_G[old] > -0.01 with 0.9"),
        ("0.01 + p_G[new] - p_G[old] > 0 with 0.9", "p_G[new] - p_G[old] > -0.01 with 0.9"),
        ("p_G[new]-p_G[old]>-.01 with .9", "p_G[new] - p_G[old] > -0.01 with 0.9"),
        ("p_G[new] \u2212 p_G[old] \u2265 \u22121e-2 WITH 0.9", "p_G[new] - p_G[old] >= -0.01 with 0.9"),
        ("-0.01 < p_G[new] - p_G[old] with 0.9", "- p_G[new] + p_G[old] < 0.01 with 0.9"),
    ],
)
def test_one_requirement_may_be_written_in_many_ways(fit, written, plain):
    one, other = rat.gate(fit, [written, plain]).requirements
    assert one.probability == other.probability and abs(one.mean) == pytest.approx(abs(other.mean), abs=1e-15)
    assert read_requirement(written).bound in (-0.01, 0.01)


def test_systems_and_judges_with_odd_names_are_read():
    systems = ["gpt-4o mini", "a > b", "x[1] with # 0.5", "p_G + p_T"]
    text = " + ".join(f"p_G[{system}]" for system in systems) + " - 2 * tpr_R.gpt-4o/v1[a > b] > 0 with 0.9"
    terms = read_requirement(text).terms
    assert [term.brackets for term in terms] == [(system,) for system in [*systems, "a > b"]]
    assert (terms[-1].name, terms[-1].times) == ("tpr_R.gpt-4o/v1", -2)
    frame = pd.concat([table(old=24).assign(system=system) for system in systems])
    found = rat.gate(rat.fit(frame, num_samples=50), [f"theta_R[{system}] > 0.1 with 0.9" for system in systems])
    assert found.ok


def test_an_element_of_a_quantity_stands_before_the_system():
    rows = pd.DataFrame({"R": ["fail", "partial", "success"] * 9, "A": [1, 0, 0] * 9, "T": [0, 0, 1] * 9})
    fit = rat.fit(rows, "graded", num_warmup=300, num_samples=500)
    one = rat.gate(fit, "theta_A[fail] > 0.3 with 0.9")
    assert one.ok and one.requirements[0].mean == pytest.approx(10 / 11, abs=1e-2)

    def check(text):
        check_names([read_requirement(text)], fit.network, fit.policies, ["old", "new"])

    check("theta_A[fail][new] - theta_A[fail][old] > -0.5 with 0.9")
    for text, said in {
        "theta_A[new] > 0 with 0.9": r"theta_A has several; name one such as theta_A\[fail\]",
        "theta_A[fail] > 0 with 0.9": r"system in brackets after theta_A\[fail\], such as theta_A\[fail\]\[old\]",
        "theta_A[fial][new] > 0 with 0.9": r"did you mean 'theta_A\[fail\]'",
    }.items():
        with pytest.raises(ValueError, match=said):
            check(text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    without_cache(monkeypatch)
    return working_folder(tmp_path, monkeypatch, {"labels.csv": table(old=24, new=31).to_csv(index=False)})


def test_the_command_answers_with_its_exit_code_and_a_file(folder, capsys):
    met, not_met = "p_G[new] - p_G[old] > -0.05 with 0.9", "p_G[new] - p_G[old] < -0.05 with 0.9"
    assert cli.main(["gate", "labels.csv", "--require", met, "--json", "gate.json"]) == 0
    assert "\nmet: p_G[new]" in capsys.readouterr().out
    facts = json.loads(Path("gate.json").read_text())
    assert facts["ok"] is True and facts["requirements"][0]["needed"] == 0.9 and facts["diagnostics"]["ok"] is True
    assert cli.main(["gate", "labels.csv", "--require", met, "--require", not_met, "--json", "gate.json"]) == 2
    said = capsys.readouterr()
    assert (
        "\nNOT MET: " in said.out and "\\n" not in said.out and json.loads(Path("gate.json").read_text())["ok"] is False
    )


def test_requirements_may_stand_in_a_file(folder, capsys):
    Path("gate.txt").write_text(
        "\ufeff# what must hold\n\np_G[new] - p_G[old] > -0.05 with 0.9  # not worse\n p_T[new] > 0.3 with 0.9\n"
    )
    command = ["gate", "labels.csv", "--requirements", "gate.txt", "--json", "gate.json"]
    assert cli.main([*command, "--require", "p_A[new] < 0.2 with 0.9"]) == 0
    told = [one["requirement"] for one in json.loads(Path("gate.json").read_text())["requirements"]]
    assert told == [
        "p_A[new] < 0.2 with 0.9",
        "p_G[new] - p_G[old] > -0.05 with 0.9",
        "p_T[new] > 0.3 with 0.9",
    ]
    assert "3 of 3 met" in capsys.readouterr().out
    Path("bad.txt").write_text("p_G[new] > 0.5 with 0.9\n# one more\np_G[new] = 0.5 with 0.9\n")
    assert "bad.txt, line 3: requirement 'p_G[new] = 0.5 with 0.9'" in refusal(
        ["gate", "labels.csv", "--requirements", "bad.txt"], capsys
    )
    Path("empty.txt").write_text("# nothing yet\n")
    assert "empty.txt: expected requirements, one a line" in refusal(
        ["gate", "labels.csv", "--requirements", "empty.txt"], capsys
    )
    Path("other.txt").write_bytes(b"\xff\xfe\xfa")
    assert "UTF-8" in refusal(["gate", "labels.csv", "--requirements", "other.txt"], capsys)
    assert "cannot read the requirements in no.txt" in refusal(
        ["gate", "labels.csv", "--requirements", "no.txt"], capsys
    )


def test_a_saved_posterior_gives_the_verdict_of_its_labels(folder, capsys):
    requirement = ["--require", "p_G[new] - p_G[old] > 0.02 with 0.9", "--json"]
    assert cli.main(["fit", "labels.csv", "--seed", "5", "--output", "saved"]) == 0
    codes = [
        cli.main(["gate", "labels.csv", "--seed", "5", *requirement, "one.json"]),
        cli.main(["gate", "saved", *requirement, "two.json"]),
    ]
    one, two = (json.loads(Path(name).read_text()) for name in ("one.json", "two.json"))
    assert codes[0] == codes[1] and one["requirements"] == two["requirements"]
    assert two["provenance"]["source"] == "saved" and two["provenance"]["seed"] == 5 and two["rows"]["new"] == 40
    capsys.readouterr()
    for option in (["--seed", "3"], ["--num-samples", "9"], ["--column", "R=x"], ["--prior", "theta_R=2,1"]):
        said = refusal(["gate", "saved", *requirement, "two.json", *option], capsys)
        assert option[0] in said and "fitted already" in said


def test_what_has_no_basis_gets_exit_code_two_and_the_advice(folder, capsys):
    blind = table(old=24, new=31).drop(columns="R").to_csv(index=False)
    Path("blind.csv").write_text(blind)
    require = ["--require", "p_G[new] > 0.001 with 0.5", "--json", "gate.json"]
    assert cli.main(["gate", "blind.csv", *require]) == 2
    facts = json.loads(Path("gate.json").read_text(), parse_constant=pytest.fail)
    assert facts["requirements"][0]["verdict"] == "none" and "label R" in facts["requirements"][0]["problems"][0]
    said = capsys.readouterr()
    assert "NO VERDICT" in said.out and "1 without a verdict" in said.err
    few = ["--method", "nuts", "--num-warmup", "3", "--num-samples", "8"]
    assert cli.main(["gate", "labels.csv", *few, "--require", "p_T[new] > 0.001 with 0.5", "--json", "gate.json"]) == 2
    facts = json.loads(Path("gate.json").read_text(), parse_constant=pytest.fail)
    assert facts["diagnostics"]["ok"] is False and "CANNOT BE TRUSTED" in facts["requirements"][0]["problems"][0]


def test_rows_chosen_by_what_the_model_leaves_out_are_warned_about(folder, capsys):
    require = ["--require", "theta_R[new] > 0.1 with 0.9", "--json", "gate.json"]
    chosen = table(old=24, new=31).assign(R_J=1)
    Path("chosen.csv").write_text(chosen.to_csv(index=False))
    assert cli.main(["gate", "chosen.csv", "--selected-by", "R_J", *require]) == 0
    assert "R_J" in json.loads(Path("gate.json").read_text())["notes"][0]
    assert "Note: Rows were chosen" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "expected --require"),
        (["--require", "p_G[new] is good"], "the shape is"),
        (["--require", "p_G[nwe] > 0 with 0.9"], "did you mean 'new'"),
        (["--require", "p_H[new] > 0 with 0.9"], "unknown quantity 'p_H'"),
        (["--require", "p_G[new] > 0 with 0.9", "--model", "rot"], "did you mean 'rat'"),
        (["--require", "p_G[new] > 0 with 0.9", "--json", "labels.csv"], "named twice"),
    ],
)
def test_bad_options_are_found_before_anything_is_fitted(options, said, folder, capsys, monkeypatch):
    monkeypatch.setattr(rat, "fit", lambda *_, **__: pytest.fail("it was fitted"))
    assert said in refusal(["gate", "labels.csv", *options], capsys)


def test_a_requirement_on_several_systems_uses_the_questions_they_share():
    fit = rat.fit(rat.example_labels())
    sentence = "p_G[gpt-4o] - p_G[llama-3.1-405b-instruct] > -0.05 with 0.95"
    together, apart = rat.gate(fit, sentence), rat.gate(fit, sentence, paired=False)
    wide, narrow = (found.requirements[0].high - found.requirements[0].low for found in (apart, together))
    assert narrow < 0.8 * wide
    pair = rat.compare(fit, systems=["llama-3.1-405b-instruct", "gpt-4o"], margin=-0.05).iloc[0]
    assert together.requirements[0].probability == pair["prob_b_greater_by_margin"]
    assert "paired on 157 questions" in together.notes[0] and "not paired" in apart.notes[0]


def test_a_requirement_on_one_system_rests_on_its_own_fit():
    fit = rat.fit(rat.example_labels())
    sentence = "p_G[gpt-4o] > 0.7 with 0.5"
    both = rat.gate(fit, [sentence, "p_G[gpt-4o] - p_G[reference] < 0 with 0.9"])
    assert both.requirements[0] == rat.gate(fit, sentence).requirements[0] and not rat.gate(fit, sentence).notes
    assert both.requirements[0].probability == (fit.draws("p_G", "gpt-4o") > 0.7).mean()
