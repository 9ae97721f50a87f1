"""What is refused and how, and what documented results unusual input has."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from tests.dft import bound, relative_error
from tests.fft.cases import numbers

from einloom import (
    CallError,
    ConversionError,
    DTypeError,
    OptionError,
    ShapeError,
    Unsupported,
    fft,
    options,
)

X = np.arange(12.0).reshape(3, 4)
Z = X + 1j
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "dct", "idct", "dst", "idst")
MANY = (*(f"{name}n" for name in ONE), "fft2", "irfft2")

BAD: list[tuple[str, tuple[Any, ...], dict[str, Any], type[Exception], str]] = [
    # lengths and axes
    *((name, (X,), {"n": 0}, ShapeError, r"invalid number of data points \(0\)") for name in ONE),
    *((name, (X,), {"n": -3}, ShapeError, "invalid number of data points") for name in ONE),
    *((name, (np.ones((3, 0)),), {}, ShapeError, "invalid number of data points") for name in ONE),
    *((name, (X,), {"axis": 2}, ShapeError, "x has 2 axes") for name in ONE),
    *((name, (X,), {"axis": 1.5}, CallError, "give an integer") for name in ONE),
    *((name, (X,), {"n": 2.5}, CallError, "give an integer") for name in ONE),
    *((name, (3.0,), {}, ShapeError, "x has 0 axes") for name in ONE),
    ("irfft", (np.ones(1),), {}, ShapeError, r"invalid number of data points \(0\)"),
    *((name, (X,), {"axes": (0, 0)}, ShapeError, "axes must be unique") for name in MANY),
    *((name, (X,), {"axes": (0, -2)}, ShapeError, "axes must be unique") for name in MANY),
    *((name, (X,), {"axes": (0, 2)}, ShapeError, "exceeds dimensionality") for name in MANY),
    *((name, (X,), {"axes": 0.5}, OptionError, "iterable of integers") for name in MANY),
    *((name, (X,), {"s": (2, 0)}, ShapeError, "invalid number of data points") for name in MANY),
    *((name, (X,), {"s": (2,), "axes": (0, 1)}, ShapeError, "same length") for name in MANY),
    *((name, (X,), {"s": (1, 2, 3), "axes": None}, ShapeError, "more axes than") for name in MANY),
    *((f"{name}n", (X,), {"axes": ()}, ShapeError, "at least 1 axis") for name in ONE[2:6]),
    # options
    *((name, (X,), {"norm": "none"}, OptionError, "Invalid norm value") for name in (*ONE, *MANY)),
    *((name, (X,), {"norm": []}, OptionError, "Invalid norm value") for name in (*ONE, *MANY)),
    *((name, (X,), {"workers": 0}, OptionError, "must not be zero") for name in (*ONE, *MANY)),
    *((name, (X,), {"workers": -10**6}, OptionError, "out of range") for name in (*ONE, *MANY)),
    *((name, (X,), {"workers": "two"}, CallError, "give an integer") for name in (*ONE, *MANY)),
    *((name, (X,), {"plan": 1}, Unsupported, "precomputed plan") for name in (*ONE, *MANY)),
    *((name, (X,), {"type": 5}, Unsupported, "types are") for name in ("dct", "idstn")),
    ("dct", (np.ones(1), 1), {}, ShapeError, "two points"),
    # numbers
    *((name, (Z,), {}, DTypeError, "must be a real sequence") for name in ("rfft", "ihfft", "rfftn")),
    *((name, ("text",), {}, DTypeError, "no array of numbers") for name in ("fft", "rfftn", "dct")),
    ("fft", (np.array(["a"], object),), {}, DTypeError, "no array of numbers"),
    ("fft", (np.zeros(3, "M8[s]"),), {}, DTypeError, "no array of numbers"),
    ("fft", (np.ma.masked_array([1.0, 2.0]),), {}, ConversionError, "mask"),
    # out
    ("fft", (X,), {"out": [1, 2]}, ConversionError, "pass a numpy.ndarray"),
    ("fft", (X,), {"out": np.zeros((3, 5), complex)}, ShapeError, "out has shape"),
    ("fft", (X,), {"out": np.zeros((3, 4))}, DTypeError, "out has dtype"),
    ("fft", (X,), {"out": np.zeros((3, 4), ">c16")}, DTypeError, "out has dtype"),
    ("irfft", (Z,), {"out": np.zeros((3, 4))}, ShapeError, "out has shape"),
    # helpers
    ("fftfreq", (0,), {}, ShapeError, "invalid number"),
    ("fftfreq", (2.5,), {}, CallError, "should be an integer"),
    ("rfftfreq", (4,), {"device": "gpu"}, Unsupported, "on the CPU"),
    ("fftfreq", (4,), {"dtype": int}, DTypeError, "are real"),
    ("fftshift", (X,), {"axes": (0, 0)}, ShapeError, "unique"),
    ("next_fast_len", (-1,), {}, OptionError, "must be positive"),
    ("prev_fast_len", ("a",), {}, CallError, "integer"),
    ("fht", (Z, 0.1, 1.0), {}, DTypeError, "real"),
    ("ifht", (np.zeros((2, 0)), 0.1, 1.0), {}, ShapeError, "no samples"),
    ("plan", ((3, 4),), {"kind": "dft"}, OptionError, "the kinds are"),
    ("plan", ((3, 4),), {"dtype": "int32"}, DTypeError, "takes dtypes"),
    ("plan", ((3, 4),), {"kind": "irfft", "n": 9}, ShapeError, "does not belong"),
    ("plan", ((3, 4),), {"axes": (0, 0)}, ShapeError, "unique"),
    ("plan", ((3, 0),), {}, ShapeError, "invalid number"),
    ("plan", ((3, 4),), {"order": "K"}, OptionError, "order"),
    ("set_engine", ("fftw3",), {}, OptionError, "engines with names"),
    ("set_engine", (object(),), {}, OptionError, "no backend of scipy.fft"),
    ("set_engine", (fft,), {}, OptionError, "call itself"),
]  # fmt: skip


def test_bad_calls() -> None:
    for name, args, keywords, error, match in BAD:
        try:
            with pytest.raises(error, match=match) as caught:
                getattr(fft, name)(*args, **keywords)
            assert str(caught.value).startswith((name, f"{name.rstrip('n2')}", "set_engine"))
        except BaseException as problem:
            problem.add_note(f"{name} {args!r:.80} {keywords}")
            raise


def test_no_out_that_cannot_be_written() -> None:
    frozen = np.zeros((3, 4), complex)
    frozen.flags.writeable = False
    with pytest.raises(CallError, match="cannot be written"):
        fft.fft(X, out=frozen)
    z = np.zeros((4, 4), complex)
    with pytest.raises(CallError, match="overlaps"):
        fft.fft(z[:3], out=z[1:])
    raw = np.zeros(3 * 16 + 1, np.uint8)[1:].view(complex)
    with pytest.raises(CallError, match="cannot be written"):
        fft.fft(np.zeros(3), out=raw)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        *((name, "complex128") for name in ("bool", "int8", "uint16", "int64", "uint64", "float64")),
        ("float16", "complex64"), ("float32", "complex64"), ("complex64", "complex64"),
        ("longdouble", "clongdouble"), (">f4", "complex64"), (">f8", "complex128"),
        (">c16", "complex128"), ("object", "complex128"),
    ],
)  # fmt: skip
def test_dtypes(dtype: str, result: str) -> None:
    rng = np.random.default_rng(1)
    x = (3 * numbers(rng, (4, 6), "float64")).astype(dtype)
    wide = x.astype(np.complex128)
    real = {"complex64": "float32", "complex128": "float64"}.get(result, "longdouble")
    for name, got in (("fft", fft.fft(x)), ("fftn", fft.fftn(x)), ("ifft", fft.ifft(x))):
        assert got.dtype == np.dtype(result)
        assert relative_error(got, getattr(np.fft, name)(wide)) <= bound("float32", 24)
    if np.dtype(dtype).kind != "c":
        assert fft.rfft(x).dtype == np.dtype(result)
        assert fft.dct(x).dtype == np.dtype(real)
        assert relative_error(fft.rfftn(x), np.fft.rfftn(wide.real)) <= bound("float32", 24)
    assert fft.irfft(x).dtype == np.dtype(real)
    assert relative_error(fft.irfft(x), np.fft.irfft(wide)) <= 2 * bound("float32", 24)


def test_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = np.arange(6).astype(ml_dtypes.bfloat16)
    assert np.array_equal(fft.fft(x), fft.fft(np.arange(6, dtype=np.float32)))


def test_strides_and_flags() -> None:
    """Read-only, negative, repeated and unaligned memory is read as it is, and left as it was."""
    rng = np.random.default_rng(2)
    base = numbers(rng, (6, 10), "complex128")
    raw = np.zeros(base.nbytes + 1, np.uint8)[1:].view(complex).reshape(base.shape)
    raw[...] = base
    frozen = base.copy()
    frozen.flags.writeable = False
    for view in (
        base[::-1, ::-2], base.T, raw, raw[::2], frozen, np.broadcast_to(base[0], (4, 10)),
        np.asfortranarray(base), base.view(np.float64)[:, ::3],
    ):  # fmt: skip
        plain = np.ascontiguousarray(view)
        for overwrite in (False, True):
            before = view.copy()
            got = fft.fft(view if not overwrite else view.copy(), overwrite_x=overwrite)
            assert np.array_equal(got, fft.fft(plain))
            assert got.flags.writeable
            assert np.array_equal(view, before)
    assert np.array_equal(fft.fft(frozen, overwrite_x=True), fft.fft(base))
    assert np.array_equal(frozen, base)
    repeated = np.broadcast_to(base[0], (4, 10))
    repeated = np.lib.stride_tricks.as_strided(base[0].copy(), (4, 10), (0, 16))
    assert np.array_equal(fft.fft(repeated, overwrite_x=True), fft.fft(np.array(repeated)))


def test_empty_batches() -> None:
    """A batch of none has no transforms; a transform of no points is refused."""
    x = np.zeros((0, 4))
    assert fft.fft(x).shape == (0, 4)
    assert fft.rfft(x).shape == (0, 3)
    assert fft.irfft(x).shape == (0, 6)
    assert fft.dct(x, 3).shape == (0, 4)
    assert fft.fftn(x, axes=(1,)).dtype == complex
    with pytest.raises(ShapeError, match="invalid number of data points"):
        fft.fftn(x)


def test_along_no_axis() -> None:
    assert fft.fftn(X, axes=()) is X
    assert fft.dctn(X, axes=()) is X
    out = np.empty_like(X)
    assert fft.dstn(X, axes=(), out=out) is out
    assert np.array_equal(out, X)


def test_overwritten() -> None:
    """Where it may and can be: the result lies where x did."""
    for name in ("fft", "ifftn", "dct", "idstn"):
        function = getattr(fft, name)
        x = Z.copy() if "f" in name else X.copy()
        want = function(x)
        assert function(x, overwrite_x=True) is x
        assert np.array_equal(x, want)
    x = X.copy()
    assert fft.rfft(x, overwrite_x=True).shape == (3, 3)
    assert np.array_equal(x, X)


def test_out_of_every_function() -> None:
    rng = np.random.default_rng(3)
    x = numbers(rng, (3, 4, 6), "float64")
    for name in (*ONE, *MANY):
        function = getattr(fft, name)
        want = function(x)
        out = np.full_like(want, np.nan)
        assert function(x, out=out) is out
        assert np.array_equal(out, want)
    same = numbers(rng, (5, 1), "float64")
    want = fft.irfft(same + 0j, 1)
    assert fft.irfft(same, 1, out=same) is same
    assert np.array_equal(same, want)


def test_workers() -> None:
    rng = np.random.default_rng(4)
    x = numbers(rng, (300, 500), "complex64")
    want = fft.fft(x, workers=1)
    for workers in (2, 7, -1, -(os.cpu_count() or 1), np.int8(2)):
        assert np.array_equal(fft.fft(x, workers=workers), want)
    with options(threads=3):
        assert fft.get_workers() == 3
        with fft.set_workers(2):
            assert fft.get_workers() == 2
    with pytest.raises(OptionError, match="must not be zero"), fft.set_workers(0):
        pass


def test_lists_and_torch() -> None:
    assert np.array_equal(fft.fft([1, 2, 3]), fft.fft(np.array([1.0, 2, 3])))
    assert fft.fft(np.float32(2) * np.ones(3, np.float32)).dtype == np.complex64
    torch = pytest.importorskip("torch")
    x = torch.arange(6.0, dtype=torch.float64)
    got = fft.rfft(x)
    assert isinstance(got, torch.Tensor)
    assert torch.allclose(got, torch.fft.rfft(x))


def test_array_api_keywords() -> None:
    """Signatures of the array API's extension `fft`, 2025.12."""
    z = numbers(np.random.default_rng(5), (4, 6), "complex64")
    for name in ("fft", "ifft", "hfft", "irfft"):
        assert getattr(fft, name)(z, n=None, axis=-1, norm="backward").ndim == 2
    for name in ("fftn", "ifftn", "irfftn"):
        assert getattr(fft, name)(z, s=None, axes=None, norm="backward").ndim == 2
    for name in ("rfft", "ihfft"):
        assert getattr(fft, name)(z.real, n=8, axis=0, norm="ortho").dtype == np.complex64
    assert fft.rfftn(z.real, s=(3, 5), axes=(0, 1)).shape == (3, 3)
    assert fft.fftfreq(5, d=0.5, dtype=np.float32, device=None).dtype == np.float32
    assert fft.rfftfreq(5, d=0.5, device="cpu").dtype == np.float64
    assert np.array_equal(fft.fftshift(z, axes=1), np.fft.fftshift(z, axes=1))
    assert np.array_equal(fft.ifftshift(z, axes=(0, 1)), np.fft.ifftshift(z))


# ---- previously failed --------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONE)
def test_no_points_of_none(name: str) -> None:
    """Zero points are refused where the axis has none either."""
    with pytest.raises(ShapeError, match="invalid number of data points"):
        getattr(fft, name)(np.zeros((6, 0)), n=0)


BAD_PLANS: list[tuple[Any, dict[str, Any], type[Exception], str]] = [
    (64.0, {}, OptionError, "integers"),
    ("ab", {}, OptionError, "integers"),
    (((1, 2), (3,)), {}, OptionError, "integers"),
    ((-3, 4), {"axes": 1}, ShapeError, "negative"),
    (8, {"n": 8}, CallError, "n is for irfft"),
    (8, {"kind": "dct", "dtype": float, "n": 8}, CallError, "n is for irfft"),
    (5, {"kind": "irfft", "n": 8.0}, CallError, "give an integer"),
    (8, {"kind": []}, OptionError, "the kinds are"),
    (8, {"type": []}, OptionError, "types are"),
    (8, {"dtype": "number"}, DTypeError, "no dtype"),
]


@pytest.mark.parametrize("k", range(len(BAD_PLANS)))
def test_bad_plans(k: int) -> None:
    shape, keywords, error, match = BAD_PLANS[k]
    with pytest.raises(error, match=match):
        fft.plan(shape, **keywords)


@pytest.mark.parametrize("name", ["toeplitz_matmul", "toeplitz_solve"])
def test_batches_of_matrices_that_do_not_broadcast(name: str) -> None:
    two, three = np.ones((2, 4)), np.ones((3, 4))
    for c, r, x in ((two, three, two), (two, two, three), (two, None, three)):
        with pytest.raises(ShapeError, match=f"{name}: batch axes"):
            getattr(fft, name)(c, r, x)
