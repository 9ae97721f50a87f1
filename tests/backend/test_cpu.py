"""The CPU backend beyond its ops: making, filling and moving arrays; what it says of its ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.backend.calls import CALLS, OUT_LAYOUTS, Call, junk, lay_out, values

from einloom._base.caches import cache_info
from einloom._base.errors import ConversionError, OptionError, ProgramError
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import CpuBackend, cpu
from einloom.backend.protocol import Backend
from einloom.backend.spec import ArraySpec, dtype_from_name

BACKEND = cpu()


def test_is_a_backend() -> None:
    """One instance, with every method of the protocol."""
    backend: Backend = BACKEND
    assert cpu() is backend
    assert isinstance(backend, CpuBackend)
    assert (backend.name, backend.device) == ("cpu", "cpu")
    for name in vars(Backend):
        if not name.startswith("_"):
            assert callable(getattr(backend, name)), name


@pytest.mark.parametrize("shape", [(), (0, 2), (2, 3)])
@pytest.mark.parametrize("name", ["bool", "int8", "float64", "clongdouble", "object", "float16"])
def test_empty_and_full(name: str, shape: tuple[int, ...]) -> None:
    dtype = dtype_from_name(name)
    made = BACKEND.empty(ArraySpec(dtype, shape))
    assert (type(made), made.dtype, made.shape) == (np.ndarray, dtype, shape)
    filled = BACKEND.full(shape, 1, dtype)
    assert (type(filled), filled.dtype, filled.shape) == (np.ndarray, dtype, shape)
    assert (filled == 1).all()


def test_transfers_are_no_copies_on_the_cpu() -> None:
    x = np.arange(3)
    assert BACKEND.to_device(x) is x
    assert BACKEND.to_host(x) is x


@pytest.mark.parametrize("layout", OUT_LAYOUTS)
@pytest.mark.parametrize("name", ["int64", "float32", "float64", "complex128"])
@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (2, 0), (1, 1), (-3, 2), (0, 1), (0, 0)])
def test_assign(name: str, layout: str, alpha: Any, beta: Any, rng: np.random.Generator) -> None:
    """target = alpha * source + beta * target, the source untouched."""
    dtype = np.dtype(name)
    source = values(rng, (2, 3), dtype, np.dtype("f8"))
    start = values(rng, (2, 3), dtype, np.dtype("f8"))
    kept, target = source.copy(), lay_out(start.copy(), layout, rng)
    assert BACKEND.assign(target, source, alpha, beta) is target
    want = dtype.type(alpha) * kept + dtype.type(beta) * start
    np.testing.assert_allclose(target, want, rtol=4 * 2.0**-23 if name == "float32" else 1e-15)
    np.testing.assert_array_equal(source, kept)


@pytest.mark.parametrize("layout", OUT_LAYOUTS)
def test_assign_does_not_read_the_target_when_beta_is_0(
    layout: str, rng: np.random.Generator
) -> None:
    """NaN in the target does not survive; the dtype is the target's."""
    for name in ("float32", "float64", "complex64"):
        target = junk(ArraySpec(np.dtype(name), (2, 3)), layout, rng)
        BACKEND.assign(target, np.arange(6.0).reshape(2, 3))
        np.testing.assert_array_equal(target, np.arange(6).reshape(2, 3))


def test_assign_is_silent() -> None:
    with np.errstate(all="raise"):
        for alpha, beta in ((10.0, 0), (1, 1), (10.0, 10.0), (1e300, 1)):
            target = BACKEND.assign(np.full(3, 1e308), np.full(3, 1e308), alpha, beta)
            np.testing.assert_array_equal(target, np.inf)
        BACKEND.assign(np.zeros(3, "f4"), np.ones(3, "f4"), alpha=1e300)


def test_view() -> None:
    """In elements of the buffer; a field of a record may have no such strides."""
    x = np.zeros((4, 6))
    assert BACKEND.view(x[1:, ::-2]) == ((3, 3), (6, -2), 11)
    assert BACKEND.view(np.zeros(3, "i8,f8")["f1"]) == ((3,), (2,), 1)
    with pytest.raises(ConversionError, match=r"view: strides \(9,\) .* pass a copy"):
        BACKEND.view(np.zeros(3, "i1,f8")["f1"])
    with pytest.raises(ConversionError, match=r"view: the argument is a builtins\.list"):
        BACKEND.view([1])


def test_engine_names() -> None:
    """Views say so; others give their name or their rung."""
    for call in CALLS:
        engine = BACKEND.engine(call.op, call.attrs, call.specs(np.dtype("f8")))
        if call.op in ("dot_general", "dot_general_add", "matmul"):
            assert engine in ("zeros", "gemm", "multiply", "batched gemm", "matmul", "loops")
        else:
            assert engine == ("view" if CATALOGUE[call.op].is_view else call.op)


def test_views_need_no_scratch() -> None:
    for call in CALLS:
        scratch = BACKEND.scratch_bytes(call.op, call.attrs, call.specs(np.dtype("f8")))
        assert scratch >= 0
        if CATALOGUE[call.op].is_view:
            assert scratch == 0


def test_capabilities_are_names_of_dtypes() -> None:
    for names in BACKEND.capabilities().values():
        assert names
        assert all(dtype_from_name(name) is not None for name in names)


def test_apply_checks() -> None:
    """One op alone is checked as a program is."""
    x = np.ones((2, 3))
    with pytest.raises(ProgramError, match="broadcast them first"):
        BACKEND.apply("add", {}, x, x.T)
    with pytest.raises(ProgramError, match="out of range"):
        BACKEND.apply("transpose", {"perm": (0, 2)}, x)
    with pytest.raises(ProgramError, match="unknown op"):
        BACKEND.apply("nowhere", {}, x)


def test_placement() -> None:
    assert BACKEND.placement(np.ones(2)) == "cpu"
    with pytest.raises(ConversionError, match=r"builtins.list; pass a numpy.ndarray"):
        BACKEND.placement([1.0])


def test_threads_of_an_instance_and_of_a_session() -> None:
    """An instance keeps its own number, a session lends one."""
    assert cpu() is cpu()
    assert repr(cpu(threads=2)) == "cpu(threads=2)"
    x = np.arange(6.0)
    with BACKEND.session(threads=2) as session:
        np.testing.assert_array_equal(session.apply("add", {}, x, x), 2 * x)
    with BACKEND.session() as session:
        assert session is BACKEND
    for threads in (0, -1, 1.5, True):
        with pytest.raises(OptionError, match="threads"):
            cpu(threads=threads)  # type: ignore[arg-type]


def test_calls_have_names() -> None:
    """Test ids that can be told apart."""
    assert len({str(call) for call in CALLS}) == len(CALLS)
    assert str(Call("copy", {}, ((),))) == "copy()"


def test_calls_of_a_kind_are_kept_apart() -> None:
    """What was bound is found again for what means the same, not for all that is equal."""
    x = np.arange(3.0)
    assert (BACKEND.apply("sort", {"axis": 0, "descending": True}, x) == [2, 1, 0]).all()
    bad: list[dict[str, Any]] = [{"axis": False}, {"axis": 0.0}, {"axis": [{}]}]
    for one in bad:
        with pytest.raises(ProgramError):
            BACKEND.apply("sort", {"descending": True} | one, x)
    ends = {"low": (1,), "high": (0,), "interior": (0,)}
    for value in (0.0, -0.0, 0.0):
        found = BACKEND.apply("pad", {**ends, "value": value}, x)
        assert np.signbit(found[0]) == (str(value) == "-0.0")
    before = cache_info()["eager ops"].hits
    BACKEND.apply("sort", {"axis": 0, "descending": True}, x + 1)
    assert cache_info()["eager ops"].hits == before + 1
    assert len(BACKEND.apply("sort", {"axis": 0, "descending": True}, np.arange(4.0))) == 4


class _Other(CpuBackend):
    """Whose own way of binding is told apart."""

    def bind(self, op: str, attrs: Any, inputs: Any, outputs: Any) -> Any:
        return lambda *arrays, out=None: "its own"


def test_calls_of_another_class_are_its_own() -> None:
    """Previously failed: they were answered by what an equal call of the first class had bound."""
    x = np.arange(3.0)
    assert isinstance(CpuBackend().apply("negate", {}, x), np.ndarray)
    assert _Other().apply("negate", {}, x) == "its own"
    assert isinstance(CpuBackend().apply("negate", {}, x), np.ndarray)
