"""Transforms inside einloom.trace: one program, for sizes that are known later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.dft import relative_error
from tests.fft.cases import numbers

import einloom
from einloom import CallError, DTypeError, ShapeError, fft
from einloom.backend.cpu import cpu
from einloom.program.executable import Executable
from einloom.program.extension import unregister_family
from einloom.program.ir import Program
from einloom.program.passes import optimise
from einloom.program.serial import program_from_json, program_to_json

TRACED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "fft": (fft.fft, "complex128"),
    "fft of real": (lambda x: fft.fft(x, axis=0, norm="ortho"), "float32"),
    "ifft": (lambda x: fft.ifft(x, 9), "complex64"),
    "rfft": (lambda x: fft.rfft(x, 4, norm="forward"), "float64"),
    "irfft": (fft.irfft, "complex128"),
    "irfft of n": (lambda x: fft.irfft(x, 7, axis=0, norm="ortho"), "float64"),
    "hfft": (lambda x: fft.hfft(x, 5, norm="forward"), "complex128"),
    "ihfft": (fft.ihfft, "float64"),
    "fft2": (lambda x: fft.fft2(x, (3, -1)), "float64"),
    "ifftn": (lambda x: fft.ifftn(x, axes=(0, 1)), "complex64"),
    "rfftn": (lambda x: fft.rfftn(x, norm="ortho"), "float32"),
    "irfftn": (lambda x: fft.irfftn(x, axes=(1, 0)), "complex128"),
    "hfftn": (lambda x: fft.hfftn(x, (3, 8)), "complex128"),
    "ihfft2": (lambda x: fft.ihfft2(x, norm="ortho"), "float64"),
    "dct": (lambda x: fft.dct(x, 1, axis=0, norm="ortho"), "float32"),
    "idstn": (lambda x: fft.idstn(x, 2, norm="forward"), "float64"),
    "of integers": (fft.rfft, "int32"),
}


def run(program: Program, *arrays: Any) -> Any:
    return Executable(optimise(program), cpu())(*arrays)


@pytest.mark.parametrize("name", TRACED)
def test_every_function(name: str) -> None:
    """As outside, with sizes known now and later, and after a journey through JSON."""
    function, dtype = TRACED[name]
    x = (3 * numbers(np.random.default_rng(1), (6, 5), "float64")).astype(dtype)
    if np.dtype(dtype).kind == "c":
        x = x + x[::-1, ::-1] * 1j
        x = x.astype(dtype)
    want = function(x)
    for spec in (f"{dtype}[6,5]", f"{dtype}[m,n]"):
        template = einloom.trace(function, spec)
        program = template.bind([x.shape])
        for one in (program, program_from_json(program_to_json(program))):
            got = run(one, x)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            assert relative_error(got, want) <= 1e-5 if got.dtype.char in "fF" else 1e-13


def test_one_program() -> None:
    """fft, einsum and ifft; the division by n is a factor of the transform."""

    def filtered(x: Any, h: Any) -> Any:
        return fft.ifft(einloom.einsum("bk,kc->bc", fft.fft(x), h))

    template = einloom.trace(filtered, "float64[b,n]", "complex128[n,n]", sizes={"b": 100, "n": 64})
    program = optimise(template.bind([(3, 5), (5, 5)]))
    assert [ins.op for ins in program.instructions] == ["fft", "dot_general", "ifft"]
    assert program.instructions[-1].attrs["scale"] == 0.2
    rng = np.random.default_rng(2)
    x, h = numbers(rng, (3, 5), "float64"), numbers(rng, (5, 5), "complex128")
    assert np.allclose(run(program, x, h), np.fft.ifft(np.fft.fft(x) @ h))


def test_pairs_cancel() -> None:
    x = numbers(np.random.default_rng(3), (4, 6), "complex128")
    for function, ops in (
        (lambda x: fft.ifft(fft.fft(x)), ["copy"]),
        (lambda x: abs(fft.ifftn(fft.fftn(x))), ["absolute"]),
        (lambda x: fft.fft2(fft.ifft2(3 * x, norm="ortho"), norm="ortho") / 3, ["copy"]),
        (lambda x: fft.ifft(fft.fft(x), axis=0), ["fft", "ifft"]),
        (lambda x: fft.ifft(fft.fft(x) + 0 * x), None),
    ):
        program = einloom.trace(function, "complex128[m,n]").bind([(4, 6)])
        found = [ins.op for ins in optimise(program).instructions]
        if ops is not None:
            assert [op for op in found if op not in ("constant", "broadcast_in_dim")] == ops
        assert np.allclose(run(program, x), function(x))


def test_refused() -> None:
    plan = fft.plan((3, 4))
    for function, error, match in (
        (lambda x: fft.rfft(x), DTypeError, "real"),
        (lambda x: fft.fft(x, overwrite_x=True), CallError, "cannot be written into"),
        (lambda x: fft.fft(x, out=np.zeros(3)), CallError, "cannot be written into"),
        (lambda x: fft.fft(x, plan=plan), CallError, "the program is the plan"),
        (lambda x: fft.fft(x, 0), ShapeError, "invalid number"),
        (lambda x: fft.fft(x, axis=2), ShapeError, "2 axes"),
        (lambda x: fft.fftn(x, axes=()), ShapeError, "at least 1 axis"),
        (lambda x: fft.dct(x), DTypeError, "real"),
    ):
        with pytest.raises(error, match=match):
            einloom.trace(function, "complex128[3,4]")


def test_families_are_declared_once() -> None:
    from einloom.fft import family

    family.register()
    unregister_family("fft.dct.v1")
    family.register()
    template = einloom.trace(fft.dct, "float64[n]")
    assert "extension:fft.dct.v1" in str(template)


# ---- previously failed --------------------------------------------------------------------------

EXTREME: dict[str, tuple[Callable[[Any], Any], str, float]] = {
    "small before": (lambda v: fft.fft(v * np.float32(1e-10)), "complex64", 3e38),
    "large before": (lambda v: fft.rfft(v * 1e200), "float64", 1e-300),
    "large before and behind": (lambda v: fft.fft(v * 1e200) * 1e200, "complex128", 1e-250),
    "large behind": (lambda v: fft.fft(v) * 1e200 * 1e200, "complex128", 1e-250),
    "subnormal divisor": (lambda v: fft.rfft(v / 1e-310), "float64", 1e-310),
    "below single": (lambda v: fft.ifft(fft.fft(v) * 1e-30) * 1e-30, "complex64", 1e30),
    "both ways": (lambda v: fft.ifft(fft.fft(v) * 1e200) * 1e200, "complex128", 1e-250),
}


@pytest.mark.parametrize("name", EXTREME)
def test_factors_out_of_range(name: str) -> None:
    """A product stays before the transform where it keeps it from overflow, or is no scale."""
    function, dtype, size = EXTREME[name]
    x = np.full((2, 8), size, dtype)
    program = einloom.trace(function, f"{dtype}[m,n]").bind([x.shape])
    with np.errstate(all="ignore"):
        got, want = run(program, x), function(x)
    assert np.isfinite(want).all()
    assert np.allclose(got, want, rtol=1e-5, atol=1e-6 * abs(want).max())
