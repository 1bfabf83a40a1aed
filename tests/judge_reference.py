"""Posteriors of the judge models by brute force, for tests: NumPy and SciPy, nothing shared with the package.

Rows of human and judge labels come in; draws of every parameter and quantity, and their figures with standard
errors, come out. A Gibbs sampler completes the missing labels of all rows that look alike at once, then draws the
parameters given complete rows; `judge_enumeration.py` holds it to exact sums.

The model: P(R) P(A | R) P(T | A, R), T = 0 wherever A = 1, times one or two tables of verdicts per judge.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Row = tuple[int | None, ...]  # R, A, T, the judge columns, how many rows
Systems = Mapping[str, Sequence[Row]]
Priors = Mapping[str, Sequence] | None

THETAS = ("theta_R", "theta_A_minus", "theta_A_plus", "theta_T_minus", "theta_T_plus")
STATES = ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0), (1, 0, 1), (1, 1, 0))
R, A, T = np.array(STATES).T
G = np.array([0, 0, 1, 0, 1, 0])
# Which theta decides each step on the way to a state, and whether it comes out 1.
PATHS = tuple(
    [(0, r), (1 + r, a)] + ([] if a else [(3 + r, t)])
    for r, a, t in STATES
)  # fmt: skip


@dataclass(frozen=True)
class Verdicts:
    """A table of one judge: P(its labels | row), the row depending on the state.

    names: what P(1 | row) of a single label is called, where that is a quantity of its own.
    """

    name: str
    columns: tuple[str, ...]
    row: np.ndarray  # of each state [6]
    known: np.ndarray | None = None  # [rows, outcomes] where the rates are given
    names: tuple[str, ...] = ()

    @property
    def outcomes(self) -> list[tuple[int, ...]]:
        return list(itertools.product((0, 1), repeat=len(self.columns)))

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.row.max()) + 1, len(self.outcomes)


@dataclass(frozen=True)
class Parameters:
    """Draws: thetas [S, C, D, 5], and by table name [S, C, D, rows, outcomes]; shared tables are repeated."""

    systems: tuple[str, ...]
    tables: tuple[Verdicts, ...]
    thetas: np.ndarray
    rates: dict[str, np.ndarray]


@dataclass(frozen=True)
class Figures:
    """Mean, sd, 2.5 % and 97.5 % quantile of a quantity, each with the Monte Carlo standard error of this reference."""

    mean: float
    sd: float
    low: float
    high: float
    mean_se: float
    sd_se: float
    low_se: float
    high_se: float


def verdict_tables(
    columns: Sequence[str], structure: str = "joint", rates: Mapping[str, float] | None = None
) -> tuple[Verdicts, ...]:
    """The tables of every judge found in the column names: R_J and T_J, or R_J.name and T_J.name.

    rates: for structure "fixed", the values of tpr_R, fpr_R, tpr_T, fpr_T (with the judge's suffix, if any).
    """
    tables = []
    for suffix in sorted({c[3:] for c in columns}):
        own = tuple(c for c in ("R_J" + suffix, "T_J" + suffix) if c in columns)
        if structure == "joint":
            tables.append(Verdicts("judge" + suffix, own, np.arange(6)))
            continue
        for column in own:
            truth, letter = (R, "R") if column[0] == "R" else (T, "T")
            row, known, names = truth, None, ()
            if structure == "by_abstention":
                row = 2 * R + A if letter == "R" else np.where(T == 1, 2, A)
                names = [
                    f"{kind}_{letter}_{case}{suffix}" for kind in ("fpr", "tpr") for case in ("answered", "abstained")
                ]
                names = names if letter == "R" else [*names[:2], ""]  # tpr_T is among the rates already
            elif structure == "fixed":
                yes = np.array([(rates or {})[f"{kind}_{letter}{suffix}"] for kind in ("fpr", "tpr")])
                known = np.stack([1 - yes, yes], axis=1)
            tables.append(Verdicts(column, (column,), row, known, tuple(names)))
    return tuple(tables)


def gibbs(
    systems: Systems,
    columns: Sequence[str],
    structure: str = "joint",
    *,
    rates: Mapping[str, float] | None = None,
    shared: bool = False,
    priors: Priors = None,
    chains: int = 64,
    burn: int = 500,
    draws: int = 500,
    thin: int = 1,
    seed: int = 0,
) -> Parameters:
    """Draws by data augmentation, all systems and chains in step: complete the labels, then draw the parameters.

    systems: name -> rows (R, A, T, *columns, count), None where missing. Chains start from the prior.
    shared: one set of verdict tables for all systems. priors: (a, b) by theta, concentrations by table.
    """
    rng = np.random.default_rng(seed)
    tables = verdict_tables(columns, structure, rates)
    entries = _Entries(systems, columns, tables)
    state = _draw_parameters(rng, *entries.nothing(chains), tables, shared, priors)
    kept = []
    for step in range(burn + draws * thin):
        completed = entries.complete(rng, *state)
        state = _draw_parameters(rng, *completed, tables, shared, priors)
        if step >= burn and (step - burn + 1) % thin == 0:
            kept.append(state)
    return _stacked(tuple(systems), tables, kept)


def _stacked(systems: tuple[str, ...], tables: tuple[Verdicts, ...], kept: list) -> Parameters:
    """States [chain, system, ...] of every draw as [system, chain, draw, ...]."""
    thetas = np.stack([theta for theta, _ in kept], axis=2).swapaxes(0, 1)
    rates = {}
    for k, table in enumerate(tables):
        values = np.stack([np.broadcast_to(r[k], (*theta.shape[:2], *table.shape)) for theta, r in kept], axis=2)
        rates[table.name] = values.swapaxes(0, 1)
    return Parameters(systems, tables, thetas, rates)


class _Entries:
    """Distinct rows of every system: what each allows, and the random completion of those that are ambiguous.

    E entries; completed counts are states [C, S, 6] and, per table, [C, S, rows, outcomes].
    """

    def __init__(self, systems: Systems, columns: Sequence[str], tables: tuple[Verdicts, ...]) -> None:
        found: dict[tuple, int] = {}
        for s, rows in enumerate(systems.values()):
            for *labels, count in rows:
                found[s, *labels] = found.get((s, *labels), 0) + int(count or 0)
        keys = [key for key, count in found.items() if count]
        if missing := set(range(len(systems))) - {key[0] for key in keys}:
            raise ValueError(f"every system needs a row: systems number {sorted(missing)} have none")
        self.tables = tables
        self.num_systems = len(systems)
        self.system = np.array([key[0] for key in keys], dtype=int)
        self.counts = np.array([found[key] for key in keys], dtype=np.int64)
        self.is_state = np.array([[agrees(key[1:4], s) for s in STATES] for key in keys], dtype=float).reshape(-1, 6)
        self.first = np.searchsorted(self.system, np.arange(self.num_systems))  # entry of each system
        positions = [[3 + list(columns).index(c) for c in t.columns] for t in tables]
        self.allowed = [  # per table [E, outcomes]
            np.array([[agrees([key[1 + i] for i in at], o) for o in t.outcomes] for key in keys], dtype=float)
            for t, at in zip(tables, positions, strict=True)
        ]
        self.open = self.is_state.sum(axis=1) > 1

    def nothing(self, chains: int) -> tuple[np.ndarray, list[np.ndarray]]:
        """Completed counts before any row is seen."""
        lead = (chains, self.num_systems)
        return np.zeros((*lead, 6)), [np.zeros((*lead, *t.shape)) for t in self.tables]

    def complete(self, rng, thetas: np.ndarray, rates: list[np.ndarray]) -> tuple[np.ndarray, list[np.ndarray]]:
        """Draw how many rows of each entry are in each state, then how they spread over what the judges hid."""
        chains = len(thetas)
        states = np.where(self.is_state > 0, self.counts[:, None], 0)[None].repeat(chains, axis=0)  # [C, E, 6]
        if self.open.any():
            share = state_probabilities(thetas)[:, self.system[self.open]] * self.is_state[self.open]
            for table, allowed, rate in zip(self.tables, self.allowed, rates, strict=True):
                by_state = self._per_entry(rate, self.open)[:, :, table.row]  # [C, E, 6, outcomes]
                share = share * (by_state * allowed[self.open, None]).sum(axis=3)
            states[:, self.open] = _multinomial(rng, self.counts[self.open], share)
        return self._by_system(states), [self._verdicts(rng, k, states, rates[k]) for k in range(len(self.tables))]

    def _verdicts(self, rng, k: int, states: np.ndarray, rate: np.ndarray) -> np.ndarray:
        table, allowed = self.tables[k], self.allowed[k]
        rows = states @ np.eye(table.shape[0])[table.row]  # [C, E, rows]
        number = allowed.sum(axis=1)
        # A judge's silence says nothing of it: such rows are left out.
        counts = rows[..., None] * np.where(number[:, None] == 1, allowed, 0.0)[:, None]  # [C, E, rows, outcomes]
        half = (number > 1) & (number < len(table.outcomes))
        if half.any() and table.known is None:
            share = self._per_entry(rate, half) * allowed[half, None]
            counts[:, half] = _multinomial(rng, rows[:, half].astype(np.int64), share)
        return self._by_system(counts)

    def _by_system(self, counts: np.ndarray) -> np.ndarray:
        """Sums over each system's entries, [C, E, ...] -> [C, S, ...]."""
        return np.add.reduceat(counts, self.first, axis=1)

    def _per_entry(self, rate: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        """Rates [C, S or 1, rows, outcomes] for chosen entries [C, E, rows, outcomes]."""
        return rate[:, self.system[chosen] if rate.shape[1] > 1 else np.zeros(chosen.sum(), int)]


def _multinomial(rng, counts: np.ndarray, share: np.ndarray) -> np.ndarray:
    total = share.sum(axis=-1, keepdims=True)
    return rng.multinomial(np.broadcast_to(counts, share.shape[:-1]), share / total)


def _draw_parameters(rng, states, verdicts, tables, shared, priors) -> tuple[np.ndarray, list[np.ndarray]]:
    """Thetas [C, S, 5] and rates per table [C, S or 1, rows, outcomes] given completed counts."""
    ab = theta_concentrations(priors)
    hits = states @ np.array([[(i, 1) in path for i in range(5)] for path in PATHS], dtype=float)
    misses = states @ np.array([[(i, 0) in path for i in range(5)] for path in PATHS], dtype=float)
    thetas = np.clip(rng.beta(ab[:, 0] + hits, ab[:, 1] + misses), 1e-300, 1 - 1e-16)
    rates = []
    for table, counts in zip(tables, verdicts, strict=True):
        if table.known is not None:
            rates.append(np.broadcast_to(table.known, (len(states), 1, *table.shape)))
            continue
        if shared:
            counts = counts.sum(axis=1, keepdims=True)
        gamma = np.maximum(rng.standard_gamma(table_concentration(table, priors) + counts), 1e-300)
        rates.append(gamma / gamma.sum(axis=-1, keepdims=True))
    return thetas, rates


def theta_concentrations(priors: Priors) -> np.ndarray:
    """Beta (a, b) of the thetas [5, 2]."""
    return np.array([(priors or {}).get(name, (1.0, 1.0)) for name in THETAS], dtype=float)


def table_concentration(table: Verdicts, priors: Priors) -> np.ndarray:
    """Dirichlet concentrations [rows, outcomes]."""
    return np.broadcast_to(np.asarray((priors or {}).get(table.name, 1.0), dtype=float), table.shape)


def agrees(labels: Sequence[int | None], values: Sequence[int]) -> bool:
    return all(seen is None or seen == value for seen, value in zip(labels, values, strict=True))


def state_probabilities(thetas: np.ndarray) -> np.ndarray:
    """P(state) [..., 6] from thetas [..., 5]."""
    either = np.stack([1 - thetas, thetas], axis=-1)
    steps = [[either[..., i, came_out] for i, came_out in path] for path in PATHS]
    return np.stack([np.prod(step, axis=0) for step in steps], axis=-1)


# -- quantities and their figures -----------------------------------------------------------------------


def quantities(parameters: Parameters) -> dict[str, np.ndarray]:
    """Every quantity by name, [S, C, D] or, for a judge's table over (state, verdict), [S, C, D, 6, 4].

    A judge of one label has P(1 | state), [S, C, D, 6].
    """
    states = state_probabilities(parameters.thetas)
    found = {name: parameters.thetas[..., i] for i, name in enumerate(THETAS)}
    found |= {f"p_{label}": states @ is_one for label, is_one in zip("RATG", (R, A, T, G), strict=True)}
    tables = parameters.tables
    for suffix in sorted({t.columns[0][3:] for t in tables}):
        joint = np.ones((*states.shape, 1))
        for table in [t for t in tables if t.columns[0][3:] == suffix]:
            by_state = parameters.rates[table.name][..., table.row, :]
            joint = (joint[..., :, None] * by_state[..., None, :]).reshape(*states.shape, -1)
            for k, column in enumerate(table.columns):
                yes = by_state[..., [outcome[k] == 1 for outcome in table.outcomes]].sum(axis=-1)
                found |= _rates(column, states, yes)
            found |= {name: parameters.rates[table.name][..., i, 1] for i, name in enumerate(table.names) if name}
        found["judge" + suffix] = joint if joint.shape[-1] > 2 else joint[..., 1]
    return found


def _rates(column: str, states: np.ndarray, yes: np.ndarray) -> dict[str, np.ndarray]:
    """What one column of verdicts is worth, from P(1 | state) [..., 6]."""
    letter, suffix = column[0], column[3:]
    truth = R if letter == "R" else T
    tpr = (states * yes * truth).sum(axis=-1) / (states * truth).sum(axis=-1)
    fpr = (states * yes * (1 - truth)).sum(axis=-1) / (states * (1 - truth)).sum(axis=-1)
    return {
        f"tpr_{letter}{suffix}": tpr,
        f"fpr_{letter}{suffix}": fpr,
        f"youden_{letter}{suffix}": tpr - fpr,
        f"p_{letter}J{suffix}": (states * yes).sum(axis=-1),
    }


def scalars(found: Mapping[str, np.ndarray], system: int) -> dict[tuple, np.ndarray]:
    """Every scalar quantity of one system, [C, D], by (name, *position in its table)."""
    flat: dict[tuple, np.ndarray] = {}
    for name, values in found.items():
        for at in np.ndindex(*values.shape[3:]):
            flat[name, *at] = values[(system, slice(None), slice(None), *at)]
    return flat


def figures(draws: np.ndarray) -> Figures:
    """Figures of one quantity from draws [C, D] of independent chains; standard errors from the chains' spread.

    A single chain is taken for independent draws.
    """
    draws = draws.reshape(-1, 1) if len(draws) == 1 else draws
    mean, sd = draws.mean(), draws.std()
    mean_se = _batch_error(draws)
    sd_se = _batch_error((draws - mean) ** 2) / (2 * sd) if sd > 0 else 0.0
    ends = []
    for p in (0.025, 0.975):
        point = np.quantile(draws, p)
        off = max(_batch_error(draws <= point), 1 / draws.size)
        low, high = np.quantile(draws, np.clip([p - off, p + off], 0, 1))
        ends.append((float(point), float(high - low) / 2))
    (low, low_se), (high, high_se) = ends
    return Figures(float(mean), float(sd), low, high, mean_se, sd_se, low_se, high_se)


def drift(draws: np.ndarray) -> float:
    """How far the later half of the chains [C, D] has moved from the earlier one, in standard errors."""
    half = draws.shape[1] // 2
    gap = draws[:, half:].mean(axis=1) - draws[:, :half].mean(axis=1)
    return float(gap.mean() / (gap.std(ddof=1) / np.sqrt(len(gap))))


def _batch_error(draws: np.ndarray) -> float:
    return float(draws.mean(axis=1).std(ddof=1) / np.sqrt(len(draws)))
