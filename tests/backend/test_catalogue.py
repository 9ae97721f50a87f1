"""The op catalogue: inference takes what is legal, refuses what is not, and says why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.bad_calls import BAD, spec
from tests.backend.calls import CALLS, OF_THEIR_OWN, Call
from tests.backend.inferences import INFERENCES
from tests.backend.laws import LAWS, einsum_terms
from tests.backend.scalars import SCALARS
from tests.each import each

from einloom._base.errors import DTypeError, EinloomError, ProgramError
from einloom._base.options import options
from einloom.backend.catalogue import CATALOGUE, dot_dims, infer, row_of
from einloom.backend.cpu import cpu
from einloom.backend.dtypes import ANY, integer_range, real_of
from einloom.backend.spec import (
    ArraySpec,
    compute_dtype,
    dtype_from_name,
    dtype_name,
    is_lowprec,
)


def test_tables_are_complete() -> None:
    """Every op has bad calls and legal ones; those with a kernel have a meaning."""
    assert {op for op, *_ in BAD} == set(CATALOGUE)
    with_kernel = set(cpu().capabilities())
    assert {call.op for call in CALLS} | OF_THEIR_OWN | {"identity"} == with_kernel
    assert with_kernel | {op for op, *_ in INFERENCES} == set(CATALOGUE)
    sums = {"dot_general", "matmul", "sum_product"}
    assert set(LAWS) | set(SCALARS) | sums == with_kernel


@pytest.mark.parametrize("op", CATALOGUE)
def test_row(op: str) -> None:
    row = row_of(op)
    assert row.name == op
    assert row.law
    assert row.group
    assert row.category in ("session", "boundary", "host", "extension")
    assert row.view in ("never", "maybe", "always")
    assert len(row.classes) == len(row.operands)
    assert row.dtypes <= ANY


@each(("op", "attrs", "inputs", "message"), BAD)
def test_refused(
    op: str, attrs: dict[str, Any], inputs: tuple[ArraySpec, ...], message: str
) -> None:
    with pytest.raises(EinloomError, match=message) as caught:
        infer(op, attrs, inputs)
    assert isinstance(caught.value, (ProgramError, DTypeError))
    assert op in str(caught.value) or isinstance(caught.value, DTypeError)


def test_unknown_op() -> None:
    with pytest.raises(ProgramError, match="unknown op 'nowhere'; the catalogue has add, "):
        infer("nowhere", {}, ())
    with pytest.raises(ProgramError, match=r"unknown op \[\]"):
        infer([], {}, ())  # type: ignore[arg-type]


LEGAL = {  # of every class of dtypes, one name
    "bool": "bool", "int": "int16", "uint": "uint64", "float": "float32", "complex": "complex64",
    "object": "object", "storage": "int4", "other": "<U3",
}  # fmt: skip


@each("call", CALLS)
def test_inferred(call: Call) -> None:
    """Every dtype that the row takes, and the shape of the definition; dtypes that it does not take."""
    equation = einsum_terms(call.op, call.attrs, [len(shape) for shape in call.shapes])
    row = row_of(call.op)
    for name in LEGAL.values():
        dtype = dtype_from_name(name)
        if not call.takes(dtype):
            with pytest.raises(DTypeError, match=f"{call.op}: operand .* takes"):
                call.outputs(dtype)
            continue
        outputs = call.outputs(dtype)
        expected = {"bool": "bool", "index": "int64", "real": dtype_name(real_of(dtype))}
        if "complex" in row.results:
            wide = np.complex64 if dtype.kind == "V" else np.result_type(dtype, np.complex64)
            expected["complex"] = dtype_name(np.dtype(wide))
        results = row.results if len(row.results) > 1 else row.results * len(outputs)
        assert [dtype_name(x.dtype) for x in outputs] == [expected.get(r, name) for r in results]
        assert all(type(n) is int for x in outputs for n in x.shape)
        if equation is not None:
            pairs = zip(equation[0], call.shapes, strict=True)
            sizes = {
                label: n for labels, shape in pairs for label, n in zip(labels, shape, strict=True)
            }
            assert outputs[0].shape == tuple(sizes[label] for label in equation[1])


@pytest.mark.parametrize(
    ("op", "attrs", "inputs", "outputs"), INFERENCES, ids=[row[0] for row in INFERENCES]
)
def test_inferred_without_kernel(
    op: str, attrs: dict[str, Any], inputs: tuple[ArraySpec, ...], outputs: str
) -> None:
    assert " ".join(map(str, infer(op, attrs, inputs))) == outputs


def test_dot_dims_sorts_every_axis_into_one_role() -> None:
    attrs = {"batch": ((3,), (0,)), "contracting": ((0, 2), (4, 1))}
    dims = dot_dims(attrs, (2, 3, 5, 7, 11), (7, 5, 13, 17, 2))
    assert (dims.batch, dims.m, dims.n, dims.k) == (7, 33, 221, 10)
    assert dims.lhs_free == (1, 4)
    assert dims.rhs_free == (2, 3)
    assert sorted(dims.lhs_batch + dims.lhs_free + dims.lhs_contracting) == [0, 1, 2, 3, 4]
    assert sorted(dims.rhs_batch + dims.rhs_free + dims.rhs_contracting) == [0, 1, 2, 3, 4]


# ---- dtypes ------------------------------------------------------------------------------------

LOW = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "int4", "uint4")
NAMES = sorted({name for names in cpu().capabilities().values() for name in names})


@pytest.mark.parametrize("name", [*NAMES, "float8_e4m3fn", "int4", "datetime64[s]", "<U3"])
def test_dtype_names_round_trip(name: str) -> None:
    if name in ("bfloat16", "float8_e4m3fn", "int4"):
        pytest.importorskip("ml_dtypes")
    dtype = dtype_from_name(name)
    assert dtype_from_name(dtype_name(dtype)) == dtype
    if name in NAMES:
        assert dtype_name(dtype) == name


def test_dtypes_with_a_character_of_numpy() -> None:
    """Some dtypes of ml_dtypes share the character of longdouble, uint64, object or float16."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    known = [getattr(ml_dtypes, name) for name in dir(ml_dtypes)]
    dtypes = [np.dtype(x) for x in known if isinstance(x, type) and issubclass(x, np.generic)]
    for dtype in dtypes:
        assert is_lowprec(dtype)
        assert dtype_from_name(dtype_name(dtype)) == dtype
        assert compute_dtype(dtype) == ("float32" if dtype.name == "bfloat16" else dtype)
        x = np.array([1.0, 2.0], np.float32)
        with options(small=0):  # compiled kernels know none of them
            got = cpu().apply("cast", {"dtype": dtype_name(dtype)}, x)
        assert got.dtype == dtype
        most = (integer_range(dtype) or (0, 2))[1]
        np.testing.assert_array_equal(got, np.minimum(x, most).astype(dtype))


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
        assert is_lowprec(dtype_from_name(name)) == (name in LOW)


def test_array_spec() -> None:
    one = spec(2, 0, 3, dtype="f4")
    assert (str(one), one.size, one.nbytes) == ("float32[2,0,3]", 0, 0)
    assert (str(spec()), spec().nbytes) == ("float64[]", 8)
    assert spec(*[10**100] * 2).nbytes == 8 * 10**200
    assert spec(2) == spec(2)
    assert len({spec(2), spec(2), spec(3)}) == 2
