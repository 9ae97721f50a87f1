"""What is told of a suite: a table, geometric means, the cases where we are behind; and kept as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from .harness import OURS, CaseResult
from .memory import SLACK

RESULTS = Path(__file__).parent / "results"
MOST = 5.0  # what a ratio counts for in the capped mean
BEHIND = 0.95  # ratios below this are named
PEAK_SLACK = 0.01  # by which peaks of memory may differ for Python's own objects
HARD = 0.15  # of copy bandwidth: where the best peer stays below it, it is a hard case


def report(suite: str, results: list[CaseResult], facts: dict[str, Any], keep: bool) -> None:
    """Print the table and the summary; with `keep`, write the file of the suite."""
    print_table(results)
    totals = summary(results)
    print_summary(totals)
    if not keep:
        return
    RESULTS.mkdir(exist_ok=True)
    document = {
        "suite": suite,
        "machine": facts,
        "summary": totals,
        "results": [asdict(result) | _derived(result) for result in results],
    }
    file = file_of(suite, facts)
    file.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"kept in {file.relative_to(RESULTS.parent.parent)}")


def file_of(suite: str, facts: dict[str, Any]) -> Path:
    """SUITE.json among the results; where that is of another Python than ours, SUITE-3.12.json, say."""
    file = RESULTS / f"{suite}.json"
    ours = _minor(facts)
    if not ours or not file.exists():
        return file
    theirs = _minor(json.loads(file.read_text(encoding="utf-8"))["machine"])
    return RESULTS / f"{suite}-{ours}.json" if theirs and theirs != ours else file


def _minor(facts: dict[str, Any]) -> str:
    """3.12 of 3.12.1; empty where the facts do not tell."""
    return ".".join(facts.get("python", "").split(".")[:2])


def kept(suite: str, facts: dict[str, Any]) -> list[CaseResult]:
    """The results in the file of the suite; none if another machine or other versions gave them."""
    file = file_of(suite, facts)
    if not file.exists():
        return []
    document = json.loads(file.read_text(encoding="utf-8"))
    same = ("processor", "blas", "threads", "versions")
    if any(document["machine"].get(fact) != facts.get(fact) for fact in same):
        return []
    names = [field.name for field in fields(CaseResult)]
    return [  # of a field that came later an old file says nothing
        CaseResult(**{name: x[name] for name in names if name in x}) for x in document["results"]
    ]


def summary(results: list[CaseResult]) -> dict[str, Any]:
    """Geometric means over the cases that have the figure; None where none has."""
    ratios = {result.name: r for result in results if (r := result.ratio()) is not None}
    hard = [ratios[result.name] for result in results if result.name in ratios and _hard(result)]
    to_numpy = {result.name: r for result in results if (r := result.ratio_to("numpy"))}
    fractions = [f for result in results if (f := _our_fraction(result)) is not None]
    peaks = {result.name: r for result in results if (r := result.peak_over_peer()) is not None}
    beside = {result.name: r for result in results if (r := result.peak_over_best()) is not None}
    above = {result.name: t for result in results if (t := result.over_roofline()) is not None}
    return {
        "best_peer_over_ours": geometric_mean(list(ratios.values())),
        "best_peer_over_ours_capped": geometric_mean([min(MOST, r) for r in ratios.values()]),
        "time_over_roofline": geometric_mean(list(above.values())),
        "below_roofline": _below_roofline(results),
        "peak_above_predicted": {
            result.name: result.peak_over_predicted() for result in results if _above(result)
        },
        "peak_over_least_of_peers": geometric_mean(list(peaks.values())),
        "peak_above_peers": {name: r for name, r in peaks.items() if r > 1 + PEAK_SLACK},
        "peak_over_best_peer": geometric_mean(list(beside.values())),
        "peak_above_best_peer": {name: r for name, r in beside.items() if r > 1 + PEAK_SLACK},
        "sets": _sets(results),
        "copy_fraction": geometric_mean(fractions),
        "hard_cases": len(hard),
        "best_peer_over_ours_hard": geometric_mean(hard),
        "peers": {who: _beside(who, results) for who in _peers(results)},
        "behind": {name: r for name, r in ratios.items() if r < BEHIND},
        "numpy_over_ours": geometric_mean(list(to_numpy.values())),
        "behind_numpy": {name: r for name, r in to_numpy.items() if r < BEHIND},
    }


def geometric_mean(values: list[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def print_table(results: list[CaseResult]) -> None:
    width = max(len(result.name) for result in results)
    names = list(dict.fromkeys(who for result in results for who in result.seconds))
    headings = " ".join(f"{who:>18}" for who in names)
    print(f"{'':{width}} {headings}  best peer/ours     GB/s  of copy  /roofline")
    for result in results:
        if not result.seconds:
            for who, outcome in result.facts.items():
                print(f"{result.name:{width}} {who}: {outcome}")
            continue
        cells = [
            f"{result.seconds[who] * 1e3:>15.4f} ms" if who in result.seconds else f"{'-':>18}"
            for who in names
        ]
        figures = (
            f"{_two(result.ratio()):>14} {_two(result.gbytes()):>8} {_two(_our_fraction(result)):>8} "
            f"{_two(result.over_roofline()):>10}"
        )
        print(f"{result.name:{width}} {' '.join(cells)}  {figures}")
    for result in results:
        for who, reason in result.failed.items():
            print(f"{result.name}: {who} left out: {reason}")


def print_summary(totals: dict[str, Any]) -> None:
    if totals["best_peer_over_ours"] is not None:
        print(
            f"geometric mean of best peer/ours: {_two(totals['best_peer_over_ours'])}; "
            f"with a ratio counting at most {MOST:g}: {_two(totals['best_peer_over_ours_capped'])}"
        )
        print(f"below {BEHIND}: {_named(totals['behind'])}")
    if len(totals["peers"]) > 1:
        for who, beside in totals["peers"].items():
            print(
                f"  {who}/ours: {_two(beside['over_ours'])} in {beside['cases']} cases; "
                f"below {BEHIND}: {_named(beside['behind'])}"
            )
    if totals["numpy_over_ours"] is not None:
        print(
            f"geometric mean of numpy/ours: {_two(totals['numpy_over_ours'])}; "
            f"below {BEHIND}: {_named(totals['behind_numpy'])}"
        )
    for name, figures in totals["sets"].items():
        over = ", ".join(f"{who}/ours {_two(ratio)}" for who, ratio in figures["over_ours"].items())
        print(f"  {name}: best peer/ours {_two(figures['best_peer_over_ours'])}, {over}")
    if totals["time_over_roofline"] is not None:
        print(f"geometric mean of time/roofline: {_two(totals['time_over_roofline'])}")
    if totals["below_roofline"]:
        print(f"below the roofline, a rate is taken too low: {_named(totals['below_roofline'])}")
    if totals["peak_over_least_of_peers"] is not None:
        print(f"peak of memory above the predicted: {_named(totals['peak_above_predicted'])}")
        print(
            f"geometric mean of peak/least of the peers: "
            f"{_two(totals['peak_over_least_of_peers'])}; above: {_named(totals['peak_above_peers'])}"
        )
        print(
            f"geometric mean of peak/best peer's: {_two(totals['peak_over_best_peer'])}; "
            f"above: {_named(totals['peak_above_best_peer'])}"
        )
    if totals["copy_fraction"] is not None:
        print(f"geometric mean of the fraction of copy bandwidth: {_two(totals['copy_fraction'])}")
        print(
            f"best peer below {HARD} of copy bandwidth: {totals['hard_cases']} cases, geometric mean "
            f"of best peer/ours there: {_two(totals['best_peer_over_ours_hard'])}"
        )


def _named(ratios: dict[str, float]) -> str:
    return ", ".join(f"{name} ({_two(ratio)})" for name, ratio in ratios.items()) or "none"


def _our_fraction(result: CaseResult) -> float | None:
    return result.copy_fraction(result.seconds.get(OURS))


def _peers(results: list[CaseResult]) -> list[str]:
    return list(
        dict.fromkeys(
            who for result in results for who in result.seconds if result.ratio_to(who) is not None
        )
    )


def _beside(peer: str, results: list[CaseResult]) -> dict[str, Any]:
    """That peer's seconds over ours: of how many cases, the geometric mean, and where we are behind."""
    ratios = {result.name: r for result in results if (r := result.ratio_to(peer)) is not None}
    return {
        "cases": len(ratios),
        "over_ours": geometric_mean(list(ratios.values())),
        "behind": {name: r for name, r in ratios.items() if r < BEHIND},
    }


def _sets(results: list[CaseResult]) -> dict[str, Any]:
    """For each set of cases that `facts` names: geometric means of the best peer and of each baseline, over
    ours."""
    sets: dict[str, list[CaseResult]] = {}
    for result in results:
        if "set" in result.facts:
            sets.setdefault(result.facts["set"], []).append(result)
    return {
        name: {
            "cases": len(members),
            "best_peer_over_ours": geometric_mean([r for x in members if (r := x.ratio())]),
            "over_ours": {
                who: geometric_mean([x.paired[who] for x in members if who in x.paired])
                for who in dict.fromkeys(who for x in members for who in x.baselines)
            },
        }
        for name, members in sets.items()
    }


def _above(result: CaseResult) -> bool:
    """Whether more memory was used than predicted, beyond Python's own objects."""
    ours, predicted = result.peaks.get(OURS), result.predicted_peak
    return ours is not None and predicted is not None and ours > predicted + SLACK


def _below_roofline(results: list[CaseResult]) -> dict[str, float]:
    """Times over the roofline, of any contender, that should not be."""
    return {
        f"{result.name} {who}": t
        for result in results
        for who in result.seconds
        if (t := result.over_roofline(who)) is not None and t < 1
    }


def _hard(result: CaseResult) -> bool:
    fraction = result.copy_fraction(result.best_peer())
    return fraction is not None and fraction < HARD


def _derived(result: CaseResult) -> dict[str, float | None]:
    return {
        "ratio": result.ratio(),
        "time_over_roofline": result.over_roofline(),
        "peak_over_predicted": result.peak_over_predicted(),
        "peak_over_peer": result.peak_over_peer(),
        "peak_over_best": result.peak_over_best(),
        "gbytes": result.gbytes(),
        "copy_fraction": _our_fraction(result),
        "best_peer_copy_fraction": result.copy_fraction(result.best_peer()),
    }


def _two(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
