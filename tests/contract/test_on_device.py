"""einsum, expressions, functions and transforms of arrays on a device: NumPy in the place of a GPU."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import STAND_INS
from tests.backend.stand_in import UPLOADED, DeviceArray, Event, StandIn, Stream
from tests.cases import Case, random_cases
from tests.oracles import check

import einloom
from einloom._base.errors import ConversionError, DTypeError, OptionError, ShapeError, Unsupported
from einloom.backend import devices
from einloom.backend.choice import register_arrays, unregister_arrays
from einloom.backend.gpu import GpuBackend, uploads
from einloom.contract.expression import Expression

GPU = STAND_INS["gpu"]
OPTIMIZE = ("auto", "greedy", True)
IN_PLACE = True
"""Whether `down` copies nothing."""


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    register_arrays(DeviceArray, lambda x: GPU)
    yield
    unregister_arrays(DeviceArray)


def up(x: Any) -> Any:
    return x.view(DeviceArray) if isinstance(x, np.ndarray) else x


def down(x: Any) -> Any:
    assert is_there(x), "left the device"
    return x.view(np.ndarray)


def is_there(x: Any) -> bool:
    return type(x) is DeviceArray


def on_device(*operands: Any, out: Any = None, **keywords: Any) -> Any:
    """einsum with all arrays on the device, the result as einsum of the host gives it."""
    given = [up(x) for x in operands]
    if out is not None:
        target = up(out)
        assert einloom.einsum(*given, out=target, **keywords) is target
        out[...] = down(target)
        return out
    plain = down(einloom.einsum(*given, **keywords))
    return plain if plain.ndim else plain[()]


def runs(case: Case) -> bool:
    """A device has numbers of native order, and fewer kinds of them."""
    names = {*case.dtypes, case.dtype, case.out} - {None}
    if "swapped" in (*case.layouts, case.out_layout):
        return False
    return all(np.dtype(x).isnative and np.dtype(x).char not in "gGO" for x in names if x)


def check_many(seed: int, n: int) -> None:
    for k, case in enumerate(filter(runs, random_cases(seed, n))):
        check(on_device, case, [OPTIMIZE[k % len(OPTIMIZE)]], False, IN_PLACE)


def test_random() -> None:
    check_many(7, 100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_many(seed: int) -> None:
    check_many(seed, 500)


# ---- nothing moves -------------------------------------------------------------------------------


def test_mixed_operands() -> None:
    x, y = np.ones((2, 2)), up(np.ones((2, 2)))
    with pytest.raises(Unsupported, match=r"einsum: operand 0 is on the host.*to_device\(x\)"):
        einloom.einsum("ij,jk", x, y)
    with pytest.raises(Unsupported, match=r"einsum.out=.*: operand 0 is on the host"):
        einloom.einsum("ij,jk", y, y, out=x)
    with pytest.raises(ConversionError, match="list"):
        einloom.einsum("ij,jk", y, [[1.0, 2.0]] * 2)
    with pytest.raises(Unsupported, match=r"kron: operand 0 is on the host"):
        einloom.kron(x, y)


# ---- expressions ---------------------------------------------------------------------------------


def test_expression() -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.standard_normal(shape) for shape in ((3, 4), (4, 5), (5, 2)))
    plan = einloom.plan("ij,jk,kl->il", a, b, c, constants=(1, 2))
    expr = Expression(plan, {1: b, 2: c}, GPU)
    x = up(a)
    got = expr(x)
    np.testing.assert_allclose(down(got), a @ b @ c)
    out = up(np.ones((3, 2)))
    assert expr(x, out=out, alpha=2, beta=3) is out
    np.testing.assert_allclose(down(out), 2 * (a @ b @ c) + 3)
    np.testing.assert_allclose(down(expr(x, alpha=2)), 2 * (a @ b @ c))
    with pytest.raises(Unsupported, match="is on the host"):
        expr(a)
    with pytest.raises(ShapeError):
        expr(x[:2])
    with pytest.raises(DTypeError):
        expr(x.astype("f4"))
    with pytest.raises(OptionError, match="beta scales"):
        expr(x, beta=1)
    with pytest.raises(OptionError, match="executors run those of the CPU"):
        expr.run_slices(x, threads=2)
    with pytest.raises(Unsupported, match=r"submit.*cpu:0.*runs on gpu:0"):
        expr.submit(x, device="cpu:0")
    assert "dot_general" in expr.explain()


def test_explain_measures_by_events() -> None:
    """Two for each instruction, and the last one is waited for."""
    expr = Expression(einloom.plan("ij,jk,kl->il", (3, 4), (4, 5), (5, 2)), backend=GPU)
    operands = [up(np.ones(shape)) for shape in ((3, 4), (4, 5), (5, 2))]
    text = expr.explain(*operands)
    assert "measured" in text.splitlines()[0]
    assert text.count("dot_general") >= 2
    with pytest.raises(Unsupported, match="is on the host"):
        expr.explain(*map(down, operands))
    seconds: list[float] = []
    expr._executable.profile(*operands, seconds=seconds)
    assert len(seconds) == 2
    assert min(seconds) > 0


@pytest.fixture
def as_device(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The device gpu:0 is the stand-in."""
    kinds = {**devices._KINDS, "gpu": lambda ordinal: devices.gpu_device(GPU)}
    monkeypatch.setattr(devices, "_KINDS", kinds)
    yield
    devices.device("gpu:0").close()


def test_submit(as_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the stream that is current here; the future is done when an event is."""
    made: list[Any] = []

    def event(**keywords: Any) -> Any:
        made.append(Event(**keywords))
        return made[-1]

    monkeypatch.setattr(GPU.xp.cuda, "Event", event)
    expr = Expression(einloom.plan("ij,jk->ik", (3, 4), (4, 5)), backend=GPU)
    x, y = (up(np.ones(shape)) for shape in ((3, 4), (4, 5)))
    seen: list[Any] = []
    real = expr._executable.run

    def run(*arrays: Any, **keywords: Any) -> Any:
        seen.append(Stream.current)
        return real(*arrays, **keywords)

    monkeypatch.setattr(expr._executable, "run", run)
    monkeypatch.setitem(expr.__dict__, "fast", None)
    with Stream() as stream:
        future = expr.submit(x, y)
        found = future.result(10)
    assert is_there(found)
    np.testing.assert_array_equal(down(found), np.full((3, 5), 4.0))
    assert seen == [stream]
    assert [one.waited for one in made] == [1]
    with pytest.raises(ShapeError):
        expr.submit(x, x).result(10)


SLICED = [
    ("ij,jk->ik", ((6, 30), (30, 5)), (1,)),
    ("ij,jk->ik", ((6, 30), (30, 5)), (0, 1)),
    ("ii,ij->ij", ((4, 4), (4, 5)), (0,)),
]


@pytest.mark.parametrize(("equation", "shapes", "sliced"), SLICED)
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_slices(equation: str, shapes: Any, sliced: Any, dtype: str) -> None:
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    plan = replace(einloom.plan(equation, *arrays), sliced=sliced)
    here, there = Expression(plan), Expression(plan, backend=GPU)
    on = [up(x) for x in arrays]
    want = here(*arrays)
    found = there(*on)
    assert is_there(found)
    np.testing.assert_array_equal(down(found), want)
    out = up(np.ones(want.shape, dtype))
    assert there(*on, out=out, alpha=2, beta=3) is out
    np.testing.assert_array_equal(down(out), 2 * want + 3)
    assert "slices" in there.explain(*on)


CARDS = StandIn(cards=2)
TWO = {f"gpu:{ordinal}": GpuBackend(CARDS, ordinal) for ordinal in range(2)}


@pytest.fixture
def two_cards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("einloom.contract.on_device"), "get", TWO.get)


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize("constants", [(), (1,)])
def test_slices_on_two_cards(two_cards: None, strip: bool, constants: Any) -> None:
    """The bits of one card; either adds up ranges, and reads the other's memory in the order of streams."""
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((4, 30)), rng.standard_normal((30, 5))
    plan = einloom.plan("ij,jk->ik", x, y, strip_exponent=strip, constants=constants)
    plan = replace(plan, sliced=(1,))
    expr = Expression(plan, {k: (x, y)[k] for k in constants}, TWO["gpu:0"])
    on = [TWO["gpu:0"].to_device(one) for k, one in enumerate((x, y)) if k not in constants]
    one = expr.run_slices(*on, slices_per_task=7)
    CARDS.entered.clear()
    before = len(Stream.current.events)
    both = expr.run_slices(*on, slices_per_task=7, devices=("gpu:0", "gpu:1"))
    assert {0, 1} <= set(CARDS.entered)
    assert len(Stream.current.events) >= before + 4  # two ranges came from the second card
    if strip:
        (one, power), (both, exponent) = one, both
        assert power == exponent
    assert both.device.id == 0
    assert TWO["gpu:0"].to_host(both).tobytes() == TWO["gpu:0"].to_host(one).tobytes()
    scale = 10.0**power if strip else 1.0
    np.testing.assert_allclose(TWO["gpu:0"].to_host(both) * scale, x @ y)


@pytest.mark.parametrize("names", [("gpu:0",), ("gpu:0", "gpu:1")])
@pytest.mark.parametrize("strip", [False, True])
def test_slices_of_arrays_of_the_host(two_cards: None, names: tuple[str, ...], strip: bool) -> None:
    """Pieces of what is sliced are uploaded on a stream of their own, once where slices in a row read the
    same one; never the whole."""
    rng = np.random.default_rng(16)
    shapes = (4, 5, 3), (5, 3, 6), (6, 2), (3, 2)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    arrays[0] = arrays[0].transpose(0, 2, 1).copy().transpose(0, 2, 1)
    equation = "abc,bcd,de,ce->ae"
    plan = einloom.plan(equation, *arrays, strip_exponent=strip)
    expr = Expression(replace(plan, sliced=(1, 2)), backend=TWO["gpu:0"])
    UPLOADED.clear()
    found = expr.run_slices(*arrays, slices_per_task=4, devices=names)
    mantissa, exponent = found if strip else (found, 0.0)
    want = np.einsum(equation, *arrays)
    np.testing.assert_allclose(TWO["gpu:0"].to_host(mantissa) * 10.0**exponent, want)
    sizes = [size for size, _ in UPLOADED]
    assert set(sizes) <= {4 * 8, 6 * 8, 2 * 8}
    assert sizes.count(32) == sizes.count(48) == 15
    assert all(stream is not None for _, stream in UPLOADED)


def test_operands_of_the_host_are_what_they_are_elsewhere(
    two_cards: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Previously failed: masks were lost, tensors and lists of the host refused in other words; a name was
    read letter by letter, and copies were not waited for where a slice failed."""
    rng = np.random.default_rng(18)
    a, b = rng.standard_normal((4, 6)), rng.standard_normal((6, 3))
    for sliced in ((1,), ()):
        plan = replace(einloom.plan("ij,jk->ik", a, b), sliced=sliced)
        expr = Expression(plan, backend=TWO["gpu:0"])
        there = partial(expr.run_slices, devices=("gpu:0",))
        with pytest.raises(ConversionError, match="mask"):
            there(np.ma.array(a, mask=a > 0.5), b)
        for given in ((a.tolist(), b), (a, b.astype(">f8"))):
            np.testing.assert_allclose(down(there(*given)), a @ b)
        for wrong in ("gpu:0", (), 0):
            with pytest.raises(OptionError, match="names of GPUs"):
                expr.run_slices(a, b, devices=wrong)
        with pytest.raises(Unsupported, match="on the host"):
            there(up(a), b)
    closed = []
    real = uploads.Uploads.__call__

    def call(self: Any, number: int) -> Any:
        if number == 3:
            raise MemoryError
        return real(self, number)

    monkeypatch.setattr(uploads.Uploads, "__call__", call)
    monkeypatch.setattr(uploads.Uploads, "close", lambda self: closed.append(self))
    expr = Expression(replace(plan, sliced=(1,)), backend=TWO["gpu:0"])
    with pytest.raises(MemoryError):
        expr.run_slices(a, b, devices=("gpu:0",))
    assert len(closed) == 1


def test_pieces_that_are_read(two_cards: None) -> None:
    """Diagonals along a sliced label, operands that are read twice, and what is computed once."""
    rng = np.random.default_rng(17)
    for equation, shapes in (
        ("iij,jk->ik", ((4, 4, 5), (5, 6))),
        ("ij,ij->j", ((4, 5), (4, 5))),
        ("ij,kl->jl", ((4, 5), (3, 5))),
        ("i,j->ij", ((4,), (5,))),
    ):
        arrays = [rng.integers(-4, 5, shape) * 1.0 for shape in shapes]
        plan = einloom.plan(equation, *arrays)
        for label in range(len(plan.network.extents)):
            expr = Expression(replace(plan, sliced=(label,)), backend=TWO["gpu:0"])
            found = expr.run_slices(*arrays, devices=("gpu:0",))
            np.testing.assert_array_equal(down(found), np.einsum(equation, *arrays))
    whole = Expression(einloom.plan("ij,jk->ik", (2, 30), (30, 2)), backend=TWO["gpu:0"])
    ones = np.ones((2, 30))
    found = whole.run_slices(ones, ones.T, devices=("gpu:0",))
    np.testing.assert_array_equal(down(found), np.full((2, 2), 30.0))
    with pytest.raises(Unsupported, match="on the host"):
        whole.run_slices(ones, ones.T)


def test_ranges_of_cards_are_refused(two_cards: None) -> None:
    plan = replace(einloom.plan("ij,jk->ik", (2, 30), (30, 2)), sliced=(1,))
    x, y = (up(np.ones(shape)) for shape in ((2, 30), (30, 2)))
    expr = Expression(plan, backend=TWO["gpu:0"])
    with pytest.raises(OptionError, match="names of GPUs"):
        expr.run_slices(x, y, devices=())
    with pytest.raises(OptionError, match="positive integer"):
        expr.run_slices(x, y, slices_per_task=0)
    with pytest.raises(OptionError, match="compiled for a GPU"):
        Expression(plan).run_slices(np.ones((2, 30)), np.ones((30, 2)), devices=("gpu:0",))
    whole = Expression(einloom.plan("ij,jk->ik", (2, 30), (30, 2)), backend=TWO["gpu:0"])
    np.testing.assert_array_equal(down(whole.run_slices(x, y)), np.full((2, 2), 30.0))
    for names in ((), ("gpu:1", "gpu:0")):  # previously failed: without slices all names would do
        with pytest.raises(OptionError, match="names of GPUs"):
            whole.run_slices(x, y, devices=names)


def test_slices_of_exponents_and_diagonals() -> None:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((6, 30)) * 1e180
    plan = replace(einloom.plan("ij,ij->i", x, x, strip_exponent=True), sliced=(1,))
    on = up(x)
    mantissa, exponent = Expression(plan, backend=GPU)(on, on)
    want, power = Expression(plan)(x, x)
    assert exponent == power
    np.testing.assert_allclose(down(mantissa), want)
    plan = replace(einloom.plan("i->ii", (5,), embed_diagonal=True), sliced=(0,))
    row = np.arange(5.0)
    found = Expression(plan, backend=GPU)(up(row))
    np.testing.assert_array_equal(down(found), np.diag(row))


def test_exponents() -> None:
    x = up(np.full(3, 1e200))
    mantissa, exponent = einloom.einsum("i,i->", x, x, strip_exponent=True)
    assert is_there(mantissa)
    assert (round(float(down(mantissa)), 9), exponent) == (3.0, 400.0)


def test_devices_of_expressions() -> None:
    expr = einloom.compile("ij,jk->ik", (2, 3), (3, 2), device="cpu:0")
    assert pickle.loads(pickle.dumps(expr)).backend is einloom.backend.get("cpu")
    with pytest.raises(OptionError, match="device='tpu'"):
        einloom.compile("ij,jk->ik", (2, 3), (3, 2), device="tpu")


# ---- functions and transforms --------------------------------------------------------------------


def test_functions() -> None:
    x = np.random.default_rng(1).standard_normal((4, 4))
    y = up(x)
    for name in ("logsumexp", "softmax", "cumsum", "diagonal", "trace_of_matrix"):
        function = getattr(einloom, name, None)
        if function is None:
            continue
        got = function(y, axis=0) if name != "diagonal" else function(y)
        want = function(x, axis=0) if name != "diagonal" else function(x)
        assert is_there(got), name
        np.testing.assert_allclose(down(got), want)


def test_functions_into_an_array() -> None:
    """Of the device: at once where it fits, converted, or over an operand; else refused."""
    x = np.random.default_rng(1).standard_normal((4, 4))
    y = up(x)
    for function in (einloom.softmax, einloom.cumsum):
        want = function(x, axis=1)
        for out in (np.zeros((4, 4)), np.zeros((4, 8), "f4")[:, ::2]):
            target = up(out.copy())
            assert function(y, axis=1, out=target) is target
            np.testing.assert_allclose(down(target), want, rtol=1e-6)
    over = up(x.copy())
    assert einloom.softmax(over, axis=1, out=over) is over
    np.testing.assert_allclose(down(over), einloom.softmax(x, axis=1))
    with pytest.raises(Unsupported, match="on the host"):
        einloom.softmax(y, axis=1, out=np.zeros((4, 4)))
    with pytest.raises(Unsupported, match="on the host"):
        einloom.softmax(x, axis=1, out=y)
    with pytest.raises(ShapeError, match="out has shape"):
        einloom.softmax(y, axis=1, out=y[:2])


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft", "fft2", "ifftn", "rfftn", "hfft"])
@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
def test_transforms(name: str, norm: str | None) -> None:
    x = np.random.default_rng(2).standard_normal((4, 6))
    function = getattr(einloom.fft, name)
    got = function(up(x), norm=norm)
    assert is_there(got)
    np.testing.assert_allclose(down(got), function(x, norm=norm), atol=1e-14)


def test_planners_of_the_user_are_asked_each_time() -> None:
    """Previously failed: the device remembered the first answer."""
    asked = []

    def last(inputs: Any, output: Any, sizes: Any, memory_limit: Any = None) -> Any:
        asked.append(len(inputs))
        return [(0, 1), (0, 1)]

    x = up(np.ones((2, 2)))
    for _ in range(3):
        einloom.einsum("ab,bc,cd->ad", x, x, x, optimize=last)
    assert asked == [3, 3, 3]


def test_paths_are_compiled_once() -> None:
    """Previously failed: a list was no key, and each call compiled again."""
    einloom.clear_caches()
    x = up(np.ones((2, 2)))
    for path in ([(0, 1), (0, 1)], ["einsum_path", (0, 1), (0, 1)]):
        before = einloom.cache_info()["expressions on devices"]
        for _ in range(3):
            einloom.einsum("ab,bc,cd->ad", x, x, x, optimize=path)
        after = einloom.cache_info()["expressions on devices"]
        assert (after.hits - before.hits, after.misses - before.misses) == (2, 1)


def test_constants_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.import_module("einloom.contract.api"), "get", lambda device: GPU)
    x = np.arange(4.0).reshape(2, 2)
    y = up(x)
    expression = einloom.compile("ab,bc->ac", (2, 2), y, constants=(1,), device="gpu")
    np.testing.assert_array_equal(down(expression(y)), x @ x)


@pytest.mark.parametrize("equation", ["ab->ba", "ab->ab", "aab->ab", "ab"])
def test_views_are_no_operands(equation: str) -> None:
    """A view is another array of the same memory, in every call of an equation."""
    x = np.arange(27.0).reshape(3, 3, 3) if equation[:2] == "aa" else np.arange(6.0).reshape(2, 3)
    given, want = up(x), np.einsum(equation, x)
    expression = Expression(einloom.plan(equation, x), backend=GPU)
    calls: tuple[Any, ...] = (partial(einloom.einsum, equation), expression)
    for call in calls:
        for _ in range(4):
            found = call(given)
            assert found is not given
            np.testing.assert_array_equal(down(found), want)
            assert np.shares_memory(down(found), x)


def test_views_into_an_array(monkeypatch: pytest.MonkeyPatch) -> None:
    """One copy, unless the target lies in what the view shows."""
    copied: list[str] = []
    real = GpuBackend.apply

    def apply(self: GpuBackend, op: str, *arguments: Any, **keywords: Any) -> Any:
        copied.append(op)
        return real(self, op, *arguments, **keywords)

    monkeypatch.setattr(GpuBackend, "apply", apply)
    x = np.arange(9.0).reshape(3, 3)
    want, out = x.T.copy(), np.empty((3, 3))
    for _ in range(3):
        assert down(einloom.einsum("ab->ba", up(x), out=up(out))) is not None
        np.testing.assert_array_equal(out, want)
    assert not copied
    given = up(x)
    einloom.einsum("ab->ba", given, out=given)
    np.testing.assert_array_equal(down(given), want)
    assert copied == ["copy"]
