"""Products of float32 in pieces of bfloat16, beside NumPy's in double precision."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.backend.backends import COMPILING
from tests.backend.gpu.emulator import Emulator, guarded, needs_compiler, untouched
from tests.backend.gpu.launches import launches
from tests.backend.gpu.nvrtc import HOPPER, compile_all, needs_nvrtc
from tests.backend.gpu.sorts import FEW, held
from tests.backend.stand_in import DeviceArray

import einloom
from einloom.backend.gpu import launch, product, tiles
from einloom.backend.gpu.cuda import apart as module_of_apart
from einloom.backend.gpu.cuda import pieces as module
from einloom.backend.gpu.cuda.apart import PANEL, Apart, apart
from einloom.backend.gpu.cuda.pieces import Way, pieces, way_of
from einloom.backend.gpu.launch import Card
from einloom.backend.gpu.product import Product, engine_of
from einloom.backend.rules import dot_dims
from einloom.backend.spec import ArraySpec

Sizes = tuple[int, ...]


class Sort(NamedTuple):
    """A case: sizes of batch, rows, columns and terms, how it is dealt, and what its operands hold."""

    batch: Sizes
    rows: Sizes
    columns: Sizes
    terms: Sizes
    way: Way
    holds: str = "integers"
    far: bool = False
    lies: tuple[str, str] | None = None  # axes of lhs and rhs as they lie, from where memory begins


SORTS = [
    Sort((), (130,), (150,), (40,), Way(128, False, 1)),
    Sort((2,), (9, 15), (3, 44), (5, 8), Way(128, True, 1), "numbers"),
    Sort((3,), (129,), (100,), (33,), Way(96, False, 1), "numbers"),
    Sort((), (40, 7), (30,), (2, 35, 2), Way(96, False, 3), "numbers"),
    Sort((), (24,), (270,), (36,), Way(96, True, 1)),
    Sort((2,), (5,), (63,), (130,), Way(96, True, 2), "numbers"),
    Sort((), (140,), (4,), (96,), Way(128, False, 2), "nothing finite"),
    Sort((2,), (140,), (30,), (40,), Way(96, False, 1), "tiny"),
    Sort((), (30,), (200,), (40,), Way(96, True, 1), "huge"),
    Sort((), (1,), (700,), (1,), Way(128, True, 1), "numbers"),
    Sort((), (1,), (1,), (300,), Way(96, False, 9)),
    Sort((2,), (150,), (70,), (200,), Way(128, False, 1), "numbers", lies=("bkm", "bkn")),
    Sort((), (64,), (256,), (64,), Way(128, True, 2), "numbers", lies=("km", "kn")),
    Sort((3,), (40,), (90,), (330,), Way(96, False, 3), "integers", lies=("bkm", "bnk")),
    Sort((2,), (9, 15), (3, 44), (5, 8), Way(128, True, 1), "numbers", True),
    Sort((), (140,), (4,), (96,), Way(128, False, 2), "nothing finite", True),
    Sort((), (130,), (99,), (410,), Way(128, False, 1), "few"),
    Sort((2,), (40,), (7, 10), (900,), Way(96, True, 2), "few"),
    # taken apart before
    Sort((), (130,), (150,), (40,), Way(128, False, 1, True)),
    Sort((2,), (9, 15), (3, 44), (5, 8), Way(128, True, 1, True), "numbers"),
    Sort((), (1100,), (260,), (70,), Way(128, False, 1, True), "numbers", lies=("km", "nk")),
    Sort((3,), (40, 7), (30,), (2, 35, 4), Way(128, False, 3, True), "numbers"),
    Sort((2,), (40,), (7, 20), (900,), Way(128, True, 2, True), "few"),
    Sort((), (140,), (4,), (96,), Way(128, False, 2, True), "nothing finite"),
    Sort((2,), (140,), (30,), (40,), Way(128, False, 1, True), "tiny"),
    Sort((), (30,), (200,), (300,), Way(128, True, 1, True), "huge"),
    Sort((), (1,), (1,), (300,), Way(128, False, 9, True)),
    Sort((2,), (9, 15), (3, 44), (5, 8), Way(128, True, 2, True), "numbers", True),
    Sort((), (140,), (140,), (96,), Way(128, False, 2, True), "tiny", True),
]


class Case:
    """Operands whose axes lie in some order, one element behind where memory begins, maybe backwards."""

    def __init__(self, number: int, sort: Sort) -> None:
        rng = np.random.default_rng(number)
        labels = iter("abcdefghijklmnop")
        groups = sort[:4]
        b, m, n, k = ("".join(next(labels) for _ in group) for group in groups)
        sizes = dict(zip(b + m + n + k, (x for group in groups for x in group), strict=True))
        self.terms = (b + m + k, b + n + k)
        self.operands: list[Any] = []
        letters = dict(zip("bmnk", (b, m, n, k), strict=True))
        is_moved = number % 3 and not sort.lies
        for side, term in enumerate(self.terms):
            order = rng.permutation(len(term)) if number % 2 else np.arange(len(term))
            if sort.lies:
                order = np.array([term.index(letters[role]) for role in sort.lies[side]])
            memory = held(
                sort.holds, rng, math.prod(sizes[x] for x in term) + 1, math.prod(sort.terms)
            )
            x = memory[1 if is_moved else 0 :][: memory.size - 1]
            x = x.reshape([sizes[term[axis]] for axis in order])
            if is_moved and number % 3 == 2:
                x = x[..., ::-1]
            self.operands.append(x.transpose(np.argsort(order)))
        shape = tuple(sizes[x] for x in b + m + n)
        parts = (sort.way.parts,) if sort.way.parts > 1 else ()
        self.out, self.memory = guarded((*parts, *shape), "f4")
        self.equation = f"{','.join(self.terms)}->{b + m + n}"
        self.has_parts = bool(parts)
        axes = [
            tuple(self.stride(operand, label) for label in group)
            for group in (b, m, n, k)
            for operand in (0, 1)
        ]
        arguments = [(group, axes[2 * i], axes[2 * i + 1]) for i, group in enumerate(groups)]
        self.apart: Apart | None = None
        with pytest.MonkeyPatch.context() as patch:
            if sort.far:
                for one in (module, module_of_apart):
                    patch.setattr(one, "index_type", lambda *layouts: "long long")
            if sort.way.is_apart:
                make: Any = module_of_apart._made if sort.far else apart
                self.apart = make(*arguments, sort.way, 1 + number % 4)
                self.kernels = self.apart[:4]
            else:
                make = module._made if sort.far else pieces
                begins = tuple(not is_moved and x.ctypes.data % 16 == 0 for x in self.operands)
                self.kernels = (make(*arguments, sort.way, 1 + number % 4, begins),)
        assert all(kernel.wide == sort.far for kernel in self.kernels)

    def stride(self, operand: int, label: str) -> int:
        term, x = self.terms[operand], self.operands[operand]
        return x.strides[term.index(label)] // x.itemsize if label in term else 0

    def run(self, emulator: Emulator) -> Any:
        named = dict(zip(("lhs", "rhs"), self.operands, strict=True)) | {"out": self.out}
        if self.apart is None:
            emulator(self.kernels[0], *(named[name] for name in self.kernels[0].arrays))
        else:
            made = self.apart
            rooms = [np.full(count * PANEL + 16, 0x5A, np.uint8) for count in made.panels]
            panels = [room[-room.ctypes.data % 16 :][: room.size - 16] for room in rooms]
            tiny = [np.full(count + 1, 7, np.int32) for count in made.panels]
            state = np.full(made.states + 1, 7, np.int32)
            sides = [named[kernel.arrays[2]] for kernel in (made.left, made.right)]
            for k, kernel in enumerate((made.left, made.right)):
                emulator(kernel, panels[k], tiny[k], sides[k])
            emulator(made.multiply, self.out, state, *panels)
            emulator(made.again, self.out, state, *tiny, *sides)
            for one in (*tiny, state):
                assert set(one[:-1]) <= {0, 1, 2}
                assert one[-1] == 7
        with np.errstate(all="ignore"):
            return self.out.sum(axis=0) if self.has_parts else self.out


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Case], Emulator]:
    cases = [Case(number, sort) for number, sort in enumerate(SORTS)]
    kernels = [kernel for case in cases for kernel in case.kernels]
    return cases, Emulator(kernels, tmp_path_factory.mktemp("pieces"))


@needs_compiler
@pytest.mark.parametrize("number", range(len(SORTS)))
def test_products(made: tuple[list[Case], Emulator], number: int) -> None:
    cases, emulator = made
    case = cases[number]
    found = case.run(emulator)
    x, y = (one.astype("f8") for one in case.operands)
    with np.errstate(all="ignore"):
        want = np.einsum(case.equation, x, y)
        sizes = np.einsum(case.equation, np.abs(x), np.abs(y))
        as_float = want.astype("f4")
    assert untouched(case.memory)
    if SORTS[number].holds == "integers":
        np.testing.assert_array_equal(found, want)
        return
    is_finite = np.isfinite(as_float)
    np.testing.assert_array_equal(found[~is_finite], as_float[~is_finite])
    terms = 3 * FEW if SORTS[number].holds == "few" else math.prod(SORTS[number].terms)
    error = np.abs(found[is_finite] - want[is_finite])
    assert (error <= (2 + terms / 8) * 2.0**-24 * sizes[is_finite] + 2.0**-149).all()


# ---- as a rung of products ----------------------------------------------------------------------


@pytest.fixture
def many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products go there as well."""
    monkeypatch.setattr(tiles, "WORTH_IT", 0)
    monkeypatch.setattr(tiles, "AHEAD", 1e9)
    monkeypatch.setattr(tiles, "way_of", partial(with_way, is_apart=False))
    for one in (tiles, launch):
        monkeypatch.setattr(one, "card_of", lambda xp: Card(90, 2, 227 << 10))


def with_way(*sizes: int, is_apart: bool) -> tuple[Way, float]:
    """The likely way, or the other one of taking numbers apart."""
    way, seconds = way_of(*sizes)
    return way._replace(is_apart=is_apart, columns=128 if is_apart else way.columns), seconds


def there(x: Any) -> Any:
    return x.view(DeviceArray)


@needs_compiler
def test_a_rung(many: None, rng: np.random.Generator) -> None:
    """Called, called again, where an operand begins elsewhere, and where the result does not lie in rows."""
    x = rng.integers(-8, 9, (2, 5, 2, 70)).astype("f4")
    y = rng.integers(-8, 9, (70, 2, 9, 8)).astype("f4")[..., ::-1]
    attrs = {"batch": ((0,), (1,)), "contracting": ((3,), (0,))}
    want = np.einsum("bmnk,kbpq->bmnpq", x, y)
    elsewhere = np.zeros(x.size + 1, "f4")[1:].reshape(x.shape)
    elsewhere[...] = x
    with launches() as launched:
        for one in (x, x, elsewhere, x):
            found = COMPILING.apply("dot_general", attrs, there(one), there(y))
            np.testing.assert_array_equal(found.view(np.ndarray), want)
    assert launched == ["pieces"] * 4
    room = np.zeros((*want.shape, 2), "f4")
    with launches() as launched:
        COMPILING.apply("dot_general", attrs, there(x), there(y), out=there(room)[..., 1])
    assert "pieces" not in launched
    np.testing.assert_array_equal(room[..., 1], want)
    with launches() as launched:
        total = COMPILING.apply("dot_general_add", attrs, there(x), there(y), there(want))
    assert "pieces" not in launched  # cuBLAS adds as it writes
    np.testing.assert_array_equal(total.view(np.ndarray), 2 * want)


@needs_compiler
def test_added_to(many: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """Where passes over the result are little, and where cuBLAS adds as it writes."""
    x = rng.integers(-8, 9, (40, 64)).astype("f4")
    y = rng.integers(-8, 9, (64, 50)).astype("f4")
    z = rng.integers(-8, 9, (40, 50)).astype("f4")
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,)), "alpha": 2, "beta": -3}
    for many_terms, rungs in ((1, ["pieces"] * 2), (1 << 20, [])):
        monkeypatch.setattr(product, "MANY", many_terms)
        for out in (None, there(z.copy())):
            acc = there(z) if out is None else out
            with launches() as launched:
                for again in range(2):
                    if out is not None and again:
                        continue
                    found = COMPILING.apply(
                        "dot_general_add", attrs, there(x), there(y), acc, out=out
                    )
            np.testing.assert_array_equal(found.view(np.ndarray), 2 * (x @ y) - 3 * z)
            assert launched == rungs[: 2 if out is None else 1]
        specs = tuple(ArraySpec(a.dtype, a.shape) for a in (x, y))
        told = engine_of(COMPILING.xp, "dot_general_add", attrs, specs)
        assert told == ("pieces" if rungs else "gemm")


@needs_compiler
def test_what_is_copied_first(many: None, rng: np.random.Generator) -> None:
    """Terms that lie side by side in each operand, but not in the same order, and nothing else does."""
    x = rng.integers(-8, 9, (3, 9, 4, 8)).astype("f4")
    y = rng.integers(-8, 9, (4, 8, 3, 9)).astype("f4")
    attrs = {"batch": ((), ()), "contracting": ((1, 3), (3, 1))}
    with launches() as launched:
        for _ in range(2):
            found = COMPILING.apply("dot_general", attrs, there(x), there(y))
            np.testing.assert_array_equal(
                found.view(np.ndarray), np.einsum("anbm,cmdn->abcd", x, y)
            )
    assert launched.count("pieces") == 2
    dims = dot_dims(attrs, x.shape, y.shape)
    assert tiles._lying(dims, x, y).orders == (None, (0, 2, 3, 1))
    few = rng.standard_normal((5, 40, 4)).astype("f4")  # kab: its rows are one run
    of_few = dot_dims({"batch": ((), ()), "contracting": ((0,), (0,))}, few.shape, (5, 9))
    assert tiles._lying(of_few, few, np.zeros((5, 9), "f4")).to_copy == 0
    turned = {"batch": ((), ()), "contracting": ((1, 3), (1, 3))}
    assert tiles._lying(dot_dims(turned, x.shape, x.shape), x, x).to_copy == 0
    assert tiles._lying(dot_dims(turned, x.shape, x.shape), x, x[..., ::-1]).to_copy == 0


@needs_compiler
def test_parts_are_added(many: None, rng: np.random.Generator) -> None:
    x = rng.integers(-8, 9, (20, 6000)).astype("f4")
    y = rng.integers(-8, 9, (6000, 30)).astype("f4")
    assert way_of(1, 20, 30, 6000, 2)[0].parts == 2
    with launches() as launched:
        found = COMPILING.apply("matmul", {}, there(x), there(y))
    assert launched == ["pieces"]
    np.testing.assert_array_equal(found.view(np.ndarray), x @ y)


@needs_compiler
@pytest.mark.parametrize(
    "sizes",
    [pytest.param((20, 1500, 30), marks=pytest.mark.slow), (300, 64, 40), (40, 64, 300)],
)
def test_taken_apart_before(
    many: None,
    sizes: tuple[int, int, int],
    monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator,
) -> None:
    """Four launches, called again and where an operand begins elsewhere; cuBLAS where the kernel cannot be
    loaded."""
    monkeypatch.setattr(tiles, "way_of", partial(with_way, is_apart=True))
    m, k, n = sizes
    x = rng.integers(-8, 9, (m, k)).astype("f4")
    y = rng.integers(-8, 9, (k, n)).astype("f4")
    elsewhere = np.zeros(x.size + 1, "f4")[1:].reshape(x.shape)
    elsewhere[...] = x
    xp: Any = COMPILING.xp
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (x, y))
    multiply = Product(xp, attrs, specs)
    for one in (x, x, elsewhere):
        with launches() as launched:
            found = multiply(there(one), there(y))
        assert launched == ["apart_take"] * 2 + ["apart_multiply", "apart_again"]
        np.testing.assert_array_equal(found.view(np.ndarray), x @ y)
    with pytest.MonkeyPatch.context() as patch, launches() as launched:
        patch.setattr(tiles, "can_start", lambda *_: False)
        found = Product(xp, attrs, specs)(there(x), there(y))
        np.testing.assert_array_equal(found.view(np.ndarray), x @ y)
    assert launched == []

    def short(*_: Any) -> Any:
        raise MemoryError("no memory for pieces")

    empty = xp.empty
    with monkeypatch.context() as patch:
        patch.setattr(xp, "empty", lambda *of: short() if of[1] is np.uint8 else empty(*of))
        with pytest.raises(MemoryError):  # as of other copies
            multiply(there(x), there(y))
    with launches() as launched:
        multiply(there(x), there(y))
    assert len(launched) == 4  # as before


def test_pieces_are_kept_within_memory() -> None:
    """6 bytes for each number, rows and columns in bands of 128, terms in steps of 32."""
    needed = 6 * (2 * 25 * 128) * (98 * 32)
    assert way_of(1, 3136, 3136, 3136, 132, needed)[0].is_apart
    assert not way_of(1, 3136, 3136, 3136, 132, needed - 1)[0].is_apart


def rung(dtype: str = "float32", m: int = 9, n: int = 9, k: int = 50) -> str:
    return engine_of(
        COMPILING.xp,
        "matmul",
        {},
        (ArraySpec(np.dtype(dtype), (m, k)), ArraySpec(np.dtype(dtype), (k, n))),
    )


def test_what_goes_there(many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert rung() == "pieces"
    assert rung(k=1 << 30) == "pieces"
    assert rung(k=(1 << 30) + 1) != "pieces"  # terms are counted in 32 bits
    assert rung("float64") == rung("complex64") == rung("float16") == rung(k=24) == "gemm"
    for precision in ("ieee", "tf32", "bfloat16"):
        with einloom.options(precision=precision):
            assert rung() == "gemm"
    monkeypatch.setattr(tiles, "has_features", lambda xp, features: False)
    assert rung() == "gemm"
    monkeypatch.undo()
    assert rung() == "gemm"
    for card in (Card(80, 108, 163 << 10), Card(100, 148, 227 << 10), Card(0, 0, 48 << 10)):
        monkeypatch.setattr(tiles, "card_of", lambda xp, card=card: card)
        assert rung(m=4096, n=4096, k=4096) == "gemm"


def test_compilers_that_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another signature, a compiler that does not know the card, no function of that name: no pieces."""
    xp: Any = COMPILING.xp

    def refuses(source: str, options: Any, *, arch: str) -> Any:
        raise RuntimeError("invalid value for --gpu-architecture")

    for compiler in (
        SimpleNamespace(_compile_module_with_cache=refuses),
        SimpleNamespace(_compile_module_with_cache=lambda source: source),
        SimpleNamespace(),
    ):
        launch.FEATURES.clear()
        monkeypatch.setattr(launch, "_LOADED", {})
        monkeypatch.setattr(xp.cuda, "compiler", compiler)
        assert not launch.has_features(xp, "90a")
    launch.FEATURES.clear()
    monkeypatch.undo()
    assert launch.has_features(xp, "90a")


@needs_compiler
@pytest.mark.parametrize("place", ["compiler", "driver"])
@pytest.mark.parametrize(
    ("error", "is_for_good"),
    [
        (RuntimeError("ptxas: unknown instruction"), True),
        (AttributeError("no such function"), True),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), False),
        (MemoryError("no memory"), False),
    ],
)
def test_a_kernel_that_cannot_be_loaded(
    place: str, error: Exception, is_for_good: bool, many: None, monkeypatch: pytest.MonkeyPatch,
    rng: np.random.Generator, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    """cuBLAS multiplies instead, at first or where operands begin elsewhere, and so on; other products are
    tried again if memory was missing."""
    xp: Any = COMPILING.xp
    compile_module = xp.cuda.compiler._compile_module_with_cache
    refused: list[bool] = []

    def refuses(*_: Any) -> Any:
        refused.append(True)
        raise error

    def compiles(source: str, options: Any, *, arch: str) -> Any:
        return compile_module(source, options, arch=arch) if source == launch.NOTHING else refuses()

    def refuse() -> None:
        compiler = SimpleNamespace(_compile_module_with_cache=compiles)
        if place == "compiler":
            monkeypatch.setattr(xp.cuda, "compiler", compiler)
        else:
            monkeypatch.setattr(xp.cuda.driver, "funcSetAttribute", refuses)

    monkeypatch.setattr(launch, "_LOADED", {})
    for cache in (launch.FEATURES, launch.COMPILED, launch.PREPARED):
        cache.clear()
    x = rng.integers(-9, 10, (34, 32)).astype("f4")
    y = rng.integers(-9, 10, (32, 28)).astype("f4")
    elsewhere = np.zeros(x.size + 1, "f4")[1:].reshape(x.shape)
    elsewhere[...] = x
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (x, y))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    multiply, other = (Product(xp, attrs, specs) for _ in range(2))

    def launched(one: Any, multiply: Product = multiply) -> list[str]:
        with launches() as found:
            np.testing.assert_array_equal(multiply(there(one), there(y)).view(np.ndarray), x @ y)
        return found

    try:
        assert launched(x) == ["pieces"]
        refuse()
        assert launched(x) == ["pieces"]  # it is loaded
        assert "pieces" not in launched(elsewhere)
        assert len(refused) == 1
        assert caplog.text.count("cannot be loaded") == 1
        assert launch.has_features(xp, "90a") is not is_for_good
        assert launched(elsewhere) == launched(x) == []
        assert len(refused) == 1
        assert launched(elsewhere, other) == launched(elsewhere, other) == []
        assert len(refused) == (1 if is_for_good else 2)
    finally:
        launch.FEATURES.clear()
        launch.COMPILED.clear()


def test_code_is_kept_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs know it by its address, and CuPy unloads a module that nobody has."""
    xp, made = SimpleNamespace(), []

    def compiles(source: str, options: Any, *, arch: str) -> Any:
        made.append(source)
        return SimpleNamespace()

    xp.cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0),
        compiler=SimpleNamespace(_compile_module_with_cache=compiles),
    )
    monkeypatch.setattr(launch, "_LOADED", {})
    module: Any = xp
    first = launch._compile(module, "one", "90a")
    assert launch._compile(module, "two", "90a") is not first
    einloom.clear_caches()
    assert launch._compile(module, "one", "90a") is first
    assert made == ["one", "two"]


def test_how_much_goes_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured to be ahead of cuBLAS, and by how much it is thought to be."""
    monkeypatch.setattr(tiles, "card_of", lambda xp: Card(90, 132, 227 << 10))
    for sizes in (
        (3136, 3136, 3136),
        (144384, 376, 384),
        (384, 376, 144384),
        (8064, 84, 8064),
        (96, 592704, 96),
    ):
        assert rung("float32", *sizes) == "pieces"
    specs = tuple(ArraySpec(np.dtype("f4"), shape) for shape in ((9600, 24), (24, 9600)))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    assert engine_of(COMPILING.xp, "dot_general", attrs, specs) == "thin"
    assert engine_of(COMPILING.xp, "dot_general_add", attrs, specs) == "gemm"
    for processors in (16, 78, 114):  # parts of a card, and smaller ones
        monkeypatch.setattr(tiles, "card_of", lambda xp, n=processors: Card(90, n, 227 << 10))
        assert rung("float32", 3136, 3136, 3136) == "pieces"
    monkeypatch.setattr(tiles, "card_of", lambda xp: Card(90, 132, 227 << 10))
    for sizes in ((256, 256, 256), (9600, 9600, 32), (147456, 24, 384), (40, 40, 100000)):
        assert rung("float32", *sizes) == "gemm"


def test_too_little_shared_memory(
    many: None, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    monkeypatch.setattr(tiles, "card_of", lambda xp: Card(90, 2, 99 << 10))
    x, y = (rng.standard_normal(shape, "f4") for shape in ((40, 30), (30, 50)))
    with launches() as launched:
        found = COMPILING.apply("matmul", {}, there(x), there(y))
    assert launched == []
    np.testing.assert_allclose(found.view(np.ndarray), x @ y, rtol=1e-5, atol=1e-5)


def test_every_way_fits(rng: np.random.Generator) -> None:
    """Each part has a step, and blocks have work."""
    for sizes in rng.integers(1, 3000, (300, 4)):
        batch, m, n, k = map(int, (1 + sizes[0] % 5, *sizes[1:]))
        way, seconds = way_of(batch, m, n, k, 132)
        assert 1 <= way.parts <= -(-k // 32)
        assert seconds > 0


@needs_nvrtc
@pytest.mark.parametrize("architecture", HOPPER)
def test_compiles(architecture: str) -> None:
    cases = [Case(number, sort) for number, sort in enumerate(SORTS)]
    kernels = [kernel for case in cases for kernel in case.kernels]
    ptx = compile_all(kernels, architecture, ("-ftz=true",))  # as CuPy does
    assert ("wgmma.mma_async" in ptx) == (architecture == "compute_90a")
    assert "sub.rn.ftz" not in ptx  # numbers are taken apart exactly all the same
    assert "add.rn.ftz" not in ptx
