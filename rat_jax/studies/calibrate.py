"""Simulation-based calibration: is an engine right, on average over the prior, for a given labelling design?

Parameters are drawn from the priors, labels from the parameters, and the engine is run on the labels alone. If it is
right, the true value of every quantity ranks anywhere among its posterior draws with equal probability. A design
comes in; a verdict with its evidence goes out.

Source: Talts et al., arXiv:1804.06788, 2018; the log likelihood as a quantity that catches engines which ignore
(part of) the data: Modrák et al., "Simulation-based calibration checking for Bayesian computation: the choice of test
quantities shapes sensitivity", Bayesian Analysis, 2023.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from rat_jax.inference.convergence import convergence
from rat_jax.inference.engines import choose
from rat_jax.inference.posterior import state_weights
from rat_jax.inference.settings import Draws, Engine, Problem, Progress, Settings, checked_seed
from rat_jax.labels import Labels, read_labels
from rat_jax.model.declaration import Policy
from rat_jax.model.likelihood import log_likelihood
from rat_jax.model.models import declare, is_judge, network_of
from rat_jax.model.network import Network
from rat_jax.model.patterns import CountTable, count_table
from rat_jax.model.priors import concentrations
from rat_jax.model.quantities import elements
from rat_jax.studies.bands import counts_below, grid, simultaneous_band
from rat_jax.studies.design import Design, read_design
from rat_jax.studies.ranks import TESTS, coverage, holm, normal_moments, rank_tests, unit_ranks
from rat_jax.studies.simulate import draw_cells, simulate_counts

ERROR_RATE = 0.01
"""Chance that a right engine is flagged by anything at all (familywise)."""

AT_ONCE = 1000  # data sets per call of the engine: bounds memory, keeps compiled shapes few
FEWEST = 20
LOG_LIKELIHOOD = "log_likelihood"


@dataclass(frozen=True, eq=False)
class Calibration:
    """The verdict of `calibrate` and what it rests on.

    table: one row per quantity, float64: `bias` of the posterior mean with its standard error `bias_se`, mean
        absolute error `mae`, `coverage_50`, `coverage_80`, `coverage_95` each with an exact 95 % interval (`_low`,
        `_high`), and the p-values `p_band`, `p_location`, `p_spread`; `p_adjusted` is the smallest of the three after
        Holm's correction.
    ranks: DataFrame [simulation, quantity], the rank of the truth among the draws on a scale from 0 to 1.
    repeats: quantity -> the earlier quantity that it equals; it is shown but not tested a second time.
    problems: what failed, in words; empty when ok.
    """

    design: Design
    model: str
    method: str
    simulations: int
    seed: int
    table: pd.DataFrame
    ranks: pd.DataFrame
    repeats: Mapping[str, str]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """No test failed at 1 % familywise."""
        return not self.problems

    @property
    def num_tests(self) -> int:
        """Tests that share the 1 %: three per quantity that repeats no other."""
        return len(TESTS) * (len(self.table) - len(self.repeats))

    def rank_curve(self, quantity: str) -> pd.DataFrame:
        """Distribution function of the ranks minus the diagonal, with the band a right engine stays in.

        Columns `rank`, `difference`, `low`, `high`, shares. The band holds with probability 1 - 0.01 / num_tests, so a
        curve that leaves it fails the verdict.
        """
        if quantity not in self.ranks:
            raise ValueError(f"quantity: expected one of {', '.join(self.ranks)}, found {quantity!r}")
        z, number = grid(self.simulations), self.simulations
        low, high = simultaneous_band(number, 1.0 - ERROR_RATE / self.num_tests)
        count = counts_below(self.ranks[quantity].to_numpy())
        shifted = {"difference": count, "low": low, "high": high}
        return pd.DataFrame({"rank": z} | {name: x / number - z for name, x in shifted.items()})

    def __str__(self) -> str:
        lead = "CALIBRATED" if self.ok else "NOT CALIBRATED"
        shared = "; ".join(f"{a} repeats {b}" for a, b in self.repeats.items())
        lines = [
            f"{lead}: model {self.model}, method {self.method}, {self.simulations:,} simulations of {self.design}.",
            f"{self.num_tests} tests share an error rate of 1 % (Holm): {', '.join(TESTS)} of the ranks of each "
            f"quantity{f' ({shared})' if shared else ''}.",
            *self.problems,
            "",
            _printed(self.table),
        ]
        return "\n".join(lines)


def calibrate(
    design: Any,
    simulations: int = 1000,
    *,
    model: str = "rat",
    method: str = "exact",
    priors: Mapping[str, Sequence[float]] | None = None,
    policy: Any = None,
    judge_structure: str = "joint",
    judge_shared: bool = False,
    judge_rates: Mapping[str, float] | None = None,
    systems: int = 1,
    seed: int = 0,
    num_samples: int = 1000,
    num_warmup: int = 300,
    num_chains: int = 1,
    engine: Engine | None = None,
    progress: Progress | None = None,
) -> Calibration:
    """Whether an engine's posteriors are right for a labelling design, tested on simulated data.

    design: mapping from the labelled variables to a number of rows, such as {"RAT": 100, "AT": 100}; or labels
        of one system whose gaps are reused (see `read_design`).
    simulations: data sets, at least 20. 500 are enough to flag draws that are a tenth too narrow.
    model, method, priors, policy, judge_structure, judge_shared, judge_rates: as in `fit`. Parameters are simulated
        from the priors, so very flat priors test very extreme systems too. The judge model has the judges that the
        design names (R_J, T_J, T_J.second, ...). Models other than "rat" need method="nuts".
    systems: with judge_shared, how many systems of this design share the error table in each simulation; ranks are
        those of the first.
    num_samples, num_warmup, num_chains: per data set. Draws of a chain are thinned until nearly independent.
    engine: a function with the signature of `rat_jax.inference.settings.Engine`, tested instead of `method`.
    progress: called with (data sets done, data sets in all).

    The chance that a right engine is flagged by any test is at most 1 % (Holm over all tests, which are exact except
    that draws of a chain are only nearly independent). Coverage is shown with 95 % intervals of its own, one in twenty
    of which misses by design; it is no separate test, since the ranks it is made of are tested.

    Raises ValueError for a design, model, method, prior or number that cannot be used.

    >>> import rat_jax as rat
    >>> from rat_jax.studies.calibrate import calibrate
    >>> result = calibrate({"RAT": 30, "AT": 30}, simulations=100)
    >>> result.ok
    True
    >>> bool(result.table.loc["p_G", "mae"] < 0.06)
    True
    """
    network = _network(model, design, judge_structure, judge_shared, judge_rates)
    systems = _group_size(network, systems)
    design = read_design(design, network)
    simulations, settings = _number(simulations), Settings(num_warmup, num_samples, num_chains)
    prior = concentrations(network, priors)
    policies = dict(network.policies)
    if policy is not None:
        policies["p_G"] = Policy("custom", tuple(state_weights(network, policy)))
    seed = checked_seed(seed)
    streams = np.random.SeedSequence(seed % 2**64).spawn(2)
    cells = draw_cells(network, prior, simulations * systems, np.random.default_rng(streams[0]))
    cells = cells.reshape(simulations, systems, -1)
    cells[..., network.is_shared] = cells[:, :1, network.is_shared]
    data_rng, tie_rng = (np.random.default_rng(s) for s in streams[1].spawn(2))
    truths, ranks, means = [], [], []
    for number, part in enumerate(_parts(simulations)):
        simulated = simulate_counts(network, cells[part].reshape(-1, network.num_cells), design, data_rng)
        table = count_table(network, simulated)
        chosen = (getattr(engine, "__name__", "custom"), engine) if engine else choose(method, network, table, prior)
        name, run = chosen
        draws = run(Problem(network, table, prior, policies, systems), seed + number, settings, None)
        every = slice(None, None, systems)
        first = replace(draws, cells=draws.cells[every], stats={k: v[every] for k, v in draws.stats.items()})
        of_first = table.take(np.arange(len(table.systems))[every])
        truth, rank, mean = _compare(network, policies, of_first, cells[part, 0], first, tie_rng)
        truths.append(truth)
        ranks.append(rank)
        means.append(mean)
        if progress is not None:
            progress(part.stop, simulations)
    truth, rank, mean = (pd.concat(frames, ignore_index=True) for frames in (truths, ranks, means))
    varying = [name for name in truth if np.ptp(truth[name]) > 0]  # a rate that is given has nothing to rank
    truth, rank, mean = truth.filter(varying), rank.filter(varying), mean.filter(varying)
    return _judge(design, network.name, name, seed, truth, rank, mean)


def _network(model: str, design: Any, structure: str, shared: bool, rates: Mapping[str, float] | None) -> Network:
    if isinstance(design, Mapping):
        named = [name for key in design for name in (re.split(r"[+,\s]+", key) if isinstance(key, str) else key)]
    elif isinstance(design, Design):
        named = [name for names in design.labelled for name in names]
    else:
        named = [v for v in (design if isinstance(design, Labels) else read_labels(design)).variables]
    judges = [name for name in dict.fromkeys(map(str, named)) if is_judge(name)]
    return network_of(
        declare(
            model,
            variables=["R", "A", "T", *judges],
            judge_structure=structure,
            judge_shared=shared,
            judge_rates=rates,
        )
    )


def _group_size(network: Network, systems: Any) -> int:
    if isinstance(systems, bool) or not isinstance(systems, int | np.integer) or systems < 1:
        raise ValueError(f"systems: expected a whole number >= 1, found {systems!r}")
    if systems > 1 and not network.is_shared.any():
        raise ValueError("systems: several systems per simulation need judge_shared=True; without it they are apart")
    return int(systems)


def _number(simulations: Any) -> int:
    if isinstance(simulations, bool) or not isinstance(simulations, int | np.integer) or simulations < FEWEST:
        raise ValueError(f"simulations: expected a whole number >= {FEWEST}, found {simulations!r}")
    return int(simulations)


def _parts(simulations: int) -> Iterator[slice]:
    edges = np.linspace(0, simulations, -(-simulations // AT_ONCE) + 1).round().astype(int)
    return (slice(int(a), int(b)) for a, b in zip(edges[:-1], edges[1:], strict=True))


def _compare(
    network: Network,
    policies: Mapping[str, Policy],
    table: CountTable,
    cells: np.ndarray,
    draws: Draws,
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Truth, rank of the truth and posterior mean of every quantity, [data set, quantity] each."""
    shape = draws.cells.shape[:3]
    drawn = draws.cells.reshape(len(cells), -1, network.num_cells)
    sampled = elements(network, policies, drawn) | {LOG_LIKELIHOOD: _log_likelihoods(network, table, drawn)}
    truth = elements(network, policies, cells[:, None])
    truth[LOG_LIKELIHOOD] = _log_likelihoods(network, table, cells[:, None])
    step = _thinning([x.reshape(shape) for x in sampled.values()]) if draws.stats else 1
    ranks = {
        name: unit_ranks(truth[name][:, 0], x.reshape(shape)[:, :, step - 1 :: step].reshape(len(cells), -1), rng)
        for name, x in sampled.items()
    }
    means = {name: values.mean(axis=1) for name, values in sampled.items()}
    return pd.DataFrame({name: x[:, 0] for name, x in truth.items()}), pd.DataFrame(ranks), pd.DataFrame(means)


def _thinning(draws: list[np.ndarray]) -> int:
    """Distance between draws of a chain that are nearly independent: twice the slowest quantity's effective distance.

    draws: [B, C, D] per quantity.
    """
    _, num_chains, num_draws = draws[0].shape
    size = min(np.median(convergence(values).ess_bulk) for values in draws)
    return int(np.clip(np.ceil(2 * num_chains * num_draws / size), 1, num_draws // 2))


def _log_likelihoods(network: Network, table: CountTable, cells: np.ndarray) -> np.ndarray:
    """Log likelihood of each data set at its own parameters, [B, D], from cells [B, D, M]."""
    return np.stack(
        [
            log_likelihood(network, own, table.masks, counts)
            for own, counts in zip(cells, table.mask_counts, strict=True)
        ]
    )


def _judge(
    design: Design, model: str, method: str, seed: int, truth: pd.DataFrame, ranks: pd.DataFrame, mean: pd.DataFrame
) -> Calibration:
    repeats = _repeats(truth)
    ranks = ranks.assign(**{name: ranks[first] for name, first in repeats.items()})  # ties were broken at random
    p_values = {name: rank_tests(ranks[name].to_numpy()) for name in ranks}
    adjusted = holm({(n, t): p for n, tests in p_values.items() if n not in repeats for t, p in tests.items()})
    rows = {}
    for name in ranks:
        error = (mean[name] - truth[name]).to_numpy()
        rows[name] = {
            "bias": error.mean(),
            "bias_se": error.std(ddof=1) / np.sqrt(len(error)),
            "mae": np.abs(error).mean(),
            **coverage(ranks[name].to_numpy()),
            **{f"p_{test}": p for test, p in p_values[name].items()},
            "p_adjusted": min(adjusted[repeats.get(name, name), test] for test in TESTS),
        }
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("quantity")
    problems = tuple(_problem(*key, p, np.asarray(ranks[key[0]])) for key, p in adjusted.items() if p <= ERROR_RATE)
    return Calibration(design, model, method, len(ranks), seed, table, ranks, repeats, problems)


def _repeats(truth: pd.DataFrame) -> dict[str, str]:
    """Quantities that are another quantity under a second name (p_R is theta_R)."""
    names = list(truth)
    same: Callable[[str, str], bool] = lambda a, b: np.allclose(truth[a], truth[b], rtol=1e-12, atol=0)  # noqa: E731
    first = {b: next(a for a in names if a == b or same(a, b)) for b in names}
    return {b: a for b, a in first.items() if a != b}


def _problem(quantity: str, test: str, p: float, ranks: np.ndarray) -> str:
    centre, spread = normal_moments(ranks)
    meaning = {
        "band": "the ranks of the truth are not uniform",
        "location": f"the posterior lies too {'low' if centre > 0 else 'high'}",
        "spread": f"the posterior is too {'narrow' if spread > 1 else 'wide'}",
    }
    return f"{quantity}: {meaning[test]} (adjusted p {p:.1e})."


def _printed(table: pd.DataFrame) -> str:
    lines = [f"{'quantity':<22}{'bias':>9}{'+-':>8}{'mae':>9}{'in 50 %':>9}{'in 80 %':>9}{'in 95 %':>9}{'p':>9}"]
    for name, row in table.iterrows():
        covered = "".join(f"{row[f'coverage_{level}']:>9.1%}" for level in (50, 80, 95))
        figures = f"{row['bias']:>9.4f}{row['bias_se']:>8.4f}{row['mae']:>9.4f}"
        lines.append(f"{name:<22}{figures}{covered}{row['p_adjusted']:>9.2g}")
    return "\n".join(lines)
