"""Arrays for the functions, how they are run inside programs, and what is the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import einloom
from einloom.backend.cpu.backend import cpu
from einloom.program.executable import Executable
from einloom.program.passes import optimise
from einloom.program.serial import program_from_json, program_to_json

REAL = ("float32", "float64")
COMPLEX = ("complex64", "complex128")
INTEGERS = ("int8", "uint16", "int64")
NUMBERS = ("bool", *INTEGERS, *REAL, *COMPLEX)


def numbers(shape: tuple[int, ...], dtype: str = "float64", seed: int = 0) -> Any:
    """Small numbers of any dtype, so that integers do not wrap often."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "biu":
        return rng.integers(0, 3, shape).astype(dtype)
    x = rng.standard_normal(shape)
    return (x + 1j * rng.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def layouts(x: np.ndarray) -> list[np.ndarray]:
    """The same numbers, in rows, columns, backwards, with gaps, not aligned, and in foreign byte order."""
    gaps = np.zeros(tuple(2 * n for n in x.shape), x.dtype)[
        tuple(slice(None, None, 2) for _ in x.shape)
    ]
    gaps[...] = x
    backwards = np.ascontiguousarray(x[tuple(slice(None, None, -1) for _ in x.shape)])
    raw = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    raw[...] = x
    return [
        x,
        np.asfortranarray(x),
        gaps,
        backwards[tuple(slice(None, None, -1) for _ in x.shape)],
        raw,
        x.astype(x.dtype.newbyteorder(">")),
    ]


def close(got: Any, wanted: Any, ulps: float = 8) -> None:
    """Equal shape and dtype; integers equal, others to some units of the largest one."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    assert got.dtype == wanted.dtype
    if got.dtype.kind in "biu":
        assert (got == wanted).all()
        return
    eps = ulps * np.finfo(got.dtype).eps
    scale = np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0)
    np.testing.assert_allclose(got, wanted, rtol=eps, atol=eps * scale)


def in_program(function: Callable[..., Any], *arrays: Any, names: bool = False) -> Any:
    """The function by way of trace, passes, JSON and the executable; sizes are names if asked for."""
    specs = []
    for k, x in enumerate(arrays):
        sizes = (f"n{k}{axis}" if names and n > 1 else str(n) for axis, n in enumerate(x.shape))
        specs.append(f"{x.dtype.name}[{','.join(sizes)}]")
    template = einloom.trace(function, *specs)
    program = template.bind([x.shape for x in arrays])
    program = program_from_json(program_to_json(program))
    return Executable(optimise(program), cpu())(*arrays)
