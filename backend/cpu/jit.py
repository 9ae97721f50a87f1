"""The one door to numba: kernels compile on first call and are kept in the user's cache folder.

`kernel` marks a function of flat buffers, strides and offset tables. Nothing is imported or compiled
until it is called; the file that a compiled kernel is kept in depends on the sources of every kernel
(a helper may be inlined into any of them), on the versions of einloom and numba, and on the CPU.
"""

from __future__ import annotations

import dis
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

from ..._base.caches import Cache
from ..._base.log import log
from ..._base.options import cache_dir
from .apart import called, is_apart, with_types

_LOCK = threading.Lock()
_LOADED: list[bool] = []  # one element once a kernel was asked for in this process


def is_loaded() -> bool:
    """Whether numba is imported and has loaded or compiled a kernel of ours."""
    return bool(_LOADED)


class Kernel:
    """A function compiled by numba at its first call; it releases the GIL."""

    def __init__(self, function: Callable[..., Any], source: str = "", twin: bool = False) -> None:
        self.function, self.source, self.twin = function, source, twin
        self._dispatcher: Callable[..., Any] | None = None
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __call__(self, *arguments: Any) -> Any:
        return (self._dispatcher or self._compiled())(*arguments)

    def _compiled(self) -> Callable[..., Any]:
        with _LOCK:
            if self._dispatcher is None:
                self._dispatcher = (_twin if self.twin else _dispatcher)(self.function)
                _LOADED[:] = [True]
        if not self.twin:
            _look_before_sleep()
        return self._dispatcher

    @property
    def signatures(self) -> list[Any]:
        """Argument types compiled so far in this process."""
        return list(getattr(self._dispatcher, "signatures", ()))


def kernel(function: Callable[..., Any]) -> Kernel:
    """Mark `function` as a kernel (decorator)."""
    return Kernel(function)


class Part:
    """A function that kernels call: compiled with each of them, and kept with none."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __call__(self, *arguments: Any) -> Any:
        """As part of a kernel; the name is replaced before that is compiled."""
        raise TypeError(f"{self.__name__} is a part of kernels and cannot be called by itself")


def part(function: Callable[..., Any]) -> Part:
    """Mark `function` as a part of kernels (decorator)."""
    return Part(function)


def twin(function: Callable[..., Any]) -> Kernel:
    """The compiled twin of a function that also runs as it stands.

    Functions of its package that it calls are compiled with it; one with an attribute `compiled` is
    replaced by that function, or by the intrinsic of that name. Floats are rounded as Python rounds them.
    """
    function.is_door = True  # type: ignore[attr-defined]
    return Kernel(function, twin=True)


_PAUSES: list[
    bool
] = []  # one for each thread within `collected_later`; whether garbage was collected


@contextmanager
def collected_later() -> Iterator[None]:
    """Collect no garbage while many functions are compiled.

    Compilers make some 100 MB of objects that stay alive and are looked through again and again: a tenth
    of the time.
    """
    with _LOCK:
        _PAUSES.append(gc.isenabled() or any(_PAUSES))
        gc.disable()
    try:
        yield
    finally:
        with _LOCK:
            if _PAUSES.pop() and not _PAUSES:
                gc.enable()


_GENERATED: Cache[Kernel] = Cache("generated kernels", 512)


def generated(source: str) -> Kernel:
    """The kernel `fused` that this text defines, kept as a file of the user's cache folder.

    The text at hand is what gets compiled: the file is there to be read, by people and by tracebacks,
    and is written anew wherever it differs.
    """
    return _GENERATED.get(source) or _GENERATED.put(source, Kernel(_defined(source), source))


def _defined(source: str) -> Callable[..., None]:
    import hashlib

    name = f"fused_{hashlib.sha256(source.encode()).hexdigest()[:20]}"
    file = cache_dir() / "generated" / f"{name}.py"
    try:
        _private_folder("generated")
        _write_atomically(file, source)
    except OSError as error:
        log.warning("generated kernels are not kept on disk: %s", error)
    names: dict[str, Any] = {"__name__": __name__}  # a module that exists: numba looks it up
    exec(compile(source, os.fspath(file), "exec"), names)
    function: Callable[..., None] = names["fused"]
    function.__name__ = function.__qualname__ = name
    return function


def _write_atomically(file: Path, text: str) -> None:
    try:
        if file.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    draft = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
    draft.write_text(text, encoding="utf-8")
    os.replace(draft, file)


def _dispatcher(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    function = _completed(function)
    # contract: a*b+c may become one fused operation; no other liberty with rounding is taken
    dispatcher = numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)
    try:
        _private_folder("kernels")
        dispatcher._cache = _disk_cache()(function)
    except (OSError, RuntimeError) as error:
        log.warning("compiled kernels are not kept on disk: %s", error)
    return dispatcher


def _completed(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with the intrinsics and the compiled parts that it names."""
    from .kernels.vectors import intrinsics

    names = function.__globals__
    for name, value in _once(intrinsics).items():  # a kernel's file declares those that it uses
        if name in function.__code__.co_names and names.get(name) is None:
            names[name] = value
    parts = {
        name: _part(value)
        for name in function.__code__.co_names
        if isinstance(value := names.get(name), Part)
    }
    if not parts or not isinstance(function, FunctionType):
        return function
    copy = FunctionType(function.__code__, names | parts, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


@cache
def _part(part: Part) -> Callable[..., Any]:
    import numba

    function = _completed(part.function)
    return numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)


@cache
def _twin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled functions are shared by all that call them: nothing is compiled twice."""
    import numba

    from .kernels.vectors import intrinsics

    instead = getattr(function, "compiled", function)
    if isinstance(instead, str):
        return _once(intrinsics)[instead]
    package = instead.__module__.rpartition(".")[0]
    names = dict(instead.__globals__)
    for instruction in dis.get_instructions(instead):
        name = instruction.argval
        value = names.get(name) if instruction.opname == "LOAD_GLOBAL" else None
        if isinstance(value, FunctionType) and value.__module__.startswith(package):
            names[name] = _apart(value) if is_apart(value) else _twin(value)
    copy = FunctionType(instead.__code__, names, instead.__name__, instead.__defaults__)
    copy.__module__, copy.__qualname__ = instead.__module__, instead.__qualname__
    # what Python never calls needs no wrapper for it: parsing and optimising these takes as long as the rest
    wrappers = {
        "no_cfunc_wrapper": True,
        "no_cpython_wrapper": not getattr(function, "is_door", False),
    }
    dispatcher = numba.njit(nogil=True, error_model="numpy", **wrappers)(copy)
    with_types(function, dispatcher)
    try:
        _private_folder("kernels")
        dispatcher._cache = _disk_cache()(dispatcher.py_func)
    except (OSError, RuntimeError) as error:
        log.warning("compiled kernels are not kept on disk: %s", error)
    return dispatcher


@cache
def _apart(function: Callable[..., Any]) -> Any:
    """What stands for a function in those that call it at its address."""
    return called(function, _twin(function))


@cache
def _look_before_sleep() -> None:
    """Give the pool its kernel for waiting, now that something is compiled anyway."""
    if not hasattr(os, "sched_yield"):
        return
    import numpy as np

    from .kernels.wait import watch
    from .threads import spin_with

    try:
        with _LOCK:
            dispatcher = watch._dispatcher = _dispatcher(watch.function)
        dispatcher(np.zeros(1, np.int64), 0, 1, 0)
    except Exception as error:  # the kernel that was asked for is none the worse for it
        log.warning("threads that wait go to sleep at once: %s", error)
    else:
        spin_with(dispatcher)


@cache
def _once(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return make()


def _private_folder(name: str) -> None:
    """Make a folder of kernels; refuse one that others can write, since code is loaded from it."""
    for folder in (cache_dir(), cache_dir() / name):  # mkdir gives its mode to no parent
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
        if hasattr(os, "getuid") and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            raise OSError(
                f"{folder} belongs to others or can be written by them; make it mode 0700"
            )


@cache
def _disk_cache() -> type[Any]:
    """numba's own disk cache, but in our folder and stamped by all that a kernel depends on."""
    import uuid

    from numba.core import caching

    class Locator(caching._CacheLocator):  # type: ignore[misc]
        def __init__(self, function: Callable[..., None]) -> None:
            self._py_file = function.__code__.co_filename
            self._module = function.__module__
            self._name = f"{function.__module__}.{function.__qualname__}"
            self._stamp = source_stamp(self._folder())  # reads all sources: once for each kernel

        def get_cache_path(self) -> str:
            return os.fspath(cache_dir() / "kernels")

        def get_source_stamp(self) -> str:
            return self._stamp

        def get_disambiguator(self) -> str:  # the name of a generated kernel is that of its text
            return self._stamp[:12]

        def _folder(self) -> Path | None:
            """Whose files count beside ours: those beside the function, unless they are ours."""
            if self._module.startswith(__name__.rpartition(".")[0]):
                return None
            return Path(self._py_file).parent

        @classmethod
        def from_function(cls, function: Callable[..., None], file: str) -> Any:
            locator = cls(function)
            locator.ensure_cache_path()
            return locator

    class Impl(caching.CompileResultCacheImpl):  # type: ignore[misc]
        _locator_classes = (Locator,)

    class Files(caching.IndexDataCacheFile):  # type: ignore[misc]
        """Code of each signature in a file of its own name, which stands before the index names it.

        numba numbers these files: two processes that compile other signatures of a kernel at the same time
        would write one file, and the index of one of them name the code of the other.
        """

        def save(self, key: Any, data: Any) -> None:
            name = self._data_name_pattern.replace("{number:d}", uuid.uuid4().hex)
            self._save_data(name, data)
            self._save_index({**self._load_index(), key: name})

    class DiskCache(caching.FunctionCache):  # type: ignore[misc]
        _impl_class = Impl

        def __init__(self, function: Callable[..., None]) -> None:
            super().__init__(function)
            stamp = self._impl.locator.get_source_stamp()
            self._cache_file = Files(self._cache_path, self._impl.filename_base, stamp)

    return DiskCache


def source_stamp(beside: Path | None = None) -> str:
    """What compiled kernels depend on: their sources and this file's, einloom, numba, llvmlite.

    And those of another folder. The CPU is in numba's own key.
    """
    import hashlib

    import llvmlite
    import numba

    digest = hashlib.sha256(f"{_version()} {numba.__version__} {llvmlite.__version__}".encode())
    here = Path(__file__)
    for file in sorted(
        [
            here,
            here.with_name("apart.py"),
            *(here.parent / "kernels").rglob("*.py"),
            *(beside.glob("*.py") if beside else ()),
        ]
    ):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def _version() -> str:
    from importlib import import_module

    package = __name__.partition(".")[0]
    return str(import_module(package).__version__)


def _compiler_lock() -> Any:
    """numba's own lock, once it is loaded: a thread that compiles holds it."""
    module = sys.modules.get("numba.core.compiler_lock")
    return None if module is None else module.global_compiler_lock


_HELD: list[Any] = []


def _before_fork() -> None:
    """Wait until nobody compiles: the child would find numba's lock held by a thread it has not."""
    lock = _compiler_lock()
    if lock is not None:
        lock.acquire()
        _HELD.append(lock)


def _after_fork() -> None:
    while _HELD:
        _HELD.pop().release()


def _renew_lock() -> None:
    """In the child of a fork: another thread may have held it."""
    global _LOCK
    _LOCK = threading.Lock()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_renew_lock
    )
