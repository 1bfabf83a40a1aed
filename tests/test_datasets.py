"""The published configurations that ship are the published ones, and are found by name.

The figures they are held to are the paper's P(A=1) and P(G=1) (Table 1), which the table does not contain.
"""

import subprocess
import sys

import pytest

import rat_jax as rat

# Table 1 of the paper: P(A=1), P(G=1). One configuration of each question set, retriever and generator.
PRINTED = {
    "FEVER/dense/Apertus": (0.135, 0.608),
    "FEVER/sparse/Qwen3.5": (0.246, 0.657),
    "HotpotQA/hybrid/Qwen3.5": (0.375, 0.503),
    "HotpotQA/dense/Gemma3": (0.311, 0.391),
    "NQ/sparse/Apertus": (0.039, 0.136),
    "NQ/hybrid/Gemma3": (0.198, 0.359),
}


def test_there_are_27_configurations_of_five_probabilities():
    table = rat.datasets.configurations()
    assert table.shape == (27, 5)
    assert table.index.is_unique and table.index.names == ["dataset", "retriever", "generator"]
    assert list(table) == ["theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus"]
    assert ((table > 0) & (table < 1)).all(axis=None)
    assert [len(level) for level in table.index.levels] == [3, 3, 3]


@pytest.mark.parametrize("name", PRINTED)
def test_the_thetas_give_the_printed_rates(name):
    t = rat.datasets.thetas(name)
    abstains = (1 - t["theta_R"]) * t["theta_A_minus"] + t["theta_R"] * t["theta_A_plus"]
    adheres = (1 - t["theta_R"]) * t["theta_A_minus"] + t["theta_R"] * (1 - t["theta_A_plus"]) * t["theta_T_plus"]
    assert (abstains, adheres) == pytest.approx(PRINTED[name], abs=0.0015)


def test_generators_of_one_retriever_share_its_retrieval():
    assert (rat.datasets.configurations().groupby(["dataset", "retriever"])["theta_R"].nunique() == 1).all()


def test_a_configuration_is_found_by_name_and_by_its_parts():
    for parts, row in rat.datasets.configurations().iterrows():
        assert rat.datasets.thetas(parts) == rat.datasets.thetas("/".join(parts)) == row.to_dict()
    assert rat.datasets.names() == tuple("/".join(parts) for parts in rat.datasets.configurations().index)


def test_what_the_caller_changes_stays_with_the_caller():
    table = rat.datasets.configurations()
    table["theta_R"] = 0.0
    assert rat.datasets.thetas("NQ/dense/Gemma3")["theta_R"] == 0.347


@pytest.mark.parametrize("name", ["hotpotqa/hybrid/qwen3.5", "HotpotQA/hybrid/Qwen", ("HotpotQA", "hybrid", "Qwen35")])
def test_a_misspelt_name_is_told_the_nearest(name):
    with pytest.raises(ValueError, match=r"unknown configuration .*did you mean 'HotpotQA/hybrid/Qwen3.5'\?"):
        rat.datasets.thetas(name)


def test_the_facade_finds_them_without_loading_pandas_first():
    script = (
        "import sys, rat_jax; assert 'pandas' not in sys.modules; "
        "print(len(rat_jax.datasets.names()), 'jax' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["27", "False"], done.stderr
