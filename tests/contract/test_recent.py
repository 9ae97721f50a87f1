"""Calls with operands alone, for which the last expression of their equation is looked up first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import einloom
from einloom.contract import einsum as module
from einloom.program.executable import Executable

EQUATION = "ij,jk->ik"


@pytest.fixture(autouse=True)
def _fresh() -> None:
    einloom.clear_caches()


def hits() -> int:
    return einloom.cache_info()["recent expressions"].hits


def test_shapes_and_dtypes_by_turns(rng: np.random.Generator) -> None:
    """An expression answers for its own shapes and dtypes alone."""
    cases = [
        (rng.random((2, 3)), rng.random((3, 4))),
        (rng.random((3, 3)), rng.random((3, 4))),
        (rng.random((3, 3)), rng.random((1, 4))),
        (rng.integers(0, 5, (3, 3)), rng.integers(0, 5, (3, 4))),
        (rng.random((3, 3)).astype("f4"), rng.random((3, 4)).astype(">f8")),
    ]
    for _ in range(3):
        for arrays in cases:
            for _ in range(2):
                got = einloom.einsum(EQUATION, *arrays)
                want = np.einsum(EQUATION, *arrays)
                assert got.dtype == want.dtype
                np.testing.assert_allclose(got, want)
    assert hits() > 0


def test_no_function_for_shapes_that_change(monkeypatch: pytest.MonkeyPatch) -> None:
    """Previously failed: each call generated the function of the one before, and did not use it."""
    made = []
    compiled = Executable._compiled
    monkeypatch.setattr(Executable, "_compiled", lambda *_: made.append(1) or compiled(*_))
    y, z = np.ones((3, 4)), np.ones((4, 5))
    for k in range(2, 12):
        assert einloom.einsum("ij,jk,kl->il", np.ones((k, 3)), y, z).shape == (k, 5)
    assert einloom.einsum("ij,jk,kl->il", np.ones((11, 3), "f4"), y, z).shape == (11, 5)
    assert not made
    einloom.einsum("ij,jk,kl->il", np.ones((11, 3), "f4"), y, z)
    assert made == [1]


def test_second_call_is_a_hit(rng: np.random.Generator) -> None:
    x = rng.random((3, 3))
    if einloom.get_options().patience:
        einloom.einsum(EQUATION, x, x)  # a first call, which prepares nothing
    for count in range(4):
        np.testing.assert_allclose(einloom.einsum(EQUATION, x, x), x @ x)
        assert hits() == count
    einloom.clear_caches()
    assert not module._RECENT.items


def test_arguments_are_not_overlooked(rng: np.random.Generator) -> None:
    x = rng.random((3, 3)) + 1j
    for _ in range(3):
        np.testing.assert_allclose(einloom.einsum(EQUATION, x, x), x @ x)
        np.testing.assert_allclose(einloom.einsum(EQUATION, x, x, conj=(0,)), x.conj() @ x)
        np.testing.assert_allclose(einloom.einsum(EQUATION, x, x, alpha=2), 2 * x @ x)
        out = np.ones((3, 3), complex)
        assert einloom.einsum(EQUATION, x, x, out=out, beta=1) is out
        np.testing.assert_allclose(out, x @ x + 1)
        assert einloom.einsum(EQUATION, x, x, order="F").flags.f_contiguous
        assert einloom.einsum(EQUATION, x, x, dtype="c8", casting="same_kind").dtype == "c8"


def test_options_are_not_overlooked(rng: np.random.Generator) -> None:
    """What was planned without a limit does not answer where there is one."""
    x = rng.random((40, 40))
    for _ in range(2):
        einloom.einsum(EQUATION, x, x)
    with einloom.options(memory_limit=1000), pytest.raises(MemoryError):
        einloom.einsum(EQUATION, x, x)
    before = hits()
    np.testing.assert_allclose(einloom.einsum(EQUATION, x, x), x @ x)
    assert hits() == before + 1


def test_wrong_calls_are_told_as_ever(rng: np.random.Generator) -> None:
    x = rng.random((3, 3))
    einloom.einsum(EQUATION, x, x)
    for wrong in ((x,), (x, x, x), (x, rng.random((4, 4))), (), (x, object())):
        with pytest.raises(einloom.EinloomError):
            einloom.einsum(EQUATION, *wrong)


def test_scalars_and_subclasses(rng: np.random.Generator) -> None:
    x = rng.random(5)
    for _ in range(3):
        got = einloom.einsum("i,i->", x, x)
        assert isinstance(got, np.float64)
        sub = x.view(type("Sub", (np.ndarray,), {}))
        assert type(einloom.einsum("i,i->i", x, sub)) is np.ndarray
    square = rng.random((3, 3))
    for value in (5, 6, 7):
        einloom.einsum("ii->i", square)[...] = value
        assert (np.diagonal(square) == value).all()


def test_many_operands() -> None:
    """No function is generated to check them; they are checked all the same."""
    x = [np.full((2, 2), 0.5) for _ in range(70)]
    labels = [chr(0x4E00 + k) for k in range(71)]
    chain = ",".join(labels[k] + labels[k + 1] for k in range(70)) + f"->{labels[0]}{labels[70]}"
    expression = einloom.compile(chain, *x)
    assert expression.fast is None
    for _ in range(2):
        np.testing.assert_allclose(einloom.einsum(chain, *x), x[0])
        np.testing.assert_allclose(expression(*x), x[0])
    with pytest.raises(einloom.EinloomError):
        expression(*x[1:])


def test_it_is_bounded() -> None:
    """Emptied when it is full."""
    x = np.ones(2)
    for k in range(module._RECENT.maxsize + 10):
        einloom.einsum(f"{chr(0x4E00 + k)}->", x)
    assert len(module._RECENT.items) <= module._RECENT.maxsize


def test_threads(rng: np.random.Generator) -> None:
    arrays = [rng.random((n, n)) for n in (2, 3, 4)]

    def work(seed: int) -> None:
        for k in range(200):
            x = arrays[(seed + k) % 3]
            np.testing.assert_allclose(einloom.einsum(EQUATION, x, x), x @ x)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))


@pytest.mark.parametrize(
    ("equation", "shape"),
    [
        ("qaii->qia", (4, 3, 5, 5)),
        ("ij->ji", (3, 4)),
        ("iii->i", (4, 4, 4)),
        ("ijij->ji", (2, 3, 2, 3)),
        ("ij->ji", (0, 3)),
        ("ij->ji", (1, 3)),
    ],
)
@pytest.mark.parametrize("dtype", ["f8", "c8", "i2", "?", "f2", "O"])
def test_views_again_and_again(equation: str, shape: tuple[int, ...], dtype: str) -> None:
    """The second call goes the fast way: the view is the same, of any operand of that shape."""
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    locked = x.copy()
    locked.flags.writeable = False
    wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)[..., ::2]
    wide[...] = x
    for operand in (x, x, locked, np.asfortranarray(x), wide, x):
        view, want = einloom.einsum(equation, operand), np.einsum(equation, operand)
        np.testing.assert_array_equal(view, want)
        assert view.dtype == want.dtype
        assert np.shares_memory(view, operand) or view.size == 0
        assert view.flags.writeable == want.flags.writeable
    view[...] = 1
    np.testing.assert_array_equal(einloom.einsum(equation, x), np.ones_like(view))
