"""Kernels that are kept on disk, called without numba: the same results, or numba after all."""

from __future__ import annotations

import ast
import logging
import os
import pickle
import resource
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.options import options
from einloom.backend.cpu import bare, entries, objects
from einloom.backend.cpu.jit import Kernel, kernel, twin


def plus(out: Any, x: Any) -> None:
    """out += x"""
    for i in range(out.shape[0]):
        out[i] += x[i]


def shapes(out: Any, x: Any, k: int, yes: bool) -> None:
    """What a kernel sees of its arguments."""
    out[0], out[1], out[2], out[3] = x.shape[0], x.shape[1], x.size, x.itemsize
    out[4], out[5], out[6], out[7] = x.strides[0], x.strides[1], k, 7 if yes else 5
    out[8] = x[1, 2]


def is_above(x: Any, k: int) -> bool:
    return x[0] > k


def count(x: Any, k: int) -> int:
    return x.size - k


def scaled(x: Any, by: float) -> float:
    return x[0] * by


def with_room(out: Any, n: int) -> None:
    room = np.empty(n)
    room[0] = out[0]
    room[n - 1] = out[0] + 1
    out[0] = room[0] + room[n - 1]


def listed(x: Any) -> int:
    pairs = [(x[0], 1)]
    for i in range(x.size):
        pairs.append((x[i], i))
    total = 0
    for value, at in pairs:
        total += value * at
    return total


@pytest.fixture
def kept(tmp_path: Path) -> Any:
    """A kernel whose code numba has made and kept for such arguments, in another `Kernel`."""

    def make(function: Callable[..., Any], *arguments: Any, make: Any = kernel) -> Kernel:
        make(function)(*arguments)
        again: Kernel = make(function)
        return again

    with options(cache_dir=str(tmp_path)):
        yield make


def refuses(*args: Any) -> Any:
    raise objects.Unsupported("an object of another system")


@pytest.mark.parametrize("by_llvm", [False, True], ids=["linked here", "linked by LLVM"])
def test_it_is_called_without_numba(
    kept: Any, by_llvm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    again, room = kept(plus, np.zeros(3), np.ones(3)), kept(with_room, np.zeros(3), 2)
    out, one = np.zeros(4), np.full(1, 2.0)
    if by_llvm:
        monkeypatch.setattr(objects, "placed", refuses)
    again(out, np.arange(4.0))
    again(out, np.arange(4.0))
    room(one, 5)
    np.testing.assert_array_equal(out, [0, 2, 4, 6])
    np.testing.assert_array_equal(one, [5])
    assert again._dispatcher is None
    assert room._dispatcher is None


def test_what_a_kernel_sees(kept: Any) -> None:
    x, out = np.arange(12, dtype=np.int16).reshape(3, 4), np.zeros(9, np.int64)
    again = kept(shapes, out, x, 1, True)
    for y, k, yes in (
        (x, -5, False),
        (np.arange(30, dtype=np.int16).reshape(5, 6), 2**63 - 1, True),
    ):
        again(out, y, k, yes)
        facts = [*y.shape, y.size, 2, *y.strides, k, 7 if yes else 5, y[1, 2]]
        assert out.tolist() == facts
    assert again._dispatcher is None


@pytest.mark.parametrize(
    ("function", "argument", "result"),
    [
        (is_above, 3, False), (is_above, -3, True), (count, 1, 2), (count, 10**12, 3 - 10**12),
        (scaled, 0.5, 1.25), (scaled, np.float64(-2.0), -5.0),
    ],
)  # fmt: skip
def test_results(kept: Any, function: Any, argument: Any, result: Any) -> None:
    again = kept(function, np.full(3, 2.5), argument)
    for _ in range(2):
        found = again(np.full(3, 2.5), argument)
        assert found == result
        assert type(found) is type(result)
    assert again._dispatcher is None


def fresh(dtype: Any) -> Any:
    """An equal dtype that is another object, as that of an array that was pickled."""
    other = pickle.loads(pickle.dumps(np.dtype(dtype)))
    return np.dtype(dtype, copy=True) if other is np.dtype(dtype) else other


OTHERS: list[tuple[str, Any]] = [
    ("of another dtype", (np.zeros(3, np.float32), np.ones(3))),
    ("with gaps", (np.zeros(6)[::2], np.ones(3))),
    ("backwards", (np.zeros(3), np.ones(3)[::-1])),
    ("of more axes", (np.zeros((3, 1)), np.ones((3, 1)))),
    ("of bytes in another order", (np.zeros(3), np.ones(3, ">f8").astype("<i4"))),
    ("an integer", (np.zeros(3), np.arange(3))),
    ("a subclass", (np.zeros(3), np.ones(3).view(np.recarray))),
    ("read-only", (np.zeros(3), np.frombuffer(np.ones(3).tobytes()))),
    ("misaligned", (np.zeros(3), np.frombuffer(bytes(1) + np.ones(3).tobytes(), "f8", 3, 1))),
]


@pytest.mark.parametrize(("title", "arguments"), OTHERS, ids=[title for title, _ in OTHERS])
def test_other_kinds(kept: Any, title: str, arguments: Any) -> None:
    """numba is asked, whether the kernel has seen the kinds that its file is for or not."""
    first, later = kept(plus, np.zeros(3), np.ones(3)), kernel(plus)
    later(np.zeros(3), np.ones(3))
    assert later._dispatcher is None
    for one in (first, later):
        out = arguments[0]
        out[...] = 0
        try:
            one(*arguments)
        except Exception as error:  # numba's, of what it does not know
            assert "numba" in type(error).__module__, title  # noqa: PT017
        else:
            np.testing.assert_allclose(out, arguments[1])
    assert first._dispatcher is not None


def test_what_is_no_array(kept: Any) -> None:
    first = kept(plus, np.zeros(3), np.ones(3))
    first(np.zeros(3), np.ones(3))
    for wrong in (None, 5, "text", object(), 2.5):
        again = kernel(plus)
        again(np.zeros(3), np.ones(3))
        with pytest.raises(Exception, match=r"x\[i\]|[Cc]annot|[Nn]o implementation|pyobject"):
            again(np.zeros(3), wrong)
    with pytest.raises(TypeError):
        first(np.zeros(3))


@pytest.mark.parametrize("first", [1, True, np.int64(1), 1.0], ids=repr)
def test_other_scalars_after_the_first(kept: Any, first: Any) -> None:
    """Previously failed: an integer in place of a truth value counted as one."""
    again = kept(difference, np.ones(3), first)
    others = [5, True, np.bool_(True), np.int32(5), np.uint8(5), np.int64(5), 5.5, np.float32(5.5)]
    for n in (*others, np.array(5)):
        again = kernel(difference)
        for one in (first, n, first):
            assert again(np.ones(3), one) == 3 - float(one)
    np.testing.assert_array_equal(again(np.ones(3), np.zeros(2)), [3, 3])  # numba's


def difference(x: Any, n: Any) -> float:
    return x[0] * 3 - n


def test_integers_out_of_range(kept: Any) -> None:
    again = kept(count, np.ones(3), 1)
    assert again(np.ones(3), -5) == 8
    with pytest.raises(Exception, match=r"[Ii]nt"):  # numba's
        again(np.ones(3), 1 << 70)
    assert again._dispatcher is not None


def test_arrays_without_axes(kept: Any) -> None:
    out = np.zeros(1)
    again = kept(taken, out, np.array(2.5))
    again(out, np.array(4.5))
    assert out[0] == 7
    assert again._dispatcher is None


def taken(out: Any, x: Any) -> None:
    out[0] += x[()]


def test_records_are_left_to_numba(kept: Any) -> None:
    """Two may have the same text for their dtype."""
    records = np.zeros(2, np.dtype([("a", "i4"), ("b", "f4")], align=True))
    out = np.zeros(1)
    again = kept(named, out, records)
    swapped = np.zeros(2, np.dtype([("b", "f4"), ("a", "i4")], align=True))
    swapped["a"], swapped["b"] = 7, 1
    again(out, swapped)
    assert out[0] == 7
    assert again._dispatcher is not None


def named(out: Any, x: Any) -> None:
    out[0] = x[0].a


def test_dtypes_that_are_other_objects(kept: Any) -> None:
    again = kept(plus, np.zeros(3), np.ones(3))
    out = np.zeros(3)
    for dtype in (np.dtype(float), fresh(float), np.dtype(float), fresh(float)):
        again(out, np.ones(3, dtype))
    np.testing.assert_array_equal(out, [4, 4, 4])
    assert again._dispatcher is None


def test_letters_are_those_of_numba() -> None:
    from numba import typeof

    x = np.arange(24.0).reshape(2, 3, 4)
    frozen = x.copy()
    frozen.flags.writeable = False
    given: list[Any] = [x, x.T, x[0], x[..., 0], frozen, x[:0], x[1, 1, 1:2], 3, -1.5, True, None]
    given += [x.astype(name) for name in ("?", "i1", "u8", "f4", "c16", ">f8")]
    given += [np.int64(3), np.float64(2), np.float32(1), (1, 2), 1j]
    for one in given:
        try:
            type_ = typeof(one)
        except Exception:  # numba's, for another order of bytes
            type_ = None
        assert bare.letters_of(bare.kinds_of((one,))) == entries.letters_of((type_,)), repr(one)


def test_memory_runs_out(kept: Any) -> None:
    out = np.zeros(1)
    again = kept(with_room, out, 5)
    out[0] = 3
    again(out, 4)
    assert out[0] == 7
    with pytest.raises(MemoryError):
        again(out, 1 << 58)
    assert again._dispatcher is None


def test_memory_is_given_back(kept: Any) -> None:
    def used() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10

    x, out = np.arange(5000), np.zeros(1)
    rooms, lists = kept(with_room, out, 5), kept(listed, x, make=twin)
    expected = int((x * x).sum())
    rooms(out, 1 << 17), lists(x)
    before = used()
    for _ in range(1000):  # a gigabyte of rooms, 160 MB of lists
        rooms(out, 1 << 17)
        assert lists(x) == expected
    assert rooms._dispatcher is lists._dispatcher is None
    assert used() - before < 40 << 20


def broken(text: bytes) -> list[bytes]:
    last = bytes([text[-1] ^ 1])
    return [b"", text[:10], text[:-1], text[:-1] + last, b"x" + text, bare.MAGIC + b"1\n"]


def test_files_that_are_damaged(
    kept: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """numba is asked, and the file is written anew."""
    kept(plus, np.zeros(3), np.ones(3))
    (file,) = (tmp_path / "kernels").glob("*plus*.code")
    whole = file.read_bytes()
    for text in broken(whole):
        file.write_bytes(text)
        caplog.clear()
        again, out = kernel(plus), np.zeros(3)
        with caplog.at_level(logging.WARNING, "einloom"):
            again(out, np.ones(3))
        np.testing.assert_array_equal(out, [1, 1, 1])
        assert again._dispatcher is not None
        assert f"{file.name} is damaged" in caplog.text
        assert file.read_bytes() == whole


def test_files_that_are_lost(kept: Any, tmp_path: Path) -> None:
    """Previously failed: only who compiled wrote them."""
    kept(plus, np.zeros(3), np.ones(3))
    (file,) = (tmp_path / "kernels").glob("*plus*.code")
    whole = file.read_bytes()
    file.unlink()
    again = kernel(plus)
    again(np.zeros(3), np.ones(3))
    assert sum(again._dispatcher.stats.cache_hits.values()) == 1  # type: ignore[union-attr]
    assert file.read_bytes() == whole


def test_code_that_cannot_be_linked(
    kept: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """It names what is nowhere, or a function that is set apart and has no file."""
    from llvmlite import binding

    monkeypatch.setattr(bare, "_ADDRESSES", {})
    kept(plus, np.zeros(3), np.ones(3))
    (file,) = (tmp_path / "kernels").glob("*plus*.code")
    text = "declare void @nowhere_at_all()\ndefine void @entry() { call void @nowhere_at_all() ret void }"
    emit = bare.target_machine().emit_object
    nothing, image = (emit(binding.parse_assembly(x)) for x in ("", text))
    letters = bare.letters_of(bare.kinds_of((np.zeros(3), np.ones(3))))
    facts = bare.Facts(letters, "entry", [], nothing)
    for wrong, message in (
        (facts, "materialize symbols"),
        (facts._replace(symbol="elsewhere"), "elsewhere"),
        (facts._replace(calls=["einloom.no.such"]), "einloom.no"),
        (facts._replace(calls=["einloom.contract.planners.core.tree.path_of"]), ""),
    ):
        file.unlink()
        bare.keep(plus, wrong, image)  # type: ignore[arg-type]
        again, out = kernel(plus), np.zeros(3)
        caplog.clear()
        with caplog.at_level(logging.WARNING, "einloom"):
            again(out, np.ones(3))
        np.testing.assert_array_equal(out, [1, 1, 1])
        assert again._dispatcher is not None
        assert message in caplog.text


@pytest.mark.parametrize(
    "name", ["stamp_of", "cache_dir", "identity", "_library", "_linker", "is_possible"]
)
def test_whatever_fails(
    kept: Any, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Previously failed without a home, without sources, in a folder that cannot be looked into."""

    def fails(*args: Any) -> Any:
        raise PermissionError(f"no {name}")

    again, out = kept(plus, np.zeros(3), np.ones(3)), np.zeros(3)
    bare._are_in.cache_clear()
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "einloom"):
        if name == "_linker":
            patch.setattr(objects, "placed", refuses)
        patch.setattr(bare, name, fails)
        assert not bare.are_kept()
        again(out, np.ones(3))
    bare._are_in.cache_clear()
    np.testing.assert_array_equal(out, [1, 1, 1])
    assert again._dispatcher is not None
    assert f"plus is not called without numba: no {name}" in caplog.text


def test_memory_that_may_not_run_code(
    kept: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where the system lets no memory run that was written: numba is asked, which says the same or knows
    how."""

    def fails(*args: Any) -> None:
        raise PermissionError("mprotect")

    again, out = kept(plus, np.zeros(3), np.ones(3)), np.zeros(3)
    monkeypatch.setattr(objects, "_protect", fails)
    with caplog.at_level(logging.WARNING, "einloom"):
        again(out, np.ones(3))
        again(out, np.ones(3))
    np.testing.assert_array_equal(out, [2, 2, 2])
    assert again._dispatcher is not None
    assert len(caplog.messages) == objects.are_linked_here()


def test_another_numba(
    kept: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Of which something is not as expected: no entries, and all the same."""

    def fails(*args: Any) -> Any:
        raise AttributeError("not in this numba")

    for name in ("_entry", "_compiler", "_foreign"):
        entries.how.cache_clear()
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, "einloom"):
            caplog.clear()
            patch.setattr(entries, name, fails)
            out = np.zeros(3)
            with options(cache_dir=str(tmp_path / name)):
                kernel(plus)(out, np.ones(3))
            entries.how.cache_clear()
        np.testing.assert_array_equal(out, [1, 1, 1])
        assert "AttributeError: not in this numba" in caplog.text
        assert not list((tmp_path / name).rglob("*plus*.code"))


def test_a_folder_that_others_can_write(
    kept: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    again = kept(plus, np.zeros(3), np.ones(3))
    (tmp_path / "kernels").chmod(0o777)
    with caplog.at_level(logging.WARNING, "einloom"):
        out = np.zeros(3)
        again(out, np.ones(3))
    np.testing.assert_array_equal(out, [1, 1, 1])
    assert again._dispatcher is not None
    assert "make it mode 0700" in caplog.text


def test_the_option(kept: Any) -> None:
    again = kept(plus, np.zeros(3), np.ones(3))
    with options(bare=False):
        again(np.zeros(3), np.ones(3))
    assert again._dispatcher is not None


def test_the_option_under_which_a_kernel_is_first_seen_does_not_stay(kept: Any) -> None:
    again = kept(plus, np.zeros(3), np.ones(3))
    with options(bare=False):
        assert again._entries.find((np.zeros(3), np.ones(3))) is None
    again(np.zeros(3), np.ones(3))
    assert again._dispatcher is None


def test_kernels_raise_nothing() -> None:
    """Whatever an entry reports counts as a lack of memory."""
    root = Path(einloom.__file__).parent
    files = [*(root / "backend/cpu/kernels").rglob("*.py")]
    files += [
        file for file in (root / "contract/planners/core").glob("*.py") if file.name != "run.py"
    ]
    assert len(files) > 40
    for file in files:
        tree = ast.parse(file.read_text())
        assert not [x for x in ast.walk(tree) if isinstance(x, (ast.Raise, ast.Assert))], file


def test_after_many_looks_numba_takes_over(kept: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    again = kept(plus, np.zeros(3), np.ones(3))
    again(np.zeros(3), np.ones(3))
    monkeypatch.setattr(bare, "_looks", bare.MOST_LOOKS)
    again(np.zeros(3), np.ones(3))
    assert again._dispatcher is None  # it has its entry
    other = kernel(plus)
    other(np.zeros(3), np.ones(3))
    assert other._dispatcher is not None


def test_whether_any_are_kept(kept: Any, tmp_path: Path) -> None:
    assert not bare.are_kept()
    with options(small=0, cache_dir=str(tmp_path / "more")):
        assert not bare.are_kept()
        einloom.einsum("bij,bjk->bik", np.ones((9, 3, 3), int), np.ones((9, 3, 3), int))
    bare._are_in.cache_clear()
    with options(cache_dir=str(tmp_path / "more")):
        assert bare.are_kept() == bool(list(tmp_path.rglob("*.code")))
        with options(bare=False):
            assert not bare.are_kept()


def test_other_text_has_another_file(kept: Any, tmp_path: Path) -> None:
    """Functions of one name, one after the other in one place."""

    def plus(out: Any, x: Any) -> None:
        for i in range(out.shape[0]):
            out[i] -= x[i]

    plus.__qualname__ = "plus"
    kept(globals()["plus"], np.zeros(3), np.ones(3))
    out = np.zeros(3)
    kernel(plus)(out, np.ones(3))
    np.testing.assert_array_equal(out, [-1, -1, -1])
    assert len(list((tmp_path / "kernels").glob("*plus*.code"))) == 2


def test_eight_threads_link_once(kept: Any) -> None:
    again = kept(plus, np.zeros(3), np.ones(3))
    before = len(bare._LIBRARIES)
    outs = [np.zeros(5) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:

        def one(out: Any) -> None:
            with options(cache_dir=again.folder):  # type: ignore[attr-defined]
                for _ in range(50):
                    again(out, np.ones(5))

        again.folder = einloom.get_options().cache_dir  # type: ignore[attr-defined]
        list(pool.map(one, outs))
    assert all((out == 50).all() for out in outs)
    assert again._dispatcher is None
    assert len(bare._LIBRARIES) == before + 1


SCRIPT = """
import os, sys
import numpy as np
import einloom
from einloom.backend.cpu import cpu
from einloom.backend.cpu.move import move
rng = np.random.default_rng(0)
einloom.set_options(small=0, patience=0)
parts = sys.argv[1:]
links = sys.platform == "linux" and os.uname().machine == "x86_64"  # without LLVM
def show(*arrays):
    for x in arrays:
        print(x.dtype, x.shape, x.tobytes().hex())
if "products" in parts:
    for name in ("int64", "complex64"):
        x, y = ((rng.integers(-9, 9, (3, 12, 12)) / 7).astype(name) for _ in range(2))
        show(einloom.einsum("bij,bjk->bik", x, y))
        show(einloom.einsum("bij,bij,bi->bj", x, y, x[:, 0]))
if "linalg" in parts:
    show(einloom.linalg.solve(rng.random((20, 4, 4)), rng.random((20, 4, 1))))
    show(cpu().apply("reduce_sum", {"axes": (1,)}, rng.random((30, 40))))
if "search" in parts:
    from einloom.contract.planners.core import run
    graph = [(i, j) for i in range(8) for j in range(i)]
    labels = [frozenset(k for k, pair in enumerate(graph) if i in pair) for i in range(8)]
    core = run.core_of(run.Graph.of(labels, frozenset(), [3] * len(graph)), True)
    print(core.greedy().tolist(), core.partition().tolist())
for name in ("int64", "complex64"):
    x = rng.integers(-9, 9, (3, 12, 12)).astype(name)
    show(move(np.empty((12, 3, 12), name), x.transpose(1, 0, 2)))
print("numba" in sys.modules, file=sys.stderr)
assert "numba" in sys.modules or "llvmlite" not in sys.modules or not links
from einloom.backend.cpu import threads
bell = np.array([7])
assert threads._watch(bell, np.int64(6), 5, 0)
assert not threads._watch(bell, bell[0], 5, 0)
child = os.fork()
if not child:
    x = rng.random((3, 5))
    assert (move(np.empty((5, 3)), x.T) == x.T).all()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


def processes(tmp_path: Path, *parts: str) -> Callable[..., tuple[str, str]]:
    """What such a process prints, and whether it has imported numba."""
    environment = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(einloom.__file__).parents[1]),
    }

    def run(**more: str) -> tuple[str, str]:
        # from 3.12 on a fork of a process with threads is warned of
        command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT, *parts]
        done = subprocess.run(
            command, env=environment | more, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, done.stderr.strip()

    return run


ENDING = """
import threading, time
import numpy as np
import einloom
from einloom.backend.cpu.jit import kernel
def spin(x, n):
    for i in range(n):
        x[0] = (x[0] * 7 + i) % 1000003
spinning, x = kernel(spin), np.ones(1, np.int64)
spinning(x, 3)
threading.Thread(target=spinning, args=(x, 1 << 40), daemon=True).start()
while x[0] == 1:
    time.sleep(0.01)
time.sleep(0.05)
"""


def test_threads_still_run_kernels_when_the_interpreter_ends(tmp_path: Path) -> None:
    """Previously failed, where their code went with the interpreter's objects."""
    file = tmp_path / "ending.py"
    file.write_text(ENDING, encoding="utf-8")
    environment = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(Path(einloom.__file__).parents[1]),
    }
    for _ in range(4):
        done = subprocess.run(
            [sys.executable, file], env=environment, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")


def test_second_process_never_imports_numba(tmp_path: Path) -> None:
    """Contractions, systems, reductions and copies, with the same bits."""
    run = processes(tmp_path, "products", "linalg")
    compiled, imported = run()
    assert imported == "True"
    assert run() == (compiled, "False")
    assert run(EINLOOM_BARE="0") == (compiled, "True")


@pytest.mark.slow  # the search takes a quarter of a minute to compile
def test_the_search_for_trees_needs_no_numba(tmp_path: Path) -> None:
    run = processes(tmp_path, "search")
    compiled, imported = run()
    assert imported == "True"
    assert run() == (compiled, "False")


@pytest.mark.slow
def test_variables_of_numba(tmp_path: Path) -> None:
    """Those that change code have files of their own, others do not."""
    run = processes(tmp_path)
    assert run()[1] == "True"
    assert run(NUMBA_NUM_THREADS="1")[1] == "False"
    assert run(NUMBA_OPT="2")[1] == "True"
    assert run(NUMBA_OPT="2")[1] == "False"
    assert run()[1] == "False"
