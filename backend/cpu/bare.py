"""Kernels that are kept on disk, called without numba.

Importing numba and having it load a kernel takes half a second, of which machine code needs nothing. So a
kernel is compiled with one more function around it, its entry (`entries`), and its code is kept in a second
file, which is linked without numba (`objects`), within a millisecond. The code is the same, and so are its
results, bit for bit.

An entry is called with the arguments in a tuple. It compares their types, and of arrays the dtype, rank and
flags, with those that it is made for, and takes as long as a call by numba. Where one differs, the entry for
such arguments is looked for here, which takes some microseconds: after `MOST_LOOKS` numba takes over, as it
does where there is no file, or where anything fails.
"""

from __future__ import annotations

import ctypes
import json
import os
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from itertools import count
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from ..._base.log import log
from ..._base.options import cache_dir, get_options
from ..processor import identity
from . import objects
from .kernel_files import private_folder, stamp_of, write_at_once

MOST_LOOKS = 50_000  # what they take in all is half of what importing numba takes
MAGIC = b"einloom kernel\n"
USED = 0x501  # flags of an array that count: contiguous, aligned, writeable
CONTIGUOUS, WRITEABLE = 0x101, 0x400
NUMBERS = "biufc"  # kinds of dtypes that their text tells apart
SCALARS = {bool: "?", int: "q", float: "d", np.int64: "q", np.float64: "d"}
STAMP = 12  # of its digits in the name of a file
APART = "apart"  # in place of letters: code that other code calls at its address
HEAD = object.__basicsize__  # of any object; its type comes last in it
TYPE, LENGTH, ITEMS = HEAD - 8, HEAD, tuple.__basicsize__
DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = (HEAD + 8 * k for k in (0, 1, 2, 3, 5, 6))
"""Where in an array's object these stand: NumPy's `PyArrayObject_fields`, part of its binary interface."""
REFUSED = object()

Kinds = tuple[Any, ...]
_LOCK = threading.RLock()
_looks = 0  # a lost addition does no harm


class Entry(NamedTuple):
    """A kernel for arguments of certain kinds.

    run: run(arguments, expected) is what the kernel returns; REFUSED where the arguments are of other kinds.
    dtypes: of arrays; where equal ones are several objects, as in arrays that were pickled, the last seen.
    expected: where what is returned, and what the arguments are compared with, is in memory.
    """

    run: Callable[[tuple[Any, ...], bytes], Any]
    types: tuple[type, ...]
    dtypes: tuple[Any, ...] = ()
    expected: bytes = b""

    def expecting(self, kinds: Kinds) -> Entry:
        """The same for arrays with the very dtypes of these."""
        dtypes = tuple(kind[0] for kind in kinds if isinstance(kind, tuple))
        places = [id(x) for x in (REFUSED, None, *self.types, *dtypes)]
        return self._replace(dtypes=dtypes, expected=struct.pack(f"@{len(places)}q", *places))


class Entries:
    """Those of one kernel, loaded when they are asked for."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.known: dict[Kinds, Entry | None] = {}
        self.last: Entry | None = None

    def call(self, arguments: tuple[Any, ...]) -> Any:
        """What the kernel returns; REFUSED where numba is to be asked."""
        last = self.last
        if last is not None:
            result = last.run(arguments, last.expected)
            if result is not REFUSED:
                return result
        global _looks
        _looks += 1
        self.last = entry = self.find(arguments) if _looks <= MOST_LOOKS else None
        return REFUSED if entry is None else entry.run(arguments, entry.expected)

    def find(self, arguments: Sequence[Any]) -> Entry | None:
        """The one for such arguments; what `options.bare` says counts when they are first seen."""
        if not get_options().bare:
            return None
        kinds = kinds_of(arguments)
        if kinds not in self.known:
            with _LOCK:
                if kinds not in self.known:
                    self.known[kinds] = self._loaded(kinds)
        entry = self.known[kinds]
        return entry and entry.expecting(kinds)

    def _loaded(self, kinds: Kinds) -> Entry | None:
        try:
            return _entry(self.function, letters_of(kinds), kinds) if is_possible() else None
        except FileNotFoundError:
            return None
        except Exception as error:  # whatever it is, numba does the work
            log.warning("%s is not called without numba: %s", self.function.__qualname__, error)
            return None


def has_begun() -> bool:
    """Whether code was linked in this process."""
    return bool(_LIBRARIES)


def are_kept() -> bool:
    """Whether there are kernels on disk that would be loaded without numba."""
    try:
        return get_options().bare and is_possible() and _are_in(cache_dir() / "kernels")
    except Exception:  # no folder, no sources to tell versions by
        return False


@cache
def _are_in(folder: Path) -> bool:
    return any(True for _ in folder.glob(f"*-{stamp_of(are_kept)[:STAMP]}-*.code"))


def kinds_of(arguments: Sequence[Any]) -> Kinds:
    """What decides the machine code that such arguments need."""
    return tuple(
        [
            (x.dtype, x.ndim, x.flags.num & USED) if type(x) is np.ndarray else type(x)
            for x in arguments
        ]
    )


def letters_of(kinds: Kinds) -> str:
    """The same as a text, "" where entries do not take such arguments.

    >>> x = np.zeros((2, 3))
    >>> letters_of(kinds_of((x, x[0].astype(np.int8), 7, True)))
    '<f8:2w |i1:1w q ?'
    >>> letters_of(kinds_of((x.T,)))
    ''
    """
    letters = []
    for kind in kinds:
        if isinstance(kind, tuple):
            dtype, ndim, flags = kind
            if not (dtype.isnative and dtype.kind in NUMBERS and flags & CONTIGUOUS == CONTIGUOUS):
                return ""
            letters.append(array_letters(dtype, ndim, bool(flags & WRITEABLE)))
        elif kind in SCALARS:
            letters.append(SCALARS[kind])
        else:
            return ""
    return " ".join(letters)


def array_letters(dtype: Any, ndim: int, writeable: bool) -> str:
    """What stands for a contiguous array."""
    return f"{dtype.str}:{ndim}{'w' if writeable else 'r'}"


# ---- files ------------------------------------------------------------------------------------


def file_of(function: FunctionType, letters: str) -> Path | None:
    """Where the code for such arguments is kept; None where it cannot be told from other code by a name."""
    import hashlib

    if function.__closure__ or not letters:
        return None
    code, stamp = function.__code__, stamp_of(function)
    text = (code.co_firstlineno, code.co_names, code.co_code.hex())
    python = sys.implementation.cache_tag, getattr(sys, "abiflags", "")
    digest = hashlib.sha256(repr((stamp, identity(), python, letters, text)).encode())
    name = f"{function.__module__}.{function.__qualname__}".replace("<locals>", "locals")
    return cache_dir() / "kernels" / f"{name}-{stamp[:STAMP]}-{digest.hexdigest()[:32]}.code"


class Facts(NamedTuple):
    """What is known of code that is kept.

    letters: what its arguments are, or APART.
    symbol: of its function.
    calls: symbols of functions that are set apart.
    runtime: the object that stands for numba's runtime.
    """

    letters: str
    symbol: str
    calls: list[str]
    runtime: bytes


def keep(function: FunctionType, facts: Facts, code: bytes) -> None:
    """Write the file of a kernel's code, unless it is there."""
    file = file_of(function, facts.letters)
    if file is None or file.exists():
        return
    header = {**facts._asdict(), "runtime": len(facts.runtime)}
    body = json.dumps(header).encode() + b"\n" + facts.runtime + code
    write_at_once(file, MAGIC + b"%d\n" % zlib.crc32(body) + body)


def _read(file: Path) -> tuple[Facts, bytes]:
    """The facts, and the code; a file that is damaged is removed, so that numba writes it anew."""
    text = file.read_bytes()
    private_folder("kernels")
    check, _, body = text.removeprefix(MAGIC).partition(b"\n")
    if not text.startswith(MAGIC) or str(zlib.crc32(body)).encode() != check:
        file.unlink(missing_ok=True)
        raise ValueError(f"{file} is damaged")
    header, _, images = body.partition(b"\n")
    facts = json.loads(header)
    length = facts["runtime"]
    return Facts(**{**facts, "runtime": images[:length]}), images[length:]


# ---- linking ----------------------------------------------------------------------------------

_LIBRARIES: list[int] = []  # addresses of what was linked in this process
_NUMBERS = count()  # a name is used up by a library that fails, too
_ADDRESSES: dict[str, int] = {}  # of functions that are set apart


def _entry(function: FunctionType, letters: str, kinds: Kinds) -> Entry | None:
    file = file_of(function, letters)
    if file is None:
        return None
    _, address = _linked(file)
    # the interpreter's lock is kept: the entry gives it up itself
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_char_p)
    types = tuple(np.ndarray if isinstance(kind, tuple) else kind for kind in kinds)
    return Entry(prototype(address), types)


def _linked(file: Path) -> tuple[Facts, int]:
    """What is known of a file of code, and the address of its function."""
    facts, code = _read(file)
    addresses = {symbol: _address(symbol) for symbol in facts.calls}
    return facts, _library(facts, code, addresses)


def _address(symbol: str) -> int:
    """Of the function of this name that is set apart, linked before any that calls it.

    Functions that are set apart call each other five deep or so.
    """
    if symbol not in _ADDRESSES:
        module, _, name = symbol.rpartition(".")
        function = getattr(import_module(module), name)
        file = file_of(getattr(function, "compiled", function), APART)
        if file is None:
            raise FileNotFoundError(symbol)
        _ADDRESSES[symbol] = _linked(file)[1]
    return _ADDRESSES[symbol]


def _library(facts: Facts, code: bytes, addresses: dict[str, int]) -> int:
    """Link code in memory; the address of its function."""
    try:
        address = objects.placed((facts.runtime, code), facts.symbol, addresses)
    except objects.Unsupported as reason:
        log.debug("%s is left to LLVM: %s", facts.symbol, reason)
        address = 0
    _LIBRARIES.append(address or _library_of_llvm(facts, code, addresses))
    return _LIBRARIES[-1]


def _library_of_llvm(facts: Facts, code: bytes, addresses: dict[str, int]) -> int:
    from llvmlite import binding

    builder = binding.JITLibraryBuilder().add_current_process().export_symbol(facts.symbol)
    for symbol, address in addresses.items():
        builder.import_symbol(symbol, address)
    builder.add_object_img(facts.runtime).add_object_img(code)
    library = builder.link(_linker(), f"kernel {next(_NUMBERS)}")
    objects.keep_for_good(library)  # LLVM unmaps what is let go
    return int(library[facts.symbol])


@cache
def _linker() -> Any:
    from llvmlite import binding

    return binding.create_lljit_compiler(target_machine())


def target_machine() -> Any:
    """LLVM's, for this machine's code."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(), codemodel="jitdefault", jit=True
    )


@cache
def is_possible() -> bool:
    """Whether arrays are laid out as entries read them, and nobody asked numba for other code."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" or os.path.exists(".numba_config.yaml"):
        return False  # runs as it stands, or is compiled as a file says
    x = np.zeros((2, 3), np.int16)
    both = ("", x)
    read, number = ctypes.c_void_p.from_address, ctypes.c_int.from_address

    def pair(place: int, is_here: bool = False) -> tuple[int, ...]:
        return tuple(
            (ctypes.c_ssize_t * 2).from_address(place if is_here else read(place).value or 0)
        )

    return (
        os.name == "posix"  # where whatever a process has loaded can be named
        and sys.implementation.name == "cpython"
        and ctypes.sizeof(ctypes.c_void_p) == 8
        and read(id(both) + LENGTH).value == len(both)
        and pair(id(both) + ITEMS, is_here=True) == (id(both[0]), id(x))
        and read(id(x) + TYPE).value == id(np.ndarray)
        and read(id(x) + DATA).value == x.ctypes.data
        and number(id(x) + NDIM).value == x.ndim
        and pair(id(x) + SHAPE) == x.shape
        and pair(id(x) + STRIDES) == x.strides
        and read(id(x) + DTYPE).value == id(np.dtype(np.int16))
        and number(id(x) + FLAGS).value == x.flags.num
    )


def _renew_lock() -> None:
    """In the child of a fork: another thread may have held it."""
    global _LOCK
    _LOCK = threading.RLock()


def before_fork() -> None:
    """Wait until nobody links."""
    _LOCK.acquire()


def after_fork() -> None:
    """In the parent: on with it."""
    _LOCK.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=before_fork, after_in_parent=after_fork, after_in_child=_renew_lock)
