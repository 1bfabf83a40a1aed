"""What sections 5.1 and 5.2 say of the systems: retrieval, abstention, correctness and what each changes.

Fits of the 27 configurations come in, one claim per statement goes out. Differences between systems count as decided
beyond two standard errors, as if the systems had answered different questions (the paper does not print pairs).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations

import numpy as np
import pandas as pd

from benchmarks.paper.claims import HOLDS, SLIP, Claim, Outcome, Section, below, tally, verdict_of
from benchmarks.paper.configurations import Fits
from benchmarks.paper.published import DATASETS, GENERATORS, RETRIEVERS, ROUNDING, Published, cells

MUCH = 2.0  # "much more", "sharply": at least twice
LOW = 0.10  # "low" abstention where retrieval succeeded
HIGH = 0.80  # "high" success on FEVER without support
SETTINGS = tuple(f"{d}/{r}" for d in DATASETS for r in RETRIEVERS)
EQUAL_ON = "NQ/dense"
EXAMPLE = "HotpotQA/hybrid"


def section(paper: Published, fits: Fits) -> Section:
    """Every checkable statement of sections 5.1 and 5.2."""
    makers: Sequence[Callable[[Published, Fits], Claim]] = (
        best_retriever,
        fever_is_easy_to_retrieve,
        one_relevant_document,
        apertus_seldom_abstains,
        others_abstain_more,
        fever_is_easy_to_answer,
        alike_in_success_not_in_adherence,
        order_of_adherence,
        tell_failure_from_success,
        example_of_abstention,
        abstain_little_with_support,
        support_helps,
        support_helps_most_off_fever,
        fever_without_support,
        equal_success_unequal_adherence,
        driven_by_abstention,
        retrieval_is_not_all,
    )
    text = [
        "Each statement is checked on the fitted posterior means. Words of degree were given a number beforehand: "
        f"'much more' is at least {MUCH:g} times, 'low' is under {LOW:g}, 'high' is over {HIGH:g}."
    ]
    return Section("Sections 5.1 and 5.2: how the systems behave", text, claims=[make(paper, fits) for make in makers])


def _claim(
    number: str,
    claim: str,
    outcomes: Sequence[Outcome],
    ours: str,
    published: str = "stated in words",
    difference: str | None = None,
    calculation: str = "",
) -> Claim:
    where = f"Section {number[:3]}"
    told = tally(outcomes) if difference is None else difference
    return Claim(number, where, claim, published, ours, told, verdict_of(outcomes), calculation)


def best_retriever(paper: Published, fits: Fits) -> Claim:
    """Which retriever finds most, by data set."""
    said, outcomes, told = {"FEVER": "hybrid", "HotpotQA": "sparse", "NQ": "hybrid"}, [], []
    for d, best in said.items():
        for other in RETRIEVERS:
            if other != best:
                gap, se = fits.apart(f"{d}/{other}/Apertus", f"{d}/{best}/Apertus", "p_R")
                outcomes.append(below(gap, se))
                told.append(f"{d} {best} - {other} {-gap:+.3f} ({-gap / se:+.1f} se)")
    claim = "Hybrid retrieval succeeds most on FEVER and NQ, sparse on HotpotQA"
    return _claim("5.1a", claim, outcomes, "; ".join(told))


def fever_is_easy_to_retrieve(paper: Published, fits: Fits) -> Claim:
    """The worst of FEVER against the best elsewhere."""
    worst, best = _over(fits, "p_R", "FEVER").min(), _over(fits, "p_R", "HotpotQA", "NQ").max()
    claim = "Retrieval succeeds far more often on FEVER than on the other two"
    return _claim("5.1b", claim, [worst > best], f"FEVER at least {worst:.3f}, the others at most {best:.3f}")


def one_relevant_document(paper: Published, fits: Fits) -> Claim:
    """Where there is one relevant document, none can be found in part."""
    partial = paper.partial["FEVER"]
    told = ", ".join(f"{r} {n}" for r, n in partial.items())
    return Claim(
        "5.1c",
        "Section 5.1, Table 8",
        "Every FEVER query has a single relevant document",
        "exactly one",
        f"partial retrievals of 10,000: {told}",
        f"up to {partial.max()}",
        SLIP if partial.max() > 0 else HOLDS,
        f"A query with one relevant document cannot be found in part; Table 8 counts {told} such queries. Section 4 "
        "and Appendix C say 'most queries', which agrees with Table 8.",
    )


def apertus_seldom_abstains(paper: Published, fits: Fits) -> Claim:
    """Its largest rate, and where."""
    rates = pd.Series({s: fits.of(s, "p_A")["Apertus"] for s in SETTINGS})
    lowest = [fits.of(s, "p_A").idxmin() == "Apertus" for s in SETTINGS]
    same = rates.idxmax() == "FEVER/dense" and abs(rates.max() - 0.135) < 2 * ROUNDING
    ours = f"lowest in {sum(lowest)} of {len(lowest)} settings; largest {rates.max():.3f} ({rates.idxmax()})"
    claim = "Apertus abstains least everywhere, at most on FEVER with dense retrieval"
    return _claim("5.1d", claim, [*lowest, same], ours, "at most 0.135")


def others_abstain_more(paper: Published, fits: Fits) -> Claim:
    """Ratios to Apertus; half as often again counts as substantial."""
    ratio = {f"{s}/{g}": fits.of(s, "p_A")[g] / fits.of(s, "p_A")["Apertus"] for s in SETTINGS for g in GENERATORS[1:]}
    top = fits.mean["p_A"]
    same = top.idxmax() == "HotpotQA/dense/Qwen3.5" and abs(top.max() - 0.489) < 2 * ROUNDING
    least = min(ratio, key=lambda k: ratio[k])
    ours = (
        f"more often in {sum(x > 1 for x in ratio.values())} of 18; by half or more in "
        f"{sum(x >= 1.5 for x in ratio.values())}; least {ratio[least]:.2f} times ({least}); top {top.max():.3f}"
    )
    claim = (
        "Gemma3 and Qwen3.5 abstain substantially more often than Apertus (by half or more), Qwen3.5 most on HotpotQA"
    )
    return _claim("5.1e", claim, [*(x >= 1.5 for x in ratio.values()), same], ours, "at most 0.489")


def fever_is_easy_to_answer(paper: Published, fits: Fits) -> Claim:
    """The worst of FEVER against the best elsewhere."""
    worst, best = _over(fits, "p_T", "FEVER").min(), _over(fits, "p_T", "HotpotQA", "NQ").max()
    claim = "Answers are correct most often on FEVER"
    return _claim("5.1f", claim, [worst > best], f"FEVER at least {worst:.3f}, the others at most {best:.3f}")


def alike_in_success_not_in_adherence(paper: Published, fits: Fits) -> Claim:
    """Spread over generators of p_G against that of p_T."""
    spread = {q: {s: float(np.ptp(fits.of(s, q))) for s in SETTINGS} for q in ("p_T", "p_G")}
    ratio = {s: spread["p_G"][s] / spread["p_T"][s] for s in SETTINGS}
    least = min(ratio, key=lambda k: ratio[k])
    ours = (
        f"spread of p_G over that of p_T: at least {ratio[least]:.1f} ({least}), "
        f"{MUCH:g} or more in {sum(x >= MUCH for x in ratio.values())} of {len(ratio)} settings"
    )
    claim = "Generators differ much more in policy adherence than in task success"
    return _claim("5.1g", claim, [x >= MUCH for x in ratio.values()], ours)


def order_of_adherence(paper: Published, fits: Fits) -> Claim:
    """Qwen3.5 above Gemma3 above Apertus, each decided."""
    outcomes, open_ones = [], []
    for s in SETTINGS:
        for low, high in (("Gemma3", "Qwen3.5"), ("Apertus", "Gemma3")):
            gap, se = fits.apart(f"{s}/{low}", f"{s}/{high}", "p_G")
            outcomes.append(below(gap, se))
            if outcomes[-1] is None:
                open_ones.append(f"{s} {high} - {low} {-gap:+.3f} ({-gap / se:+.1f} se)")
    ours = "cannot be told apart: " + "; ".join(open_ones) if open_ones else "all decided"
    return _claim("5.1h", "Qwen3.5 adheres to the policy most on every data set, Apertus least", outcomes, ours)


def tell_failure_from_success(paper: Published, fits: Fits) -> Claim:
    """Gap in abstention between failed and successful retrieval."""
    gap = fits.mean["theta_A_minus"] - fits.mean["theta_A_plus"]
    ratio = {f"{s}/{g}": gap[f"{s}/{g}"] / gap[f"{s}/Apertus"] for s in SETTINGS for g in GENERATORS[1:]}
    least = min(ratio, key=lambda k: ratio[k])
    claim = "Abstention tells failed from successful retrieval much more clearly in Gemma3 and Qwen3.5 than in Apertus"
    ours = f"gap theta_A_minus - theta_A_plus is at least {ratio[least]:.1f} times that of Apertus ({least})"
    return _claim("5.2b", claim, [x >= MUCH for x in ratio.values()], ours)


def example_of_abstention(paper: Published, fits: Fits) -> Claim:
    """The six rates quoted for HotpotQA with hybrid retrieval."""
    quoted = {"Apertus": (0.039, 0.005), "Gemma3": (0.270, 0.021), "Qwen3.5": (0.463, 0.036)}
    ours = {
        g: tuple(float(fits.mean.at[f"{EXAMPLE}/{g}", q]) for q in ("theta_A_minus", "theta_A_plus")) for g in quoted
    }
    gaps = [a - b for g in quoted for a, b in zip(ours[g], quoted[g], strict=True)]
    told = "; ".join(f"{g} {a:.3f}, {b:.3f}" for g, (a, b) in ours.items())
    published = "; ".join(f"{g} {a:.3f}, {b:.3f}" for g, (a, b) in quoted.items())
    claim = f"The abstention rates quoted for {EXAMPLE}, without and with support"
    worst = f"largest {max(gaps, key=abs):+.4f}"
    return _claim("5.2c", claim, [abs(x) < 2 * ROUNDING for x in gaps], told, published, worst)


def abstain_little_with_support(paper: Published, fits: Fits) -> Claim:
    """Largest theta_A_plus."""
    rate = fits.mean["theta_A_plus"]
    claim = f"Systems seldom abstain where retrieval succeeded (under {LOW:g})"
    return _claim("5.2d", claim, [x < LOW for x in rate], f"at most {rate.max():.3f} ({rate.idxmax()})")


def support_helps(paper: Published, fits: Fits) -> Claim:
    """theta_T_plus above theta_T_minus in all 27."""
    gap, sd = fits.mean["theta_T_plus"] - fits.mean["theta_T_minus"], _both(fits)
    claim = "Answers given with support are correct more often, in all 27 configurations"
    ours = f"gap {gap.min():.3f} ({gap.idxmin()}) to {gap.max():.3f} ({gap.idxmax()})"
    return _claim("5.2e", claim, [below(-x, s) for x, s in zip(gap, sd, strict=True)], ours)


def support_helps_most_off_fever(paper: Published, fits: Fits) -> Claim:
    """Gap of each generator and retriever on HotpotQA and NQ against that on FEVER."""
    gap = fits.mean["theta_T_plus"] - fits.mean["theta_T_minus"]
    ratio = {
        f"{d}/{r}/{g}": gap[f"{d}/{r}/{g}"] / gap[f"FEVER/{r}/{g}"]
        for d in DATASETS[1:]
        for r in RETRIEVERS
        for g in GENERATORS
    }
    least = min(ratio, key=lambda k: ratio[k])
    claim = "Support matters much more on HotpotQA and NQ than on FEVER"
    return _claim(
        "5.2f", claim, [x >= MUCH for x in ratio.values()], f"at least {ratio[least]:.1f} times the gap ({least})"
    )


def fever_without_support(paper: Published, fits: Fits) -> Claim:
    """Smallest theta_T_minus on FEVER."""
    rate = _over(fits, "theta_T_minus", "FEVER")
    claim = f"On FEVER answers without support are still mostly correct (over {HIGH:g})"
    return _claim("5.2g", claim, [x > HIGH for x in rate], f"at least {rate.min():.3f} ({rate.idxmin()})")


def equal_success_unequal_adherence(paper: Published, fits: Fits) -> Claim:
    """p_T cannot be told apart on NQ dense while every pair of p_G can."""
    pairs = [(f"{EQUAL_ON}/{a}", f"{EQUAL_ON}/{b}") for a, b in zip(GENERATORS, GENERATORS[1:], strict=False)]
    same = [below(*fits.apart(a, b, "p_T")) is None for a, b in pairs]
    apart = [below(*fits.apart(a, b, "p_G")) for a, b in pairs]
    told = {q: ", ".join(f"{x:.3f}" for x in fits.of(EQUAL_ON, q)) for q in ("p_T", "p_G")}
    claim = f"{EQUAL_ON}: task success of the three generators is the same, policy adherence is not"
    ours = f"p_T {told['p_T']} (within two se); p_G {told['p_G']}"
    published = "p_T 0.239, 0.242, 0.243; p_G 0.164, 0.414, 0.496"
    return _claim("5.2h", claim, [*same, *apart], ours, published)


def driven_by_abstention(paper: Published, fits: Fits) -> Claim:
    """Share of the rise in p_G over Apertus that its answers with the other's abstention would have."""
    shares = {}
    for g in GENERATORS[1:]:
        own, other = (fits.mean.loc[f"{EQUAL_ON}/{name}"] for name in ("Apertus", g))
        mixed = dict(own) | {q: other[q] for q in ("theta_A_minus", "theta_A_plus")}
        shares[g] = (_adherence(mixed) - own["p_G"]) / (other["p_G"] - own["p_G"])
    claim = f"{EQUAL_ON}: the difference in adherence comes from abstention rather than from correctness"
    ours = ", ".join(f"{x:.0%} of {g}'s lead over Apertus" for g, x in shares.items())
    calculation = "p_G of Apertus once its two abstention rates are replaced by the other's, its answers kept."
    return _claim("5.2i", claim, [x > 0.5 for x in shares.values()], ours, calculation=calculation)


def retrieval_is_not_all(paper: Published, fits: Fits) -> Claim:
    """Pairs of retrievers: where p_R rises, is there one where p_T, and one where p_G, rises by less?"""
    less, falls = {"p_T": 0, "p_G": 0}, 0
    rises = 0
    for d in DATASETS:
        for g in GENERATORS:
            for a, b in permutations(RETRIEVERS, 2):
                rise, se = fits.apart(f"{d}/{b}/{g}", f"{d}/{a}/{g}", "p_R")
                if rise > 2 * se:
                    gains = {q: fits.apart(f"{d}/{b}/{g}", f"{d}/{a}/{g}", q)[0] for q in less}
                    rises, falls = rises + 1, falls + (gains["p_G"] < 0)
                    less = {q: less[q] + (gains[q] < rise) for q in less}
    claim = "Better retrieval does not by itself bring as much more task success or adherence"
    ours = f"of {rises} rises in p_R, p_T rises by less in {less['p_T']} and p_G in {less['p_G']}; p_G falls in {falls}"
    return _claim("5.2j", claim, [less["p_T"] > 0, less["p_G"] > 0], ours)


def _over(fits: Fits, quantity: str, *datasets: str) -> pd.Series:
    values = fits.mean[quantity]
    return values[[name.split("/")[0] in datasets for name in values.index]]


def _both(fits: Fits) -> pd.Series:
    return np.hypot(fits.sd["theta_T_plus"], fits.sd["theta_T_minus"])


def _adherence(p: dict[str, float]) -> float:
    c = cells(p)
    return c[0, 1, 0] + c[1, 0, 1]
