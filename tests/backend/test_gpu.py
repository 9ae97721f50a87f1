"""The GPU's backend beside its ops: what is missing, what is refused, rungs of products, memory, updates."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.backend.backends import STAND_INS
from tests.backend.calls import CALLS
from tests.backend.stand_in import DeviceArray, StandIn, contraction
from tests.cases import lay_out

from einloom import backend as backends
from einloom._base.caches import Cache
from einloom._base.errors import CallError, ConversionError, DeviceError, Unsupported
from einloom.backend.catalogue import CATALOGUE
from einloom.backend.cpu import cpu
from einloom.backend.cpu.memory import CpuMemory
from einloom.backend.gpu import GpuBackend, cutensor, missing
from einloom.backend.gpu import backend as gpu_backend
from einloom.backend.gpu.indexing import update
from einloom.backend.gpu.launch import COMPILED, can_launch, launch
from einloom.backend.gpu.memory import GpuMemory
from einloom.backend.gpu.page import gpu_table
from einloom.backend.gpu.product import Product
from einloom.backend.pools import BufferLoc, Pools
from einloom.backend.protocol import Backend
from einloom.backend.spec import ArraySpec

XP = StandIn()
GPU = GpuBackend(XP)
F4 = np.dtype("f4")

# ---- what is missing ----------------------------------------------------------------------------


class CUDARuntimeError(RuntimeError):
    """CuPy's own."""


def cupy_with(count: Any, driver: int = 12080, needed: int = 12090) -> Any:
    """An import that finds a CuPy whose runtime says these."""

    def devices() -> int:
        if isinstance(count, str):
            raise CUDARuntimeError(count)
        return int(count)

    runtime = SimpleNamespace(
        CUDARuntimeError=CUDARuntimeError,
        getDeviceCount=devices,
        driverGetVersion=lambda: driver,
        runtimeGetVersion=lambda: needed,
    )
    return lambda name: SimpleNamespace(cuda=SimpleNamespace(runtime=runtime))


def broken(name: str) -> Any:
    raise ImportError("libcudart.so.12: cannot open shared object file")


def without_numpy(name: str) -> Any:
    raise ModuleNotFoundError("No module named 'fastrlock'", name="fastrlock")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (broken, "cannot be imported .*libcudart"),
        (without_numpy, "cannot be imported .*fastrlock"),
        (
            cupy_with("cudaErrorInsufficientDriver: too old", driver=0),
            "no NVIDIA driver .* install",
        ),
        (cupy_with("cudaErrorInsufficientDriver", driver=11040), "CUDA 11.4, .* 12.9 .*update the"),
        (cupy_with("cudaErrorNoDevice: no CUDA-capable device"), "no NVIDIA GPU .*VISIBLE_DEVICES"),
        (cupy_with(0), "no NVIDIA GPU"),
    ],
    ids=["broken", "dependency", "no driver", "old driver", "no card", "none visible"],
)
def test_missing(found: Any, said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        raise DeviceError(missing(found))


def test_nothing_is_missing() -> None:
    assert missing(cupy_with(1)) is None


def test_get() -> None:
    assert backends.get() is backends.get("cpu") is cpu()
    if missing() is None:
        assert backends.get("gpu").device == "gpu:0"
    else:
        with pytest.raises(DeviceError, match="backend 'gpu': "):
            backends.get("gpu")
    for name in ("tpu", "gpu:x", "cpu:7", "gpux", 3):
        with pytest.raises(DeviceError, match="backends cpu and gpu"):
            backends.get(name)  # type: ignore[arg-type]


# ---- the object ---------------------------------------------------------------------------------


def test_is_a_backend() -> None:
    backend: Backend = GPU
    assert (backend.name, backend.device) == ("gpu", "gpu:0")
    for name in vars(Backend):
        if not name.startswith("_"):
            assert callable(getattr(backend, name)), name


def test_every_op_of_the_cpu() -> None:
    """All of its ops; all of its dtypes but those that no GPU has."""
    ours, theirs = GPU.capabilities(), cpu().capabilities()
    assert ours.keys() == theirs.keys()
    none = {"longdouble", "clongdouble", "object", "float8_e4m3fn", "float8_e5m2", "int4", "uint4"}
    for op, names in theirs.items():
        assert ours[op] == names - none, op


def test_nothing_moves_by_itself() -> None:
    host = np.ones(3, "f4")
    x = GPU.to_device(host)
    assert type(x) is DeviceArray
    assert GPU.to_device(x) is x
    assert not np.shares_memory(x.view(np.ndarray), host)
    back = GPU.to_host(x)
    assert type(back) is np.ndarray
    assert not np.shares_memory(back, x.view(np.ndarray))
    assert GPU.to_host(host) is host
    assert (GPU.placement(x), GPU.placement(host)) == ("gpu:0", "cpu")
    with pytest.raises(Unsupported, match=r"add: operand 1 is a numpy.ndarray .*to_device\(x\)"):
        GPU.apply("add", {}, x, host)
    with pytest.raises(Unsupported, match=r"out is a numpy.ndarray .*to_device\(x\)"):
        GPU.apply("add", {}, x, x, out=host)
    with pytest.raises(ConversionError, match=r"operand 0 is a builtins\.list"):
        GPU.apply("negate", {}, [1.0])


def test_arrays_of_another_gpu() -> None:
    other = GpuBackend(XP, 1)
    with pytest.raises(Unsupported, match=r"operand 0 lies on gpu:0, .* runs on gpu:1"):
        other.apply("negate", {}, GPU.to_device(np.ones(2)))


def test_work_stays_on_its_card() -> None:
    """Whichever is current: kernels, new arrays, transfers, counters and raw memory."""
    xp = StandIn(cards=2)
    other = GpuBackend(xp, 1)
    spec = ArraySpec(F4, (2, 3))
    memory = GpuMemory(xp, 1)
    base = memory.alloc(64)
    source = np.ones((2, 3), "f4").view(DeviceArray)
    kernel = GpuBackend(StandIn(cards=2), 0)
    for call in (
        lambda: other.bind("negate", {}, (spec,), (spec,))(source),
        lambda: other.empty(spec),
        lambda: other.full((2,), 1, "f4"),
        lambda: other.assign(other.empty(spec), source, 2),
        lambda: other.to_device(np.ones(2)),
        other.buffer_info,
        other.reclaim,
        lambda: memory.zero(base, 0, 8),
        lambda: memory.copy(base, 0, base, 8, 8),
    ):
        xp.entered.clear()
        call()
        assert set(xp.entered) == {1}
    kernel.bind("negate", {}, (spec,), (spec,))(source)
    assert kernel.xp.entered == [0]


def test_a_card_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_backend, "load", lambda: StandIn(cards=2))
    with pytest.raises(DeviceError, match=r"'gpu:2': this process sees 2 GPUs"):
        gpu_backend.gpu.__wrapped__(2)
    assert gpu_backend.gpu.__wrapped__(1).device == "gpu:1"


def test_large_transfers_are_pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def empty_pinned(shape: Any, dtype: Any) -> Any:
        asked.append(shape)
        return np.empty(shape, dtype)

    own = SimpleNamespace(empty_pinned=empty_pinned)
    monkeypatch.setattr(XP, "companion", lambda name: own, raising=False)
    x = np.arange(float(1 << 18))
    np.testing.assert_array_equal(GPU.to_host(GPU.to_device(x)), x)
    assert asked == [x.shape]


@pytest.mark.parametrize("name", ["longdouble", "object", "S3", ">f4"])
def test_dtypes_that_no_gpu_has(name: str) -> None:
    dtype = np.dtype(name)
    if dtype.isnative and dtype == np.dtype("f8"):
        pytest.skip("longdouble is float64 here")
    with pytest.raises(Unsupported, match=r"on gpu:0 does not take .*to_device"):
        GPU.to_device(np.zeros(2, dtype))
    spec = ArraySpec(dtype, (2,))
    with pytest.raises(Unsupported, match="'copy' on gpu:0"):
        GPU.bind("copy", {}, (spec,), (spec,))


def test_ops_without_a_kernel() -> None:
    with pytest.raises(Unsupported, match="'cholesky' has no kernel on the GPU"):
        GPU.bind("cholesky", {}, (), ())


def test_out_is_checked() -> None:
    x = GPU.to_device(np.ones((2, 3), "f4"))
    with pytest.raises(CallError, match="the result is a view"):
        GPU.apply("transpose", {"perm": (1, 0)}, x, out=x)
    with pytest.raises(CallError, match="out is float32"):
        GPU.apply("sqrt", {}, x.astype("f8"), out=x)
    with pytest.raises(CallError, match="may overlap operand 0"):
        GPU.apply("copy", {}, x, out=x)
    assert GPU.apply("add", {}, x, x, out=x) is x
    np.testing.assert_array_equal(GPU.to_host(x), 2)


def test_scratch_and_engines() -> None:
    for call in CALLS:
        dtype = F4 if "float" in CATALOGUE[call.op].dtypes else np.dtype(np.int64)
        specs = call.specs(dtype)
        assert GPU.scratch_bytes(call.op, call.attrs, specs) >= 0
        assert GPU.engine(call.op, call.attrs, specs)


@pytest.mark.parametrize(("alpha", "beta"), [(1, 0), (2, 0), (1, 1), (-3, 2)])
def test_assign(alpha: float, beta: float) -> None:
    target, source = (GPU.full((2, 3), value, "f4") for value in (5, 7))
    assert GPU.assign(target, source, alpha, beta) is target
    np.testing.assert_array_equal(GPU.to_host(target), alpha * 7 + beta * 5)


def test_view_and_layout() -> None:
    x = GPU.empty(ArraySpec(F4, (2, 3), (1, 0)))
    assert x.strides == (4, 8)
    buffer = GPU.empty(ArraySpec(np.dtype("u1"), (64,)))
    y = GPU.array_at(buffer, 8, ArraySpec(F4, (2, 3)))
    assert GPU.view(y) == ((2, 3), (3, 1), 2)


# ---- products -----------------------------------------------------------------------------------


def dot(x: Any, y: Any, contracting: Any, batch: Any = ((), ())) -> Product:
    attrs = {"contracting": contracting, "batch": batch}
    return Product(XP, attrs, (ArraySpec(x.dtype, x.shape), ArraySpec(y.dtype, y.shape)))


@pytest.mark.parametrize(
    ("shapes", "contracting", "dtype", "rung"),
    [
        (((4, 5), (5, 6)), ((1,), (0,)), "f4", "gemm"),
        (((5, 4), (5, 6)), ((0,), (0,)), "f4", "gemm"),
        (((2, 3, 5, 7), (5, 7, 6)), ((2, 3), (0, 1)), "c8", "gemm"),
        (((2, 3, 5, 7), (7, 5, 6)), ((3, 2), (0, 1)), "f4", "cutensor"),
        (((2, 5, 3), (5, 6)), ((1,), (0,)), "f8", "cutensor"),
        (((2, 5, 3), (5, 6)), ((1,), (0,)), "i4", "packed"),
        (((2, 50, 3), (50, 400)), ((1,), (0,)), "f8", "packed"),
        (((0, 5), (5, 6)), ((1,), (0,)), "f4", "zeros"),
        (((4, 0), (0, 6)), ((1,), (0,)), "f4", "zeros"),
    ],
)
def test_rungs(shapes: Any, contracting: Any, dtype: str, rung: str) -> None:
    rng = np.random.default_rng(3)
    x, y = (rng.integers(-3, 4, shape).astype(dtype) for shape in shapes)
    a, b = (GPU.to_device(one) for one in (x, y))
    product = dot(a, b, contracting)
    assert product.rung(a, b) == rung
    np.testing.assert_array_equal(GPU.to_host(product(a, b)), np.tensordot(x, y, contracting))
    specs = tuple(ArraySpec(one.dtype, one.shape) for one in (a, b))
    without = Product(StandIn(False), product.attrs, specs)
    assert without.rung(a, b) == ("packed" if rung == "cutensor" else rung)


def test_zero_strides_are_kept_from_cutensor() -> None:
    x = np.broadcast_to(np.ones((2, 1, 3), "f4"), (2, 5, 3)).view(DeviceArray)
    y = GPU.to_device(np.ones((5, 6), "f4"))
    assert dot(x, y, ((1,), (0,))).rung(x, y) == "packed"


def test_a_library_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An old card: the next rung."""

    def refuse(*args: Any, **keywords: Any) -> Any:
        raise RuntimeError("CUTENSOR_STATUS_NOT_SUPPORTED")

    own = SimpleNamespace(contraction=refuse)
    monkeypatch.setattr(XP, "companion", lambda name: own, raising=False)
    monkeypatch.setattr(cutensor, "MODULES", Cache("cutensor of a test", 1))
    x, y = GPU.to_device(np.ones((2, 5, 3), "f4")), GPU.to_device(np.ones((5, 6), "f4"))
    np.testing.assert_array_equal(GPU.to_host(dot(x, y, ((1,), (0,)))(x, y)), np.full((2, 3, 6), 5))


def test_without_memory_for_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least that serves; and where there is none for that either, the next rung."""
    asked: list[int] = []
    most = [0]  # that there is memory for

    def contract(*args: Any, ws_pref: int) -> Any:
        asked.append(ws_pref)
        if ws_pref > most[0]:
            raise MemoryError
        return contraction(*args)

    own = SimpleNamespace(contraction=contract)
    monkeypatch.setattr(XP, "companion", lambda name: own, raising=False)
    monkeypatch.setattr(cutensor, "MODULES", Cache("cutensor of a test", 1))
    x, y = GPU.to_device(np.ones((2, 5, 3), "f4")), GPU.to_device(np.ones((5, 6), "f4"))
    for most[0] in (1, 0):
        asked.clear()
        found = GPU.to_host(dot(x, y, ((1,), (0,)))(x, y))
        np.testing.assert_array_equal(found, np.full((2, 3, 6), 5))
        assert asked == [2, 1]


def random_product(rng: np.random.Generator, dtype: str, most: int = 3) -> tuple[Any, Any, Any]:
    """The attributes of a dot_general of two operands of four axes up to `most` long, and these: of small
    integers, in whatever strides."""
    sizes = rng.integers(1, most + 1, 5)
    left, right = rng.permutation(4), rng.permutation(4) + 1
    shared = [label for label in left if label in right]
    batch = [label for label in shared if rng.random() < 0.3]
    summed = [label for label in shared if label not in batch]
    attrs = {
        name: tuple(
            tuple(int(np.flatnonzero(term == label)[0]) for label in labels)
            for term in (left, right)
        )
        for name, labels in (("contracting", summed), ("batch", batch))
    }
    layout = rng.choice(["C", "F", "transposed", "sliced", "reversed", "broadcast"])
    x, y = (
        lay_out(rng.integers(-4, 5, sizes[term]).astype(dtype), layout, rng)
        for term in (left, right)
    )
    return attrs, x, y


def test_random_products(rng: np.random.Generator) -> None:
    """With cuTENSOR and without, in all strides, as the CPU."""
    for _ in range(60):
        attrs, x, y = random_product(rng, "f8")
        want = cpu().apply("dot_general", attrs, x, y)
        for backend in STAND_INS.values():
            got = backend.apply("dot_general", attrs, x.view(DeviceArray), y.view(DeviceArray))
            np.testing.assert_array_equal(backend.to_host(got), want)
            room = DeviceArray(want.shape, "f8") if want.ndim else None
            got = backend.apply(
                "dot_general", attrs, x.view(DeviceArray), y.view(DeviceArray), out=room
            )
            np.testing.assert_array_equal(backend.to_host(got), want)


def test_a_missing_library_is_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fail(name: str) -> Any:
        asked.append(name)
        raise ImportError("libcutensor.so.2")

    xp = StandIn()
    monkeypatch.setattr(xp, "companion", fail, raising=False)
    assert cutensor.module(xp) is cutensor.module(xp) is None
    assert asked == ["cutensor"]
    cutensor.MODULES.clear()
    assert cutensor.module(xp) is None
    assert asked == ["cutensor"] * 2


# ---- updates ------------------------------------------------------------------------------------


def test_updates_come_in_order(rng: np.random.Generator) -> None:
    """Bit for bit what a loop over the updates gives, however often a place comes."""
    places = rng.integers(0, 7, 300)
    values = rng.standard_normal(300).astype("f4")
    want, last = np.zeros(9, "f4"), np.zeros(9, "f4")
    for at, value in zip(places, values, strict=True):
        want[at] += value
        last[at] = value
    for adds, right in ((True, want), (False, last)):
        target = XP.zeros(9, "f4")
        update(XP, target, XP.array(places), XP.array(values), adds)
        assert GPU.to_host(target).tobytes() == right.tobytes()


# ---- memory and launches ------------------------------------------------------------------------


def test_pools() -> None:
    pools = Pools(GpuMemory(XP), "gpu:0")
    pools.alloc_pool(1, 64, 64)
    pools.alloc_pool(2, 64, 64)
    pools.memset_zero(1, 0, 64)
    x = pools.array_at(BufferLoc(1, 16), ArraySpec(F4, (3,)))
    assert type(x) is DeviceArray
    x[...] = 3
    pools.copy(BufferLoc(2, 0), pools, BufferLoc(1, 16), 12)
    y = pools.array_at(BufferLoc(2, 0), ArraySpec(F4, (3,)))
    np.testing.assert_array_equal(GPU.to_host(y), 3)
    with pytest.raises(Unsupported, match="through the host"):
        pools.copy(BufferLoc(2, 0), Pools(CpuMemory(), "cpu:0"), BufferLoc(1, 0), 1)


def test_launch() -> None:
    """Compiled once; arrays first, then sizes and strides by value."""
    asked: list[Any] = []

    def raw_kernel(source: str, name: str, options: Any) -> Any:
        asked.append((source, name))
        return lambda grid, block, arguments: asked.append((grid, block, arguments))

    xp: Any = SimpleNamespace(RawKernel=raw_kernel)
    kernel: Any = SimpleNamespace(
        source="__global__", name="f", grid=(1, 1, 1), block=(32, 1, 1), shared=0, features="",
        parameters=lambda: np.array([5, 1], np.int32),
    )  # fmt: skip
    assert can_launch(xp)
    assert not can_launch(SimpleNamespace())
    x = GPU.full((3,), 1, "f4")
    launch(xp, kernel, x)
    launch(xp, kernel, x)
    COMPILED.clear()
    assert asked[0] == ("__global__", "f")
    (grid, block, (first, words)), again = asked[1:]
    assert (grid, block, first is x) == ((1, 1, 1), (32, 1, 1), True)
    assert words.tobytes() == np.array([5, 1], np.int32).tobytes()
    assert again[0] == grid


def test_page() -> None:
    """docs/gpu.md says what the backend says."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "gpu.md").read_text(encoding="utf-8")
    table = page.partition("<!-- table -->\n")[2].partition("<!-- end -->")[0]
    assert table.strip() == gpu_table()
