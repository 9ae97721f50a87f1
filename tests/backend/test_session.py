"""An instance of the backend has its own number of threads, a session one for a block; neither leaks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import warmup
from einloom._base.errors import ConversionError, OptionError
from einloom._base.options import get_options, num_threads, options
from einloom.backend.catalogue import infer
from einloom.backend.cpu import CpuBackend, cpu, jit, warm
from einloom.backend.cpu.backend import BINDERS
from einloom.backend.fusion import ElementwiseFusionPlan, FusionStep
from einloom.backend.spec import ArraySpec
from einloom.program.executable import Executable

Array = np.ndarray[Any, Any]
PACKAGE = "einloom.backend.cpu"
X = np.ones((40, 50))


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many threads each parallel loop of a kernel had."""
    found: list[int] = []

    def count(run: Any, n: int, threads: int | None = None) -> None:
        found.append(threads or num_threads())
        run(0, n)

    for name, module in tuple(sys.modules.items()):
        if name.startswith(f"{PACKAGE}.") and hasattr(module, "parallel_for"):
            monkeypatch.setattr(module, "parallel_for", count)
    with options(small=0, threads=3):
        yield found


def specs(*arrays: Array) -> tuple[ArraySpec, ...]:
    return tuple(ArraySpec(x.dtype, x.shape) for x in arrays)


def bound(backend: CpuBackend, op: str, attrs: dict[str, Any], *arrays: Array) -> Any:
    return backend.bind(op, attrs, specs(*arrays), infer(op, attrs, specs(*arrays)))


CHAIN = ElementwiseFusionPlan(specs(X, X), (FusionStep("multiply", (0, 1)),), (2,))
KERNELS: dict[str, Any] = {
    "elementwise": lambda backend: bound(backend, "sin", {}, X)(X),
    "cast": lambda backend: bound(backend, "cast", {"dtype": "int8"}, X)(X),
    "move": lambda backend: bound(backend, "copy", {}, X.T)(X.T),
    "reduction": lambda backend: bound(backend, "reduce_sum", {"axes": (0,)}, X)(X),
    "argument": lambda backend: bound(backend, "argmax", {"axis": 0}, X)(X),
    "chain": lambda backend: backend.fuse(CHAIN)(X, X),
    "apply": lambda backend: backend.apply("add", {}, X, X),
    "out": lambda backend: backend.apply("add", {}, X, X, out=np.empty_like(X)),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_run_on_their_instances_threads(kernel: str, seen: list[int]) -> None:
    """The default on those of the options in force when it runs, an instance on its own."""
    run = KERNELS[kernel]
    run(cpu())
    assert set(seen) == {3}
    seen.clear()
    run(cpu(threads=5))
    assert set(seen) == {5}
    assert get_options().threads == 3
    seen.clear()
    with cpu().session(threads=2) as backend:
        run(backend)
        run(cpu())
    assert set(seen) == {2}
    seen.clear()
    with cpu(threads=5).session(threads=4) as backend:
        run(backend)
    assert set(seen) == {4}
    seen.clear()
    with cpu(threads=5).session() as backend:
        run(backend)
    assert set(seen) == {5}


def test_a_kernel_is_bound_to_its_instance(seen: list[int]) -> None:
    """Wherever it runs later."""
    mine, default = bound(cpu(threads=6), "sin", {}, X), bound(cpu(), "sin", {}, X)
    with options(threads=2):
        mine(X), default(X)
    assert seen == [6, 2]


def test_a_whole_program_runs_in_a_session(seen: list[int]) -> None:
    """What is compiled for a session runs on its threads from end to end, and gives the same bits."""
    template = einloom.trace(lambda x, y: (x * y + x) @ y.T, "float64[40,50]", "float64[40,50]")
    program = template.bind([(40, 50)] * 2)
    want = Executable(program, cpu())(X, X)
    seen.clear()
    with cpu().session(threads=2) as backend:
        inside = Executable(program, backend)
        assert inside(X, X).tobytes() == want.tobytes()
        assert set(seen) == {2}
        for op in BINDERS:  # one surface: a session offers what the protocol does
            assert backend.capabilities()[op] == cpu().capabilities()[op]


def test_nothing_is_set_up_inside_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are bound before it, and the number of threads is set by the session alone."""
    template = einloom.trace(lambda x, y: (x * y + x) @ y.T, "float64[40,50]", "float64[40,50]")
    run = Executable(template.bind([(40, 50)] * 2), cpu(threads=2))
    set_up: list[Any] = []

    def counted(**changes: Any) -> Any:
        set_up.append(changes)
        return options(**changes)

    def bound_now(*arguments: Any, **keywords: Any) -> Any:
        raise AssertionError("a kernel is bound")

    monkeypatch.setattr("einloom.backend.cpu.backend.options", counted)
    monkeypatch.setattr(CpuBackend, "bind", bound_now)
    monkeypatch.setattr(CpuBackend, "fuse", bound_now)
    with cpu().session(threads=2):
        run(X, X), run(X, X)
    assert set_up == [{"threads": 2}]
    run(X, X)
    assert len(set_up) > 1  # outside, each kernel asks for its own


def test_nothing_leaks() -> None:
    before = get_options()
    with cpu().session(threads=7), ThreadPoolExecutor(1) as pool:
        assert num_threads() == 7
        assert pool.submit(get_options).result() == before  # another thread's are its own
    assert get_options() == before
    sine = bound(cpu(threads=2), "sin", {}, X)
    with pytest.raises(TypeError, match="sin"), cpu().session(threads=7):
        sine(X, out=np.empty((40, 50), bool))
    assert get_options() == before


def test_sessions_nest() -> None:
    with cpu().session(threads=7) as outer, outer.session(threads=2) as inner:
        assert (num_threads(), outer.threads, inner.threads) == (2, 7, 2)
        with inner.session() as same:
            assert same is inner
            assert num_threads() == 2
    with cpu().session() as backend:
        assert backend is cpu()


@pytest.mark.parametrize("threads", [0, -1, 1.0, 2.5, "2", True, np.int64(2), (1,)])
def test_bad_threads(threads: Any) -> None:
    with pytest.raises(OptionError, match=r"threads=.*: give a positive integer, or None"):
        cpu(threads=threads)
    with (
        pytest.raises(OptionError, match=r"threads=.*: give a positive integer, or None"),
        cpu().session(threads=threads),
    ):
        pass


def test_instances() -> None:
    assert cpu() is cpu(None)
    assert (repr(cpu()), repr(cpu(threads=3))) == ("cpu()", "cpu(threads=3)")
    assert cpu(threads=3).threads == 3
    assert cpu().threads is None


def test_placement() -> None:
    for x in (X, np.array(1), X[::2].T, np.ma.masked_array([1])):
        assert cpu().placement(x) == "cpu"
    for other in (1, [1.0], memoryview(b"1"), np.float64(1), None):
        with pytest.raises(ConversionError, match=r"placement: .*numpy\.ndarray"):
            cpu().placement(other)


VIEWS = [
    (X, ((40, 50), (50, 1), 0)),
    (X.T, ((50, 40), (1, 50), 0)),
    (X[3:, 2::5], ((37, 10), (50, 5), 152)),
    (X[::-1, ::-2], ((40, 25), (-50, -2), 1999)),
    (np.broadcast_to(X[0], (2, 50)), ((2, 50), (0, 1), 0)),
    (X[5][7:8], ((1,), (1,), 257)),
    (np.array(3, np.int8), ((), (), 0)),
]


@pytest.mark.parametrize(("x", "want"), VIEWS, ids=[str(row[1]) for row in VIEWS])
def test_view(x: Array, want: tuple[Any, ...]) -> None:
    assert cpu().view(x) == want


def test_view_of_lent_memory() -> None:
    """Offsets count from the buffer's start, also where the array has come out of the cache."""
    x = cpu().empty(ArraySpec(np.dtype("f4"), (1000, 1000)))
    assert cpu().view(x) == ((1000, 1000), (1000, 1), 0)
    assert cpu().view(x[2:, 3:]) == ((998, 997), (1000, 1), 2003)


# ---- compiling ahead -----------------------------------------------------------------------------


def compiled() -> int:
    """Signatures of all kernels of this process."""
    modules = [module for name, module in sys.modules.items() if name.startswith(f"{PACKAGE}.")]
    found = {id(x): x for module in modules for x in vars(module).values()}
    kernels = [*found.values(), *jit._GENERATED._items.values()]
    return sum(len(x.signatures) for x in kernels if isinstance(x, jit.Kernel))


def test_warmup(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts its calls, draws a line where that is asked for, and leaves nothing to compile."""
    monkeypatch.setattr(warm, "_SHAPES", warm._SHAPES[:1])
    before = get_options()
    with options(progress=True):
        count = warmup(["float64"])
    assert count > 0
    drawn = capsys.readouterr().err
    assert "compiling kernels" in drawn
    assert "100%" in drawn
    assert get_options() == before
    ready = compiled()
    with options(progress=False):
        assert warmup([np.dtype("f8")]) == count
    assert capsys.readouterr().err == ""
    with options(small=0, threads=2):
        cpu().apply("reduce_sum", {"axes": (0,)}, np.ones(700))
        cpu().apply("reduce_max", {"axes": (0,), "initial": None}, np.ones(700))
        cpu().apply("copy", {}, np.ones((90, 70)).T)
        for op, attrs, operands in warm.indexing_calls(np.dtype("f8")):
            if "float64" in cpu().capabilities()[op]:
                cpu().apply(op, attrs, *(np.array(x) for x in operands))
    assert compiled() == ready
    assert warmup([]) == 0


WARM = """
import sys
from pathlib import Path
import numpy as np
from einloom import warmup
from einloom._base.options import options
from einloom.backend.cpu import cpu
from tests.backend.test_jit import snapshot
from tests.backend.test_session import WARMED, compiled
name, folder = sys.argv[1], Path(sys.argv[2])
warmup([name])
ready, files = compiled(), snapshot(folder)
assert ready and files
for op in ("reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_mean"):
    if name not in cpu().capabilities()[op]:
        continue
    attrs = {"initial": None} if op in ("reduce_max", "reduce_min") else {}
    for shape, axes in WARMED:
        for threads in (1, 2, 8):
            with options(threads=threads):
                cpu().apply(op, {"axes": axes, **attrs}, np.ones(shape, name))
            assert compiled() == ready, (op, shape, axes, threads)
            assert snapshot(folder) == files, (op, shape, axes, threads)
for n in (2, 8, 300):
    attrs = {"contracting": ((2,), (1,)), "batch": ((0,), (0,))}
    x = np.ones((1 + (1 << 18) // n**3, n, n), name)
    cpu().apply("dot_general", attrs, x, x.swapaxes(1, 2))
    assert compiled() == ready and snapshot(folder) == files, n
"""

WARMED = [  # shapes and reduced axes: large enough to be compiled
    ((1 << 20,), (0,)),
    ((2048, 2048), (0,)),
    ((2048, 2048), (1,)),
    ((2048, 2048), (0, 1)),
    ((8, 100000), (0,)),
    ((500, 700), (0,)),
    ((100000, 8), (1,)),
    ((100000, 16), (1,)),
    ((100000, 3), (0,)),
    ((64, 128, 64), (1,)),
    ((300, 5, 700), (1,)),
    ((64, 64, 64), (0, 2)),
    ((40, 50, 2000), (1,)),
    ((4, 100, 100, 8), (3,)),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float64", "float32", "int32"])
def test_after_warmup_nothing_is_compiled(name: str, tmp_path: Path) -> None:
    """Reductions over axes of every place and length, products of matrices small and large, where the cache
    folder was empty."""
    roots = (Path(einloom.__file__).parents[1], Path(__file__).parents[2])
    variables = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, roots)),
        "EINLOOM_CACHE_DIR": str(tmp_path),
    }
    command = [sys.executable, "-c", WARM, name, str(tmp_path)]
    done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
