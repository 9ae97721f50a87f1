"""Arrays of other libraries on a GPU: NumPy in the place of the card, few names in that of the libraries."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import STAND_INS
from tests.backend.stand_in import DeviceArray, Stream

import einloom
from einloom import linalg
from einloom._base.errors import ConversionError, DTypeError, ShapeError, Unsupported
from einloom.backend import devices, lent
from einloom.backend.choice import placed, register_arrays, unregister_arrays
from einloom.contract.expression import Expression

GPU: Any = STAND_INS["gpu"]
IN: list[Any] = []
"""The streams that tensors were lent to."""
OUT: list[Any] = []
"""The arrays that torch was given."""


class Tensor:
    """What is asked of a torch.Tensor; `x` is its memory, on a card or the host."""

    __module__ = "torch"
    is_sparse = False

    def __init__(self, x: Any, device: str = "cuda", requires_grad: bool = False) -> None:
        self.x, self.requires_grad = x, requires_grad
        self.device = SimpleNamespace(type=device, index=0)
        self.lazy = False

    @property
    def shape(self) -> Any:
        return self.x.shape

    @property
    def dtype(self) -> str:
        return f"torch.{self.x.dtype.name}"

    def __dlpack_device__(self) -> tuple[int, int]:
        return (2 if self.device.type == "cuda" else 1, 0)

    def __dlpack__(self, *, stream: Any = -1, max_version: Any = None, copy: Any = None) -> Any:
        assert not self.lazy
        if self.device.type == "cpu":
            return self.x.__dlpack__()
        IN.append(stream)
        return self.x

    def conj(self) -> Tensor:
        found = Tensor(self.x)
        found.lazy = True
        return found

    def is_conj(self) -> bool:
        return self.lazy

    def is_neg(self) -> bool:
        return False

    def resolve_conj(self) -> Tensor:
        return Tensor(self.x.conj()) if self.lazy else self


class Lent:
    """An array of a library that knows DLPack."""

    def __init__(self, x: Any, kind: int = 2) -> None:
        self.x, self.shape, self.dtype, self.kind = x, x.shape, x.dtype, kind

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.kind, 0)

    def __dlpack__(self, *, stream: Any, max_version: Any = None, copy: Any = None) -> Any:
        IN.append(stream)
        return self.x


class Described:
    """An array of a library that knows CUDA's array interface alone."""

    def __init__(self, x: Any) -> None:
        self.x, self.shape, self.dtype = x, x.shape, x.dtype

    @property
    def __cuda_array_interface__(self) -> Any:
        return self.x.__array_interface__


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def from_dlpack(x: Any) -> Tensor:
        if type(x) is np.ndarray:
            return Tensor(x, "cpu")
        assert type(x) is DeviceArray, "torch was given what is on the host"
        assert all(stride >= 0 for stride in x.strides)
        OUT.append(x)
        return Tensor(x.view(np.ndarray))

    module: Any = ModuleType("torch")
    module.from_dlpack = from_dlpack
    module.cuda = SimpleNamespace(device=lambda device: nullcontext())
    monkeypatch.setitem(sys.modules, "torch", module)
    monkeypatch.setattr(lent, "_module", lambda: GPU.xp)
    register_arrays(DeviceArray, lambda x: GPU)
    IN.clear()
    OUT.clear()
    yield
    unregister_arrays(DeviceArray)


def own(x: Any) -> Any:
    return x.view(DeviceArray)


def held(x: Any) -> Any:
    """The memory of a tensor that lies on the card."""
    assert type(x) is Tensor, f"came back as {type(x)}"
    assert x.device.type == "cuda"
    return x.x


def share(x: Any, y: Any) -> bool:
    return np.shares_memory(bare(x), bare(y))


def bare(x: Any) -> Any:
    return x.view(np.ndarray)


RNG = np.random.default_rng(9)
A, B = RNG.standard_normal((3, 4)), RNG.standard_normal((4, 5))
S = RNG.standard_normal((4, 4)) + 4 * np.eye(4)


# ---- in and out ----------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", [(Tensor, Tensor), (Tensor, own), (own, Tensor), (Lent, Tensor)])
def test_tensors_come_back(pair: Any) -> None:
    a, b = pair[0](A), pair[1](B)
    for result in (
        einloom.einsum("ij,jk->ik", a, b),
        einloom.einsum(a, [0, 1], b, [1, 2], [0, 2]),
        einloom.tensordot(a, b, 1),
        einloom.ncon([a, b], [[-1, 1], [1, -2]]),
        Expression(einloom.plan("ij,jk->ik", A, B), backend=GPU)(a, b),
        linalg.matmul(a, b),
        einloom.gemm_batch([(a, b)])[0],
    ):
        np.testing.assert_allclose(held(result), A @ B)
    assert set(IN) == {Stream.current}


@pytest.mark.parametrize("kind", [Lent, Described, own])
def test_others_come_back_as_arrays_of_the_module(kind: Any) -> None:
    found = einloom.einsum("ij,jk->ik", kind(A), kind(B))
    assert type(found) is DeviceArray
    np.testing.assert_allclose(GPU.to_host(found), A @ B)
    assert type(linalg.inv(kind(S))) is DeviceArray
    assert type(einloom.softmax(kind(A), axis=1)) is DeviceArray
    assert type(einloom.fft.fft(kind(A))) is DeviceArray
    assert not OUT


def test_views_share_memory() -> None:
    a = A.copy()
    for view in (einloom.einsum("ij->ji", Tensor(a)), einloom.transpose(Tensor(a))):
        assert share(held(view), a)
        assert view.shape == (4, 3)
    assert share(held(einloom.diagonal(Tensor(a))), a)
    view = einloom.einsum("ij->ji", Described(a))
    assert share(view, a)


def test_results_without_axes_and_exponents() -> None:
    x = np.full(3, 1e200)
    assert held(einloom.einsum("i,i->", Tensor(A[0]), Tensor(A[1]))).shape == ()
    mantissa, exponent = einloom.einsum("i,i->", Tensor(x), Tensor(x), strip_exponent=True)
    assert (round(float(held(mantissa)), 9), exponent) == (3.0, 400.0)
    out = Tensor(np.zeros(()))
    found = einloom.einsum("i,i->", own(x), Tensor(x), strip_exponent=True, out=out)
    assert found == (out, 400.0)
    assert round(float(out.x), 9) == 3.0


def test_lazy_conjugates() -> None:
    c = np.array([1 + 2j, 3 - 4j])
    found = einloom.einsum("i,i->i", Tensor(c).conj(), own(c))
    np.testing.assert_allclose(held(found), c.conj() * c)


def test_bfloat16() -> None:
    x = A.astype(pytest.importorskip("ml_dtypes").bfloat16)
    found = einloom.einsum("ij,ij->i", Tensor(x), Tensor(x))
    assert held(found).dtype == x.dtype


# ---- out= ----------------------------------------------------------------------------------------


def test_out() -> None:
    """Written in place and returned itself; torch's stream waits, so torch is given the memory."""
    expr = Expression(einloom.plan("ij,jk->ik", A, B), backend=GPU)
    for a in (Tensor(A), own(A)):
        for call in (expr, lambda *x, **named: einloom.einsum("ij,jk->ik", *x, **named)):
            out = Tensor(np.ones((3, 5)))
            OUT.clear()
            assert call(a, own(B), out=out, alpha=2, beta=3) is out
            np.testing.assert_allclose(out.x, 2 * A @ B + 3)
            assert len(OUT) == 1
            assert share(OUT[0], out.x)
    mine = own(np.zeros((3, 5)))
    assert einloom.einsum("ij,jk->ik", Tensor(A), own(B), out=mine) is mine
    assert share(OUT[-1], mine)
    for a in (Tensor(A), own(A)):
        out = Tensor(np.zeros((3, 4)))
        assert einloom.softmax(a, axis=1, out=out) is out
        np.testing.assert_allclose(out.x, einloom.softmax(A, axis=1))
        assert share(OUT[-1], out.x)
    out = Tensor(np.zeros((4, 3)))
    assert einloom.transpose(Tensor(A), out=out) is out
    np.testing.assert_array_equal(out.x, A.T)


def test_memory_that_is_lent_twice() -> None:
    """Two tensors are two allocations to CuPy, so addresses tell whether they overlap."""
    memory = A.copy()
    rows = [own(memory[k : k + 2]) for k in range(2)]
    assert lent.overlap(*rows)
    assert lent.overlap(rows[1], rows[0][::-1, ::-1])
    assert not lent.overlap(own(memory[:1]), rows[1])
    assert not lent.overlap(own(memory[:0]), rows[0])
    want = einloom.softmax(memory[:2], axis=0)
    out = Tensor(memory[1:])
    assert einloom.softmax(Tensor(memory[:2]), axis=0, out=out) is out
    np.testing.assert_allclose(memory[1:], want)


def test_out_that_is_refused() -> None:
    a, out = Tensor(A), Tensor(np.zeros((3, 4)))
    expr = Expression(einloom.plan("ij,ij->ij", A, A), backend=GPU)
    lazy = Tensor(np.zeros((3, 4))).conj()
    for call in (
        expr,
        lambda *x, **named: einloom.einsum("ij,ij->ij", *x, **named),
        lambda x, y, **named: einloom.softmax(x, axis=1, **named),
    ):
        with pytest.raises(ConversionError, match=r"out=.*resolve_conj"):
            call(a, a, out=lazy)
        with pytest.raises(Unsupported, match="is on the host"):
            call(a, a, out=A.copy())
        with pytest.raises(Unsupported, match="is on the host"):
            call(a, a, out=Tensor(A.copy(), "cpu"))
        with pytest.raises(Unsupported, match="is on the host"):
            call(A, A, out=out)
        with pytest.raises(ConversionError, match="pass an array of CuPy"):
            call(a, a, out=Lent(np.zeros((3, 4))))
    with pytest.raises(ShapeError):
        einloom.einsum("ij,ij->i", a, a, out=out)
    with pytest.raises(DTypeError):
        expr(a, a, out=Tensor(np.zeros((3, 4), "f4")))


# ---- expressions ---------------------------------------------------------------------------------


def test_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("einloom.contract.api"), "get", lambda device: GPU)
    a, b = Tensor(A), Tensor(B)
    expr = einloom.compile("ij,jk->ik", a, b, device="gpu")
    np.testing.assert_allclose(held(expr(a, b)), A @ B)
    assert "measured" in expr.explain(a, b)
    with pytest.raises(Unsupported, match=r"expression: operand 0 is on the host.*to_device"):
        expr(Tensor(A, "cpu"), b)
    with pytest.raises(ShapeError):
        expr(b, a)
    kept = einloom.compile("ij,jk->ik", a, b, constants=(1,), device="gpu")
    np.testing.assert_allclose(held(kept(a)), A @ B)
    sliced = Expression(replace(einloom.plan("ij,jk->ik", A, B), sliced=(1,)), backend=GPU)
    np.testing.assert_allclose(held(sliced(a, b)), A @ B)
    np.testing.assert_allclose(held(sliced.run_slices(a, b)), A @ B)


def test_submit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lent in the thread that submits, in which torch's current stream is the one to wait for."""
    kinds = {**devices._KINDS, "gpu": lambda ordinal: devices.gpu_device(GPU)}
    monkeypatch.setattr(devices, "_KINDS", kinds)
    expr = Expression(einloom.plan("ij,jk->ik", A, B), backend=GPU)
    with Stream() as stream:
        future = expr.submit(Tensor(A), Tensor(B))
        assert [stream, stream] == IN
    np.testing.assert_allclose(held(future.result(10)), A @ B)
    out = Tensor(np.zeros((3, 5)))
    assert expr.submit(own(A), own(B), out=out).result(10) is out
    np.testing.assert_allclose(out.x, A @ B)
    devices.device("gpu:0").close()


# ---- functions, transforms, linear algebra -------------------------------------------------------


def test_functions() -> None:
    for call in (
        lambda x: einloom.softmax(x, axis=1),
        lambda x: einloom.logsumexp(x),
        lambda x: einloom.cumsum(x, axis=0),
        lambda x: einloom.cumsum(x, axis=0, reverse=True),
        lambda x: einloom.cummax(x, axis=0, reverse=True),
        lambda x: einloom.diagonal(x, 1),
        lambda x: einloom.functions.trace(x),
        lambda x: einloom.kron(x, x),
        lambda x: einloom.kron(x),
        lambda x: einloom.block_diag(x, x),
        lambda x: einloom.fft.rfft(x),
        lambda x: einloom.fft.ifft2(x),
        lambda x: linalg.diagonal(x),
        lambda x: linalg.det(x),
        lambda x: linalg.solve(x, x[0] if isinstance(x, np.ndarray) else Tensor(S[0])),
        lambda x: linalg.solve(x, S if type(x) is np.ndarray else own(S)),
    ):
        np.testing.assert_allclose(held(call(Tensor(S))), call(S), atol=1e-12)


def test_several_results() -> None:
    size, sign = einloom.logsumexp(Tensor(A), b=own(A), return_sign=True)
    want = einloom.logsumexp(A, b=A, return_sign=True)
    np.testing.assert_allclose([held(size), held(sign)], want)
    found = linalg.svd(Tensor(A))
    assert type(found) is type(linalg.svd(A))
    np.testing.assert_allclose(held(found.S), linalg.svd(A).S)
    x, info = linalg.solve(own(S), Tensor(S), on_error="info")
    np.testing.assert_allclose(held(x), np.eye(4), atol=1e-12)
    assert held(info).dtype == np.int32
    factors = linalg.lu_factor(Tensor(S))
    np.testing.assert_allclose(held(linalg.lu_solve(factors, Tensor(S[0]))), linalg.solve(S, S[0]))


def test_gemm_batch_into_tensors() -> None:
    """Tensors that are one memory are told by its address."""
    memory = np.zeros((2, 3, 5))
    first, again = Tensor(memory[0]), Tensor(memory[0])
    targets = [first, again, Tensor(memory[1])]
    pair = (Tensor(A), own(B))
    found = einloom.gemm_batch([pair] * 3, out=targets)
    assert all(x is y for x, y in zip(found, targets, strict=True))
    np.testing.assert_allclose(memory, [2 * A @ B, A @ B])
    assert len(OUT) == 1
    with pytest.raises(ConversionError, match="resolve_conj"):
        einloom.gemm_batch([pair], out=[first.conj()])


def test_random_orders(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = importlib.import_module("einloom.backend.gpu.draws")
    monkeypatch.setattr(draws, "permutation", lambda xp, key, n: own(np.arange(n)[::-1]))
    found = einloom.random.permutation(own(einloom.random.key(7)), Tensor(A), axis=1)
    np.testing.assert_array_equal(held(found), A[:, ::-1])


# ---- nothing moves -------------------------------------------------------------------------------


def test_the_host_beside_the_card() -> None:
    for call in (
        lambda *x: einloom.einsum("ij,ij", *x),
        einloom.kron,
        linalg.matmul,
        lambda *x: einloom.gemm_batch([x]),
    ):
        for host in (A, Tensor(A, "cpu")):
            with pytest.raises(Unsupported, match=r"operand 1 is on the host.*to_device\(x\)"):
                call(Tensor(A), host)
            with pytest.raises(Unsupported, match="operand 0 is on the host"):
                call(host, Described(A))


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: Tensor(A, requires_grad=True), r"requires a gradient; call \.detach\(\) on it"),
        (lambda: type("Sparse", (Tensor,), {"is_sparse": True, "__module__": "torch"})(A),
         r"call \.to_dense\(\) on it"),
        (lambda: _failing(BufferError("no")), "DLPack says: no"),
        (lambda: _failing(NotImplementedError("install")), "DLPack says: install"),
    ],
)  # fmt: skip
def test_refused(make: Any, remedy: str) -> None:
    for call in (
        lambda x: einloom.einsum("ij,ij", own(A), x),
        lambda x: einloom.kron(own(A), x),
        lambda x: linalg.matmul(own(A), x),
    ):
        with pytest.raises(ConversionError, match=f"operand 1 is a .*{remedy}"):
            call(make())


def _failing(error: Exception) -> Any:
    def dlpack(self: Any, **keywords: Any) -> Any:
        raise error

    return type("Failing", (Lent,), {"__dlpack__": dlpack})(A)


def test_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The door of the host says what to write, and what is missing."""
    monkeypatch.setattr(lent, "_module", lambda: None)
    monkeypatch.setattr(
        importlib.import_module("einloom.backend.gpu"), "missing", lambda: "CuPy is not installed"
    )
    for x, remedy in (
        (Tensor(A), r"it is on device 'cuda'; call \.cpu\(\) on it"),
        (Lent(A), r"it is on device \(2, 0\); copy it to the CPU first"),
        (Described(A), "it lies on a GPU; copy it to the CPU first"),
    ):
        with pytest.raises(ConversionError, match=f"{remedy}, or to compute .*: CuPy is not"):
            einloom.einsum("ij->ji", x)


def test_what_lies_elsewhere_is_left_alone() -> None:
    def unknown(self: Any) -> Any:
        raise ValueError("Unknown device type meta for Dlpack")

    other = type("Other", (), {"__dlpack_device__": unknown})()
    for x in (Lent(A, 1), Lent(A, 13), Tensor(A, "meta"), other, 1.0, [1], np.float64(3), None):
        backend, (found,) = placed("einsum", (x,))
        assert backend is None
        assert found is x


def test_uploads_and_downloads() -> None:
    a = A.copy()
    for x in (Tensor(a), Lent(a), Described(a)):
        there = GPU.to_device(x)
        assert type(there) is DeviceArray
        assert share(there, a)
        back = GPU.to_host(x)
        assert type(back) is np.ndarray
        np.testing.assert_array_equal(back, a)
        assert not share(back, a)
    host = Tensor(a, "cpu")
    assert type(GPU.to_device(host)) is DeviceArray
    assert share(GPU.to_host(host), a)
