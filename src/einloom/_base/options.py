"""Options: one frozen value, changed for a block or for the process, first read from EINLOOM_*."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from .caches import Quick
from .errors import OptionError
from .numbers import parse_bytes
from .system import read_start

SMALL = 1 << 18
"""Scalar multiplications below which a step stays on plain NumPy and never waits for a compiler, unless
`einsum` is asked for it again and again."""

ENGINES = (
    "multiply", "gemm", "batched gemm", "matmul", "loops", "blocked", "strips", "sums", "dots", "lines",
    "sum product", "lanes", "sequence",
)  # fmt: skip
"""Ways to run a contraction that may be asked for; see `dot_engine` of the CPU backend, and `product_groups`
and `sequences` of programs for the last two."""

PROVIDERS = ("blas", "native", "plain")
"""Who multiplies matrices of real and complex numbers: BLAS, and kernels of our own where these are faster;
such kernels alone; or BLAS and NumPy alone. Integers, truth values and half precisions in blocks have kernels
of our own with each of them."""

PRECISIONS = ("full", "ieee", "tf32", "bfloat16")
"""Digits that products of float32 and complex64 may be rounded to, on a GPU: none, TF32's, bfloat16's."""

PATIENCE = 0.5
"""Seconds that importing numba and loading a first kernel from disk take at most, or so: 0.2 where a fast
processor finds the files in memory (EPYC of family 26)."""

PLAN_CACHES = ("memory", "disk", "off")


@dataclass(frozen=True, slots=True)
class Options:
    """Settings that no argument of a call names.

    Attributes:
        threads: threads of our parallel kernels; None means the CPUs this process may use, by its
            affinity and its container's quota.
        memory_limit: default of `memory_limit=`, in bytes, "4GiB" or a fraction below 1; None: none.
        budget: default planning budget in units of work (greedy trials); None: scaled to the problem.
        cache_dir: folder of compiled kernels and of plans; None means the user's own cache folder.
        plan_cache: where trees that were found are kept for networks that are the same but for names and
            order: "memory"; "disk", in `cache_dir` as well, for other processes; "off". It never
            changes a plan.
        progress: "auto" (long runs on a terminal), True or False.
        small: multiplications below which kernels are not used, or by `einsum` after many calls alone, down
            to a thirty-second of it; 0 forces them, inf forbids them.
        patience: seconds that copies and products of large arrays may take plain NumPy, which gives the same
            numbers bit for bit, before kernels are loaded for them; where kernels are kept on disk a
            thirtieth of that, or an eighth elsewhere than on x86-64 Linux. `einsum` has others, which round
            otherwise, from the first call where what they save in it is worth so long a wait, else from the
            call on before which as much was lost. 0: they are loaded at once; infinity: never.
        engine: one of "multiply", "gemm", "batched gemm", "matmul", "loops", "blocked", "strips",
            "sums", "dots", "lines", "sum product", "lanes", "sequence": it runs every contraction that it
            can, however slow that is; None: the fastest. For tests.
        provider: "blas"; or "native": products of matrices call no BLAS, but compiled kernels, or NumPy's
            elementwise loops below `small`; or "plain": BLAS and NumPy compute those of real and of complex
            numbers, even where kernels are faster. Factorisations are those of LAPACK in any case.
        precision: of products of float32 and complex64 on a GPU. "full": with the accuracy of float32,
            whatever computes them (docs/gpu.md tells what of numbers below 1e-33); "ieee": by multiplications
            and additions of float32 alone; "tf32" or
            "bfloat16": factors may be rounded to 11 or 8 digits in base 2, which is faster. Sums are those of
            float32.
        graphs: whether contractions and programs on a GPU that are called again and again become CUDA graphs
            by themselves.
        bare: whether kernels that are kept on disk are called without numba, which saves importing it.
    """

    threads: int | None = None
    memory_limit: int | float | str | None = None
    budget: int | None = None
    cache_dir: str | None = None
    plan_cache: str = "memory"
    progress: bool | str = "auto"
    small: float = SMALL
    patience: float = PATIENCE
    engine: str | None = None
    provider: str = "blas"
    precision: str = "full"
    graphs: bool = True
    bare: bool = True

    def __post_init__(self) -> None:
        for name in ("threads", "budget"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise OptionError(f"options({name}={value!r}): give a positive integer, or None")
        if not isinstance(self.small, (int, float)) or not self.small >= 0:
            raise OptionError(f"options(small={self.small!r}): give a number >= 0, or infinity")
        if not isinstance(self.patience, (int, float)) or not self.patience >= 0:
            raise OptionError(f"options(patience={self.patience!r}): give seconds, or infinity")
        if self.engine is not None and self.engine not in ENGINES:
            raise OptionError(
                f"options(engine={self.engine!r}): give one of {', '.join(ENGINES)}, or None"
            )
        if self.provider not in PROVIDERS:
            raise OptionError(
                f"options(provider={self.provider!r}): give one of {', '.join(PROVIDERS)}"
            )
        if self.precision not in PRECISIONS:
            raise OptionError(
                f"options(precision={self.precision!r}): give one of {', '.join(PRECISIONS)}"
            )
        for name in ("graphs", "bare"):
            if not isinstance(value := getattr(self, name), bool):
                raise OptionError(f"options({name}={value!r}): give True or False")
        if self.plan_cache not in PLAN_CACHES:
            raise OptionError(
                f"options(plan_cache={self.plan_cache!r}): give one of {', '.join(PLAN_CACHES)}"
            )
        if self.progress not in (True, False, "auto"):
            raise OptionError(f'options(progress={self.progress!r}): give True, False or "auto"')
        if self.cache_dir is not None and not (
            self.cache_dir and isinstance(self.cache_dir, (str, os.PathLike))
        ):
            raise OptionError(f"options(cache_dir={self.cache_dir!r}): give a folder, or None")
        check_memory_limit(self.memory_limit, "options")

    @property
    def asks_for_kernels(self) -> bool:
        """Whether products are to be computed otherwise than where it takes least."""
        return self.provider != "blas" or self.engine is not None or self.small == 0


_PROCESS: list[Options] = []  # one element once read; a list so that tests can empty it
_BLOCK: ContextVar[Options | None] = ContextVar("einloom_options", default=None)


def get_options() -> Options:
    """The options in force here: those of the innermost `options(...)` block, else the process's."""
    return _BLOCK.get() or (_PROCESS[0] if _PROCESS else _read_environment())


def set_options(**changes: Any) -> Options:
    """Change options for the whole process; returns the new value."""
    _PROCESS[:] = [_replaced(_PROCESS[0] if _PROCESS else _read_environment(), changes)]
    return _PROCESS[0]


@contextmanager
def options(**changes: Any) -> Iterator[Options]:
    """Change options inside a `with` block, for this thread or task only.

    >>> with options(threads=1) as inside:
    ...     inside.threads
    1
    """
    value = _replaced(get_options(), changes)
    token = _BLOCK.set(value)
    try:
        yield value
    finally:
        _BLOCK.reset(token)


def set_num_threads(threads: int | None) -> None:
    """Threads of the default backend's kernels; None means the CPUs this process may use."""
    set_options(threads=threads)


def num_threads() -> int:
    """Threads that parallel kernels use now: the option, else the CPUs this process may use."""
    asked = get_options().threads
    return _HERE.cpus or _allowed_cpus() if asked is None else asked


@contextmanager
def known_cpus(cpus: int) -> Iterator[None]:
    """This thread is bound to some CPUs by us: `num_threads` does not count those, but says `cpus`."""
    before, _HERE.cpus = _HERE.cpus, cpus
    try:
        yield
    finally:
        _HERE.cpus = before


class _Here(threading.local):
    cpus = 0


_HERE = _Here()


def _allowed_cpus() -> int:
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        allowed = os.cpu_count() or 1
    return min(allowed, _container_cpus())


@cache
def _container_cpus() -> int:
    """CPUs that a container's quota pays for, rounded up; it is read once."""
    try:  # cgroup v2: "quota period" or "max period"
        quota, period = read_start(f"{_CGROUP}/cpu.max").split()
    except (OSError, ValueError):
        try:  # v1: -1 is no quota
            quota = read_start(f"{_CGROUP}/cpu/cpu.cfs_quota_us")
            period = read_start(f"{_CGROUP}/cpu/cpu.cfs_period_us")
        except OSError:
            return sys.maxsize
    try:
        share = -(-int(quota) // int(period))
    except (ValueError, ZeroDivisionError):  # "max"
        return sys.maxsize
    return share if share > 0 else sys.maxsize


_CGROUP = "/sys/fs/cgroup"


def cache_dir() -> Path:
    """The user's own cache folder: the option, else XDG_CACHE_HOME/einloom, else ~/.cache/einloom."""
    asked = get_options().cache_dir
    if asked is not None:
        return Path(asked)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "einloom"


def check_memory_limit(limit: object, call: str) -> None:
    """Refuse a memory limit without meaning: it is bytes, a size string, or a fraction below 1."""
    bad: str | None = None
    if limit is None:
        return
    if isinstance(limit, str):
        size = parse_bytes(limit)
        bad = None if size is not None and size > 0 else "no size"
    elif isinstance(limit, bool) or not isinstance(limit, (int, float, np.integer)):
        bad = f"a {type(limit).__name__}"
    elif not limit > 0:
        bad = "not positive"
    elif isinstance(limit, float) and limit >= 1 and not limit.is_integer():
        bad = "neither whole bytes nor a fraction below 1"
    if bad is not None:
        raise OptionError(
            f"{call}(memory_limit={limit!r}): {bad}. Give bytes as an integer, a string such as "
            f'"4GiB" or "500 MB", or a float below 1 as a fraction of the memory available.'
        )


_CHANGED: Quick[tuple[Options, Options]] = Quick("options", 256)


def _replaced(value: Options, changes: dict[str, Any]) -> Options:
    """`value` with changes, one object for equal ones: to check them all again takes 5 µs."""
    # True is no 1 here, nor are they in what has been changed before
    key = (id(value), *((name, type(x), x) for name, x in changes.items()))
    try:
        kept = _CHANGED.get(key)
    except TypeError:  # what cannot be a key is refused, or is a path of some kind
        return _checked(value, changes)
    if kept is not None and kept[0] is value:
        return kept[1]
    found = _checked(value, changes)
    _CHANGED.put(key, (value, found))
    return found


def _checked(value: Options, changes: dict[str, Any]) -> Options:
    known = [field.name for field in fields(Options)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise OptionError(
            f"options({unknown[0]}=...): no such option; there are {', '.join(known)}"
        )
    return replace(value, **changes)


def _read_environment() -> Options:
    found: dict[str, Any] = {}
    for field in fields(Options):
        variable = f"EINLOOM_{field.name.upper()}"
        text = os.environ.get(variable)
        if text:
            try:
                found[field.name] = _READERS[field.name](text)
                Options(**{field.name: found[field.name]})
            except (ValueError, OverflowError) as error:
                raise OptionError(f"environment variable {variable}={text!r}: {error}") from None
    _PROCESS[:] = [Options(**found)]
    return _PROCESS[0]


def _read_limit(text: str) -> float | str:
    try:
        value = float(text)
    except ValueError:
        return text
    return value if value < 1 else int(value)


_TRUTH = {"1": True, "0": False, "true": True, "false": False}
_READERS: dict[str, Callable[[str], Any]] = {
    "threads": int,
    "memory_limit": _read_limit,
    "budget": int,
    "cache_dir": str,
    "plan_cache": str,
    "progress": lambda text: _TRUTH.get(text.lower(), text),
    "graphs": lambda text: _TRUTH.get(text.lower(), text),
    "bare": lambda text: _TRUTH.get(text.lower(), text),
    "small": float,
    "patience": float,
    "engine": str,
    "provider": str,
    "precision": str,
}
