"""`python -m benchmarks [NAME ...]`: run suites, print ratios, keep JSON in benchmarks/results."""

import os
import sys

# OpenMP's threads spin for a while after their work and would slow whoever is timed next
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

from .harness import machine, report
from .suites import SUITES


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in SUITES]
    if unknown:
        print(f"no suite {unknown[0]!r}; there are {', '.join(SUITES)}", file=sys.stderr)
        return 2
    for name in names or SUITES:
        print(f"== {name}: {SUITES[name].__doc__}")
        facts = machine()
        print(f"GEMM {facts['gemm_gflops']:.0f} GFLOP/s, copy {facts['copy_gbytes']:.1f} GB/s")
        results = []
        for result in SUITES[name]():
            print(f"  {result.name}", flush=True)
            results.append(result)
        report(name, results, facts)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
