"""What work costs on a machine: rates from which alternatives are told apart.

The model is shipped with figures of one machine, and others of processors that are known to differ;
`einloom.tune` measures this one's and keeps them in the cache folder, where the next process finds them. It
only chooses among ways to the same result.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._base.caches import CacheInfo, register
from .._base.log import log
from .._base.options import cache_dir, num_threads
from . import processor

VERSION = 7  # of the fields and of what they mean
FILE = "cost_model.json"
THREADED = 1 << 18  # multiplications of one product from which BLAS uses its threads
AT_ONCE = 512  # multiplications of one product below which the call itself takes longest
# multiplications per matrix below which many are shared out, each on one thread of BLAS
SHARED = 1 << 27
ENOUGH = 1 << 23  # multiplications in all from which several threads are worth their start
LONG = 16  # contracted elements for each row and column from which these are too few to share out
WIDE = 8  # matrices along one loop from which they are shared out
# bytes from which kernels fetch ahead and write past the caches: no core's own holds them
FAR = 6 << 20
RATES = {"f": 2.0, "d": 1.0, "F": 0.5, "D": 0.25}  # of products beside float64, by dtype character


class CostModel(NamedTuple):
    """Rates of one machine in float64, from which alternatives are told apart; seconds are no promise.

    Fitted to products and copies measured on two cores of x86-64 machines, strips and blocks to those with
    AVX-512; `shipped` knows what is otherwise on some processors.
    """

    products: float = 4.5e10  # multiplications and additions a second in large matrices
    stream: float = 2.5e10  # bytes a second that are read in order; the result counts twice
    moves: float = 7e9  # bytes of an array that are copied into another order in a second
    copy: float = 2e-6  # seconds before a copy begins
    call: float = 2e-8  # seconds for one product of a loop
    # rows, elements of a row and contracted elements at which half of the rate is reached
    edges: tuple[int, int, int] = (8, 8, 4)
    # the same where BLAS shares one product among its threads
    threaded: tuple[int, int, int] = (18, 36, 4)
    # of the rate, in a few products of slices: on one thread, and out of order
    strided: float = 0.5
    nest: float = 1 / 12  # of the rate of products, in a loop nest over a long innermost run
    row: float = 6  # elements of such a run at which half of that is reached
    across: float = 0.5  # of the rate of products, across the lanes of a batch
    turns: float = 4e10  # bytes a second between lanes in memory and lanes in vectors
    short: int = 4  # elements of a lane at which half of that is reached
    strips: float = 0.95  # of the rate of products, in strips (see strips.py) of large matrices
    strip_lines: float = 3  # cache lines of columns of a strip
    strips_start: float = 5e-6  # seconds before several threads are at strips
    blocks: float = 1.0  # of the rate of products, in blocks of packed panels
    packs: float = 6  # times the rate of moves, at which panels are packed for blocks
    blocks_single: float = 0.9  # of the rate of products of float32, in blocks of these
    # seconds of a thread for each byte that BLAS packs into panels before each of many products
    panels: float = 2.5e-10
    threads: int = 2  # that the rates were measured with

    def figures(self) -> list[float]:
        """All of them, one after another."""
        return [x for value in self for x in (value if isinstance(value, tuple) else (value,))]

    def speed(self, slow: int, fast: int, k: int, calls: int) -> float:
        """The part of `products` that one of `calls` products reaches whose result has `slow` rows of `fast`
        elements."""
        macs = slow * fast * k
        is_threaded = macs >= THREADED and (macs >= SHARED or calls < WIDE)
        a, b, c = self.threaded if is_threaded else self.edges
        speed = slow / (slow + a) * fast / (fast + b) * k / (k + c)
        is_read = macs >= AT_ONCE and (min(slow, fast) == 1 or k >= LONG * (slow + fast))
        return max(speed, self.vector_speed(k)) if is_read else speed

    def vector_speed(self, k: int) -> float:
        """The same where what takes time is to read numbers, by all threads: of a matrix and a vector, and of
        long sums of a few rows and columns."""
        return self.stream / 8 / self.products * k / (k + self.edges[2])

    def most_speed(self, m: int, n: int, k: int) -> float:
        """What `speed` never exceeds for at most m rows and n columns, or the other way round."""
        a, b, c = map(min, self.edges, self.threaded)
        speed = max(m / (m + a) * n / (n + b), n / (n + a) * m / (m + b)) * (k / (k + c))
        return max(speed, self.vector_speed(k)) * max(1.0, self.strided)


NARROW = CostModel(
    strips=0.64,
    strip_lines=1,
    strips_start=3e-5,
    blocks=0.87,
    packs=1.5,
    strided=0.45,
    blocks_single=0.81,
    panels=4e-11,
)
"""Of x86 processors without AVX-512, which have 16 registers of half a cache line: a strip is one line, so
that each element of the other operand is read three times as often. Measured on Zen 3 beside OpenBLAS's
kernels `Haswell` (two cores, NumPy 2.4.6): strips reach 0.95 of the rate of BLAS where operands stay in L2,
0.72 with 500 rows and columns, 0.66 with 1000, and 0.83 to 0.9 in float32; blocks 0.83 to 0.93, and 0.81.
BLAS reaches 0.92 of its rate in batches of 128 by 128 by 128. Of small results whose long sums are shared
by threads (32 by 32 by 1024) strips take 0.19 ms and BLAS 0.11: hence their start. With `packs` as it is
long sums are left to BLAS, which blocks took up to twice as long for. What is not here is as in the general
model: with the edges that `tune` measures chains of small products took up to 1.3 times as long."""
WITHOUT_AVX512 = ("any", "any", "any without AVX-512")
KNOWN: dict[tuple[str, str, str], CostModel] = {
    ("AuthenticAMD", "26", "SkylakeX"): CostModel(blocks=1.19, blocks_single=1.0, strided=0.3),
    ("AuthenticAMD", "25", "SkylakeX"): CostModel(blocks_single=1.0),
    WITHOUT_AVX512: NARROW,
}
"""Models by vendor, family and BLAS core, and that of processors without AVX-512. OpenBLAS runs Zen 5 with
kernels for another one, which reach three quarters of its peak in float64 (measured on two cores, NumPy
2.4.6). In float32 blocks were at 0.95 of BLAS, but copies, of which they need none, weigh more than this
model says. With the rates of products of that processor thin ones were left to BLAS for which strips take
half of the time. Zen 4 runs the same kernels at half width: its blocks of float32 reach 1.01 to 1.05 of that
of BLAS from 768 rows and columns on; of products that BLAS needs copies for they reach 0.95 of it, and BLAS
0.74. Not more than 1, so that what BLAS reads as it lies is left to it. OpenBLAS as NumPy's wheels have it
calls that processor SkylakeX; for one built with its kernels for bfloat16 the general model holds. What
products of slices reach was measured on Zen 4 and, emulated, without AVX-512; on Zen 5 it is what it was
before."""


def shipped() -> CostModel:
    """The model for this processor before anything is measured on it."""
    facts = processor.facts()
    vendor, family = facts.get("vendor_id", ""), facts.get("cpu family", "")
    if any(key[:2] == (vendor, family) for key in KNOWN):
        known = KNOWN.get((vendor, family, processor.blas_core() or ""))
        if known is not None:
            return known
    if WITHOUT_AVX512 in KNOWN and processor.lacks_avx512(facts):
        return KNOWN[WITHOUT_AVX512]
    return CostModel()


class Models:
    """The model in use: this machine's where it was tuned, else the shipped one; looked for once."""

    def __init__(self) -> None:
        self._current: CostModel | None = None
        self._given = False
        register("cost model", self)

    @property
    def current(self) -> CostModel:
        if self._current is None:
            self._current = _kept() or shipped()
        return self._current

    def use(self, model: CostModel | None) -> None:
        """`model` from now on, in this process; None: as if the process had just begun."""
        self._current, self._given = model, model is not None

    def info(self) -> CacheInfo:
        return CacheInfo(0, 0, 1, int(self._current is not None))

    def clear(self) -> None:
        """Look again; but what was set by `use` stays."""
        if not self._given:
            self._current = None


MODELS = Models()


def keep(model: CostModel) -> Path:
    """Write the model of this machine; returns the file."""
    file = cache_dir() / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    document = {"version": VERSION, "machine": machine(), "model": model._asdict()}
    draft = file.with_name(f"{FILE}.{os.getpid()}")
    draft.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    draft.replace(file)
    return file


def forget() -> None:
    """Keep no model of this machine any more: the shipped one is its own."""
    (cache_dir() / FILE).unlink(missing_ok=True)


def machine() -> dict[str, Any]:
    """What a model is for: another processor, other kernels of BLAS, or another number of threads, has
    another."""
    return {
        "processor": processor.name(processor.facts()),
        "blas": processor.blas_core(),
        "numpy": np.__version__,
        "cpus": os.cpu_count(),
        "threads": num_threads(),
    }


def _kept() -> CostModel | None:
    """The model that was kept for this machine; None where there is none that can be used."""
    file = cache_dir() / FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["version"] != VERSION or document["machine"] != machine():
            return None
        return _read(document["model"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        log.warning("%s is no cost model (%s); the shipped one is used", file, error)
        return None


def _read(fields: dict[str, Any]) -> CostModel:
    """A model of the fields of a document; ValueError for figures that are none."""
    known = CostModel()._asdict()
    read: dict[str, Any] = {}
    for name, value in fields.items():
        like = known[name]
        figures = list(value) if isinstance(like, tuple) else [value]
        whole = len(like) if isinstance(like, tuple) else 1
        if len(figures) != whole or not all(
            type(x) in (int, float) and math.isfinite(x) and x > 0 for x in figures
        ):
            raise ValueError(f"{name}: {value!r:.60}")
        read[name] = tuple(map(int, figures)) if isinstance(like, tuple) else float(value)
    return CostModel(**read)
