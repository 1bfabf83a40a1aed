"""The paper's Table 5 reproduced: what 0, 500 or 5,000 judged rows add to 200 rows with every label.

    python benchmarks/table5.py --replicates 500 --out table5.jsonl [--json table5.json]

Apertus on HotpotQA with hybrid retrieval. Rows are drawn at the published parameters (Table 2), verdicts at the
published error rates (Table 4, independent given the truth). The added rows carry A, R_J and T_J. Three readings of
the same rows: `joint` learns the judge's errors from the base rows, `fixed` takes Table 4's rates as known, `A alone`
drops the verdicts. Widths are of 95 % intervals, MAE is of the posterior mean against the truth; +- are standard
errors over replicates. Finished chunks are kept in --out: a run that was killed goes on from there to the same numbers.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import numpyro
import pandas as pd

import rat_jax as rat
from rat_jax.inference.verdict import LARGEST_R_HAT, judge_sampling

PAPER = Path(__file__).parent.parent / "tests" / "data" / "paper"
CONFIGURATION = {"dataset": "HotpotQA", "retriever": "hybrid", "generator": "Apertus"}
BASE = 200
ADDED = (0, 500, 5000)
READINGS = ("joint", "fixed", "A alone")
QUANTITIES = ("p_G", "p_T")
LABELS = ("R", "A", "T", "R_J", "T_J")
COMPILING = "/jax/core/compile/backend_compile_duration"


@dataclass(frozen=True)
class Settings:
    """What the numbers depend on, beside the number of replicates; replicates of one chunk share a batch."""

    seed: int = 0
    chunk: int = 50
    num_warmup: int = 1000
    num_samples: int = 1000
    num_chains: int = 4


def published() -> tuple[dict[str, float], dict[str, float], pd.DataFrame]:
    """The five thetas, the judge's rates, and Table 5 by n_add."""
    names = ("table1_marginals", "table2_conditionals", "table4a_retrieval_judge", "table4b_task_judge")
    marginals, conditionals, judge_r, judge_t = map(_row, names)
    thetas = {"theta_R": marginals["p_R"]}
    thetas |= {name: conditionals[name] for name in conditionals.index if name.startswith("theta")}
    rates = {f"{kind}_{label}": row[kind] for label, row in (("R", judge_r), ("T", judge_t)) for kind in ("tpr", "fpr")}
    return thetas, rates, pd.read_csv(PAPER / "table5_judge_impact.csv").set_index("n_add")


def _row(name: str) -> pd.Series:
    table = pd.read_csv(PAPER / f"{name}.csv")
    here = [table[column] == value for column, value in CONFIGURATION.items() if column in table]
    return table[np.logical_and.reduce(here)].iloc[0]


def truth(thetas: dict[str, float]) -> dict[str, float]:
    """p_G and p_T of the system."""
    r, answered = thetas["theta_R"], {k: 1 - thetas[f"theta_A_{k}"] for k in ("minus", "plus")}
    right = r * answered["plus"] * thetas["theta_T_plus"]
    lucky = (1 - r) * answered["minus"] * thetas["theta_T_minus"]
    return {"p_G": right + (1 - r) * thetas["theta_A_minus"], "p_T": right + lucky}


def simulated(thetas: dict[str, float], rates: dict[str, float], seed: int, replicate: int) -> np.ndarray:
    """All rows of one replicate with all labels, [BASE + most added, R A T R_J T_J]; fewer added rows are its head."""
    rng = np.random.default_rng([seed, replicate])
    u = rng.random((BASE + max(ADDED), 5))
    r = u[:, 0] < thetas["theta_R"]
    a = u[:, 1] < np.where(r, thetas["theta_A_plus"], thetas["theta_A_minus"])
    t = ~a & (u[:, 2] < np.where(r, thetas["theta_T_plus"], thetas["theta_T_minus"]))
    r_j = u[:, 3] < np.where(r, rates["tpr_R"], rates["fpr_R"])
    t_j = u[:, 4] < np.where(t, rates["tpr_T"], rates["fpr_T"])
    return np.stack([r, a, t, r_j, t_j], axis=1).astype(int)


def label_table(rows: np.ndarray, added: int, replicate: int) -> pd.DataFrame:
    """One replicate as counted rows of a system of its own; R and T of the added rows are hidden."""
    table = pd.DataFrame(rows[: BASE + added], columns=list(LABELS), dtype="Int64")
    table.loc[BASE:, ["R", "T"]] = pd.NA
    table = table.value_counts(dropna=False, sort=False).rename("count").reset_index()
    return table.assign(system=f"{replicate:05d}")


def fit_reading(reading: str, table: pd.DataFrame, rates: dict[str, float], settings: Settings) -> rat.Posterior:
    """The posterior of every replicate of a chunk under one reading of its rows."""
    chains = {k: v for k, v in asdict(settings).items() if k.startswith("num_")}
    options: dict[str, Any] = {"seed": settings.seed, "on_failure": "keep", **chains}
    if reading == "A alone":  # exact: 5,000 rows with A alone leave chains a ridge on which some diverge
        return rat.fit(table.drop(columns=["R_J", "T_J"]), method="exact", **options)
    if reading == "fixed":
        return rat.fit(table, model="judge", judge_structure="fixed", judge_rates=rates, **options)
    return rat.fit(table, model="judge", **options)


class CompileClock:
    """Seconds that JAX has spent compiling since it was last read."""

    def __init__(self) -> None:
        self.seconds = 0.0
        jax.monitoring.register_event_duration_secs_listener(self._heard)

    def _heard(self, event: str, duration: float, **_: Any) -> None:
        if event == COMPILING:
            self.seconds += duration

    def read(self) -> float:
        """The seconds, and back to zero."""
        seconds, self.seconds = self.seconds, 0.0
        return seconds


def measured(posterior: rat.Posterior) -> list[dict[str, Any]]:
    """One record per replicate: what is asked for, and the health of its chains if it has any."""
    summary, records = posterior.summary(), []
    for system in posterior.systems:
        own, record = summary.loc[[system]], {"replicate": int(system)}
        for name in QUANTITIES:
            row = own.loc[(system, name)]
            record |= {f"{name}_mean": float(row["mean"]), f"{name}_width": float(row["q97.5"] - row["q2.5"])}
        record["min_ess"] = float(own[["ess_bulk", "ess_tail"]].to_numpy().min())
        records.append(record | (_chains(posterior, own, system) if posterior.sample_stats is not None else {}))
    return records


def _chains(posterior: rat.Posterior, own: pd.DataFrame, system: str) -> dict[str, Any]:
    names = ("diverging", "tree_depth", "n_steps")
    stats = {name: posterior.sample_stats[name].sel(system=[system]).to_numpy() for name in names}
    sampling = judge_sampling(own, stats, posterior.provenance["max_tree_depth"])
    health = {"max_r_hat": sampling.max_r_hat, "divergences": sampling.divergences}
    return health | {"steps": float(stats["n_steps"].mean()), "problems": list(sampling.problems)}


# -- chunks, kept ---------------------------------------------------------------------------------------


def chunks(replicates: int, added: Sequence[int], readings: Sequence[str], settings: Settings) -> Iterator[tuple]:
    """Every piece of work: (reading, n_add, its replicates)."""
    for start in range(0, replicates, settings.chunk):
        for reading in readings:
            for n in added:
                yield reading, n, range(start, min(start + settings.chunk, replicates))


def run(
    replicates: int,
    settings: Settings,
    *,
    added: Sequence[int] = ADDED,
    readings: Sequence[str] = READINGS,
    out: Path | None = None,
    say: Any = lambda text: None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Records of all replicates and the times of all chunks; chunks found in `out` are not run again."""
    thetas, rates, _ = published()
    done = _opened(out, settings) if out else {}
    clock = CompileClock()
    records, times = [], []
    for reading, n, those in chunks(replicates, added, readings, settings):
        key = (reading, n, those.start, those.stop)
        if key not in done:
            table = pd.concat([label_table(simulated(thetas, rates, settings.seed, b), n, b) for b in those])
            clock.read()
            start = time.perf_counter()
            found = measured(fit_reading(reading, table, rates, settings))
            done[key] = {"key": key, "seconds": time.perf_counter() - start, "compile": clock.read(), "records": found}
            if out:
                _append(out, done[key])
        chunk = done[key]
        say(f"{reading}, n_add {n}, replicates {those.start} to {those.stop - 1}: {chunk['seconds']:.1f} s")
        records += [{"reading": reading, "n_add": n, **record} for record in chunk["records"]]
        times.append({"reading": reading, "n_add": n, "seconds": chunk["seconds"], "compile": chunk["compile"]})
    return pd.DataFrame(records), pd.DataFrame(times)


def _header(settings: Settings) -> dict[str, Any]:
    versions = {"jax": jax.__version__, "numpyro": numpyro.__version__, "numpy": np.__version__}
    return {"settings": asdict(settings), "rat_jax": rat.__version__, **versions, "device": jax.devices()[0].platform}


def _opened(out: Path, settings: Settings) -> dict[tuple, dict[str, Any]]:
    """Finished chunks of an earlier run; a line cut short by a kill is dropped."""
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True) if out.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    if not whole:
        out.write_text(json.dumps(_header(settings)) + "\n", encoding="utf-8")
        return {}
    if (found := json.loads(whole[0])) != _header(settings):
        raise SystemExit(f"{out} was made with {found}, not {_header(settings)}; give another --out")
    if len(whole) < len(lines):
        out.write_text("".join(whole), encoding="utf-8")
    kept = [json.loads(line) for line in whole[1:]]
    return {tuple(chunk["key"]): chunk for chunk in kept}


def _append(out: Path, chunk: dict[str, Any]) -> None:
    with out.open("a", encoding="utf-8") as file:
        file.write(json.dumps(chunk) + "\n")
        file.flush()
        os.fsync(file.fileno())


# -- what comes out -------------------------------------------------------------------------------------


def compared(records: pd.DataFrame) -> pd.DataFrame:
    """Width and MAE by reading, n_add and quantity, with standard errors, beside the paper's where it has them."""
    thetas, _, table5 = published()
    right, rows = truth(thetas), []
    for (reading, n), group in records.groupby(["reading", "n_add"], sort=False):
        for name in QUANTITIES:
            width, error = group[f"{name}_width"], (group[f"{name}_mean"] - right[name]).abs()
            row = {"reading": reading, "n_add": n, "quantity": name, "replicates": len(group)}
            row |= {"width": width.mean(), "width_se": _standard_error(width)}
            row |= {"mae": error.mean(), "mae_se": _standard_error(error)}
            if reading == "joint" and n in table5.index:
                row |= {"paper_width": table5.loc[n, f"{name}_ci_width"], "paper_mae": table5.loc[n, f"{name}_mae"]}
            rows.append(row)
    return pd.DataFrame(rows).set_index(["reading", "n_add", "quantity"])


def _standard_error(values: pd.Series) -> float:
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def health(records: pd.DataFrame, times: pd.DataFrame) -> list[dict[str, Any]]:
    """Speed and the state of the chains by reading and n_add, replicates with a bad verdict by name."""
    rows = []
    for (reading, n), group in records.groupby(["reading", "n_add"], sort=False):
        spent = times[(times["reading"] == reading) & (times["n_add"] == n)].sum(numeric_only=True)
        seconds = float(spent["seconds"] - spent["compile"])
        row = {"reading": reading, "n_add": int(n), "replicates": len(group), "compile_s": float(spent["compile"])}
        row |= {"seconds": seconds, "fits_per_s": len(group) / seconds, "ess_per_s": group["min_ess"].sum() / seconds}
        row |= {"min_ess": float(group["min_ess"].min()), "median_ess": float(group["min_ess"].median())}
        rows.append(row | (_health_of_chains(group) if reading != "A alone" else {}))
    return rows


def _health_of_chains(group: pd.DataFrame) -> dict[str, Any]:
    bad = group[group["problems"].map(len) > 0]
    return {
        "steps": float(group["steps"].mean()),
        "max_r_hat": float(group["max_r_hat"].max()),
        "share_over": float((group["max_r_hat"] > LARGEST_R_HAT).mean()),
        "divergences": int(group["divergences"].sum()),
        "divergent_replicates": int((group["divergences"] > 0).sum()),
        "bad": {int(b): problems for b, problems in zip(bad["replicate"], bad["problems"], strict=True)},
    }


def printed(table: pd.DataFrame, states: Iterable[dict[str, Any]]) -> str:
    """The comparison and the health of the chains, in words and columns."""
    lines = [f"{'reading':9}{'n_add':>6}  {'':4}{'width':>18}{'paper':>8}{'off':>8}{'MAE':>20}{'paper':>8}{'off':>9}"]
    for (reading, n, name), row in table.iterrows():
        line = f"{reading:9}{n:>6}  {name:4}{row['width']:>9.4f} +-{row['width_se']:.4f}"
        told = [" " * 8, " " * 8, f"{row['mae']:>11.4f} +-{row['mae_se']:.4f}"]
        if pd.notna(row.get("paper_width")):
            told[0] = f"{row['paper_width']:>8.4f}"
            told[1] = f"{row['width'] / row['paper_width'] - 1:>+8.1%}"
            off = (row["mae"] - row["paper_mae"]) / row["mae_se"]
            told.append(f"{row['paper_mae']:>8.4f}{off:>+6.1f} se")
        lines.append(line + "".join(told))
    lines += ["", *_shares(table), ""]
    for state in states:
        lines.append(_state_in_words(state))
        lines += [f"    replicate {b}: {'; '.join(problems)}" for b, problems in state.get("bad", {}).items()]
    return "\n".join(lines)


def _state_in_words(s: dict[str, Any]) -> str:
    parts = [
        f"{s['reading']}, n_add {s['n_add']}: {s['replicates']} fits; compiled {s['compile_s']:.1f} s, then "
        f"{s['seconds']:.1f} s ({s['fits_per_s']:.2f} fits/s, {s['ess_per_s']:,.0f} ESS/s)",
        f"smallest ESS {s['min_ess']:,.0f}, median {s['median_ess']:,.0f}",
    ]
    if "bad" not in s:
        return "; ".join([*parts, "exact"])
    parts += [
        f"{s['steps']:.1f} leapfrog steps a draw",
        f"{s['divergences']} divergences in {s['divergent_replicates']} replicates",
        f"largest R-hat {s['max_r_hat']:.4f}, over {LARGEST_R_HAT} in {s['share_over']:.1%}",
        f"verdict bad in {len(s['bad'])}",
    ]
    return "; ".join(parts)


def _shares(table: pd.DataFrame) -> list[str]:
    """How much of the narrowing comes from the A of the added rows."""
    lines, width = [], table["width"]
    for n in sorted(set(table.index.get_level_values("n_add")) - {0}):
        for name in QUANTITIES:
            wanted = [("joint", 0, name), ("joint", n, name), ("A alone", n, name)]
            if all(key in width.index for key in wanted):
                start, both, alone = (float(width.loc[key]) for key in wanted)
                share = (start - alone) / (start - both)
                lines.append(
                    f"{name}: of the fall from {start:.4f} to {both:.4f} at {n:,} rows, A's share is {share:.0%}"
                )
    return lines


def main() -> None:
    """Run or finish the study, print the comparison, write it as JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replicates", type=int, default=500)
    parser.add_argument("--added", type=int, nargs="*", default=list(ADDED), help="at most 5,000")
    parser.add_argument("--readings", nargs="*", choices=READINGS, default=list(READINGS))
    parser.add_argument("--out", type=Path, help="file that keeps finished chunks (JSON lines)")
    parser.add_argument("--json", type=Path, help="write the comparison and the health of the chains here")
    for name, default in asdict(Settings()).items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    options = parser.parse_args()
    settings = Settings(**{name: getattr(options, name) for name in asdict(Settings())})
    versions = f"Python {platform.python_version()}, jax {jax.__version__}, numpyro {numpyro.__version__}"
    print(f"{versions}, {os.cpu_count()} cores, {jax.devices()[0].platform}\n", flush=True)
    records, times = run(
        options.replicates,
        settings,
        added=options.added,
        readings=options.readings,
        out=options.out,
        say=lambda text: print(text, flush=True),
    )
    table, states = compared(records), health(records, times)
    print("\n" + printed(table, states))
    if options.json:
        rows = json.loads(table.reset_index().to_json(orient="records", double_precision=15))
        document = {**_header(settings), "replicates": options.replicates, "table": rows, "health": states}
        options.json.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
