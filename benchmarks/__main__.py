"""`python -m benchmarks [NAME ...] [--quick] [--full]`: run suites, print ratios, keep JSON in
benchmarks/results.

A suite that comes in parts (linalg, gpu) may be run part by part, as NAME.PART: the figures of that part
replace those that were kept on the same machine. Figures of another Python than the kept ones lie beside
them, as NAME-3.12.json.
--quick takes small sizes, times everything once and keeps nothing: it shows that the suites run.
--full takes published sizes where a suite has scaled ones (tccg), and keeps them under NAME-full.
"""

import os
import sys

# OpenMP's threads spin for a while after their work and would slow whoever is timed next
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

from threadpoolctl import threadpool_limits

from einloom._base.options import num_threads, options

from .harness import CaseResult
from .machine import machine
from .report import kept, report
from .suites import FULL, PARTS, SUITES


def main(arguments: list[str]) -> int:
    quick, full = "--quick" in arguments, "--full" in arguments
    names = [argument for argument in arguments if argument not in ("--quick", "--full")]
    unknown = [name for name in names if name not in SUITES and not _is_part(name)]
    if unknown:
        print(f"no suite {unknown[0]!r}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    # what is timed is what a long run comes to; cold calls are processes of their own
    with options(patience=0), threadpool_limits(num_threads(), user_api="blas"):
        for name in names or SUITES:
            run(name, quick, full and name in FULL)
    return 0


def _is_part(name: str) -> bool:
    suite, _, part = name.partition(".")
    return part in PARTS.get(suite, {})


def run(name: str, quick: bool, full: bool) -> None:
    name, _, part = name.partition(".")
    suite = FULL[name] if full else SUITES[name]
    print(f"== {name}: {suite.__doc__}")
    facts = machine(quick)
    print(
        f"{facts['threads']} threads: GEMM {facts['gemm_gflops']['float64']:.0f} GFLOP/s, copy "
        f"{facts['threaded_copy_gbytes']:.1f} GB/s ({facts['copy_gbytes']:.1f} on one thread), "
        f"kernels of BLAS for {facts['blas'] or 'an unknown processor'}"
    )
    results = []
    for result in PARTS[name][part](quick) if part else suite(quick):
        print(f"  {result.name}", flush=True)
        results.append(result)
    if part and not quick:
        results = merged(kept(name, facts), results)
    was_timed = any(result.seconds for result in results) or name != "gpu"  # there may be no card
    report(f"{name}-full" if full else name, results, facts, keep=was_timed and not quick)


def merged(before: list[CaseResult], found: list[CaseResult]) -> list[CaseResult]:
    """Results with those of the same names replaced."""
    results = {result.name: result for result in before}
    return list((results | {result.name: result for result in found}).values())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
