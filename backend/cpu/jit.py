"""The one door to numba: kernels compile on first call and are kept in the user's cache folder.

`kernel` marks a function of flat buffers, strides and offset tables. Nothing is imported or compiled
until it is called. What is compiled is kept on disk (`kernel_files`).
"""

from __future__ import annotations

import dis
import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any

from ..._base.caches import Cache
from ..._base.log import log
from ..._base.options import cache_dir
from . import bare
from .apart import call_of, is_apart, symbol_of, with_types
from .kernel_files import Uses, disk_cache, no_cache, private_folder, write_at_once

_LOCK = threading.RLock()
_LOADED: list[bool] = []  # one element once a kernel was asked of numba in this process


def is_loaded() -> bool:
    """Whether a kernel of ours was loaded or compiled, so that others come soon."""
    return bool(_LOADED) or bare.has_begun()


class NotKept(Exception):
    """A kernel is not kept on disk, and was not to be compiled."""


_here = threading.local()  # .kept_only is set within it


@contextmanager
def kept_only() -> Iterator[None]:
    """Within it this thread compiles nothing: `NotKept` where it would have to.

    Others do, also for it, so that it is to work alone; and a kernel that numba was asked for once in this
    process is compiled for other arguments, too.
    """
    before, _here.kept_only = getattr(_here, "kept_only", False), True
    try:
        yield
    finally:
        _here.kept_only = before


class Kernel:
    """A function compiled by numba at its first call; it releases the GIL.

    Code that is kept on disk is called without numba for as long as no other is needed.
    """

    def __init__(self, function: Callable[..., Any], source: str = "", twin: bool = False) -> None:
        self.function, self.source, self.twin = function, source, twin
        self._dispatcher: Callable[..., Any] | None = None
        self._entries = bare.Entries(function)  # type: ignore[arg-type]
        self.__doc__, self.__name__ = function.__doc__, function.__name__

    def __call__(self, *arguments: Any) -> Any:
        dispatcher = self._dispatcher
        if dispatcher is None:
            result = self._entries.call(arguments)
            if result is not bare.REFUSED:
                if not self.twin:
                    _look_before_sleep_barely()
                return result
            dispatcher = self._compiled()
        return dispatcher(*arguments)

    def _compiled(self) -> Callable[..., Any]:
        if getattr(_here, "kept_only", False):
            raise NotKept(self.__name__)
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
    assert not hasattr(function, "compiled"), "what Python calls is compiled itself"
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
        private_folder("generated")
        _write_where_it_differs(file, source)
    except OSError as error:
        log.warning("generated kernels are not kept on disk: %s", error)
    names: dict[str, Any] = {"__name__": __name__}  # a module that exists: numba looks it up
    exec(compile(source, os.fspath(file), "exec"), names)
    function: Callable[..., None] = names["fused"]
    function.__name__ = function.__qualname__ = name
    return function


def _write_where_it_differs(file: Path, text: str) -> None:
    try:
        if file.read_text(encoding="utf-8") == text:
            return
    except (OSError, UnicodeDecodeError):
        pass
    write_at_once(file, text.encode())


def _dispatcher(function: Callable[..., Any]) -> Callable[..., Any]:
    import numba

    from . import entries

    function = _own(function)
    # contract: a*b+c may become one fused operation; no other liberty with rounding is taken
    dispatcher = numba.njit(
        nogil=True, error_model="numpy", fastmath={"contract"}, **entries.how()
    )(function)
    uses = Uses(partial(_complete, function), facts=partial(entries.facts_of, is_apart=False))
    return _kept(dispatcher, function, uses)


def _kept(dispatcher: Any, function: Callable[..., Any], uses: Uses) -> Any:
    """`dispatcher` with our cache on disk."""
    if dispatcher is function:  # NUMBA_DISABLE_JIT: it runs as it stands
        uses.complete()
        return function
    try:
        private_folder("kernels")
        dispatcher._cache = disk_cache()(function, uses)
    except (OSError, RuntimeError) as error:
        log.warning("compiled kernels are not kept on disk: %s", error)
        dispatcher._cache = no_cache()(uses)
    return dispatcher


def _own(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with global names of its own, some of which stand for others once it is compiled."""
    copy = FunctionType(
        function.__code__,
        {**function.__globals__},
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy


def _complete(function: Callable[..., Any]) -> None:
    """Give such a function the intrinsics and the compiled parts that it names."""
    from .kernels.vectors import intrinsics

    names, made = function.__globals__, _once(intrinsics)
    for name in function.__code__.co_names:
        value = names.get(name)
        if name in made and value is None:  # a kernel's file declares those that it uses
            names[name] = made[name]
        elif isinstance(value, Part):
            names[name] = _part(value)


@cache
def _part(part: Part) -> Callable[..., Any]:
    import numba

    function = _own(part.function)
    _complete(function)
    return numba.njit(nogil=True, error_model="numpy", fastmath={"contract"})(function)


def _twin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled functions are shared by all that call them: nothing is compiled twice."""
    with _LOCK:
        return _made_twin(function)


@cache
def _made_twin(function: Callable[..., Any]) -> Callable[..., Any]:
    """Nothing is compiled here: who compiles holds numba's lock, and may wait for ours."""
    import numba

    from . import entries

    instead = _instead(function)
    if isinstance(instead, str):
        from .kernels.vectors import intrinsics

        return _once(intrinsics)[instead]
    copy, is_door = _own(instead), getattr(function, "is_door", False)
    # what Python never calls needs no wrapper for it: parsing and optimising these takes as long as the rest
    wrappers = {"no_cfunc_wrapper": not is_door, "no_cpython_wrapper": not is_door}
    dispatcher = numba.njit(nogil=True, error_model="numpy", **wrappers, **entries.how())(copy)
    with_types(function, dispatcher)

    uses = Uses(
        partial(_call_twins, copy), partial(_link, instead), not is_apart(function),
        partial(entries.facts_of, is_apart=is_apart(function)),
    )  # fmt: skip
    return _kept(dispatcher, copy, uses)


def _call_twins(function: Callable[..., Any]) -> None:
    """Let such a function call the compiled twins of those that it calls."""
    for name, called in _callees(function).items():
        function.__globals__[name] = _apart(called) if is_apart(called) else _twin(called)


def _callees(function: Callable[..., Any]) -> dict[str, FunctionType]:
    """Functions of its package that it calls, by name."""
    package = function.__module__.rpartition(".")[0]
    found: dict[str, FunctionType] = {}
    for instruction in dis.get_instructions(function):
        name = instruction.argval
        value = function.__globals__.get(name) if instruction.opname == "LOAD_GLOBAL" else None
        if isinstance(value, FunctionType) and value.__module__.startswith(package):
            found[name] = value
    return found


@cache
def _link(function: Callable[..., Any]) -> None:
    """Register the addresses of the apart functions that its code calls, or code that is inlined into it."""
    found, seen = [function], set[Any]()
    while found:
        for called in _callees(found.pop()).values():
            instead = _instead(called)
            if instead is function:
                raise TypeError(f"{function.__name__} calls itself, which no compiled twin can")
            if is_apart(called):
                _address(called)
            elif called not in seen:
                seen.add(called)
                if isinstance(instead, FunctionType):
                    found.append(instead)


def _instead(function: Callable[..., Any]) -> Any:
    """What is compiled for it: itself, another function, or the intrinsic of this name."""
    return getattr(function, "compiled", function)


@cache
def _address(function: Callable[..., Any]) -> str:
    """The symbol of a function that is set apart, compiled or loaded."""
    return symbol_of(function, _twin(function))


@cache
def _apart(function: Callable[..., Any]) -> Any:
    """What stands for a function in those that call it at its address."""
    return call_of(function, _address(function))


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
def _look_before_sleep_barely() -> None:
    """The same without numba, if the kernel for waiting is kept."""
    if not hasattr(os, "sched_yield"):
        return
    import numpy as np

    from .kernels.wait import watch
    from .threads import spin_with

    looks = (np.zeros(1, np.int64), 0, 1, 0)
    entry = watch._entries.find(looks) if watch._dispatcher is None else None
    if entry is not None:
        run, expected = entry.run, entry.expected
        spin_with(lambda number, *rest: run((number, *map(int, rest)), expected))


@cache
def _once(make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    return make()


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
    _LOCK = threading.RLock()
    _after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_renew_lock
    )
