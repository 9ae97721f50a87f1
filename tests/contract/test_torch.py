"""torch tensors in, torch tensors out, without a copy; runs where torch is installed."""

import numpy as np
import pytest

import einloom

torch = pytest.importorskip("torch", reason="torch is an optional peer, not a dependency")


def test_results_are_tensors_of_the_operands_dtype() -> None:
    a, b = torch.randn(3, 4), torch.randn(4, 5)
    for result in (
        einloom.einsum("ij,jk->ki", a, b),
        einloom.compile("ij,jk->ki", a, b)(a, b),
        einloom.einsum("ij,jk->ki", a, b.numpy()),
        einloom.tensordot(a, b, 1).T,
    ):
        assert isinstance(result, torch.Tensor)
        assert result.dtype == torch.float32
        torch.testing.assert_close(result, (a @ b).T)


def test_views_share_memory_and_out_is_filled() -> None:
    a, b = torch.zeros(3, 4), torch.ones(4, 2)
    einloom.einsum("ij->ji", a)[0, 0] = 7
    assert a[0, 0] == 7
    out = torch.zeros(3, 2)
    assert einloom.einsum("ij,jk->ik", a, b, out=out) is out
    torch.testing.assert_close(out, a @ b)


def test_lazy_conjugates_and_bfloat16() -> None:
    c = torch.randn(3, dtype=torch.complex64).conj()
    torch.testing.assert_close(einloom.einsum("i,i->", c, c), torch.einsum("i,i->", c, c))
    pytest.importorskip("ml_dtypes", reason="bfloat16 is the lowprec extra")
    x = torch.randn(3, 4).to(torch.bfloat16)
    result = einloom.einsum("ij,ij->i", x, x)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.float(), (x.float() ** 2).sum(1), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize(
    ("make", "remedy"),
    [
        (lambda: torch.ones(3, requires_grad=True), "detach"),
        (lambda: torch.ones(3).to_sparse(), "to_dense"),
        (lambda: torch.ones(3, device="meta"), "cpu"),
    ],
)
def test_what_cannot_be_read_in_place_names_the_conversion(make, remedy) -> None:
    with pytest.raises(einloom.ConversionError, match=remedy):
        einloom.einsum("i,i->", make(), np.ones(3))


def test_a_lazily_conjugated_out_is_refused() -> None:
    out = torch.zeros(2, dtype=torch.complex128).conj()
    with pytest.raises(einloom.ConversionError, match="resolve_conj"):
        einloom.einsum("i,i->i", np.ones(2), np.ones(2), out=out)
