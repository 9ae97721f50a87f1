"""The door: what becomes an array without a copy, and what is refused with the remedy."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.names import said

from einloom._base.errors import ConversionError
from einloom.backend.door import as_ndarray, is_torch, to_torch
from einloom.backend.spec import dtype_from_name


def foreign(module: str, name: str, **members: Any) -> Any:
    """An object of a class that says it comes from `module`."""
    return type(name, (), {"__module__": module, **members})()


def dlpack(x: np.ndarray, device: tuple[int, int] = (1, 0)) -> dict[str, Any]:
    """The members of a class that lends `x` by DLPack."""
    return {
        "__dlpack__": lambda self, **kwargs: x.__dlpack__(),
        "__dlpack_device__": lambda self: device,
    }


def unreadable() -> dict[str, Any]:
    def refuse(self: Any, **kwargs: Any) -> Any:
        raise BufferError("no such dtype")

    return {"__dlpack__": refuse, "__dlpack_device__": lambda self: (1, 0)}


def array_protocol(x: np.ndarray) -> dict[str, Any]:
    return {"__array__": lambda self, dtype=None, copy=None: x}


X = np.arange(6.0).reshape(2, 3)


def test_plain_arrays_pass_through() -> None:
    for x in (X, X.T, X[::-1, ::2], np.empty(0), np.array(3), X.astype(">f8")):
        assert as_ndarray(x, "einsum", 0) is x


class Subclass(np.ndarray):
    pass


@pytest.mark.parametrize(
    "x",
    [
        X.view(np.matrix),
        X.view(Subclass),
        np.rec.array([(1.0, 2)], dtype=[("a", "f8"), ("b", "i4")]),
    ],
    ids=["matrix", "subclass", "record"],
)
def test_subclasses_become_plain_without_a_copy(x: np.ndarray) -> None:
    got = as_ndarray(x, "einsum", 0)
    assert type(got) is np.ndarray
    assert np.shares_memory(got, x)


@pytest.mark.parametrize(
    ("x", "dtype", "shape"),
    [
        (np.float32(2), "float32", ()),
        (np.True_, "bool", ()),
        (3, "int64", ()),
        (2.5, "float64", ()),
        (1j, "complex128", ()),
        (True, "bool", ()),
        ([1, 2], "int64", (2,)),
        ([[1.0], [2]], "float64", (2, 1)),
        ((), "float64", (0,)),
        ([X, X], "float64", (2, 2, 3)),
        (range(4), "int64", (4,)),
        (memoryview(b"abc"), "uint8", (3,)),
    ],
    ids=said,
)
def test_numbers_and_sequences(x: Any, dtype: str, shape: tuple[int, ...]) -> None:
    got = as_ndarray(x, "einsum", 0)
    assert type(got) is np.ndarray
    assert (got.dtype.name, got.shape) == (dtype, shape)


def test_memory_is_shared_through_protocols() -> None:
    for members in (dlpack(X), array_protocol(X), {**dlpack(X), **array_protocol(X)}):
        for module in ("mylib", "jax", "jaxlib.xla_extension", "array_api_strict"):
            got = as_ndarray(foreign(module, "Array", **members), "einsum", 0)
            assert type(got) is np.ndarray
            assert np.shares_memory(got, X)
            np.testing.assert_array_equal(got, X)


@pytest.mark.parametrize(
    ("x", "remedy"),
    [
        (np.ma.masked_array([1, 2], [True, False]), r"\.filled\(0\)"),
        (foreign("dask.array.core", "Array"), r"\.compute\(\).*dask\.array\.einsum"),
        (foreign("sparse.numba_backend._coo.core", "COO"), r"\.todense\(\)"),
        (foreign("cupy", "ndarray", **dlpack(X, (2, 0))), r"\.get\(\)"),
        (foreign("tensorflow.python.framework.ops", "EagerTensor"), r"\.numpy\(\)"),
        (foreign("xarray.core.dataarray", "DataArray"), r"\.values"),
        (foreign("scipy.sparse._csr", "csr_matrix"), r"\.toarray\(\)"),
        (foreign("jax._src.interpreters.partial_eval", "DynamicJaxprTracer"), "traced"),
        (foreign("jaxlib._jax", "ArrayImpl", **dlpack(X, (2, 0)), **array_protocol(X)), "device"),
        (foreign("mylib", "Array", **dlpack(X, (8, 1))), r"device \(8, 1\).*to the CPU"),
        (foreign("torch", "Tensor", requires_grad=True), r"\.detach\(\)"),
        (foreign("torch", "Tensor", device=SimpleNamespace(type="cuda")), r"'cuda'.*\.cpu\(\)"),
        (foreign("torch", "Tensor", device=SimpleNamespace(type="mps")), r"'mps'.*\.cpu\(\)"),
        (foreign("torch", "Tensor", is_sparse=True), r"\.to_dense\(\)"),
        (foreign("torch", "Tensor", **unreadable()), "DLPack says: no such dtype"),
        (foreign("torch.nn.parameter", "Parameter", requires_grad=True), r"\.detach\(\)"),
        ([[1, 2], [3]], "NumPy cannot read it"),
    ],
    ids=lambda value: (
        f"{type(value).__module__}.{type(value).__name__}" if not isinstance(value, str) else ""
    ),
)
def test_refused(x: Any, remedy: str) -> None:
    """The message names the call, the operand, its type and what to write."""
    with pytest.raises(ConversionError, match=remedy) as caught:
        as_ndarray(x, "einsum", 3)
    message = str(caught.value)
    assert message.startswith("einsum: operand 3 is a ")
    assert f"{type(x).__module__}.{type(x).__qualname__}" in message


def failing(error: Exception) -> Any:
    def array(self: Any, dtype: Any = None, copy: Any = None) -> Any:
        raise error

    return foreign("mylib", "Array", __array__=array)


@pytest.mark.parametrize("error", [TypeError("no"), ValueError("no"), RuntimeError("no")])
def test_what_a_protocol_says_is_passed_on(error: Exception) -> None:
    with pytest.raises(ConversionError, match=r"mylib\.Array: NumPy cannot read it: no"):
        as_ndarray(failing(error), "tensordot", 1)


# ---- torch, by a stand-in of its few names -----------------------------------------------------


class Tensor:
    """What the door asks of a torch.Tensor."""

    requires_grad = False
    is_sparse = False
    device = SimpleNamespace(type="cpu")

    def __init__(self, x: np.ndarray, dtype: str = "torch.float64") -> None:
        self.x, self.dtype = x, dtype

    def __dlpack__(self, **kwargs: Any) -> Any:
        if self.dtype == "torch.bfloat16":
            raise BufferError("unsupported dtype")
        return self.x.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def view(self, dtype: str) -> Tensor:
        if dtype == "torch.bfloat16":
            return Tensor(self.x.view(dtype_from_name("bfloat16")), dtype)
        assert dtype == "torch.int16"
        return Tensor(self.x.view(np.int16), dtype)


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = ModuleType("torch")
    module.int16, module.bfloat16 = "torch.int16", "torch.bfloat16"  # type: ignore[attr-defined]
    module.from_dlpack = lambda x: Tensor(np.from_dlpack(x))  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(Tensor, "__module__", "torch")
    return module


@pytest.mark.usefixtures("torch")
def test_torch_lends_its_memory() -> None:
    tensor = Tensor(X)
    assert is_torch(tensor)
    assert not is_torch(X)
    got = as_ndarray(tensor, "einsum", 0)
    assert type(got) is np.ndarray
    assert np.shares_memory(got, X)


@pytest.mark.usefixtures("torch")
def test_torch_bfloat16() -> None:
    """Whose DLPack NumPy cannot read: the bits go through int16."""
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.array([1.5, -2.0, 3.0], bfloat16)
    got = as_ndarray(Tensor(x, "torch.bfloat16"), "einsum", 0)
    assert got.dtype == bfloat16
    np.testing.assert_array_equal(got, x)
    assert np.shares_memory(got, x)


@pytest.mark.usefixtures("torch")
def test_torch_conjugates_and_negates_lazily() -> None:
    """Such tensors are resolved before their memory is read."""

    class Lazy(Tensor):
        def resolve_conj(self) -> Tensor:
            return Lazy(self.x.conj())

        def resolve_neg(self) -> Tensor:
            return Tensor(-self.x)

    Lazy.__module__ = "torch"
    x = np.array([1 + 2j, 3 - 4j])
    np.testing.assert_array_equal(as_ndarray(Lazy(x), "einsum", 0), -x.conj())


@pytest.mark.usefixtures("torch")
def test_bfloat16_results_go_back_to_torch() -> None:
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    x = np.array([1.5, -2.0], bfloat16)
    tensor = to_torch(x)
    assert tensor.dtype == "torch.bfloat16"
    np.testing.assert_array_equal(tensor.x, x)
    assert np.shares_memory(tensor.x, x)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("x", "shared"),
    [
        (X.copy(), True),
        (X.copy().T, True),
        (X.copy()[:, ::2], True),
        (X.copy()[::-1], False),  # torch has no negative strides
        (np.broadcast_to(X, (2, 2, 3)), False),  # nor read-only memory
        (np.float64(3), False),
    ],
    ids=["C", "F", "sliced", "reversed", "readonly", "scalar"],
)
def test_results_go_back_to_torch(x: np.ndarray, shared: bool) -> None:
    tensor = to_torch(x)
    assert is_torch(tensor)
    np.testing.assert_array_equal(tensor.x, x)
    if isinstance(x, np.ndarray):
        assert np.shares_memory(tensor.x, x) == shared
