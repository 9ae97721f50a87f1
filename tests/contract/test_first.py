"""First calls of a few products: no expression is prepared, and the second call has the same bits."""

from __future__ import annotations

import itertools
import random
import sys
import warnings
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import options
from einloom.contract import first
from einloom.contract.first import Amounts, are_for_blas, are_left_to_blas

pytestmark = pytest.mark.usefixtures("usual_options")
einsum = einloom.einsum
FRONT = sys.modules["einloom.contract.einsum"]
LETTERS = "ijklmnopqr"
NO_PARENTHESES = str.maketrans("", "", "()\t")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each first call had its result at once."""
    found: list[bool] = []
    result_of = first.first_result

    def seen(*arguments: Any) -> Any:
        result = result_of(*arguments)
        found.append(result is not None)
        return result

    monkeypatch.setattr(FRONT, "first_result", seen)
    return found


def draw(rng: np.random.Generator, shapes: Any, dtype: str) -> list[Any]:
    x = [rng.standard_normal(shape) for shape in shapes]
    if np.dtype(dtype).kind == "c":
        x = [a + 1j * rng.standard_normal(a.shape) for a in x]
    return [a.astype(dtype) for a in x]


def alike(x: Any, y: Any) -> bool:
    """Of one type, dtype, shape, order in memory, and of the same bits."""
    return (
        type(x) is type(y)
        and (x.dtype, x.shape, x.strides) == (y.dtype, y.shape, y.strides)
        and x.tobytes() == y.tobytes()
    )


def check(equation: str, operands: list[Any]) -> None:
    results = [einsum(equation, *operands) for _ in range(3)]
    expected = np.einsum(equation.translate(NO_PARENTHESES), *operands, optimize=True)
    digits = 1e-4 if expected.dtype.char in "fF" else 1e-10
    largest = np.abs(expected).max() if np.size(expected) else 1.0
    np.testing.assert_allclose(results[0], expected, rtol=digits, atol=digits * largest)
    assert all(alike(results[0], x) for x in results[1:]), equation


AT_ONCE = [
    ("ij,jk->ik", [(64, 64), (64, 64)]),
    ("ij,jk->ik", [(17, 33), (33, 129)]),
    ("ij,jk->ik", [(129, 33), (33, 17)]),
    ("ij,jk", [(50, 60), (60, 70)]),
    ("zj,ja", [(50, 60), (60, 70)]),
    ("ij, jk -> i k", [(50, 60), (60, 70)]),
    ("ij , ij", [(50, 60), (50, 60)]),
    ("ij,jk->ki", [(50, 60), (60, 70)]),
    ("ij,jk->ki", [(9, 60), (60, 70)]),
    ("ij,kj->ik", [(50, 60), (70, 60)]),
    ("ji,jk->ik", [(60, 50), (60, 70)]),
    ("ji,kj->ik", [(60, 50), (70, 60)]),
    ("ij,jk->ik", [(700, 90), (90, 600)]),
    ("ij,jk->ik", [(1200, 100), (100, 30)]),
    ("ij,j->i", [(100, 50), (50,)]),
    ("ij,j->i", [(400, 500), (500,)]),
    ("j,ij->i", [(50,), (100, 50)]),
    ("i,ij->j", [(100,), (100, 50)]),
    ("i,i->", [(1000,), (1000,)]),
    ("ij,ij->", [(30, 40), (30, 40)]),
    ("bij,bjk->bik", [(32, 64, 64), (32, 64, 64)]),
    ("bij,bjk->bik", [(32, 128, 128), (32, 128, 128)]),
    ("bij,bjk->bik", [(9, 100, 101), (9, 101, 99)]),
    ("bij,bkj->bik", [(5, 30, 20), (5, 40, 20)]),
    ("bji,bjk->bki", [(5, 30, 20), (5, 30, 40)]),
    ("bij,bj->bi", [(50, 30, 20), (50, 20)]),
    (
        "ab,cab->abc",
        [(50, 16), (100, 50, 16)],
    ),  # previously failed: later calls gave it another order
    ("bi,bi->b", [(500, 30), (500, 30)]),
    ("abij,abjk->abik", [(3, 4, 20, 30), (3, 4, 30, 40)]),
    ("bij,jk->bik", [(7, 20, 30), (30, 40)]),
    ("ijab,abkl->ijkl", [(7, 8, 9, 10), (9, 10, 11, 12)]),
    ("abij,abkl->ijkl", [(7, 8, 9, 10), (7, 8, 11, 12)]),
    ("ij,jk->ik", [(1, 5), (5, 6)]),
    ("ij,jk->ki", [(5, 6), (6, 1)]),
    ("bij,bjk->bik", [(1, 20, 30), (1, 30, 40)]),
    ("bij,bjk->kbi", [(1, 20, 30), (1, 30, 40)]),
    ("aib,bjc->aijc", [(1, 4, 20), (20, 4, 1)]),
    ("aib,bjc->jcia", [(1, 4, 20), (20, 4, 1)]),
    ("ij,ij->", [(1, 40), (1, 40)]),
    ("ai,aj->ija", [(1, 40), (1, 50)]),
    ("ai,aj->jai", [(1, 400), (1, 500)]),
    ("ax,xb,bc,cy->ay", [(1, 30), (30, 40), (40, 30), (30, 1)]),
    ("i,j->ij", [(60,), (70,)]),
    ("i,j->ji", [(60,), (70,)]),
    ("i,j->ij", [(2000,), (1500,)]),
    ("i,j->ji", [(2000,), (1500,)]),
    ("ij,ij->ij", [(300, 400), (300, 400)]),
    ("ij,ji->ij", [(300, 400), (400, 300)]),
    ("ij,j->ij", [(300, 400), (400,)]),
    ("tkj,to->tokj", [(64, 16, 16), (64, 64)]),
    ("tjk,to->tokj", [(64, 16, 16), (64, 64)]),
    ("tjk,to->kotj", [(64, 16, 16), (64, 64)]),
    ("ij,jk,kl->il", [(64, 64), (64, 64), (64, 64)]),
    ("ij,jk,kl->il", [(5, 60), (60, 50), (50, 40)]),
    ("ij,jk,kl->li", [(5, 60), (60, 50), (50, 40)]),
    ("ij,jk,kl,lm->im", [(10, 20), (20, 30), (30, 40), (40, 50)]),
    ("i,j,k->ijk", [(4,), (5,), (6,)]),
    ("i,j,k->kji", [(4,), (5,), (6,)]),
    ("bi,bj,bk->bijk", [(3, 4), (3, 5), (3, 6)]),
    ("ab,ac,bd,ce,cf,dg->efg", [(2, 2)] * 6),  # previously failed: the best tree has outer products
    ("i,ij,j->", [(40,), (40, 50), (50,)]),
    ("ab,bc,cd,de,ef->af", [(8, 9), (9, 10), (10, 11), (11, 12), (12, 13)]),
]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "c8"])
@pytest.mark.parametrize(("equation", "shapes"), AT_ONCE)
def test_the_second_call_has_the_same_bits(
    equation: str, shapes: Any, dtype: str, threads: int, rng: np.random.Generator, made: list[bool]
) -> None:
    with options(threads=threads):
        check(equation, draw(rng, shapes, dtype))
    assert made == [True]


def random_call(r: random.Random) -> tuple[str, list[tuple[int, ...]]]:
    """Products of two to five operands, labels of which are shared, kept and summed at random."""
    n = r.choice([2, 2, 2, 3, 3, 4, 5])
    labels = LETTERS[: r.randint(2, 3 + n)]
    terms = ["".join(r.sample(labels, r.randint(1, min(3, len(labels))))) for _ in range(n)]
    used = sorted(set("".join(terms)))
    output = "".join(r.sample(used, r.randint(0, min(4, len(used)))))
    sizes = {x: r.choice([1, 2, 3, 4, 5, 7, 8, 16, 31, 40]) for x in used}
    return f"{','.join(terms)}->{output}", [tuple(sizes[x] for x in term) for term in terms]


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Bytes of the products without sums that threads shared."""
    found: list[int] = []
    over_blocks = first.over_blocks

    def seen(evaluate: Any, out: Any, operands: Any, cut: bool) -> Any:
        found.append(out.nbytes)
        return over_blocks(evaluate, out, operands, cut)

    monkeypatch.setattr(first, "over_blocks", seen)
    return found


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("n", [3, 17, 40])
@pytest.mark.parametrize(
    "equation", ["ij,ij->ij", "i,j->ij", "i,j->ji", "ij,jk->jki", "tkj,to->tokj"]
)
def test_products_without_sums_are_shared_by_threads(
    equation: str, n: int, threads: int, rng: np.random.Generator, made: list[bool], shared: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(first, "SHARED", 0)
    sizes = dict(zip("ijkto", (n, n + 1, 2, n + 2, 5), strict=True))
    terms = equation.partition("->")[0].split(",")
    x, y = draw(rng, [[sizes[label] for label in term] for term in terms], "f8")
    x.flat[:2] = np.inf, -0.0
    y.flat[0] = 0
    with options(threads=threads, small=1), np.errstate(all="raise"):
        result = einsum(equation, x, y)
        assert made == [True]
        assert alike(result, einsum(equation, x, y))
    assert shared == [result.nbytes]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(result, np.einsum(equation, x, y))


def test_small_products_without_sums_are_not_shared(
    rng: np.random.Generator, shared: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first, "too_early", lambda: True)  # whatever this process has loaded
    columns = first.SHARED // (8 * 1024)
    x = rng.standard_normal(1024)
    for n in (columns - 1, columns):
        y = rng.standard_normal(n)
        np.testing.assert_array_equal(einsum("i,j->ij", x, y), np.multiply.outer(x, y))
    assert shared == [first.SHARED]


@pytest.mark.parametrize("seed", range(300))
def test_random_calls(seed: int, rng: np.random.Generator) -> None:
    r = random.Random(seed)
    equation, shapes = random_call(r)
    dtype = r.choice(["f8", "f4", "c16", "c8"])
    check(equation, draw(rng, shapes, dtype))


def test_random_calls_are_often_made_at_once(made: list[bool], rng: np.random.Generator) -> None:
    for seed in range(200):
        equation, shapes = random_call(random.Random(seed))
        einsum(equation, *draw(rng, shapes, "f8"))
    assert sum(made) > 50


@pytest.mark.parametrize("seed", range(60))
def test_two_random_matrices(seed: int, rng: np.random.Generator, made: list[bool]) -> None:
    """Every way in which two operands may be batches of matrices, of sizes around those of kernels."""
    r = random.Random(seed)
    batch, rows, columns, summed = (LETTERS[2 * k : 2 * k + r.randint(0, 2)] for k in range(4))
    sizes = {x: r.choice([2, 3, 5, 8, 13]) for x in LETTERS}
    a = batch + r.choice([rows + summed, summed + rows])
    b = batch + r.choice([columns + summed, summed + columns])
    if not a or not b:
        return
    output = r.choice([batch + rows + columns, batch + columns + rows])
    shapes = [tuple(sizes[x] for x in term) for term in (a, b)]
    check(f"{a},{b}->{output}", draw(rng, shapes, r.choice(["f8", "f4", "c16", "c8"])))
    assert made == [True], (a, b, output, shapes)


NOT_AT_ONCE = [
    ("ij,jk\t->ik", [(4, 5), (5, 6)]),
    ("(ij,jk),kl->il", [(4, 5), (5, 6), (6, 7)]),
    ("...j,jk->...k", [(4, 5), (5, 6)]),
    ("ij->ji", [(4, 5)]),
    ("ii,ij->j", [(4, 4), (4, 5)]),  # a diagonal
    ("ij,jk->ik", [(4, 1), (5, 6)]),  # an axis is broadcast
    ("ij,jk->ik", [(1, 1), (1, 6)]),  # an operand is one number
    ("ij,jk->ik", [(0, 5), (5, 6)]),
    ("ij,jk->i", [(4, 5), (5, 6)]),  # a label of one operand is summed
    ("ibj,bjk->bik", [(4, 5, 6), (5, 6, 7)]),  # the batch is in the middle
    ("bijc,bjkc->bikc", [(4, 5, 6, 7), (4, 6, 8, 7)]),  # or last
    ("ajib,abk->ijk", [(4, 5, 6, 7), (4, 7, 8)]),  # sums are no neighbours
    ("bij,bjk->ibk", [(8, 64, 64), (8, 64, 128)]),  # the layout pass may write another order
    ("ij,jk,kl->il", [(300, 300)] * 3),  # threads may share it
    ("bij,bjk->bik", [(5000, 2, 2), (5000, 2, 2)]),  # kernels may save most
    ("ij,jk->ik", [(300000, 4), (4, 4)]),
    ("ij,jk,ki->", [(12, 13), (13, 14), (14, 12)]),  # the last product reads an operand across
    (
        ",".join(f"{a}{b}" for a, b in itertools.pairwise(LETTERS)) + "->ir",
        [(3, 3)] * 9,
    ),
]


@pytest.mark.parametrize(("equation", "shapes"), NOT_AT_ONCE)
def test_what_is_prepared_at_once(
    equation: str, shapes: Any, rng: np.random.Generator, made: list[bool]
) -> None:
    check(equation, draw(rng, shapes, "f8"))
    assert made == [False]


@pytest.mark.parametrize("both", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        lambda x: np.asfortranarray(x),
        lambda x: x[::-1],
        lambda x: x.astype("f4"),
        lambda x: x.astype("i8"),
        lambda x: x.astype(">f8"),
        lambda x: x.astype("f2"),
        lambda x: np.frombuffer(b"\0" + x.tobytes(), "f8", x.size, 1).reshape(x.shape),
    ],
)
def test_other_operands(
    change: Any, both: bool, rng: np.random.Generator, made: list[bool]
) -> None:
    x, y = draw(rng, [(5, 6), (6, 7)], "f8")
    x, y = change(x), change(y) if both else y
    results = [einsum("ij,jk->ik", x, y) for _ in range(3)]
    expected = x.astype("f8") @ y.astype("f8")
    np.testing.assert_allclose(results[0].astype("f8"), expected, rtol=1e-2, atol=1e-2)
    assert all(alike(results[0], other) for other in results)
    assert made == [both and x.dtype == "f4"]


@pytest.mark.parametrize(
    "settings",
    [
        {"provider": "native"}, {"provider": "plain"}, {"engine": "loops"}, {"small": 0},
        {"patience": 0}, {"patience": 0.1}, {"memory_limit": "1GiB"},
    ],
)  # fmt: skip
def test_options_that_ask_for_something(
    settings: Any, rng: np.random.Generator, made: list[bool]
) -> None:
    with options(**settings):
        check("ij,jk->ik", draw(rng, [(5, 6), (6, 7)], "f8"))
    assert made == [False]


def test_arguments_that_ask_for_something(rng: np.random.Generator, made: list[bool]) -> None:
    x, y = draw(rng, [(5, 6), (6, 7)], "f8")
    einsum("ij,jk->ik", x, y, optimize="auto")
    einsum("ij,jk->ik", x, y, out=np.empty((5, 7)))
    einsum(x, [0, 1], y, [1, 2], [0, 2])
    einsum("ij,jk->ik", x.tolist(), y)
    assert made == []
    for wrong in ("ij,jk->iz", "ij,jk- >ik", "ij,jk->ik->", "ij,jk->ii"):
        with pytest.raises((einloom.SubscriptError, einloom.ShapeError)):
            einsum(wrong, x, y)
    with pytest.raises(einloom.ShapeError):
        einsum("ij,jk->ik", x, x)
    assert not any(made)


@pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,ij->ij", "ij,ik->ijk", "bij,bjk->bik"])
def test_first_calls_warn_as_others_do(equation: str, made: list[bool]) -> None:
    x = np.full((4, 20, 20) if "b" in equation else (40, 40), 1e300)
    x[0] = np.inf
    found = []
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            einsum(equation, x, -x)
        found.append([str(warning.message) for warning in caught])
    assert found[0] == found[1]
    assert made == [True]


def test_each_shape_has_a_first_call(rng: np.random.Generator, made: list[bool]) -> None:
    for n in (5, 6, 5, 6, 7):
        einsum("ij,jk->ik", *draw(rng, [(5, n), (n, 7)], "f8"))
    assert made == [True, True, True]
    assert einloom.cache_info()["first calls"].currsize == 3
    assert einloom.cache_info()["expressions"].currsize == 2


def test_first_calls_of_several_threads(rng: np.random.Generator) -> None:
    from concurrent.futures import ThreadPoolExecutor

    operands = draw(rng, [(30, 40, 50), (30, 50, 60)], "f8")
    with ThreadPoolExecutor(8) as pool:
        calls = [pool.submit(einsum, "bij,bjk->bik", *operands) for _ in range(32)]
        results = [call.result() for call in calls]
    assert all(alike(results[0], x) for x in results)


def test_results_are_the_callers(rng: np.random.Generator) -> None:
    """Nobody else has the memory of a result."""
    operands = draw(rng, [(60, 70), (70, 80)], "f8")
    x, y = einsum("ij,jk->ik", *operands), einsum("ij,jk->ik", *operands)
    assert x.flags.writeable
    assert not np.may_share_memory(x, y)
    x[...] = 0
    assert einsum("ij,jk->ik", *operands).tobytes() == y.tobytes()


@pytest.mark.parametrize(
    ("products", "expected"),
    [
        ([Amounts(1, 256, 256, 256, 3 << 19)], True),
        ([Amounts(1, 1024, 1024, 1024, 3 << 23)], True),
        ([Amounts(1, 2048, 2048, 2048, 3 << 25)], False),
        ([Amounts(128, 128, 128, 128, 3 << 24)], True),
        ([Amounts(1024, 128, 128, 128, 3 << 27)], False),
        ([Amounts(1, 1 << 18, 4, 4, 9 << 21)], False),
        ([Amounts(1 << 13, 4, 4, 4, 3 << 20)], False),
        ([Amounts(1, 1 << 12, 1 << 12, 1, 1 << 27)], True),
        ([Amounts(1, 64, 64, 64, 3 << 15)] * 2, True),
        ([Amounts(1, 64, 64, 64, 3 << 15)] * 5, False),
    ],
)
def test_what_is_left_to_blas(products: list[Amounts], expected: bool) -> None:
    assert are_for_blas(products) is expected


def test_plans_are_judged_as_first_calls_are(rng: np.random.Generator, made: list[bool]) -> None:
    """What has its result at once has no kernels later, and the other way round."""
    for seed in range(150):
        equation, shapes = random_call(random.Random(seed))
        einsum(equation, *draw(rng, shapes, "f8"))
        assert are_left_to_blas(einloom.plan(equation, *shapes)) is made[-1], equation


def test_a_label_is_a_letter(rng: np.random.Generator, made: list[bool]) -> None:
    operands = draw(rng, [(4, 5), (5, 6)], "f8")
    assert alike(einsum("αβ,βγ->αγ", *operands), operands[0] @ operands[1])
    einsum("α1,1γ->αγ", *operands)
    assert made == [True, False]


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,ij->i", [(3, 0), (3, 1)]),
        ("ij,ij->i", [(3, 1), (3, 0)]),
        ("ij,jk->ik", [(3, 0), (1, 4)]),
        ("ij,jk->ik", [(3, 0), (0, 4)]),
        ("i,i->i", [(0,), (1,)]),
        ("ij,jk,kl->il", [(3, 0), (1, 4), (4, 2)]),
    ],
)
def test_axes_of_size_0(equation: str, shapes: Any) -> None:
    """Previously failed: 0 was taken for a size not seen yet."""
    arrays = [np.ones(shape) for shape in shapes]
    expected = np.einsum(equation, *arrays)
    for _ in range(3):
        np.testing.assert_array_equal(einsum(equation, *arrays), expected)


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 0), (5, 4)]),
        ("ij,jk->ik", [(3, 5), (0, 4)]),
        ("i,i->i", [(0,), (5,)]),
        ("bij,bjk->bik", [(0, 3, 4), (7, 4, 5)]),
    ],
)
def test_sizes_of_0_and_more_do_not_agree(equation: str, shapes: Any) -> None:
    for _ in range(2):
        with pytest.raises(einloom.ShapeError, match="sizes must agree"):
            einsum(equation, *[np.ones(shape) for shape in shapes])


def test_an_equation_seen_before_with_other_arrays(rng: np.random.Generator) -> None:
    for dtype, sizes in (
        ("f8", (3, 4, 5)),
        ("c8", (4, 1, 6)),
        ("f4", (7, 7, 7)),
        ("i8", (2, 3, 4)),
    ):
        i, j, k = sizes
        check("ij,jk->ik", [x.astype(dtype) for x in draw(rng, [(i, j), (j, k)], "f8")])
    with pytest.raises(einloom.ShapeError, match="has 3 axes"):
        einsum("ij,jk->ik", np.ones((2, 3, 4)), np.ones((3, 4)))
    einloom.clear_caches()
    for n in (3, 4, 5):
        einsum("ij,jk->ik", np.ones((2, n)), np.ones((n, 3)))
    info = einloom.cache_info()
    assert info["equations of first calls"][:2] == info["steps of first calls"][:2] == (2, 1)
