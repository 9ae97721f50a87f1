"""Compiled kernels: made at the first call, kept on disk, and never used after a change of source."""

from __future__ import annotations

import gc
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einloom
from einloom._base.options import options
from einloom.backend.cpu import jit, kernel_files
from einloom.backend.cpu.jit import Kernel, kernel
from einloom.backend.cpu.kernel_files import source_stamp
from einloom.backend.cpu.kernels import loops as kernels


def plus(out: Any, x: Any) -> None:
    """out += x"""
    for i in range(out.shape[0]):
        out[i] += x[i]


def test_nothing_is_compiled_before_the_first_call(tmp_path: Path) -> None:
    one = kernel(plus)
    assert isinstance(one, Kernel)
    assert (one.__name__, one.__doc__) == ("plus", "out += x")
    assert one.signatures == []
    with options(cache_dir=str(tmp_path)):
        out = np.zeros(3)
        one(out, np.arange(3.0))
        one(out, np.arange(3.0))
    np.testing.assert_array_equal(out, [0, 2, 4])
    assert len(one.signatures) == 1


def test_disk_cache_is_private_and_shared_by_kernels(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with options(cache_dir=str(folder), bare=False):
        first, second = kernel(plus), kernel(plus)
        first(np.zeros(3), np.ones(3))
        files = snapshot(folder)
        assert len(files) == 3  # an index and one compiled function, which is also kept bare
        second(np.zeros(3), np.ones(3))
        assert snapshot(folder) == files
        assert sum(second._dispatcher.stats.cache_hits.values()) == 1  # type: ignore[union-attr]
    for made in (folder, folder / "kernels"):
        assert made.stat().st_mode & 0o777 == 0o700


def snapshot(folder: Path) -> dict[str, int]:
    """Files and when they were last written."""
    return {
        str(path.relative_to(folder)): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


PROCESS = """
import sys
import numpy as np
from einloom._base.options import options
from einloom.backend.cpu import cpu
from einloom.backend.cpu.kernels.loops import contract_tiles
x = np.arange(12).reshape(3, 2, 2)
attrs = {"batch": ((0,), (0,)), "contracting": ((2,), (1,))}
for dtype in sys.argv[1:]:
    x = x.astype(dtype)
    with options(small=0):
        result = cpu().apply("dot_general", attrs, x, x)
    assert (result == x @ x).all()
    assert result.dtype == x.dtype
stats = contract_tiles._dispatcher.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
print("numba.np.arraymath" in sys.modules, "einloom.backend.cpu.kernels.registers" in sys.modules)
"""


def test_second_process_compiles_nothing(tmp_path: Path) -> None:
    root = Path(einloom.__file__).parents[1]
    environment = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(tmp_path),
        "EINLOOM_BARE": "0",
        "PYTHONPATH": str(root),
    }

    def run(*dtypes: str) -> list[str]:
        command = [sys.executable, "-c", PROCESS, *dtypes]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert run("i8") == ["0", "1", "True", "True"]
    files = snapshot(tmp_path)
    assert any(name.endswith(".nbc") for name in files)
    # nor does it load what only compiling needs
    assert run("i8") == ["1", "0", "False", "False"]
    assert snapshot(tmp_path) == files
    assert run("i8", "i4") == ["1", "1", "True", "True"]  # one that it loads, one that it compiles
    assert run("i8", "i4") == ["2", "0", "False", "False"]


def test_works_without_a_place_to_keep_kernels(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file where the folder should be: compiled all the same, and the log says so."""
    (tmp_path / "file").write_text("in the way")
    with options(cache_dir=str(tmp_path / "file")), caplog.at_level(logging.WARNING, "einloom"):
        out = np.zeros(2)
        kernel(plus)(out, np.ones(2))
    np.testing.assert_array_equal(out, [1, 1])
    assert "kernels are not kept" in caplog.text
    assert str(tmp_path / "file") in caplog.text


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the folder of kernels that the stamp is now taken of."""
    folder = tmp_path / "kernels"
    shutil.copytree(Path(kernels.__file__).parent, folder)
    for beside in kernel_files.COMPILE:
        shutil.copy(Path(jit.__file__).with_name(beside), tmp_path)
    monkeypatch.setattr(kernel_files, "__file__", str(tmp_path / "kernel_files.py"))
    return folder


def test_stamp_is_of_the_contents(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of places or times."""
    stamp = source_stamp()
    os.utime(sources / "loops.py", (1, 1))
    assert source_stamp() == stamp
    monkeypatch.undo()
    assert source_stamp() == stamp


def test_any_change_of_source_changes_the_stamp(sources: Path) -> None:
    stamps = [source_stamp()]
    loops = sources / "loops.py"
    text = loops.read_text()
    loops.write_text(text.replace("k > 0", "k > 1"))
    stamps.append(source_stamp())
    (sources / "more.py").write_text("")
    stamps.append(source_stamp())
    (sources / "more.py").rename(sources / "most.py")
    stamps.append(source_stamp())
    (sources / "most.py").write_text("helper = 1\n")
    stamps.append(source_stamp())
    loops.write_text(text)
    (sources / "most.py").unlink()
    (sources.parent / "apart.py").write_text("# callers compiled by another are foreign\n")
    stamps.append(source_stamp())
    assert len(set(stamps)) == len(stamps)
    shutil.copy(Path(kernels.__file__).parent.with_name("apart.py"), sources.parent)
    assert source_stamp() == stamps[0]


def test_versions_change_the_stamp(monkeypatch: pytest.MonkeyPatch) -> None:
    stamps = [source_stamp()]
    monkeypatch.setattr(sys.modules["einloom"], "__version__", "0.0.test")
    stamps.append(source_stamp())
    release = kernel_files._release
    for package in ("numba", "llvmlite"):
        changed = {package: "0.0.test"}
        monkeypatch.setattr(
            kernel_files, "_release", lambda name, changed=changed: changed.get(name, release(name))
        )
        stamps.append(source_stamp())
    monkeypatch.setattr(kernel_files, "PACKAGE", "another")  # the same version by another name
    monkeypatch.setitem(sys.modules, "another", sys.modules["einloom"])
    stamps.append(source_stamp())
    assert len(set(stamps)) == 5


def test_changed_source_is_compiled_again(
    sources: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A kernel kept under another stamp is not taken."""
    kernel_files._stamp.cache_clear()
    request.addfinalizer(kernel_files._stamp.cache_clear)
    folder = tmp_path / "cache"
    with options(cache_dir=str(folder), bare=False):
        for hits in (0, 1):
            one = kernel(plus)
            one(np.zeros(3), np.ones(3))
            assert sum(one._dispatcher.stats.cache_hits.values()) == hits  # type: ignore[union-attr]
        (sources / "loops.py").write_text("changed = True\n")
        kernel_files._stamp.cache_clear()
        one = kernel(plus)
        one(np.zeros(3), np.ones(3))
        assert sum(one._dispatcher.stats.cache_hits.values()) == 0  # type: ignore[union-attr]


LEAST = """
import numpy as np
from einloom._base.options import options
from einloom.backend.cpu import cpu
with options(small=0):
    attrs = {"axes": (0,), "initial": None}
    print(cpu().apply("reduce_min", attrs, np.arange(3.0, 50.0)))
"""


@pytest.mark.slow  # three processes that compile
def test_an_edited_helper_is_seen(tmp_path: Path) -> None:
    """Kernels hold their helpers inlined: a change of one, and of no kernel, compiles them anew."""
    package, folder = tmp_path / "src" / "einloom", tmp_path / "cache"
    shutil.copytree(
        Path(einloom.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__")
    )
    environment = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(folder),
        "PYTHONPATH": str(package.parent),
        "PYTHONDONTWRITEBYTECODE": "1",  # bytecode is told by seconds and sizes, which are equal here
    }

    def run() -> float:
        command = [sys.executable, "-c", LEAST]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        return float(done.stdout)

    assert run() == 3
    files = snapshot(folder)
    helpers = package / "backend" / "cpu" / "kernels" / "vectors.py"
    text = helpers.read_text()
    smallest = '"smallest": _of_two(_named("llvm.{}"))'
    assert smallest.format("minimum") in text
    helpers.write_text(text.replace(smallest.format("minimum"), smallest.format("maximum")))
    assert run() == np.inf  # what the kernel starts with is now the greatest
    changed = snapshot(folder)
    assert files.keys() < changed.keys()
    assert run() == np.inf
    assert snapshot(folder) == changed


def test_eight_threads_compile_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    one = kernel(plus)
    outs = [np.zeros(5) for _ in range(8)]
    with options(cache_dir=str(tmp_path)):
        one._compiled()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda out: one(out, np.ones(5)), outs))
    assert all((out == 1).all() for out in outs)
    assert len(one.signatures) == 1


def test_garbage_is_collected_after_the_last_pause() -> None:
    assert gc.isenabled()
    with pytest.raises(KeyError), jit.collected_later():
        raise KeyError(gc.isenabled())
    assert gc.isenabled()
    first, second = jit.collected_later(), jit.collected_later()
    first.__enter__()
    second.__enter__()  # of another thread, say, which ends later
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()
    gc.disable()
    try:
        with jit.collected_later():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


PLAIN = """
import numpy as np
import einloom
from einloom._base.options import options
x, y = np.arange(160).reshape(40, 4), np.ones((4, 40), int)
with options(small=0):
    print((einloom.einsum("ij,jk->ik", x, y) == x @ y).all())
"""


def test_kernels_of_parts_run_as_they_stand_without_a_compiler(tmp_path: Path) -> None:
    """Previously failed: under NUMBA_DISABLE_JIT nobody gave them the names that they call."""
    root = Path(einloom.__file__).parents[1]
    environment = {
        **os.environ,
        "EINLOOM_CACHE_DIR": str(tmp_path),
        "PYTHONPATH": str(root),
        "NUMBA_DISABLE_JIT": "1",
    }
    command = [sys.executable, "-c", PLAIN]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"]


def test_kernels_may_be_closures(tmp_path: Path) -> None:
    def setting(n: float) -> Kernel:
        def inner(x: Any) -> None:
            x[0] = n

        return kernel(inner)

    x = np.zeros(1)
    with options(cache_dir=str(tmp_path)):
        for n in (4.0, 5.0, 4.0):
            setting(n)(x)
            assert x[0] == n
    assert not list(
        tmp_path.rglob("*inner*.code")
    )  # a file without numba could not tell them apart


def test_a_kernel_that_is_loaded_is_inlined_by_none(tmp_path: Path) -> None:
    """Of its code the names are kept: linked into another function they would abort the process."""
    import numba

    with options(cache_dir=str(tmp_path), bare=False):
        kernel(plus)(np.zeros(3), np.ones(3))
        loaded = kernel(plus)
        loaded(np.zeros(3), np.ones(3))
    inner = loaded._dispatcher

    @numba.njit
    def outer(x: Any) -> None:
        inner(x, x)  # type: ignore[misc]

    with pytest.raises(Exception, match="kept without what others could inline"):
        outer(np.ones(3))


def test_names_of_a_module() -> None:
    from llvmlite import binding

    odd = ("plain", "_ZN3abcB2v1", 'a"b', "a\\41b", "ä b", "x\ny")

    def quoted(name: str) -> str:
        return "".join(f"\\{byte:02X}" for byte in name.encode())

    text = [f'define i64 @"{quoted(name)}"(i64 %x) {{ ret i64 %x }}' for name in odd]
    text += ['@".const" = global i64 7', "declare void @elsewhere()"]
    small = kernel_files.names_of(binding.parse_assembly("\n".join(text)).as_bitcode())
    module = binding.parse_bitcode(small)
    assert [x.name for x in module.functions] == [*odd]
    assert [x.name for x in module.global_variables] == [".const"]
    assert not any(x.is_declaration for x in (*module.functions, *module.global_variables))


# ---- previously failed ------------------------------------------------------------------------


def cut(file: Path, part: float) -> None:
    os.truncate(file, int(part * file.stat().st_size))


def wipe(file: Path, part: float) -> None:
    """Zeros in the middle."""
    content = file.read_bytes()
    first = int(part * len(content))
    file.write_bytes(content[:first] + bytes(300) + content[first + 300 :])


@pytest.mark.parametrize("part", [0, 0.5, 0.9])
@pytest.mark.parametrize("damage", [cut, wipe])
@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_a_damaged_file_is_written_anew(
    suffix: str, damage: Any, part: float, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with options(cache_dir=str(tmp_path), bare=False):
        kernel(plus)(np.zeros(3), np.ones(3))
        (file,) = (tmp_path / "kernels").glob(f"*plus*.{suffix}")
        damage(file, part)
        for compiled in (1, 0):
            again, out = kernel(plus), np.zeros(3)
            with caplog.at_level(logging.WARNING):
                again(out, np.arange(3.0))
            np.testing.assert_array_equal(out, [0, 1, 2])
            dispatcher: Any = again._dispatcher
            is_noticed = (
                damage is cut or suffix == "nbc"
            )  # zeros may stand where an index names others
            if is_noticed or not compiled:
                assert sum(dispatcher.stats.cache_misses.values()) == compiled
                assert caplog.text.count("is damaged") == compiled
            caplog.clear()
        assert len(list((tmp_path / "kernels").glob("*plus*.nbi"))) == 1


def test_code_that_cannot_be_loaded_is_compiled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It names a module that this installation has not, say."""
    with options(cache_dir=str(tmp_path), bare=False), caplog.at_level(logging.WARNING):
        kernel(plus)(np.zeros(3), np.ones(3))
        (file,) = (tmp_path / "kernels").glob("*plus*.nbc")
        content = b"cno_such_package.kernels\nplus\n."
        file.write_bytes(kernel_files._sum_of(content) + content)
        for compiled in (1, 0):
            again, out = kernel(plus), np.zeros(3)
            again(out, np.arange(3.0))
            np.testing.assert_array_equal(out, [0, 1, 2])
            dispatcher: Any = again._dispatcher
            assert sum(dispatcher.stats.cache_misses.values()) == compiled
            assert caplog.text.count("No module named 'no_such_package'") == compiled
            caplog.clear()


COPIES = """
import logging, sys
logging.basicConfig(level="WARNING")
import numpy as np
x, y = np.arange(160).reshape(40, 4), np.ones((4, 40), int)
for name in sys.argv[1:]:
    package = __import__(name)
    for bare in (False, True):
        with package.options(small=0, bare=bare):
            print((package.einsum("ij,jk->ik", x, y) == x @ y).all())
"""


@pytest.mark.slow  # processes that compile
def test_copies_of_the_package_share_a_cache_folder(tmp_path: Path) -> None:
    """A copy within another package keeps kernels of its own, which name its modules."""
    source = Path(einloom.__file__).parent
    for name in ("einloom", "vendored"):
        target = tmp_path / name / name
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))

    def run(*names: str) -> list[str]:
        environment = {
            **os.environ,
            "EINLOOM_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": os.pathsep.join(str(tmp_path / name) for name in names),
        }
        command = [sys.executable, "-c", COPIES, *names]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.split()

    assert run("vendored") == ["True"] * 2
    assert run("einloom", "vendored") == ["True"] * 4
    shutil.rmtree(tmp_path / "vendored")
    assert run("einloom") == ["True"] * 2


@pytest.mark.parametrize("fails", ["tempfile.TemporaryFile", "os.replace"])
def test_a_full_disk_fails_no_call(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    one = kernel(plus)
    with options(cache_dir=str(tmp_path), bare=False), caplog.at_level(logging.WARNING):
        one(np.zeros(3, "f4"), np.ones(3, "f4"))
        monkeypatch.setattr(fails, full)
        before = snapshot(tmp_path)
        out = np.zeros(3)
        one(out, np.arange(3.0))
        assert snapshot(tmp_path).keys() == before.keys()
    np.testing.assert_array_equal(out, [0, 1, 2])
    assert "No space left" in caplog.text
