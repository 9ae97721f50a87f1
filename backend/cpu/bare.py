"""Kernels that are kept on disk, called without numba.

Importing numba and having it load a kernel takes half a second, of which machine code needs nothing. So a
kernel is compiled with one more function around it, its entry (`entries`), and its code is kept in a second
file: LLVM alone links that, within milliseconds. The code is the same, and so are its results, bit for bit.

An entry is called with one word for each argument: an integer, a float's bits, or where an array's object is,
of which it reads what it is, where its elements lie and how many there are. That takes a microsecond or two
more than a call by numba, which therefore takes over after `MOST_CALLS`; and wherever there is no file.
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
from .kernel_files import private_folder, stamp_of

MOST_CALLS = 200_000  # what they take more in all is half of what importing numba takes
SLOW = 5  # of these is a call whose arguments must be looked at here
MAGIC = b"einloom kernel\n"
USED = 0x501  # flags of an array that count: contiguous, aligned, writeable
CONTIGUOUS, WRITEABLE = 0x101, 0x400
SCALARS = {bool: "?", int: "q", float: "d", np.int64: "q", np.float64: "d"}
RESULTS: dict[str, Any] = {
    "none": None, "bool": ctypes.c_bool, "int64": ctypes.c_int64, "float64": ctypes.c_double,
}  # fmt: skip
"""Where an entry writes what the kernel returns."""
STAMP = 12  # of its digits in the name of a file
APART = "apart"  # in place of letters: code that other code calls at its address
WORD = "q"
DATA, NDIM, SHAPE, STRIDES, DTYPE, FLAGS = (
    object.__basicsize__ + 8 * k for k in (0, 1, 2, 3, 5, 6)
)
"""Where in an array's object these stand: NumPy's `PyArrayObject_fields`, part of its binary interface."""
TYPE = DATA - 8
DONE, NO_MEMORY, OTHER_KINDS = range(3)  # what entries return
REFUSED = object()

Kinds = tuple[Any, ...]
_LOCK = threading.RLock()
_calls = 0  # a lost addition does no harm


class Entry(NamedTuple):
    """A kernel for arguments of certain kinds.

    expected: where the type of arrays and the dtype of each are, which the entry compares.
    dtypes: these; where equal ones are several objects, as in arrays that were pickled, the last seen.
    """

    run: Callable[[bytes, Any, bytes], int]
    pack: Callable[..., bytes]
    are_arrays: tuple[bool, ...]
    result: Any
    only_integers: bool  # besides arrays
    dtypes: tuple[Any, ...] = ()
    expected: bytes = b""

    def expecting(self, arguments: Sequence[Any]) -> Entry:
        """The same for arrays with the very dtypes of these."""
        dtypes = tuple(x.dtype for x in arguments if type(x) is np.ndarray)
        places = [id(np.ndarray), *map(id, dtypes)]
        expected = struct.pack(f"@{len(places)}{WORD}", *places)
        return self._replace(dtypes=dtypes, expected=expected)

    def call(self, arguments: Sequence[Any]) -> Any:
        """What the kernel returns; REFUSED where the arguments are of other kinds."""
        try:
            words = self.pack(
                *[id(x) if is_ else x for is_, x in zip(self.are_arrays, arguments, strict=True)]
            )
        except (struct.error, ValueError):
            return REFUSED
        if self.result is None:
            code, result = self.run(words, None, self.expected), None
        else:
            written = self.result()
            code = self.run(words, ctypes.byref(written), self.expected)
            result = written.value
        if code == DONE:
            return result
        if code == OTHER_KINDS:
            return REFUSED
        raise MemoryError("a compiled kernel found no memory for arrays of its own")


class Entries:
    """Those of one kernel, loaded when they are asked for."""

    def __init__(self, function: FunctionType) -> None:
        self.function = function
        self.known: dict[Kinds, Entry | None] = {}
        self.last: Entry | None = None

    def call(self, arguments: Sequence[Any]) -> Any:
        """What the kernel returns; REFUSED where numba is to be asked."""
        global _calls
        _calls += 1
        if _calls > MOST_CALLS:
            return REFUSED
        if self.last is not None:
            result = self.last.call(arguments)
            if result is not REFUSED:
                return result
        _calls += SLOW
        entry = self.find(arguments)
        if entry is None:
            return REFUSED
        # an integer in place of a float is seen by no entry
        self.last = entry if entry.only_integers else None
        return entry.call(arguments)

    def find(self, arguments: Sequence[Any]) -> Entry | None:
        """The one for such arguments."""
        kinds = kinds_of(arguments)
        if kinds not in self.known:
            with _LOCK:
                if kinds not in self.known:
                    self.known[kinds] = self._loaded(kinds)
        entry = self.known[kinds]
        return entry and entry.expecting(arguments)

    def _loaded(self, kinds: Kinds) -> Entry | None:
        if not (get_options().bare and _is_possible()):
            return None
        letters = letters_of(kinds)
        return _entry(self.function, letters, kinds) if letters else None


def has_begun() -> bool:
    """Whether an entry was loaded in this process."""
    return bool(_linker.cache_info().currsize)


def are_kept() -> bool:
    """Whether there are kernels on disk that would be loaded without numba."""
    return get_options().bare and _is_possible() and _are_in(cache_dir() / "kernels")


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
            if not dtype.isnative or dtype.hasobject or flags & CONTIGUOUS != CONTIGUOUS:
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

    if function.__closure__:
        return None
    code, stamp = function.__code__, stamp_of(function)
    facts = (stamp, _processor(), _settings(), letters, code.co_names, code.co_code.hex())
    digest = hashlib.sha256(repr(facts).encode()).hexdigest()[:32]
    name = f"{function.__module__}.{function.__qualname__}".replace("<locals>", "locals")
    return cache_dir() / "kernels" / f"{name}-{stamp[:STAMP]}-{digest}.code"


def keep(function: FunctionType, letters: str, facts: dict[str, Any], *images: bytes) -> None:
    """Write the file of a kernel's code.

    facts: "symbol" that it has; "result" of its entry; "calls", the symbols of what is set apart.
    images: the objects that are linked.
    """
    file = file_of(function, letters)
    if file is None:
        return
    facts = {**facts, "letters": letters, "sizes": [len(image) for image in images]}
    body = json.dumps(facts).encode() + b"\n" + b"".join(images)
    draft = file.with_suffix(f".{os.getpid()}-{threading.get_ident()}.tmp")
    draft.write_bytes(MAGIC + b"%d\n" % zlib.crc32(body) + body)
    os.replace(draft, file)


def _read(file: Path) -> tuple[dict[str, Any], bytes]:
    private_folder("kernels")
    text = file.read_bytes()
    if not text.startswith(MAGIC):
        raise ValueError("it is no kernel's")
    check, _, body = text[len(MAGIC) :].partition(b"\n")
    if zlib.crc32(body) != int(check):
        raise ValueError("it is damaged")
    header, _, images = body.partition(b"\n")
    return json.loads(header), images


# ---- linking ----------------------------------------------------------------------------------

_LIBRARIES: list[Any] = []  # code that is let go is unmapped
_NUMBERS = count()  # a name is used up by a library that fails, too
_ADDRESSES: dict[str, int | None] = {}  # of functions that are set apart


def _entry(function: FunctionType, letters: str, kinds: Kinds) -> Entry | None:
    linked = _linked(function, letters)
    if linked is None:
        return None
    facts, address = linked
    pointer = ctypes.c_char_p
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, pointer, ctypes.c_void_p, pointer)
    words = "".join(x if x == "d" else WORD for x in letters.split(" "))
    arrays = tuple(isinstance(kind, tuple) for kind in kinds)
    pack, result = struct.Struct(f"@{words}").pack, RESULTS[facts["result"]]
    return Entry(kind(address), pack, arrays, result, "d" not in words)


def _linked(function: FunctionType, letters: str) -> tuple[dict[str, Any], int] | None:
    """What is known of a file of code, and the address of its function; None where there is none."""
    file = file_of(function, letters)
    if file is None:
        return None
    try:
        facts, images = _read(file)
        addresses = {symbol: _address(symbol) for symbol in facts["calls"]}
        if None in addresses.values():
            return None
        return facts, _library(facts, images, addresses)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, AttributeError) as error:
        log.warning("%s is not used: %s", file, error)
        return None


def _address(symbol: str) -> int | None:
    """Of the function of this name that is set apart, linked before any that calls it.

    Functions that are set apart call each other five deep or so.
    """
    if symbol not in _ADDRESSES:
        module, _, name = symbol.rpartition(".")
        function = getattr(import_module(module), name)
        linked = _linked(getattr(function, "compiled", function), APART)
        _ADDRESSES[symbol] = None if linked is None else linked[1]
    return _ADDRESSES[symbol]


def _library(facts: dict[str, Any], images: bytes, addresses: dict[str, Any]) -> int:
    from llvmlite import binding

    builder = binding.JITLibraryBuilder().add_current_process().export_symbol(facts["symbol"])
    for symbol, address in addresses.items():
        builder.import_symbol(symbol, address)
    start = 0
    for size in facts["sizes"]:
        builder.add_object_img(images[start : start + size])
        start += size
    library = builder.link(_linker(), f"kernel {next(_NUMBERS)}")
    _LIBRARIES.append(library)
    return int(library[facts["symbol"]])


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
def _processor() -> tuple[str, ...]:
    from llvmlite import binding

    features = binding.get_host_cpu_features().flatten()
    return binding.get_process_triple(), binding.get_host_cpu_name(), features


@cache
def _settings() -> tuple[Any, ...]:
    """What else decides the code that numba makes."""
    settings = sorted(x for x in os.environ.items() if x[0].startswith("NUMBA_"))
    return sys.implementation.cache_tag, getattr(sys, "abiflags", ""), *settings


@cache
def _is_possible() -> bool:
    """Whether arrays are laid out as entries read them, and nobody asked numba for other code."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0" or Path(".numba_config.yaml").exists():
        return False
    x = np.zeros((2, 3), np.int16)
    read, number = ctypes.c_void_p.from_address, ctypes.c_int.from_address

    def pair(place: int) -> tuple[int, ...]:
        return tuple((ctypes.c_ssize_t * 2).from_address(read(place).value or 0))

    return (
        sys.implementation.name == "cpython"
        and ctypes.sizeof(ctypes.c_void_p) == 8
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
