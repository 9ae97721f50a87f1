"""torch tensors on a GPU: no copy on the way in, tensors of that card on the way out, in the order of the
streams of both libraries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests import on_card

import einloom
from einloom import backend, linalg
from einloom._base.errors import ConversionError, DTypeError, Unsupported

pytestmark = on_card.MARKS


@pytest.fixture(autouse=True)
def torch(card: Any) -> Any:
    return card


@pytest.fixture
def card() -> Iterator[Any]:
    found = pytest.importorskip("torch", reason="torch is an optional peer, not a dependency")
    if not found.cuda.is_available():
        pytest.skip("torch was built without CUDA, or sees no card")
    found.manual_seed(1)
    yield found
    found.cuda.synchronize()


def draw(torch: Any, *shape: int, dtype: Any = None) -> Any:
    return torch.randn(*shape, dtype=dtype or torch.float64, device="cuda")


def own(x: Any) -> Any:
    """A copy of a tensor as an array of CuPy."""
    gpu: Any = backend.get("gpu")
    return gpu.xp.array(x.cpu().numpy())


def close(torch: Any, found: Any, want: Any, **tolerance: Any) -> None:
    assert isinstance(found, torch.Tensor), f"came back as {type(found)}"
    assert found.device == want.device
    torch.testing.assert_close(found, want, **tolerance)


def test_einsum(torch: Any) -> None:
    a, b = draw(torch, 30, 40), draw(torch, 40, 50)
    for x, y in ((a, b), (own(a), b), (a, own(b)), (a.T.contiguous().T, b[:, :])):
        close(torch, einloom.einsum("ij,jk->ki", x, y), (a @ b).T)
        close(torch, einloom.einsum(x, [0, 1], y, [1, 2], [0, 2]), a @ b)
        close(torch, einloom.tensordot(x, y, 1), a @ b)
    close(torch, einloom.einsum("ij,ij->", a, a), (a * a).sum())
    close(torch, einloom.einsum("ij->j", a[::2, 1:]), a[::2, 1:].sum(0))
    close(torch, einloom.einsum("ij,j->i", a[:1].expand(3, 40), a[0]), a[:1].expand(3, 40) @ a[0])
    none = einloom.einsum("ij,jk->ik", a[:0], b)
    assert none.shape == (0, 50)
    assert none.device == a.device


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float32", "complex64", "complex128", "int32", "int64"]
)
def test_dtypes(torch: Any, name: str) -> None:
    if name == "bfloat16":
        pytest.importorskip("ml_dtypes", reason="bfloat16 is the lowprec extra")
    dtype = getattr(torch, name)
    a, b = (torch.randint(-4, 5, shape, device="cuda").to(dtype) for shape in ((6, 7), (7, 5)))
    found = einloom.einsum("ij,jk->ik", a, b)
    assert found.dtype == dtype
    want = a.cpu().to(torch.complex128) @ b.cpu().to(torch.complex128)
    torch.testing.assert_close(found.cpu().to(torch.complex128), want)


def test_memory_is_shared(torch: Any) -> None:
    a = draw(torch, 4, 6)
    for view in (einloom.einsum("ij->ji", a), einloom.transpose(a)):
        assert view.data_ptr() == a.data_ptr()
        close(torch, view, a.T)
        view[0, 0] = 7
        assert float(a[0, 0]) == 7
    b = a[:, :4]
    assert einloom.diagonal(b).data_ptr() == b.data_ptr()
    gpu: Any = backend.get("gpu")
    there = gpu.to_device(a)
    assert isinstance(there, gpu.xp.ndarray)
    assert there.data.ptr == a.data_ptr()
    np.testing.assert_array_equal(gpu.to_host(a), a.cpu().numpy())
    x = a.to(torch.float16)[1:]
    assert gpu.to_device(x).data.ptr == x.data_ptr()


def test_results_outlive_operands(torch: Any) -> None:
    """A view holds the tensor whose memory it shows."""
    a = draw(torch, 100, 100)
    want, view = a.cpu().T, einloom.einsum("ij->ji", a)
    del a
    others = [torch.zeros(100, 100, dtype=torch.float64, device="cuda") for _ in range(4)]
    torch.testing.assert_close(view.cpu(), want)
    assert all(x.data_ptr() != view.data_ptr() for x in others)


def test_out(torch: Any) -> None:
    a, b = draw(torch, 5, 6), draw(torch, 6, 7)
    expr = einloom.compile("ij,jk->ik", a, b, device="gpu")
    for call in (expr, lambda *x, **named: einloom.einsum("ij,jk->ik", *x, **named)):
        for x, y in ((a, b), (own(a), own(b))):
            out = torch.ones(5, 7, dtype=torch.float64, device="cuda")
            assert call(x, y, out=out, alpha=2, beta=3) is out
            close(torch, out, 2 * a @ b + 3)
        mine = own(torch.zeros(5, 7, dtype=torch.float64))
        assert call(a, b, out=mine) is mine
        np.testing.assert_allclose(mine.get(), (a @ b).cpu().numpy())
    out = torch.zeros(7, 5, dtype=torch.float64, device="cuda").T  # by columns
    assert einloom.einsum("ij,jk->ik", a, b, out=out) is out
    close(torch, out, a @ b)
    half = torch.zeros(5, 12, dtype=torch.float64, device="cuda")[:, ::2]
    assert einloom.softmax(a, axis=1, out=half) is half
    close(torch, half, a.softmax(1))
    with pytest.raises(DTypeError):
        expr(a, b, out=torch.zeros(5, 7, device="cuda"))


def test_out_over_operands(torch: Any) -> None:
    """Tensors that overlap are two allocations to CuPy."""
    a = draw(torch, 6, 5)
    want = a[:4].softmax(0)
    out = a[1:5]
    assert einloom.softmax(a[:4], axis=0, out=out) is out
    close(torch, a[1:5], want)
    b = draw(torch, 6, 6)
    want = b.T.clone()
    assert einloom.einsum("ij->ji", b, out=b) is b
    close(torch, b, want)
    c = draw(torch, 3, 4, 4)
    want = c[0] @ c[1] + c[0] @ c[2]
    assert einloom.gemm_batch([(c[0], c[1]), (c[0], c[2])], out=[c[1], c[1]])[0].shape == (4, 4)
    close(torch, c[1], want)


def test_expressions(torch: Any) -> None:
    a, b = draw(torch, 5, 6), draw(torch, 6, 7)
    expr = einloom.compile("ij,jk->ik", a, b, device="gpu")
    close(torch, expr(a, b), a @ b)
    close(torch, expr(own(a), b, alpha=2), 2 * a @ b)
    kept = einloom.compile("ij,jk->ik", a, b, constants=(1,), device="gpu")
    close(torch, kept(a), a @ b)
    close(torch, expr.submit(a, b).result(60), a @ b)
    assert "measured" in expr.explain(a, b)
    with pytest.raises(Unsupported, match=r"operand 0 is on the host.*to_device"):
        expr(a.cpu(), b)
    einloom.device("gpu:0").close()


def test_functions_and_transforms(torch: Any) -> None:
    a = draw(torch, 6, 8)
    close(torch, einloom.softmax(a, axis=1), a.softmax(1))
    close(torch, einloom.logsumexp(a, axis=0), a.logsumexp(0))
    close(torch, einloom.cumsum(a, axis=1), a.cumsum(1))
    close(torch, einloom.cumsum(a, axis=1, reverse=True), a.flip(1).cumsum(1).flip(1))
    close(torch, einloom.kron(a, own(a)), torch.kron(a, a))
    close(torch, einloom.block_diag(a, a), torch.block_diag(a, a))
    close(torch, einloom.fft.fft(a), torch.fft.fft(a))
    close(torch, einloom.fft.rfft(a, axis=0), torch.fft.rfft(a, dim=0))
    close(torch, einloom.fft.ifft2(a.to(torch.complex128)), torch.fft.ifft2(a))


def test_linear_algebra(torch: Any) -> None:
    a = draw(torch, 3, 6, 6) + 6 * torch.eye(6, dtype=torch.float64, device="cuda")
    b = draw(torch, 3, 6, 2)
    want = torch.linalg.solve(a, b)
    for x, y in ((a, b), (own(a), b), (a, own(b))):
        close(torch, linalg.solve(x, y), want)
    close(torch, linalg.inv(a), torch.linalg.inv(a))
    close(torch, linalg.det(a), torch.linalg.det(a))
    u, s, vh = linalg.svd(b, full_matrices=False)
    close(torch, s, torch.linalg.svdvals(b))
    close(torch, u * s[:, None, :] @ vh, b)


def test_gradients_conjugates_and_sparse_tensors(torch: Any) -> None:
    a = draw(torch, 3, dtype=torch.complex128)
    close(torch, einloom.einsum("i,i->i", a.conj(), a), a.conj() * a)
    close(torch, einloom.einsum("i->", a.conj().imag), a.conj().imag.sum())
    close(torch, linalg.matmul(a.conj()[None], a[:, None]), a.conj()[None] @ a[:, None])
    with pytest.raises(ConversionError, match="resolve_conj"):
        einloom.einsum("i,i->i", a, a, out=torch.zeros_like(a).conj())
    with pytest.raises(ConversionError, match=r"requires a gradient; call \.detach\(\) on it"):
        einloom.einsum("i,i->", a, a.clone().requires_grad_())
    with pytest.raises(ConversionError, match=r"call \.to_dense\(\) on it"):
        einloom.einsum("i,i->", a, a.to_sparse())
    close(torch, einloom.einsum("i->", a.clone().requires_grad_().detach()), a.sum())


def test_nothing_moves(torch: Any) -> None:
    a = draw(torch, 3, 3)
    for call in (lambda *x: einloom.einsum("ij,jk", *x), einloom.kron, linalg.matmul):
        for host in (a.cpu().numpy(), a.cpu()):
            with pytest.raises(Unsupported, match=r"is on the host.*to_device\(x\)"):
                call(a, host)
            with pytest.raises(Unsupported, match="is on the host"):
                call(host, a)
    with pytest.raises(Unsupported, match="is on the host"):
        einloom.einsum("ij->ij", a, out=np.zeros((3, 3)))
    with pytest.raises(Unsupported, match="is on the host"):
        einloom.einsum("ij->ij", a.cpu().numpy(), out=a)
    gpu: Any = backend.get("gpu")
    np.testing.assert_array_equal(gpu.to_host(gpu.to_device(a.cpu())), a.cpu().numpy())


def slowly(torch: Any, x: Any, value: float) -> None:
    """Queue so much on torch's current stream that `x` is filled long after this returns."""
    torch.cuda._sleep(100_000_000)
    x.fill_(value)


@pytest.mark.parametrize("ours", [False, True], ids=["theirs", "both"])
def test_streams(torch: Any, ours: bool) -> None:
    """A call comes after what torch has queued on its current stream, and before what it queues next."""
    gpu: Any = backend.get("gpu")
    n = 256
    einloom.einsum("ij,jk->ik", draw(torch, n, n), draw(torch, n, n))  # kernels are loaded
    torch.cuda.synchronize()
    theirs = torch.cuda.Stream()
    stream = gpu.xp.cuda.Stream(non_blocking=True) if ours else gpu.xp.cuda.Stream.null
    with stream, torch.cuda.stream(theirs):
        a = torch.zeros(n, n, dtype=torch.float64, device="cuda")
        out = torch.zeros_like(a)
        slowly(torch, a, 1.0)
        found = einloom.einsum("ij,jk->ik", a, a)
        a.fill_(5.0)  # behind what reads it
        slowly(torch, a, 2.0)
        assert einloom.einsum("ij,jk->ik", a, a, out=out) is out
        copy = out.clone()
        a.fill_(5.0)
        total = found.sum()
    theirs.synchronize()
    assert float(total) == n**3
    assert float(copy.min()) == float(copy.max()) == 4.0 * n
    torch.cuda.synchronize()


def test_described_by_an_interface(torch: Any) -> None:
    """What knows CUDA's array interface alone, as device arrays of numba do."""

    class Described:
        def __init__(self, x: Any) -> None:
            self.x, self.shape, self.dtype = x, tuple(x.shape), np.dtype("f8")

        @property
        def __cuda_array_interface__(self) -> Any:
            return self.x.__cuda_array_interface__

    gpu: Any = backend.get("gpu")
    a = draw(torch, 4, 5)
    torch.cuda.synchronize()
    found = einloom.einsum("ij,kj->ik", Described(a), Described(a))
    assert isinstance(found, gpu.xp.ndarray)
    np.testing.assert_allclose(found.get(), (a @ a.T).cpu().numpy())
    view = einloom.einsum("ij->ji", Described(a))
    assert view.data.ptr == a.data_ptr()
    close(torch, einloom.einsum("ij,kj->ik", a, Described(a)), a @ a.T)


def test_second_card(torch: Any) -> None:
    """Computed on the card of the tensors, whichever is current."""
    if torch.cuda.device_count() < 2 or backend.gpu.count() < 2:
        pytest.skip("there is one card")
    a = torch.randn(20, 20, dtype=torch.float64, device="cuda:1")
    close(torch, einloom.einsum("ij,jk->ik", a, a), a @ a)
    with pytest.raises(Unsupported, match=r"lies on gpu:0"):
        einloom.einsum("ij,jk->ik", a, a.to("cuda:0"))
