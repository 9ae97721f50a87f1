"""Object files, put in memory and bound to what they name: a linker for kernels.

LLVM links code of every kind, but importing it takes a twentieth of a second, longer than most first calls.
Kernels for x86-64 are compiled for code that may lie anywhere, so each place that names something holds a
whole address, and addresses are all that is filled in here. What needs more is refused (`Unsupported`), for
LLVM to link.

What is left out: tables for unwinding, which only code that throws exceptions of C++ would need, and
debuggers and profilers, to see who called a kernel.

Sources: System V Application Binary Interface, chapter 4 (sections, symbols, relocation), and its supplement
for AMD64 (R_X86_64_64: the symbol's address plus the addend).
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

BEGINNING = b"\x7fELF\x02\x01\x01"  # 64 bits, little-endian
RELOCATABLE, AMD64 = 1, 62
ADDRESS = 1  # R_X86_64_64
PROGRAM, SYMBOLS, RELOCATIONS, NOTE, EMPTY, UNWINDING = 1, 2, 4, 7, 8, 0x70000001
ASIDE = {
    0,
    3,
    17,
}  # no section, names, groups of sections; and whatever LLVM notes for its own tools:
OF_LLVM = range(0x6FFF4C00, 0x6FFF4D00)
WRITEABLE, IN_MEMORY, OF_THREADS = 1, 2, 0x400
DATA = {0, 1, 2, 3, 4}  # types of symbols: none, data, function, section, file
UNDEFINED, RESERVED, ABSOLUTE, COMMON = 0, 0xFF00, 0xFFF1, 0xFFF2
LOCAL, WEAK = 0, 2
HEADER = struct.Struct("<16xHH20xQ10xHH2x")
SECTION = struct.Struct("<4xIQ8xQQIIQ8x")
SYMBOL = struct.Struct("<IBxHqq")
RELOCATION = np.dtype([("place", "<i8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
BYTES = np.arange(8)
NOWHERE = -1
LINE = 64  # bytes of a cache line, to which common variables are aligned


@cache
def are_linked_here() -> bool:
    """Whether kernels of this machine are such objects, and LLVM is not needed."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


class Unsupported(ValueError):
    """An object file that this cannot link."""


class _Section(NamedTuple):
    type: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int

    @property
    def is_needed(self) -> bool:
        """Whether code that runs needs it."""
        return bool(self.flags & IN_MEMORY) and self.type != UNWINDING

    @property
    def is_known(self) -> bool:
        """Whether this linker does all that such a section asks for."""
        if self.is_needed:
            types = {PROGRAM, NOTE, EMPTY}
            is_plain = not self.flags & OF_THREADS and self.align <= mmap.PAGESIZE
            return self.type in types and is_plain
        known = {PROGRAM, SYMBOLS, RELOCATIONS, NOTE, EMPTY, UNWINDING, *ASIDE}
        return self.type in known or self.type in OF_LLVM


class _Symbol(NamedTuple):
    name: str
    binding: int
    section: int
    value: int
    size: int


class _Object:
    """One file: its sections, its symbols, and where they are once they have a place."""

    def __init__(self, image: bytes) -> None:
        if not image.startswith(BEGINNING):
            raise Unsupported("not an object file of 64 bits")
        kind, machine, start, size, count = HEADER.unpack_from(image)
        if (kind, machine, size) != (RELOCATABLE, AMD64, SECTION.size):
            raise Unsupported("not relocatable code for x86-64")
        self.image = image
        self.sections = [
            _Section._make(SECTION.unpack_from(image, start + k * size)) for k in range(count)
        ]
        if not all(s.is_known for s in self.sections):
            raise Unsupported("sections of a special kind")
        self.symbols = [x for s in self.sections if s.type == SYMBOLS for x in self._symbols(s)]
        self.starts = [NOWHERE] * count  # of sections, in memory
        self.addresses = [NOWHERE] * len(self.symbols)

    def content(self, section: _Section) -> bytes:
        return self.image[section.offset : section.offset + section.size]

    def _symbols(self, section: _Section) -> Iterator[_Symbol]:
        names = self.content(self.sections[section.link])
        for name, info, *rest in SYMBOL.iter_unpack(self.content(section)):
            if info & 15 not in DATA:
                raise Unsupported("symbols of a special kind")
            yield _Symbol(names[name : names.index(b"\0", name)].decode(), info >> 4, *rest)

    def relocations(self) -> Iterator[tuple[int, Any]]:
        """Where a section begins in memory, and the places in it that hold addresses."""
        for section in self.sections:
            start = self.starts[section.info] if section.type == RELOCATIONS else NOWHERE
            if start != NOWHERE:
                table = np.frombuffer(self.content(section), RELOCATION)
                if (table["type"] != ADDRESS).any():
                    raise Unsupported("places that do not hold a whole address")
                yield start, table


def placed(images: Sequence[bytes], symbol: str, given: Mapping[str, int]) -> int:
    """Link these object files; they stay in memory until the process ends.

    Args:
        images: the files.
        symbol: the function that is asked for.
        given: addresses of what they name; else that is in one of them, or has been loaded by this process.

    Returns:
        The function's address.
    """
    objects = [_Object(image) for image in images]
    commons: dict[str, int] = {}
    code, end = _lay_out(objects, commons)
    if not code:
        raise Unsupported("no code")
    memory = mmap.mmap(
        -1, end, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE
    )
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    known = dict(given)
    _define(objects, base, known, commons)
    content = np.frombuffer(memory, np.uint8)
    for one in objects:
        _fill(one, content, known)
    if symbol not in known:
        raise Unsupported(f"no {symbol}")
    _protect(base, code)
    keep_for_good(memory)
    return known[symbol]


def keep_for_good(code: Any) -> None:
    """Threads may still run it when the interpreter ends and lets go of all else."""
    ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))(code)


def _lay_out(objects: list[_Object], commons: dict[str, int]) -> tuple[int, int]:
    """Give sections their places, code and constants first: bytes of these, in whole pages, and of all."""
    code = end = 0
    for writeable in (0, WRITEABLE):
        code, end = end, end + -end % mmap.PAGESIZE
        for one in objects:
            for k, section in enumerate(one.sections):
                if section.is_needed and section.flags & WRITEABLE == writeable:
                    one.starts[k] = end + -end % max(section.align, 1)
                    end = one.starts[k] + section.size
    shared = [x for one in objects for x in one.symbols if x.section == COMMON]
    for x in sorted(
        shared, key=lambda x: -x.size
    ):  # of one name the largest; its value is its alignment
        if x.value > LINE:
            raise Unsupported("common variables of large alignment")
        if x.name not in commons:
            commons[x.name] = end + -end % LINE
            end = commons[x.name] + x.size
    return code + -code % mmap.PAGESIZE, end


def _define(
    objects: list[_Object], base: int, known: dict[str, int], commons: Mapping[str, int]
) -> None:
    """Note where the objects' own symbols are; common and weak ones give way to others of their names."""
    weak: dict[str, int] = {}
    for one in objects:
        for k, x in enumerate(one.symbols):
            if x.section == ABSOLUTE:
                one.addresses[k] = x.value
            elif UNDEFINED < x.section < RESERVED and one.starts[x.section] != NOWHERE:
                one.addresses[k] = address = base + one.starts[x.section] + x.value
                if x.binding == WEAK:
                    weak.setdefault(x.name, address)
                elif x.binding != LOCAL and known.setdefault(x.name, address) != address:
                    raise Unsupported(f"{x.name} is there twice")
    for name, start in commons.items():
        known.setdefault(name, base + start)
    for name, address in weak.items():
        known.setdefault(name, address)


def _fill(one: _Object, memory: Any, known: Mapping[str, int]) -> None:
    """Put the sections of an object in their places, with the addresses that they name."""
    for start, section in zip(one.starts, one.sections, strict=True):
        if start != NOWHERE and section.type != EMPTY:
            memory[start : start + section.size] = np.frombuffer(one.content(section), np.uint8)
    for k, x in enumerate(one.symbols):
        if x.binding != LOCAL and x.section != ABSOLUTE:
            one.addresses[k] = known[x.name] if x.name in known else _of_process(x.name)
    addresses = np.array(one.addresses)
    for start, table in one.relocations():
        values = addresses[table["symbol"]]
        if (values == NOWHERE).any():
            raise Unsupported("the address of what is not in memory")
        places = (start + table["place"])[:, None] + BYTES
        memory[places] = (values + table["addend"]).view(np.uint8).reshape(-1, 8)


@cache
def _of_process(name: str) -> int:
    """The address of what this process has loaded."""
    try:
        return ctypes.addressof(ctypes.c_char.in_dll(_process(), name))
    except ValueError:
        raise Unsupported(f"{name} is nowhere") from None


@cache
def _process() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _protect(address: int, length: int) -> None:
    """Let the processor run what is there, and nobody write it."""
    call = _process().mprotect
    call.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    if call(address, length, mmap.PROT_READ | mmap.PROT_EXEC) != 0:
        raise OSError(ctypes.get_errno(), "mprotect: memory may not be made to run code")
