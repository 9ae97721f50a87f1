"""The op catalogue: inference takes what is legal, refuses what is not, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.laws import CALLS, LAWS, Call, einsum_terms

from einloom._base.errors import DTypeError, EinloomError, ProgramError
from einloom.backend.catalogue import CATALOGUE, dot_dims, infer, row_of
from einloom.backend.cpu import cpu
from einloom.backend.spec import (
    ArraySpec,
    compute_dtype,
    dtype_from_name,
    dtype_name,
    is_lowprec,
)

F8 = np.dtype("float64")


def spec(*shape: int, dtype: Any = F8) -> ArraySpec:
    return ArraySpec(np.dtype(dtype), shape)


BAD: list[tuple[str, dict[str, Any], tuple[ArraySpec, ...], str]] = [
    ("transpose", {"perm": (0, 0)}, (spec(2, 3),), "names an axis twice"),
    ("transpose", {"perm": (0,)}, (spec(2, 3),), "leaves out axes"),
    ("transpose", {"perm": (0, 2)}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": (0, -1)}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": (0, True)}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": "10"}, (spec(2, 3),), "out of range"),
    ("transpose", {"perm": 1}, (spec(2, 3),), "malformed"),
    ("transpose", {"perm": None}, (spec(),), "malformed"),
    ("transpose", {}, (spec(2, 3),), "takes attributes"),
    ("transpose", {"perm": (0,), "axes": ()}, (spec(2),), "takes attributes"),
    ("transpose", {"perm": (0,)}, (spec(2), spec(2)), "takes operands"),
    ("squeeze", {"axes": (0,)}, (spec(2, 1),), "not all of size 1"),
    ("squeeze", {"axes": (1, 1)}, (spec(2, 1),), "names an axis twice"),
    ("squeeze", {"axes": (2,)}, (spec(2, 1),), "out of range"),
    ("squeeze", {"axes": (0,)}, (spec(0),), "not all of size 1"),
    ("expand_dims", {"axes": (3,)}, (spec(2, 1),), "out of range"),
    ("expand_dims", {"axes": (0, 0)}, (spec(2, 1),), "names an axis twice"),
    ("expand_dims", {"axes": 0}, (spec(2),), "malformed"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": (0,)}, (spec(3),), "does not fit"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": (1, 0)}, (spec(3, 2),), "must increase"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": ()}, (spec(3),), "one for each"),
    ("broadcast_in_dim", {"shape": (2, 3), "axes": (2,)}, (spec(3),), "out of range"),
    ("broadcast_in_dim", {"shape": (-1,), "axes": ()}, (spec(),), "integers >= 0"),
    ("broadcast_in_dim", {"shape": (2.0,), "axes": ()}, (spec(),), "integers >= 0"),
    ("broadcast_in_dim", {"shape": 2, "axes": ()}, (spec(),), "malformed"),
    ("extract_diagonal", {"axes": (0,)}, (spec(2, 2),), "two or more"),
    ("extract_diagonal", {"axes": (0, 1)}, (spec(2, 3),), "equal in size"),
    ("extract_diagonal", {"axes": (1, 0)}, (spec(2, 2),), "increasing"),
    ("extract_diagonal", {"axes": (0, 0)}, (spec(2, 2),), "names an axis twice"),
    ("embed_diagonal", {"axis": 1, "copies": 1}, (spec(2),), "out of range"),
    ("embed_diagonal", {"axis": 0, "copies": 0}, (spec(2),), "must be positive"),
    ("embed_diagonal", {"axis": 0, "copies": 1.5}, (spec(2),), "must be positive"),
    ("embed_diagonal", {"axis": (0,), "copies": 1}, (spec(2),), "out of range"),
    ("convert", {"dtype": 5}, (spec(2),), "no name of a dtype"),
    ("convert", {"dtype": None}, (spec(2),), "no name of a dtype"),
    ("convert", {"dtype": "float99"}, (spec(2),), "unknown here"),
    ("copy", {}, (), "takes operands"),
    ("conj", {"axes": ()}, (spec(2),), "takes attributes"),
    ("add", {}, (spec(2),), "takes operands"),
    ("add", {}, (spec(2), spec(3)), "differ"),
    ("add", {}, (spec(2), spec(1)), "broadcast first"),
    ("multiply", {}, (spec(2), spec(2, dtype="f4")), "convert"),
    ("reduce_sum", {"axes": (1,)}, (spec(2),), "out of range"),
    ("reduce_sum", {"axes": (0, 0)}, (spec(2),), "names an axis twice"),
    ("dot_general", {"batch": ((), ()), "contracting": ((0,), (0,))}, (spec(2), spec(3)), "differ"),
    ("dot_general", {"batch": ((), ()), "contracting": ((0,), ())}, (spec(2), spec(2)), "differ"),
    (
        "dot_general",
        {"batch": ((0,), (0,)), "contracting": ((0,), (0,))},
        (spec(2), spec(2)),
        "names an axis twice",
    ),
    (
        "dot_general",
        {"batch": ((), ()), "contracting": ((1,), (0,))},
        (spec(2), spec(2)),
        "out of range",
    ),
    (
        "dot_general",
        {"batch": ((), ()), "contracting": ((), ())},
        (spec(2), spec(2, dtype="i8")),
        "dtypes",
    ),
    ("dot_general", {"batch": (), "contracting": ((), ())}, (spec(2), spec(2)), "malformed"),
    ("dot_general", {"batch": ((), ()), "contracting": 3}, (spec(2), spec(2)), "malformed"),
    ("sum_product", {"terms": ((0,),), "output": ()}, (), "takes operands"),
    ("sum_product", {"terms": ((0,),), "output": ()}, (spec(2), spec(2)), "one term for each"),
    ("sum_product", {"terms": ((0,), (0,)), "output": ()}, (spec(2), spec(3)), "has sizes 2 and 3"),
    (
        "sum_product",
        {"terms": ((0,), (0,)), "output": ()},
        (spec(2), spec(2, dtype="i8")),
        "one dtype",
    ),
    ("sum_product", {"terms": ((0, 0),), "output": ()}, (spec(2, 2),), "once each"),
    ("sum_product", {"terms": ((0,),), "output": ()}, (spec(2, 2),), "once each"),
    ("sum_product", {"terms": ((0,),), "output": (0, 0)}, (spec(2),), "repeats a label"),
    ("sum_product", {"terms": ((0,),), "output": (1,)}, (spec(2),), "unknown one"),
    ("sum_product", {"terms": (0,), "output": ()}, (spec(2),), "malformed"),
    ("constant", {"value": "1", "dtype": "float64"}, (), "no Python number"),
    ("constant", {"value": (1, 2), "dtype": "float64"}, (), "no Python number"),
    ("constant", {"value": None, "dtype": "float64"}, (), "no Python number"),
    ("constant", {"value": 1j, "dtype": "float64"}, (), "is no float64"),
    ("constant", {"value": 1, "dtype": "float65"}, (), "unknown here"),
    ("constant", {"value": 1, "dtype": "int8"}, (spec(),), "takes operands"),
]


def test_tables_are_complete() -> None:
    """Every row has a law here, legal calls and illegal ones; the backend has a kernel for it."""
    sums = {op for op in CATALOGUE if einsum_terms(op, CALLS_OF[op].attrs, (1, 1)) is not None}
    assert set(LAWS) | sums == set(CATALOGUE)
    assert {call.op for call in CALLS} | {"convert", "constant"} == set(CATALOGUE)
    assert {op for op, *_ in BAD} == set(CATALOGUE)
    assert set(cpu().capabilities()) == set(CATALOGUE)


CALLS_OF = {op: Call(op, {}, ()) for op in CATALOGUE} | {call.op: call for call in CALLS}


@pytest.mark.parametrize("op", CATALOGUE)
def test_row(op: str) -> None:
    row = row_of(op)
    assert row.name == op
    assert row.law
    assert row.category in ("session", "boundary", "host")
    assert row.is_view <= (row.category == "session")


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "message"),
    BAD,
    ids=[f"{op} {message}" for op, _, _, message in BAD],
)
def test_refused(
    op: str, attrs: dict[str, Any], inputs: tuple[ArraySpec, ...], message: str
) -> None:
    with pytest.raises(EinloomError, match=message) as caught:
        infer(op, attrs, inputs)
    assert isinstance(caught.value, (ProgramError, DTypeError))
    assert op in str(caught.value) or isinstance(caught.value, DTypeError)


def test_unknown_op() -> None:
    with pytest.raises(ProgramError, match="unknown op 'fft'; the catalogue has transpose, "):
        infer("fft", {}, ())


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_inferred_shape_is_the_shape_of_the_law(call: Call) -> None:
    """Where the definition fixes the shape by itself."""
    equation = einsum_terms(call.op, call.attrs, [len(shape) for shape in call.shapes])
    output = call.output(F8)
    assert output.dtype == F8
    assert all(type(n) is int for n in output.shape)
    if equation is not None:
        sizes = {
            label: n
            for labels, shape in zip(equation[0], call.shapes, strict=True)
            for label, n in zip(labels, shape, strict=True)
        }
        assert output.shape == tuple(sizes[label] for label in equation[1])


def test_inference_keeps_the_dtype_of_operands() -> None:
    for name in sorted(cpu().capabilities()["add"]):
        assert infer("add", {}, (spec(2, dtype=dtype_from_name(name)),) * 2).dtype.name
        for call in CALLS:
            assert call.output(dtype_from_name(name)).dtype == dtype_from_name(name)


def test_dot_dims_sorts_every_axis_into_one_role() -> None:
    attrs = {"batch": ((3,), (0,)), "contracting": ((0, 2), (4, 1))}
    dims = dot_dims(attrs, (2, 3, 5, 7, 11), (7, 5, 13, 17, 2))
    assert (dims.batch, dims.m, dims.n, dims.k) == (7, 33, 221, 10)
    assert dims.lhs_free == (1, 4)
    assert dims.rhs_free == (2, 3)
    assert sorted(dims.lhs_batch + dims.lhs_free + dims.lhs_contracting) == [0, 1, 2, 3, 4]
    assert sorted(dims.rhs_batch + dims.rhs_free + dims.rhs_contracting) == [0, 1, 2, 3, 4]


# ---- dtypes ------------------------------------------------------------------------------------

NAMES = sorted({name for names in cpu().capabilities().values() for name in names})


@pytest.mark.parametrize("name", [*NAMES, "float8_e4m3fn", "int4", "datetime64[s]", "<U3"])
def test_dtype_names_round_trip(name: str) -> None:
    if name in ("bfloat16", "float8_e4m3fn", "int4"):
        pytest.importorskip("ml_dtypes")
    dtype = dtype_from_name(name)
    assert dtype_from_name(dtype_name(dtype)) == dtype
    if name in NAMES:
        assert dtype_name(dtype) == name


@pytest.mark.parametrize("name", ["float65", "", "os", 5, None, ["float64"]])
def test_unknown_dtype(name: Any) -> None:
    with pytest.raises(DTypeError, match="dtype"):
        dtype_from_name(name)


def test_unknown_dtype_names_the_remedy() -> None:
    with pytest.raises(DTypeError, match=r"pip install"):
        dtype_from_name("bfloat17")


def test_half_precisions_compute_in_float32() -> None:
    pytest.importorskip("ml_dtypes")
    for name in NAMES:
        wide = "float32" if name in ("float16", "bfloat16") else name
        assert dtype_name(compute_dtype(dtype_from_name(name))) == wide
        assert is_lowprec(dtype_from_name(name)) == (name == "bfloat16")


def test_array_spec() -> None:
    one = spec(2, 0, 3, dtype="f4")
    assert (str(one), one.size, one.nbytes) == ("float32[2,0,3]", 0, 0)
    assert (str(spec()), spec().nbytes) == ("float64[]", 8)
    assert spec(*[10**100] * 2).nbytes == 8 * 10**200
    assert spec(2) == spec(2)
    assert len({spec(2), spec(2), spec(3)}) == 2
