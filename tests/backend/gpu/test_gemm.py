"""Products by strided-batched cuBLAS: what the calls say of how matrices lie, and that nothing is copied."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import COMPILING, STAND_INS
from tests.backend.gpu.emulator import needs_compiler
from tests.backend.gpu.launches import launches
from tests.backend.stand_in import DeviceArray, StandIn
from tests.tolerance import eps

import einloom
from einloom import options
from einloom.backend.cpu import cpu
from einloom.backend.gpu import GpuBackend
from einloom.backend.gpu import product as products
from einloom.backend.gpu.gemm import Gemm, Matrices, gemm_of
from einloom.backend.spec import ArraySpec, dtype_from_name
from einloom.contract.expression import Expression

GPU, PLAIN = STAND_INS["gpu"], STAND_INS["gpu without cuTENSOR"]
MATRICES = {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}


@pytest.fixture
def copies(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Shapes of what products pack."""
    made: list[Any] = []
    real = products.contiguous

    def contiguous(xp: Any, x: Any) -> Any:
        made.append(x.shape)
        return real(xp, x)

    monkeypatch.setattr(products, "contiguous", contiguous)
    return made


def there(x: Any) -> Any:
    return x.view(DeviceArray)


def drawn(rng: np.random.Generator, shape: Any, dtype: str) -> Any:
    parts = rng.integers(-4, 5, (2, *shape))
    x = parts[0] + 1j * parts[1] if dtype.startswith("complex") else parts[0]
    return x.astype(dtype_from_name(dtype))


def calls(xp: Any, act: Any) -> tuple[Any, list[Gemm]]:
    xp.routines.called.clear()
    found = act()
    return found, [call for call, _ in xp.routines.called]


TURNED = ((0, 1, 2), (0, 2, 1), (1, 0, 2), (2, 0, 1))  # order in memory, the slowest axis first
DTYPES = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")


def in_order(x: Any, order: Any) -> Any:
    """The same array with its axes in this order in memory."""
    return np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize("dtype", DTYPES)
def test_as_they_lie(dtype: str, copies: list[Any], rng: np.random.Generator) -> None:
    """Matrices by rows and by columns, their batch anywhere outside: one call each, and no copy."""
    x, y = drawn(rng, (3, 9, 12), dtype), drawn(rng, (3, 12, 10), dtype)
    wide = np.complex128 if dtype.startswith("complex") else np.float64
    want = (x.astype(wide) @ y.astype(wide)).astype(x.dtype)
    for left in TURNED[:2]:
        for right in TURNED[:2]:
            a, b = in_order(x, left), in_order(y, right)
            found, made = calls(
                GPU.xp, lambda a=a, b=b: GPU.apply("dot_general", MATRICES, there(a), there(b))
            )
            np.testing.assert_array_equal(found.view(np.ndarray), want)
            assert len(made) == 1
            assert not copies
    assert found.dtype == x.dtype
    for order in TURNED:  # of the result: written where it belongs
        out = in_order(np.zeros_like(want), order)
        _, made = calls(
            GPU.xp,
            lambda out=out: GPU.apply("dot_general", MATRICES, there(x), there(y), out=there(out)),
        )
        np.testing.assert_array_equal(out, want)
        assert len(made) == 1
        assert made[0].swaps is (order[-1] == 2)


PARTED = [  # equation, shapes, the free axes that are a batch
    ("adb,cd->abc", (20, 30, 40), (17, 30), 20),
    ("cd,adb->cab", (17, 30), (20, 30, 40), 20),
    ("aebd,ce->abdc", (20, 30, 6, 8), (17, 30), 20),
    ("aced,eb->acdb", (4, 5, 30, 24), (30, 17), 20),
    ("eb,aced->bacd", (30, 17), (4, 5, 30, 24), 20),
    ("ba,cda->bcd", (40, 30), (20, 17, 30), 1),
]


@pytest.mark.parametrize(("equation", "a", "b", "batch"), PARTED)
@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64"])
def test_free_axes_as_a_batch(
    equation: str,
    a: Any,
    b: Any,
    batch: int,
    dtype: str,
    copies: list[Any],
    rng: np.random.Generator,
) -> None:
    """Nothing is copied where one operand's matrices lie apart: the other is there for all of them."""
    x, y = drawn(rng, a, dtype), drawn(rng, b, dtype)
    left, right = equation.partition("->")[0].split(",")
    shared = [label for label in left if label in right]
    of = tuple(tuple(term.index(label) for label in shared) for term in (left, right))
    attrs = {"batch": ((), ()), "contracting": of}
    wide = "D" if dtype.startswith("complex") else "d"
    want = np.tensordot(x.astype(wide), y.astype(wide), of)
    for _ in range(2):
        found, made = calls(GPU.xp, lambda: GPU.apply("dot_general", attrs, there(x), there(y)))
        np.testing.assert_array_equal(found.view(np.ndarray), want.astype(x.dtype))
        assert [call.batch for call in made] == [batch]
        assert not copies


@pytest.mark.parametrize("is_left", [True, False])
@pytest.mark.parametrize("dtype", ["float64", "float16", "complex64"])
def test_free_axes_as_a_batch_beside_a_copy(
    is_left: bool, dtype: str, copies: list[Any], rng: np.random.Generator
) -> None:
    """The small operand is copied, the large one is not."""
    x, y = drawn(rng, (20, 8, 9, 24), dtype), drawn(rng, (9, 17, 8), dtype)
    pairs = ((1, 2), (2, 0)) if is_left else ((2, 0), (1, 2))
    attrs, given = {"batch": ((), ()), "contracting": pairs}, (x, y) if is_left else (y, x)
    wide = "D" if dtype.startswith("complex") else "d"
    want = np.tensordot(*(one.astype(wide) for one in given), pairs)
    for _ in range(2):
        copies.clear()
        found, made = calls(PLAIN.xp, lambda: PLAIN.apply("dot_general", attrs, *map(there, given)))
        np.testing.assert_array_equal(found.view(np.ndarray), want.astype(x.dtype))
        assert [call.batch for call in made] == [20]
        assert [prod(one) for one in copies] == [y.size]
    alike = drawn(rng, (9, 170, 8), dtype)  # not small: both are copied
    given = (x, alike) if is_left else (alike, x)
    copies.clear()
    _, made = calls(PLAIN.xp, lambda: PLAIN.apply("dot_general", attrs, *map(there, given)))
    assert [call.batch for call in made] == [1]
    assert len(copies) == 2


def test_free_axes_as_a_batch_are_told() -> None:
    """Of shapes alone. Previously failed: what stands for an array then had no size."""
    specs = tuple(ArraySpec(np.dtype("f8"), shape) for shape in ((20, 400, 20), (400, 48)))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    assert GPU.engine("dot_general", attrs, specs) == "gemm"
    text = Expression(einloom.plan("adb,dc->abc", (20, 400, 20), (400, 48)), backend=GPU).explain()
    assert "gemm" in text


def test_conjugates_are_flags(copies: list[Any], rng: np.random.Generator) -> None:
    """Where the adjoint is what is stored; else it is conjugated first."""
    x, y = drawn(rng, (9, 12), "complex128"), drawn(rng, (9, 10), "complex128")
    attrs = {"batch": ((), ()), "contracting": ((0,), (0,))}
    for conj in ((True, False), (False, True), (True, True)):
        want = np.tensordot(x.conj() if conj[0] else x, y.conj() if conj[1] else y, ((0,), (0,)))
        found, made = calls(
            GPU.xp,
            lambda conj=conj: GPU.apply("dot_general", {**attrs, "conj": conj}, there(x), there(y)),
        )
        np.testing.assert_array_equal(found.view(np.ndarray), want)
        assert len(made) == 1
    copies.clear()
    adjoint = in_order(y, (1, 0))
    _, made = calls(
        GPU.xp,
        lambda: GPU.apply(
            "dot_general", {**attrs, "conj": (False, True)}, there(x), there(adjoint)
        ),
    )
    assert made[0].a.op == "C"
    assert not copies


def test_added_in_one_call(rng: np.random.Generator) -> None:
    """alpha and beta are cuBLAS's; half precisions are rounded once, at the end."""
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,)), "alpha": 3, "beta": -2}
    for dtype in ("float32", "float16"):
        x, y, z = (drawn(rng, shape, dtype) for shape in ((9, 12), (12, 10), (9, 10)))
        want = 3 * (x.astype("f8") @ y.astype("f8")) - 2 * z.astype("f8")
        kept = z.copy()
        found, made = calls(
            GPU.xp,
            lambda x=x, y=y, z=z: GPU.apply("dot_general_add", attrs, *map(there, (x, y, z))),
        )
        np.testing.assert_array_equal(found.view(np.ndarray), want.astype(dtype))
        np.testing.assert_array_equal(z, kept)
        assert len(made) == 1
        over = there(z)
        assert GPU.apply("dot_general_add", attrs, there(x), there(y), over, out=over) is over
        np.testing.assert_array_equal(z, want.astype(dtype))


def test_half_precisions_are_not_widened(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """Sums are those of float32: of many small terms none is lost."""
    x, y = np.full((1, 4096), 1, "f2"), np.full((4096, 1), 2.0**-11, "f2")
    x[0, 0] = 2048
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    widened: list[Any] = []
    real = DeviceArray.astype

    def astype(self: Any, dtype: Any, *args: Any, **keywords: Any) -> Any:
        if self.size > 1 and self.dtype == np.float16 and np.dtype(dtype) != np.float16:
            widened.append(self.shape)
        return real(self, dtype, *args, **keywords)

    monkeypatch.setattr(DeviceArray, "astype", astype)
    found = GPU.apply("dot_general", attrs, there(x), there(y))
    want = x.astype("f8") @ y.astype("f8")
    assert abs(float(found.view(np.ndarray)[0, 0]) - want[0, 0]) <= eps(np.dtype("f2")) * want[0, 0]
    assert not widened


def test_the_ladder_is_gone_through_once(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """For arrays that lie as before; others, and those between elements, take their own way."""
    x, y = drawn(rng, (3, 9, 12), "float64"), drawn(rng, (3, 12, 10), "float64")
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (x, y))
    kernel = GPU.bind("dot_general", MATRICES, specs, (ArraySpec(x.dtype, (3, 9, 10)),))
    asked: list[Any] = []
    real = products.contracted_order

    def order(*arguments: Any) -> Any:
        asked.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(products, "contracted_order", order)
    np.testing.assert_array_equal(kernel(there(x), there(y)).view(np.ndarray), x @ y)
    assert asked
    asked.clear()
    out = np.zeros((3, 9, 10))
    np.testing.assert_array_equal(kernel(there(-x), there(y)).view(np.ndarray), -x @ y)
    kernel(there(x), there(y), out=there(out))
    np.testing.assert_array_equal(out, x @ y)
    assert not asked
    memory = np.zeros(x.nbytes + 4, np.uint8)
    apart = memory[4:].view("f8").reshape(x.shape)
    apart[...] = x
    GPU.xp.routines.called.clear()
    made: list[Any] = []

    def empty(*arguments: Any) -> Any:
        made.append(arguments)
        return there(np.empty(*arguments))

    monkeypatch.setattr(GPU.xp, "empty", empty, raising=False)
    for one in (in_order(x, (0, 2, 1)), apart):
        np.testing.assert_array_equal(kernel(there(one), there(y)).view(np.ndarray), x @ y)
        assert asked
        asked.clear()
    assert len(GPU.xp.routines.called) == 2
    assert len(made) == 2  # previously failed: a result was made for the call before, and dropped


def test_precision_is_asked_for(rng: np.random.Generator) -> None:
    """When a product is bound, and never by itself."""
    xp = StandIn()
    backend = GpuBackend(xp)
    x = there(drawn(rng, (9, 9), "float32"))
    attrs = {"batch": ((), ()), "contracting": ((1,), (0,))}
    for asked in ("full", "ieee", "tf32", "bfloat16"):
        with options(precision=asked):
            backend.apply("dot_general", attrs, x, x)
        assert xp.routines.called[-1][1] == asked
    backend.apply("dot_general", attrs, x, x)
    assert xp.routines.called[-1][1] == "full"


def test_what_cublas_cannot_say() -> None:
    """Rows and columns both apart, distances below a column, sizes of more than 31 bits, steps back."""
    good = Matrices(4, 5, 20, 5, 1)
    right, out = Matrices(5, 6, 30, 6, 1), Matrices(4, 6, 24, 6, 1)
    flags = (False, False)
    assert gemm_of(good, right, out, 2, flags) is not None
    for bad in (
        Matrices(4, 5, 40, 10, 2),
        Matrices(4, 5, 20, 4, 1),
        Matrices(4, 5, -20, 5, 1),
        Matrices(4, 5, 20, 1 << 31, 1),
    ):
        assert gemm_of(bad, right, out, 2, flags) is None
    assert gemm_of(good, right, Matrices(4, 6, 24, 12, 2), 2, flags) is None
    assert gemm_of(good, right, out, 2, (True, False)) is None
    assert gemm_of(good, right, out, 1 << 31, flags) is None


# ---- small ones ---------------------------------------------------------------------------------


SMALL = [
    ("batched", MATRICES, ((50, 3, 4), (50, 4, 2)), "float32"),
    ("half", MATRICES, ((50, 3, 4), (50, 4, 2)), "float16"),
    ("outer", {"batch": ((0,), (0,)), "contracting": ((), ())}, ((7, 30), (7, 20)), "complex64"),
    ("integers", MATRICES, ((9, 2, 5), (9, 5, 2)), "int16"),
]


@needs_compiler
@pytest.mark.parametrize("case", SMALL, ids=[case[0] for case in SMALL])
def test_small_ones_are_one_launch(case: Any, copies: list[Any], rng: np.random.Generator) -> None:
    """Of any strides: operands turned and read backwards, a result with gaps."""
    _, attrs, shapes, dtype = case
    x, y = (drawn(rng, shape, dtype) for shape in shapes)
    a, b = in_order(x, range(x.ndim)[::-1]), y[::-1]
    want = cpu().apply("dot_general", attrs, a, b)
    out = np.zeros((*want.shape[:-1], 2 * want.shape[-1]), want.dtype)[..., ::2]
    with launches() as launched:
        found = COMPILING.apply("dot_general", attrs, there(a), there(b))
        COMPILING.apply("dot_general", attrs, there(a), there(b), out=there(out))
    assert launched == ["products"] * 2
    assert not copies
    np.testing.assert_array_equal(found.view(np.ndarray), want)
    np.testing.assert_array_equal(out, want)
    specs = tuple(ArraySpec(x.dtype, x.shape) for x in (a, b))
    assert COMPILING.engine("dot_general", attrs, specs) == "small"
