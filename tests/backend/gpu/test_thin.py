"""Products of few terms, rows or columns in tiles, beside NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import HOPPER, compile_all, needs_nvrtc
from tests.backend.gpu.sorts import held
from tests.backend.stand_in import DeviceArray, StandIn

import einloom
from einloom.backend.gpu import product, tiles
from einloom.backend.gpu.cuda import thin as module
from einloom.backend.gpu.cuda.kernel import CudaKernel
from einloom.backend.gpu.cuda.thin import thin
from einloom.backend.gpu.launch import CARDS, Card, card_of
from einloom.backend.gpu.product import engine_of
from einloom.backend.spec import ArraySpec

Sizes = tuple[int, ...]
CASES: list[tuple[str, Sizes, Sizes, Sizes, Sizes]] = [
    # dtype, batch, rows, columns, terms
    *(
        (dtype, *sizes)
        for dtype in ("float32", "float64")
        for sizes in (
            ((), (130,), (150,), (24,)),
            ((2,), (9, 15), (3, 44), (5, 2)),
            ((3, 2), (257,), (129,), (23,)),
            ((), (40, 7), (3,), (2, 2, 2)),
            ((), (1,), (700,), (1,)),
            ((), (300,), (5, 63), (11,)),
            ((2,), (140,), (130,), (16,)),
        )
    )
]


WIDE = (1, 7)
PLAIN = (0, 1, 2, 3, 4, 5, 6)  # float32, by threads as well


class Case:
    """Operands whose axes lie in some order, one element behind where memory begins, maybe backwards."""

    def __init__(
        self, number: int, made_by: Callable[..., CudaKernel], dtype: str, *groups: Sizes
    ) -> None:
        rng = np.random.default_rng(number)
        labels = iter("abcdefghijklmnop")
        b, m, n, k = ("".join(next(labels) for _ in group) for group in groups)
        sizes = dict(zip(b + m + n + k, (x for group in groups for x in group), strict=True))
        self.terms = (b + m + k, b + n + k)
        self.operands: list[Any] = []
        for term in self.terms:
            order = rng.permutation(len(term))
            memory = rng.integers(-8, 9, math.prod(sizes[x] for x in term) + 1).astype(dtype)
            x = memory[1:].reshape([sizes[term[axis]] for axis in order])
            if number % 3 == 2:
                x = x[..., ::-1]
            self.operands.append(x.transpose(np.argsort(order)))
        self.out, self.memory = guarded(tuple(sizes[x] for x in b + m + n), dtype)
        self.equation = f"{','.join(self.terms)}->{b + m + n}"
        axes = [
            tuple(self.stride(operand, label) for label in group)
            for group in (b, m, n, k)
            for operand in (0, 1)
        ]
        self.kernel: CudaKernel = made_by(
            dtype,
            *((group, axes[2 * i], axes[2 * i + 1]) for i, group in enumerate(groups)),  # type: ignore[arg-type]
            blocks=1 + number % 4,
        )

    def stride(self, operand: int, label: str) -> int:
        term, x = self.terms[operand], self.operands[operand]
        return x.strides[term.index(label)] // x.itemsize if label in term else 0


def narrow(*arguments: Any, **keywords: Any) -> CudaKernel:
    found = thin(*arguments, **keywords)
    assert found is not None
    assert not found.wide
    return found


def far(*arguments: Any, **keywords: Any) -> CudaKernel:
    """As if offsets were beyond 32 bits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "index_type", lambda *layouts: "long long")
        found = module._made(*arguments, **keywords)
    assert found is not None
    assert found.wide
    return found


def plain(*arguments: Any, **keywords: Any) -> CudaKernel:
    return narrow(*arguments, is_plain=True, **keywords)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], Emulator]:
    cases = [Case(number, narrow, *case) for number, case in enumerate(CASES)]
    cases += [Case(number, far, *CASES[number]) for number in WIDE]
    cases += [Case(number, plain, *CASES[number]) for number in PLAIN]
    return cases, Emulator([case.kernel for case in cases], tmp_path_factory.mktemp("thin"))


@needs_compiler
@pytest.mark.parametrize("number", range(len(CASES) + len(WIDE) + len(PLAIN)))
def test_products(made: tuple[list[Case], Emulator], number: int) -> None:
    cases, emulator = made
    case = cases[number]
    emulator(case.kernel, case.out, *case.operands)
    np.testing.assert_array_equal(case.out, np.einsum(case.equation, *case.operands))
    assert untouched(case.memory)


@pytest.fixture(scope="module")
def of_all_sorts(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], Emulator]:
    cases = [Case(number, narrow, *CASES[0]) for number in range(len(SORTS))]
    return cases, Emulator([case.kernel for case in cases], tmp_path_factory.mktemp("sorts"))


SORTS = ("numbers", "few", "nothing finite", "tiny", "huge")


@needs_compiler
@pytest.mark.parametrize("number", range(len(SORTS)))
def test_float32_in_pieces(of_all_sorts: tuple[list[Case], Emulator], number: int) -> None:
    """What pieces do not hold is computed again; the others are closer than one term after another is sure
    to be."""
    cases, emulator = of_all_sorts
    case, rng = cases[number], np.random.default_rng(number)
    for x in case.operands:
        x[...] = held(SORTS[number], rng, x.size, 24).reshape(x.shape)
    emulator(case.kernel, case.out, *case.operands)
    left, right = (x.astype("f8") for x in case.operands)
    with np.errstate(all="ignore"):
        want = np.einsum(case.equation, left, right)
        sizes = np.einsum(case.equation, np.abs(left), np.abs(right))
        as_float = want.astype("f4")
    assert untouched(case.memory)
    is_finite = np.isfinite(as_float)
    np.testing.assert_array_equal(case.out[~is_finite], as_float[~is_finite])
    error = np.abs(case.out[is_finite] - want[is_finite])
    assert (error <= 5 * 2.0**-24 * sizes[is_finite] + 2.0**-149).all()


def axes(sizes: Sequence[int], left: Sequence[int], right: Sequence[int]) -> Any:
    return tuple(sizes), tuple(left), tuple(right)


def test_what_has_none() -> None:
    one, rows, columns = axes((), (), ()), axes((9,), (1,), (0,)), axes((9,), (0,), (1,))
    assert thin("float16", one, rows, columns, axes((3,), (9,), (9,)), 1) is None
    assert thin("float32", one, rows, columns, axes((25,), (9,), (9,)), 1) is None


def test_far_offsets_take_64_bits() -> None:
    one, columns = axes((), (), ()), axes((9,), (0,), (1,))
    far = thin("float32", one, axes((9,), (1 << 31,), (0,)), columns, axes((3,), (1,), (9,)), 1)
    assert far is not None
    assert far.wide


# ---- as a rung of products ----------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small results go there as well."""
    monkeypatch.setattr(tiles, "TILES_EACH", 0)
    monkeypatch.setattr(tiles, "MULTIPLIED", 1e9)


def there(x: Any) -> Any:
    return x.view(DeviceArray)


@needs_compiler
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_rung(few: None, dtype: str, rng: np.random.Generator) -> None:
    """Called, called again, and where the result does not lie in rows."""
    x = rng.integers(-8, 9, (3, 5, 7, 2)).astype(dtype)
    y = rng.integers(-8, 9, (7, 3, 9, 5)).astype(dtype)[..., ::-1]
    attrs = {"batch": ((0,), (1,)), "contracting": ((2,), (0,))}
    want = np.einsum("bmkn,kbpq->bmnpq", x, y)
    with launches() as launched:
        for _ in range(2):
            found = COMPILING.apply("dot_general", attrs, there(x), there(y))
            np.testing.assert_array_equal(found.view(np.ndarray), want)
    assert launched == ["thin"] * 2
    room = np.zeros((*want.shape, 2), dtype)
    with launches() as launched:
        COMPILING.apply("dot_general", attrs, there(x), there(y), out=there(room)[..., 1])
    assert "thin" not in launched
    np.testing.assert_array_equal(room[..., 1], want)
    assert not room[..., 0].any()
    late = np.zeros(want.nbytes + 2, np.uint8)[2:].view(dtype).reshape(want.shape)
    with launches() as launched:  # at an address where no number may be written
        COMPILING.apply("dot_general", attrs, there(x), there(y), out=there(late))
    assert "thin" not in launched
    np.testing.assert_array_equal(late, want)
    with launches() as launched:
        total = COMPILING.apply("dot_general_add", attrs, there(x), there(y), there(want))
    assert "thin" not in launched  # cuBLAS adds as it writes
    np.testing.assert_array_equal(total.view(np.ndarray), 2 * want)
    COMPILING.apply(
        "dot_general_add", attrs, there(x), there(y), there(want), out=there(room)[..., 1]
    )
    np.testing.assert_array_equal(room[..., 1], 2 * want)


@needs_compiler
@pytest.mark.parametrize("k", [7, 16, 24])
def test_float32_by_threads(k: int, few: None, monkeypatch: pytest.MonkeyPatch, rng: Any) -> None:
    """Where the option asks for plain arithmetic, and where the kernel cannot be loaded; also after a product
    of the same shape went in pieces."""
    x = rng.integers(-8, 9, (9, k)).astype("f4")
    y = rng.integers(-8, 9, (k, 11)).astype("f4")
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (x, y))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    asked: list[bool] = []

    def made(*arguments: Any, **keywords: Any) -> CudaKernel | None:
        found = thin(*arguments, **keywords)
        asked.append("InPieces" not in found.source if found else False)
        return found

    monkeypatch.setattr(tiles, "thin", made)

    def multiplied() -> list[bool]:
        asked.clear()
        with launches() as launched:
            found = product.Product(COMPILING.xp, attrs, specs)(there(x), there(y))
        assert launched == ["thin"]
        np.testing.assert_array_equal(found.view(np.ndarray), x @ y)
        return asked

    assert multiplied() == [False]
    with einloom.options(precision="ieee"):
        assert multiplied() == [True]
    monkeypatch.setattr(tiles, "can_start", lambda *_: False)
    assert multiplied() == [False, True]


def rung(dtype: str, m: int = 9, n: int = 9, k: int = 3) -> str:
    return engine_of(
        COMPILING.xp,
        "matmul",
        {},
        (ArraySpec(np.dtype(dtype), (m, k)), ArraySpec(np.dtype(dtype), (k, n))),
    )


def test_what_goes_there(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rung("float32") == rung("float64") == "thin"
    assert rung("complex64") == rung("float32", k=25) == "gemm"
    with einloom.options(precision="tf32"):
        assert rung("float32") == "gemm"
        assert rung("float64") == "thin"
    for card in (Card(80, 108, 163 << 10), Card(100, 148, 227 << 10), Card(0, 0, 48 << 10)):
        monkeypatch.setattr(tiles, "card_of", lambda xp, card=card: card)
        assert rung("float32") == rung("float64") == "gemm"


def test_how_much_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough tiles for all blocks of a card, and few multiplications in vain."""
    monkeypatch.setattr(tiles, "card_of", lambda xp: Card(90, 132, 227 << 10))
    assert rung("float32", 9600, 9600, 24) == rung("float64", 6144, 6144, 24) == "thin"
    assert rung("float32", 5700, 5700, 24) == "gemm"
    assert rung("float32", 130, 400000, 24) == rung("float32", 65, 1 << 20, 24) == "gemm"
    assert rung("float32", 130, 400000, 8) == "thin"
    x = np.empty((9600, 24, 2), "f4")[..., 0]
    y = np.empty((24, 9600), "f4")
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (x, y))
    apart = product.Product(COMPILING.xp, {"contracting": ((1,), (0,)), "batch": ((), ())}, specs)
    assert apart.rung(there(y.T), there(y)) == "thin"
    assert apart.rung(there(x), there(y)) != "thin"  # nothing of it lies side by side


def test_cards_that_do_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    """AMD's count their capabilities otherwise."""
    xp = StandIn()
    assert card_of(xp) == Card(90, 2, 99 << 10)
    monkeypatch.setattr(xp.cuda.runtime, "is_hip", True, raising=False)
    CARDS.clear()
    assert card_of(xp).capability == 0
    CARDS.clear()


def test_too_little_shared_memory(
    few: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(tiles, "card_of", lambda xp: Card(90, 2, 48 << 10))
    x, y = rng.standard_normal((40, 30)), rng.standard_normal((30, 50))
    with launches() as launched:
        found = COMPILING.apply("matmul", {}, there(x), there(y))
    assert launched == []
    np.testing.assert_allclose(found.view(np.ndarray), x @ y)


@needs_nvrtc
@pytest.mark.parametrize("architecture", HOPPER)
def test_compiles(architecture: str) -> None:
    kernels = [Case(number, narrow, *case).kernel for number, case in enumerate(CASES)]
    kernels += [Case(number, far, *CASES[number]).kernel for number in WIDE]
    kernels += [Case(number, plain, *CASES[number]).kernel for number in PLAIN]
    ptx = compile_all(kernels, architecture, ("-ftz=true",))  # as CuPy does
    assert ("mma.sync" in ptx) == (architecture != "compute_70")
    assert ("wgmma.mma_async" in ptx) == (architecture == "compute_90a")
    assert "sub.rn.ftz" not in ptx  # numbers are taken apart exactly all the same
    by_threads = [Case(number, plain, *CASES[number]).kernel for number in PLAIN]
    assert "fma.rn.ftz.f32" not in compile_all(by_threads, architecture, ("-ftz=true",))
