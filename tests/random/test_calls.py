"""What the functions take and return: shapes, dtypes, bounds, `out`, threads, traces, bad arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.names import said

import einloom
from einloom import options, random
from einloom._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    EinloomError,
    MemoryLimitError,
    OptionError,
    ShapeError,
)
from einloom.backend.cpu.backend import cpu
from einloom.backend.cpu.threefry import enciphered
from einloom.backend.dims import dim
from einloom.backend.spec import dtype_from_name
from einloom.program.executable import Executable
from einloom.program.passes import optimise

KEY = random.key(12345678901234567890)
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
WORDS = ("uint8", "uint16", "uint32", "uint64")
INTEGERS = (*WORDS, "int8", "int16", "int32", "int64")
Call = Callable[..., Any]
CALLS: list[tuple[Call, tuple[Any, ...], str]] = [
    *((random.bits, (), dtype) for dtype in WORDS),
    *((random.uniform, (), dtype) for dtype in FLOATS),
    *((random.normal, (), dtype) for dtype in FLOATS),
    *((random.integers, (3, 90), dtype) for dtype in INTEGERS),
]
NAMES = [f"{call.__name__} {dtype}" for call, _, dtype in CALLS]


def same(x: Any, y: Any) -> bool:
    x, y = np.asarray(x), np.asarray(y)
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


@pytest.mark.parametrize(("call", "bounds", "dtype"), CALLS, ids=NAMES)
def test_numbers_depend_on_key_and_place_alone(call: Call, bounds: Any, dtype: str) -> None:
    x = call(KEY, *bounds, shape=(7, 11, 13), dtype=dtype)
    assert x.dtype == dtype_from_name(dtype)
    assert x.shape == (7, 11, 13)
    assert same(call(KEY, *bounds, shape=1001, dtype=x.dtype).reshape(7, 11, 13), x)
    assert same(call(KEY, *bounds, shape=[500], dtype=dtype), x.reshape(-1)[:500])
    assert same(call(KEY, *bounds, shape=(), dtype=dtype), x[0, 0, 0])
    assert call(KEY, *bounds, shape=(3, 0, 2), dtype=dtype).shape == (3, 0, 2)
    assert not same(call(random.key(0), *bounds, shape=(7, 11, 13), dtype=dtype), x)
    for small, threads in ((0, 2), (np.inf, 1)):
        with options(small=small, threads=threads):
            assert same(call(KEY, *bounds, shape=(7, 11, 13), dtype=dtype), x)


@pytest.mark.parametrize(("call", "bounds", "dtype"), CALLS, ids=NAMES)
def test_out_is_filled_whatever_its_strides(call: Call, bounds: Any, dtype: str) -> None:
    wanted = call(KEY, *bounds, shape=(6, 10), dtype=dtype)
    whole = np.zeros((12, 21), wanted.dtype)
    for out in (
        np.zeros((6, 10), wanted.dtype),
        np.zeros((10, 6), wanted.dtype).T,
        whole[::2, 1::2],
        whole[5::-1, 10:0:-1],
    ):
        assert call(KEY, *bounds, out=out) is out
        assert same(out, wanted)
        assert call(KEY, *bounds, shape=(6, 10), dtype=dtype, out=out) is out


def test_out_that_is_not_aligned() -> None:
    memory = np.zeros(8 * 11, np.uint8)
    out = memory[4 : 4 + 80].view(np.float64)
    assert same(random.uniform(KEY, out=out), random.uniform(KEY, 10))


def test_torch_tensors_are_written_into() -> None:
    torch = pytest.importorskip("torch")
    out = torch.zeros(5, dtype=torch.float64)
    assert random.normal(KEY, out=out) is out
    assert out.tolist() == random.normal(KEY, 5).tolist()
    x = torch.arange(6)
    got = random.permutation(KEY, x)
    assert isinstance(got, torch.Tensor)
    assert got.tolist() == random.permutation(KEY, 6).tolist()


def test_scalars_are_numbers() -> None:
    assert isinstance(random.uniform(KEY), np.float64)
    assert isinstance(random.integers(KEY, 5), np.int64)


# ---- keys ---------------------------------------------------------------------------------------


def test_keys() -> None:
    assert random.key(5).tolist() == [0, 5]
    assert random.key(np.int32(5)).dtype == np.uint32
    assert random.key((3 << 32) + 4).tolist() == [3, 4]
    assert random.split(KEY).shape == (2, 2)
    assert random.split(KEY, (2, 3)).shape == (2, 3, 2)
    assert random.split(KEY, 0).shape == (0, 2)
    assert same(random.split(KEY, 6).reshape(2, 3, 2), random.split(KEY, (2, 3)))
    many = random.fold_in(KEY, np.array([[0, 1, 2], [3, 4, 2**40]]))
    assert many.shape == (2, 3, 2)
    assert same(many[1, 2], random.fold_in(KEY, 2**40))
    assert same(many[0, 1], random.fold_in(KEY, np.uint8(1)))
    assert not same(many[0, :2], random.split(KEY))


def test_a_child_is_the_cipher_twice() -> None:
    """As the docstrings say."""
    words = [np.array([word], np.uint32) for word in (1, 255 << 24)]
    between = tuple(x[0] for x in enciphered(*KEY, *words))
    data = (5 << 32) + 6
    wanted = enciphered(*between, *(np.array([x], np.uint32) for x in (6, 5)))
    assert random.fold_in(KEY, data).tolist() == [int(x[0]) for x in wanted]


# ---- bounds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("low", "high"), [(0, 1), (-3, 5), (1, 1.0625), (1000, 1016), (-2, -1)])
def test_uniform_numbers_stay_below_high(dtype: str, low: float, high: float) -> None:
    x = random.uniform(KEY, 50_000, dtype, low=low, high=high)
    wide = x.astype(np.float64)
    assert low <= wide.min()
    assert wide.max() < high
    assert abs(wide.mean() - (low + high) / 2) < 0.02 * (high - low) + float(
        np.spacing(x.dtype.type(high)) if dtype != "bfloat16" else 2.0**-7 * abs(high)
    )
    assert same(random.uniform(KEY, 50_000, dtype), random.uniform(KEY, 50_000, dtype, low=-0.0))


def test_means_and_deviations() -> None:
    x = random.normal(KEY, 100)
    assert same(random.normal(KEY, 100, loc=3, scale=2), x * 2 + 3)
    z = random.normal(KEY, 50, "complex128")
    assert np.allclose(z, x.view(complex) * np.sqrt(0.5), rtol=1e-15)
    assert same(random.normal(KEY, 50, "complex128", loc=3), z + 3)
    assert not random.normal(KEY, 9, scale=0).any()


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_of_whole_ranges(dtype: str) -> None:
    info = np.iinfo(dtype)
    x = random.integers(KEY, int(info.min), int(info.max), 4000, dtype, endpoint=True)
    assert same(x, random.integers(KEY, int(info.min), int(info.max) + 1, 4000, dtype))
    assert x.min() < info.min + int(info.max - info.min if info.bits < 64 else 2**64) // 100 + 2
    assert x.max() > info.max - (int(info.max) - int(info.min)) // 100 - 2
    top = random.integers(KEY, int(info.max), int(info.max), 3, dtype, endpoint=True)
    assert (top == info.max).all()


def test_integers_do_not_depend_on_the_dtype() -> None:
    wanted = random.integers(KEY, 100, shape=1000).tolist()
    for dtype in INTEGERS:
        assert random.integers(KEY, 0, 100, 1000, dtype).tolist() == wanted
    assert random.integers(KEY, 0, 1, 5).tolist() == [0] * 5


# ---- orders -------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_slices_of_an_array_stay_whole(axis: int) -> None:
    x = np.arange(24).reshape(2, 3, 4)[:, ::-1]
    order = random.permutation(KEY, x.shape[axis])
    assert sorted(order.tolist()) == list(range(x.shape[axis]))
    wanted = np.take(x, order, axis)
    assert same(random.permutation(KEY, x, axis), wanted)
    out = np.empty((4, 3, 2), int).T
    assert random.permutation(KEY, x, axis, out=out) is out
    assert same(out, wanted)
    assert same(random.permutation(KEY, x.tolist(), axis), wanted)


def test_orders_of_integers() -> None:
    out = np.empty(20, np.int64)[::2]
    assert random.permutation(KEY, 10, out=out) is out
    assert same(out, random.permutation(KEY, np.int8(10)))
    assert random.permutation(KEY, 0).tolist() == []


# ---- threads and traces -------------------------------------------------------------------------


def test_draws_in_several_threads_at_once() -> None:
    keys = random.split(KEY, 6)
    found: list[Any] = [None] * 6

    def work(k: int) -> None:
        with options(small=0):
            found[k] = random.normal(keys[k], 40_000), random.integers(keys[k], 7, shape=9000)

    workers = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for key, (x, i) in zip(keys, found, strict=True):
        assert same(x, random.normal(key, 40_000))
        assert same(i, random.integers(key, 7, shape=9000))


def function(key: Any, x: Any) -> Any:
    inner = random.fold_in(key, 3)
    return (
        random.uniform(inner, (3, dim("n")), low=-1) @ x,
        random.normal(inner, 4, "complex64", scale=2),
        random.integers(key, 2, 9, shape=(2, 2), dtype="int8"),
        random.bits(key, 3, "uint64"),
        random.permutation(key, x),
        random.permutation(key, 6),
        random.split(key, 3),
    )


def test_draws_in_programs() -> None:
    template = einloom.trace(function, "uint32[2]", "float64[n]")
    x = np.arange(5.0)
    program = template.bind([(2,), (5,)])
    for key in (KEY, random.key(3)):
        got = Executable(optimise(program), cpu())(key, x)
        wanted = (
            random.uniform(random.fold_in(key, 3), (3, 5), low=-1) @ x,
            random.normal(random.fold_in(key, 3), 4, "complex64", scale=2),
            random.integers(key, 2, 9, shape=(2, 2), dtype="int8"),
            random.bits(key, 3, "uint64"),
            random.permutation(key, x),
            random.permutation(key, 6),
            random.split(key, 3),
        )
        assert np.allclose(got[0], wanted[0], rtol=1e-13, atol=1e-13)
        for found, expected in zip(got[1:], wanted[1:], strict=True):
            assert same(found, expected)


# ---- bad arguments ------------------------------------------------------------------------------


def traced(fn: Call, *specs: str) -> Call:
    return lambda: einloom.trace(fn, *specs)


BAD: list[tuple[Call, type[EinloomError], str]] = [
    (lambda: random.key(-1), OptionError, "from 0 to"),
    (lambda: random.key(1 << 64), OptionError, "from 0 to"),
    (lambda: random.key(1.0), OptionError, "give an integer"),
    (lambda: random.key(True), OptionError, "give an integer"),
    (lambda: random.key("1"), OptionError, "give an integer"),
    (lambda: random.uniform(3, 4), CallError, "a seed is no key"),
    (lambda: random.uniform(np.zeros(2, np.int64)), DTypeError, "int64, not uint32"),
    (lambda: random.uniform([1, 2]), DTypeError, "make keys by"),
    (lambda: random.uniform(random.split(KEY)), ShapeError, r"shape \(2, 2\), not \(2,\)"),
    (lambda: random.split(np.uint32(3)), CallError, "a seed is no key"),
    (lambda: random.split(KEY, -1), ShapeError, ">= 0"),
    (lambda: random.split(KEY, 2.0), CallError, "give an integer"),
    (lambda: random.fold_in(KEY, -1), OptionError, "from 0 to"),
    (lambda: random.fold_in(KEY, 1 << 64), OptionError, "from 0 to"),
    (lambda: random.fold_in(KEY, [3, -1]), OptionError, "has -1"),
    (lambda: random.fold_in(KEY, 1.0), DTypeError, "give integers"),
    (lambda: random.fold_in(KEY, True), DTypeError, "give integers"),
    (lambda: random.uniform(KEY, (2, -1)), ShapeError, ">= 0"),
    (lambda: random.uniform(KEY, 1 << 60), MemoryLimitError, "draw parts"),
    (lambda: random.uniform(KEY, "ab"), CallError, "give an integer"),
    (lambda: random.uniform(KEY, 1.5), CallError, "give an integer"),
    (lambda: random.uniform(KEY, 2, "int32"), DTypeError, "it draws float16"),
    (lambda: random.uniform(KEY, 2, "longdouble"), DTypeError, "it draws float16"),
    (lambda: random.uniform(KEY, 2, ">f8"), DTypeError, "it draws float16"),
    (lambda: random.uniform(KEY, 2, "no such"), DTypeError, "no such"),
    (lambda: random.uniform(KEY, 2, 3.5), DTypeError, "is no dtype"),
    (lambda: random.uniform(KEY, 2, low=1), OptionError, "low < high"),
    (lambda: random.uniform(KEY, 2, low=np.nan), OptionError, "finite"),
    (lambda: random.uniform(KEY, 2, high=np.inf), OptionError, "finite"),
    (lambda: random.uniform(KEY, 2, high=1j), OptionError, "finite real"),
    (lambda: random.uniform(KEY, 2, low=-1e308, high=1e308), OptionError, "difference"),
    (lambda: random.uniform(KEY, 2, "float16", high=1e5), OptionError, "difference"),
    (lambda: random.uniform(KEY, 2, "float32", low=1, high=1 + 1e-12), OptionError, "apart"),
    (lambda: random.normal(KEY, 2, scale=-1), OptionError, ">= 0"),
    (lambda: random.normal(KEY, 2, loc="x"), OptionError, "finite real"),
    (lambda: random.bits(KEY, 2, "int32"), DTypeError, "it draws uint8"),
    (lambda: random.integers(KEY, 5, 5), OptionError, "no number"),
    (lambda: random.integers(KEY, 0), OptionError, "no number"),
    (lambda: random.integers(KEY, 0, 256, 3, "int8"), OptionError, "has not all"),
    (lambda: random.integers(KEY, -1, 5, 3, "uint8"), OptionError, "has not all"),
    (lambda: random.integers(KEY, 0.5, 2), CallError, "bounds are integers"),
    (lambda: random.integers(KEY, 0, 2, 3, "bool"), DTypeError, "it draws int8"),
    (lambda: random.uniform(KEY, 3, out=np.empty(4)), ShapeError, "leave one"),
    (lambda: random.uniform(KEY, dtype="f4", out=np.empty(4)), DTypeError, "leave one"),
    (lambda: random.uniform(KEY, out=np.empty(4, ">f8")), DTypeError, "it draws"),
    (lambda: random.uniform(KEY, out=np.broadcast_to(1.0, 3)), OptionError, "read-only"),
    (lambda: random.permutation(KEY, -1), ShapeError, ">= 0"),
    (lambda: random.permutation(KEY, 1.5), ShapeError, "x is a number"),
    (lambda: random.permutation(KEY, np.ones(3), 1), ShapeError, "x has 1 axes"),
    (lambda: random.permutation(KEY, np.ones(3), "a"), CallError, "give an integer"),
    (lambda: random.permutation(KEY, 3, out=np.ones(3)), ShapeError, "give int64"),
    (lambda: random.permutation(KEY, 3, out=np.broadcast_to(1, 3)), ConversionError, "read-only"),
    (traced(lambda k: random.uniform(k, out=np.ones(3)), "uint32[2]"), CallError, "leave it out"),
    (traced(lambda k: random.uniform(k, 3), "int32[2]"), DTypeError, "int32, not uint32"),
    (traced(lambda k: random.uniform(k, 3), "uint32[n]"), ShapeError, "not \\(2,\\)"),
    (traced(lambda x: random.permutation(KEY, x), "float64[3]"), CallError, "must be an argument"),
    (traced(lambda k: random.fold_in(k, k), "uint32[2]"), CallError, "known by then"),
    (traced(lambda k: random.fold_in(k, [1, 2]), "uint32[2]"), CallError, "one integer"),
]


@pytest.mark.parametrize(
    ("call", "error", "text"), BAD, ids=[f"{k} {said(t)}" for k, (_, _, t) in enumerate(BAD)]
)
def test_bad_arguments(call: Call, error: type[EinloomError], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


# ---- previously failed --------------------------------------------------------------------------

HUGE = 10**18
SHARED = np.lib.stride_tricks.as_strided(np.zeros(1), (3,), (0,))


@pytest.mark.parametrize("n", [HUGE, 10**19, 10**30])
@pytest.mark.parametrize("call", [random.uniform, random.permutation, random.split, random.bits])
def test_no_memory_is_an_error_of_its_own(call: Call, n: int) -> None:
    with pytest.raises(MemoryLimitError, match=f"random.{call.__name__}.*{n}"):
        call(KEY, n)


@pytest.mark.parametrize("call", [random.uniform, random.split])
def test_more_axes_than_an_array_has(call: Call) -> None:
    with pytest.raises(ShapeError, match=f"random.{call.__name__}"):
        call(KEY, (1,) * 65)


@pytest.mark.parametrize(
    ("dtype", "loc", "scale"),
    [("float32", 1e300, 1), ("float16", 1e6, 1), ("float32", 0, 1e300), ("complex64", -1e300, 1)],
)
def test_means_that_no_number_of_the_dtype_is(dtype: str, loc: float, scale: float) -> None:
    with pytest.raises(OptionError, match="does not reach as far"):
        random.normal(KEY, 3, dtype, loc=loc, scale=scale)


@pytest.mark.parametrize("small", [0, np.inf])
@pytest.mark.parametrize(
    ("dtype", "low", "high"),
    [
        ("float32", 0.7, 0.7000001), ("float16", 0.1, 0.2), ("float16", 0.1, 0.1002),
        ("bfloat16", 0.7, 0.71), ("float32", -0.3, 0.7), ("float16", -0.1, 0.3), ("complex64", 0.7, 0.8),
    ],
)  # fmt: skip
def test_uniform_numbers_are_not_below_low(
    dtype: str, low: float, high: float, small: float
) -> None:
    with options(small=small):
        x = random.uniform(KEY, 1 << 16, dtype, low=low, high=high)
    wide = x.view("f4").astype(float) if dtype == "complex64" else x.astype(float)
    assert low <= wide.min()
    assert wide.max() < high


def test_no_number_between_bounds() -> None:
    with pytest.raises(OptionError, match="from low on below high"):
        random.uniform(KEY, 3, "float16", low=0.10001, high=0.100037)


def test_keys_of_foreign_byte_order() -> None:
    assert same(random.uniform(KEY.astype(">u4"), 5), random.uniform(KEY.astype("<u4"), 5))


@pytest.mark.parametrize("call", [random.uniform, random.normal, einloom.cumsum])
def test_out_whose_elements_share_memory(call: Call) -> None:
    with pytest.raises(CallError, match="elements of out share memory"):
        call(np.ones(3) if call is einloom.cumsum else KEY, out=SHARED)


def test_an_order_whose_elements_share_memory() -> None:
    for x, out in ((3, SHARED.view(int)), (np.ones(3), SHARED)):
        with pytest.raises(CallError, match="elements of out share memory"):
            random.permutation(KEY, x, out=out)


@pytest.mark.parametrize("x", [5.0, "abc", np.array(5)], ids=["float", "text", "array"])
def test_an_order_of_a_number(x: Any) -> None:
    with pytest.raises(ShapeError, match="x is a number; pass an integer, or an array"):
        random.permutation(KEY, x)
