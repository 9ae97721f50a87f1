"""What does not fit is refused with an error of ours that names the op, or gives what is documented.

Shapes and attributes are the catalogue's to refuse (see test_catalogue): here are arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import BACKENDS
from tests.backend.calls import OF_THEIR_OWN, calls, operands
from tests.each import each

from einloom._base.errors import (
    CallError,
    ConversionError,
    DTypeError,
    EinloomError,
    MemoryLimitError,
    ProgramError,
    ShapeError,
    Unsupported,
)
from einloom._base.options import options
from einloom.backend.catalogue import CATALOGUE, row_of
from einloom.backend.spec import ArraySpec, dtype_from_name

CPU = BACKENDS["cpu"]
DTYPES = CPU.capabilities()
MOST = 64 if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else 32
x, y = np.ones((2, 3)), np.ones((2, 3))
both = np.ones((4, 3))
frozen = np.ones((2, 3))
frozen.flags.writeable = False


def reduce(*axes: int) -> dict[str, Any]:
    return {"axes": axes}


def padding(low: int) -> dict[str, Any]:
    return {"low": (low,), "high": (0,), "interior": (0,), "value": 0}


def windows(shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
    return np.lib.stride_tricks.as_strided(np.zeros(99), shape, strides)


BAD: list[tuple[Any, Any, list[Any], dict[str, Any], type[EinloomError], str]] = [
    # op, attributes, operands, keywords, error, message
    ("add", {}, [x, np.ones((3, 2))], {}, ProgramError, "broadcast them first"),
    ("add", {}, [x, np.ones(3)], {}, ProgramError, "broadcast them first"),
    ("add", {}, [x, 1.0], {}, ConversionError, "operand 1 is a builtins.float"),
    ("add", {}, [[1.0], x], {}, ConversionError, "pass a numpy.ndarray"),
    ("add", {}, [x], {}, ProgramError, "takes operands"),
    ("add", {}, [x, np.ones((2, 3), "f4")], {}, DTypeError, "convert one first"),
    ("add", {}, [x, x.astype(">f8")], {}, DTypeError, "foreign byte order"),
    ("add", {}, [x, y], {"out": np.ones((2, 3), "f4")}, CallError, "the result is float64"),
    ("add", {}, [x, y], {"out": np.ones((3, 2))}, CallError, r"the result is float64\[2,3\]"),
    ("add", {}, [x, y], {"out": np.ones((2, 3)).astype(">f8")}, CallError, "out is"),
    ("add", {}, [x, y], {"out": frozen}, CallError, "cannot be written"),
    ("add", {}, [x, y], {"out": [0.0]}, CallError, "pass a numpy.ndarray"),
    ("add", {}, [both[:2], y], {"out": both[1:3]}, CallError, "overlaps operand 0"),
    ("add", {}, [y, both[:2]], {"out": both[1:3]}, CallError, "overlaps operand 1"),
    ("less", {}, [x, y], {"out": x}, CallError, "out is float64"),
    ("copy", {}, [x], {"out": x}, CallError, "overlaps operand 0"),
    ("cast", {"dtype": "float64"}, [x], {"out": x}, CallError, "overlaps operand 0"),
    ("reshape", {"shape": (3, 2)}, [x], {"out": x.reshape(3, 2)}, CallError, "overlaps"),
    ("concatenate", {"axis": 0}, [both[:1], both[2:3]], {"out": both[1:3]}, CallError, "operand 1"),
    ("matmul", {}, [both[:3], both[:3]], {"out": both[1:]}, CallError, "overlaps"),
    ("reduce_sum", reduce(0), [both], {"out": both[0]}, CallError, "overlaps"),
    ("transpose", {"perm": (1, 0)}, [x], {"out": x.T.copy()}, CallError, "is a view"),
    ("split", {"axis": 0, "sizes": (1, 1)}, [x], {"out": x}, CallError, "is a view"),
    ("reduce_sum", reduce(2), [x], {}, ProgramError, "out of range"),
    ("reduce_sum", reduce(-1), [x], {}, ProgramError, "out of range"),
    ("reduce_sum", reduce(1, 1), [x], {}, ProgramError, "names an axis twice"),
    ("argmax", {"axis": 0}, [np.ones((0, 2))], {}, ProgramError, "is empty"),
    ("argmax", {"axis": 0}, [np.ones(2, complex)], {}, DTypeError, "complex"),
    ("maximum", {}, [np.ones(2, complex)] * 2, {}, DTypeError, "complex"),
    ("less", {}, [np.ones(2, complex)] * 2, {}, DTypeError, "complex"),
    ("subtract", {}, [np.ones(2, bool)] * 2, {}, DTypeError, "bool"),
    ("sqrt", {}, [np.ones(2, int)], {}, DTypeError, "int"),
    ("bitwise_and", {}, [x, y], {}, DTypeError, "float64"),
    ("select", {}, [x, x, y], {}, DTypeError, "operand pred"),
    ("exp", {}, [np.ones(2, object)], {}, DTypeError, "object"),
    ("convert", {"dtype": "float32"}, [x], {}, ProgramError, "use cast"),
    ("matmul", {}, [x, y], {}, ProgramError, "matmul"),
    ("cholesky", {}, [np.eye(2)], {}, Unsupported, "no kernel on the CPU"),
    ("nowhere", {}, [x], {}, ProgramError, "unknown op"),
    # previously failed
    ("copy", {}, [np.ones((5, 4))], {"out": windows((5, 4), (8, 8))}, CallError, "share memory"),
    ("copy", {}, [np.ones((5, 4))], {"out": windows((5, 4), (24, 8))}, CallError, "share memory"),
    ("copy", {}, [np.ones((5, 4))], {"out": windows((5, 4), (0, 8))}, CallError, "share memory"),
    ("copy", {}, [np.ones(5)], {"out": windows((5,), (4,))}, CallError, "share memory"),
    ("pad", padding(2**62), [np.ones(3)], {}, ShapeError, r"float64\[4611686018427387907\]"),
    ("pad", padding(2**70), [np.ones(3)], {}, ShapeError, "more than an address can reach"),
    ("pad", padding(2**45), [np.ones(3)], {}, MemoryLimitError, r"no memory .* 256\.00 TiB"),
    (
        "broadcast_in_dim",
        {"shape": (2**62, 3), "axes": (1,)},
        [np.ones(3)],
        {},
        ShapeError,
        "reach",
    ),
    ("reshape", {"shape": (0, 2**70)}, [np.ones((0, 3))], {}, ShapeError, "more than an address"),
    ("embed_diagonal", {"axis": 0, "copies": 63}, [np.ones(2)], {}, ShapeError, r"2,2,2\]"),
    ("reduce_sum", {"axes": {0}}, [x], {}, ProgramError, "must be a tuple"),
    ("reduce_sum", {"axes": range(2)}, [x], {}, ProgramError, "must be a tuple"),
    ("reduce_sum", {"axes": {0: 1}}, [x], {}, ProgramError, "must be a tuple"),
    ("add", None, [x, y], {}, ProgramError, "attributes as a dict"),
    ([], {}, [x], {}, ProgramError, r"unknown op \[\]"),
    ("cast", {"dtype": "U1"}, [x], {}, DTypeError, "is none of"),
    ("cast", {"dtype": "(2,)f4"}, [x], {}, DTypeError, "is none of"),
    *(
        ("cast", {"dtype": dtype}, [np.array([1, other], object)], {}, DTypeError, "is no number")
        for dtype in ("int64", "float32", "complex64", "bool", "int4")
        for other in (None, "7", np.str_("7"), np.datetime64(7, "s"), [1])
    ),
]


@pytest.mark.parametrize(
    ("op", "attrs", "arrays", "keywords", "error", "message"),
    BAD,
    ids=[f"{row[0]} {row[5]}" for row in BAD],
)
def test_refused(
    op: Any,
    attrs: Any,
    arrays: list[Any],
    keywords: dict[str, Any],
    error: type[EinloomError],
    message: str,
) -> None:
    """And nothing was written."""
    before = [np.array(a) for a in arrays]
    with pytest.raises(error, match=message) as caught:
        CPU.apply(op, attrs, *arrays, **keywords)
    assert str(op) in str(caught.value)
    for now, then in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_out_that_only_seems_to_overlap() -> None:
    """Odd and even elements of one buffer do not."""
    z = np.arange(12.0)
    CPU.apply("negate", {}, z[::2], out=z[1::2])
    np.testing.assert_array_equal(z[1::2], -z[::2])


def test_out_that_is_a_slice_of_other_memory() -> None:
    """In any order, from any end, and along a diagonal."""
    z = np.zeros((4, 6, 6, 2))
    cube, source = z[::-1, 1:5:2], np.arange(96.0)
    for out in (cube.T, cube[..., ::-1], np.einsum("ijjk->kji", z), np.zeros(3, "i1,f8")["f1"]):
        given = source[: out.size].reshape(out.shape)
        assert CPU.apply("copy", {}, given, out=out) is out
        np.testing.assert_array_equal(out, given)


def test_out_whose_overlap_is_hard_to_tell() -> None:
    """Even and odd bytes, which a search finds out after minutes: it is refused at once."""
    z = np.zeros(2 * 10**6 + 2, np.int8)
    steps = (24446, 24454, 24478, 24482, 24502, 24506, 24526, 24538)
    entangled = np.lib.stride_tricks.as_strided(z, (9,) * 7 + (2,), steps)
    attrs = {"axes": tuple(range(7)), "initial": None}
    with pytest.raises(CallError, match=r"reduce_max\(out=.*cannot be told whether it overlaps"):
        CPU.apply("reduce_max", attrs, entangled, out=z[1::1000001])


def test_one_array_twice() -> None:
    """Operands may be each other, and `out` may be both."""
    z = np.arange(3.0)
    np.testing.assert_array_equal(CPU.apply("multiply", {}, z, z, out=z), [0, 1, 4])


# ---- dtypes that an op does not take --------------------------------------------------------------

OTHER = ("datetime64[s]", "timedelta64[s]", "<U3", "float8_e4m3fn", "int4", "object", "longdouble")
REFUSED = [
    (op, name)
    for op in DTYPES
    for name in OTHER
    if op not in OF_THEIR_OWN and name not in DTYPES[op] and "other" not in CATALOGUE[op].dtypes
]


@each(("op", "name"), REFUSED)
def test_dtype_not_claimed(op: str, name: str) -> None:
    """Inference or the backend refuses, and names op and dtype."""
    call = next(call for call in calls(op) if call.shapes[0] and 0 not in call.shapes[0])
    dtype = dtype_from_name(name)
    arrays = [np.ones(spec.shape).astype(spec.dtype) for spec in call.specs(dtype)]
    with pytest.raises((DTypeError, Unsupported)) as caught:
        CPU.apply(op, call.attrs, *arrays)
    assert op in str(caught.value)
    assert any(text in str(caught.value) for text in (name, dtype.name, dtype.str))


MOVING = [
    op
    for op in DTYPES
    if (row_of(op).group in ("structural", "host", "indexing") and not op.startswith("scatter"))
    or op in ("identity", "select", "conj", "unfold")
]


@pytest.mark.parametrize("op", [op for op in DTYPES if op not in MOVING])
def test_foreign_byte_order(op: str, rng: np.random.Generator) -> None:
    """Converted by the fronts, refused by what computes."""
    name = next(name for name in ("float64", "int64", "complex128") if name in DTYPES[op])
    call = calls(op)[1]
    arrays = operands(call, name, "C", rng)
    swapped = [a.astype(a.dtype.newbyteorder()) if a.dtype.kind != "b" else a for a in arrays]
    with pytest.raises(Unsupported, match="byte order") as caught:
        CPU.apply(op, call.attrs, *swapped)
    assert repr(op) in str(caught.value)
    assert "convert" in str(caught.value)


@pytest.mark.parametrize("small", [0, 10**9])
@pytest.mark.parametrize(
    "op",
    [op for op in MOVING if op not in ("constant", "cast", "convert", "contiguous", "shape_of")],
)
def test_foreign_byte_order_is_moved(op: str, small: int, rng: np.random.Generator) -> None:
    """Bytes are bytes: same values, same dtype."""
    for call in calls(op):
        arrays = operands(call, "float64", "C", rng)
        swapped = [a.astype(a.dtype.newbyteorder()) if a.dtype.kind != "b" else a for a in arrays]
        with options(small=small):
            got = CPU.apply(op, call.attrs, *swapped)
            want = CPU.apply(op, call.attrs, *arrays)
        pairs = zip(*(r if isinstance(r, tuple) else (r,) for r in (got, want)), strict=True)
        for one, other in pairs:
            assert one.dtype == other.dtype.newbyteorder()
            np.testing.assert_array_equal(one, other)


def test_foreign_byte_order_is_cast() -> None:
    z = np.array([300.0, np.nan, -1.5])
    for name in ("uint8", "float32", "complex64", "bool", "float64", ">f8", ">i2"):
        want = CPU.apply("cast", {"dtype": np.dtype(name).newbyteorder("=").name}, z)
        got = CPU.apply("cast", {"dtype": name}, z.astype(">f8"))
        assert got.dtype == np.dtype(name)
        np.testing.assert_array_equal(got, want)


# ---- as many axes as NumPy has ----------------------------------------------------------------------

deep = np.arange(4.0).reshape((2,) + (1,) * (MOST - 2) + (2,))
AXES = tuple(range(MOST))
FLIPPED = tuple(reversed(AXES))
DEEP: list[tuple[str, dict[str, Any], int, Callable[[], Any]]] = [
    # op, attributes, number of operands, result
    ("add", {}, 2, lambda: deep + deep),
    ("exp", {}, 1, lambda: np.exp(deep)),
    ("floor", {}, 1, lambda: deep),
    ("transpose", {"perm": FLIPPED}, 1, lambda: deep.T),
    ("reverse", {"axes": (0, MOST - 1)}, 1, lambda: deep.ravel()[::-1].reshape(deep.shape)),
    ("reshape", {"shape": (2, 2)}, 1, lambda: np.arange(4.0).reshape(2, 2)),
    ("squeeze", {"axes": AXES[1:-1]}, 1, lambda: np.arange(4.0).reshape(2, 2)),
    ("copy", {}, 1, lambda: deep),
    ("contiguous", {}, 1, lambda: deep),
    ("extract_diagonal", {"axes": (0, MOST - 1)}, 1, lambda: np.diag(deep.reshape(2, 2))),
    ("tril", {"k": 0}, 1, lambda: np.where([True, False], deep, 0)),
    ("concatenate", {"axis": 5}, 2, lambda: np.concatenate([deep, deep], 5)),
    ("cast", {"dtype": "int8"}, 1, lambda: deep.astype("i1")),
    ("reduce_sum", {"axes": AXES[:-1]}, 1, lambda: [2.0, 4.0]),
    ("reduce_max", {"axes": AXES[1:], "initial": None}, 1, lambda: [1.0, 3.0]),
    ("argmax", {"axis": 0}, 1, lambda: np.ones(2, int)),
]


@pytest.mark.parametrize("small", [0, 10**9])
@pytest.mark.parametrize(("op", "attrs", "count", "want"), DEEP, ids=[row[0] for row in DEEP])
def test_most_axes(
    op: str, attrs: dict[str, Any], count: int, want: Callable[[], Any], small: int
) -> None:
    arrays = [deep] * count
    with options(small=small):
        got = CPU.apply(op, attrs, *arrays)
    np.testing.assert_array_equal(got.ravel(), np.ravel(want()))


@pytest.mark.parametrize(
    ("op", "attrs"),
    [
        ("expand_dims", {"axes": (0,)}),
        ("reshape", {"shape": (1,) * MOST + (4,)}),
        ("embed_diagonal", {"axis": 0, "copies": 1}),
        ("broadcast_in_dim", {"shape": (3, *deep.shape), "axes": tuple(range(1, MOST + 1))}),
        ("dot_general", {"batch": ((), ()), "contracting": ((0,), (0,))}),
    ],
)
def test_too_many_axes(op: str, attrs: dict[str, Any]) -> None:
    arrays = [deep] * len(CATALOGUE[op].operands)
    with pytest.raises(Unsupported, match="axes") as caught:
        CPU.apply(op, attrs, *arrays)
    assert op in str(caught.value)


def test_op_without_kernel() -> None:
    with pytest.raises(Unsupported, match=r"'cholesky' has no kernel on the CPU; .*dot_general"):
        CPU.bind("cholesky", {}, (), (ArraySpec(np.dtype("f8"), ()),))
