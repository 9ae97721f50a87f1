"""Object files that are put in memory: what runs there, and what is left to LLVM."""

from __future__ import annotations

import ctypes
import gc
import struct
from pathlib import Path
from typing import Any

import pytest

from einloom.backend.cpu import bare, objects

pytestmark = pytest.mark.skipif(
    not objects.are_linked_here(), reason="objects of other systems are left to LLVM"
)
ALL = """
@table = internal constant [4 x i64] [i64 10, i64 20, i64 30, i64 40]
@where = internal constant [2 x ptr] [ptr @first, ptr @second]
@pointer = internal global ptr @table
@counter = global i64 100
@zeroes = internal global [600 x i64] zeroinitializer
@shared = common global i64 0
@wide = internal constant <8 x i64> <i64 1, i64 2, i64 3, i64 4, i64 5, i64 6, i64 7, i64 8>

declare i64 @llabs(i64)
declare i64 @elsewhere(i64)

define internal i64 @first(i64 %x) {
  %y = add i64 %x, 1
  ret i64 %y
}
define internal i64 @second(i64 %x) {
  %y = mul i64 %x, 7
  ret i64 %y
}
define i64 @through_a_table(i64 %k, i64 %x) {
  %slot = getelementptr [2 x ptr], ptr @where, i64 0, i64 %k
  %call = load ptr, ptr %slot
  %y = call i64 %call(i64 %x)
  ret i64 %y
}
define i64 @constant(i64 %k, i64 %x) {
  %all = load volatile ptr, ptr @pointer
  %slot = getelementptr i64, ptr %all, i64 %k
  %y = load i64, ptr %slot
  ret i64 %y
}
define i64 @count(i64 %k, i64 %x) {
  %old = load i64, ptr @counter
  %more = load i64, ptr @shared
  %slot = getelementptr [600 x i64], ptr @zeroes, i64 0, i64 %k
  %zero = load i64, ptr %slot
  store i64 %x, ptr %slot
  %new = add i64 %old, 1
  store i64 %new, ptr @counter
  %much = add i64 %more, 1000
  store i64 %much, ptr @shared
  %sum = add i64 %old, %more
  %result = add i64 %sum, %zero
  ret i64 %result
}
define i64 @of_the_library(i64 %k, i64 %x) {
  %y = call i64 @llabs(i64 %x)
  ret i64 %y
}
define i64 @of_another(i64 %k, i64 %x) {
  %y = call i64 @elsewhere(i64 %x)
  ret i64 %y
}
define i64 @vector(i64 %k, i64 %x) {
  %all = load volatile <8 x i64>, ptr @wide
  %y = extractelement <8 x i64> %all, i64 %k
  ret i64 %y
}
define i64 @choose(i64 %k, i64 %x) {
  switch i64 %k, label %none [
    i64 0, label %a  i64 1, label %b  i64 2, label %c  i64 3, label %d  i64 4, label %e
  ]
a:
  ret i64 %x
b:
  %two = call i64 @llabs(i64 %x)
  ret i64 %two
c:
  %three = mul i64 %x, 3
  ret i64 %three
d:
  %four = sub i64 0, %x
  ret i64 %four
e:
  ret i64 55
none:
  ret i64 -1
}
"""
OTHER = """
define i64 @elsewhere(i64 %x) {
  %y = mul i64 %x, 11
  ret i64 %y
}
"""
WEAK = """
define weak i64 @elsewhere(i64 %x) {
  ret i64 -1
}
"""


SPECIAL = (
    "@x = thread_local global i64 1\ndefine ptr @f() { ret ptr @x }",
    "@x = constant i64 1, align 65536\ndefine ptr @f() { ret ptr @x }",
    """
    define ptr @resolver() { ret ptr null }
    @f = ifunc i64 (i64), ptr @resolver
    """,
)


def image(text: str, model: str = "jitdefault") -> bytes:
    """The object file of LLVM's text."""
    from llvmlite import binding

    machine = bare.target_machine()
    if model != "jitdefault":
        machine = binding.Target.from_default_triple().create_target_machine(
            codemodel=model, reloc="static"
        )
    made: bytes = machine.emit_object(binding.parse_assembly(text))
    return made


def of_type(kind: int) -> bytes:
    """An object whose code is said to be of this type."""
    whole = image(OTHER)
    (start,) = struct.unpack_from("<Q", whole, 40)
    for at in range(start, len(whole), objects.SECTION.size):
        if struct.unpack_from("<Q", whole, at + 8)[0] & 4:  # can be run
            whole = whole[: at + 4] + struct.pack("<I", kind) + whole[at + 8 :]
    return whole


def linked(name: str, *images: bytes, given: dict[str, int] | None = None) -> Any:
    """A function of two numbers."""
    address = objects.placed(images or (image(ALL), image(OTHER)), name, given or {})
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)


@pytest.mark.parametrize(
    ("name", "arguments", "result"),
    [
        ("through_a_table", (0, 5), 6), ("through_a_table", (1, 5), 35), ("constant", (3, 0), 40),
        ("of_the_library", (0, -9), 9), ("of_another", (0, 3), 33), ("vector", (7, 0), 8),
        ("choose", (1, -4), 4), ("choose", (3, -4), 4), ("choose", (4, 0), 55), ("choose", (9, 0), -1),
    ],
)  # fmt: skip
def test_what_code_names(name: str, arguments: tuple[int, int], result: int) -> None:
    """Functions, constants, tables of addresses; of its own, of another object, of the process."""
    assert linked(name)(*arguments) == result


def test_variables() -> None:
    """Each link has its own: those with a value, those that begin as zero, and common ones."""
    one, other = linked("count"), linked("count")
    assert [one(599, 7), one(599, 8), one(0, 9)] == [100, 1101 + 7, 2102]
    assert other(599, 1) == 100


@pytest.mark.parametrize("weak_first", [True, False])
def test_weak_functions_give_way(weak_first: bool) -> None:
    both = [image(WEAK), image(OTHER)][:: 1 if weak_first else -1]
    assert linked("of_another", image(ALL), *both)(0, 3) == 33
    assert linked("of_another", image(ALL), image(WEAK))(0, 3) == -1


@pytest.mark.parametrize("way", [1, -1])
def test_common_variables_give_way(way: int) -> None:
    """To a definition, whose value counts; of those that are common the largest is made."""
    text = "@counter = {} global [{} x i64] zeroinitializer\n"
    defined = image(ALL)
    common = image(text.format("common", 1) + OTHER)
    assert linked("count", *[defined, common][::way])(0, 0) == 100
    read = """
    define i64 @last(i64 %k, i64 %x) {
      %slot = getelementptr i64, ptr @counter, i64 %k
      %old = load i64, ptr %slot
      store i64 %x, ptr %slot
      ret i64 %old
    }
    """
    both = image(text.format("common", 1) + OTHER), image(text.format("common", 5000) + read)
    assert [linked("last", *both[::way])(4999, x) for x in (5, 6)] == [0, 0]


def test_given_addresses() -> None:
    address = objects.placed((image(OTHER),), "elsewhere", {})
    run = linked("of_another", image(ALL), given={"elsewhere": address})
    assert run(0, 4) == 44


def test_code_is_not_written_and_stays() -> None:
    """Previously failed: it went when the interpreter ended, while threads still ran it."""
    code, variable = (
        objects.placed((image(ALL), image(OTHER)), x, {}) for x in ("count", "counter")
    )
    gc.collect()
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        between, right = line.split()[:2]
        first, last = (int(x, 16) for x in between.split("-"))
        rights |= {x: right for x in (code, variable) if first <= x < last}
    assert rights == {code: "r-xp", variable: "rw-p"}


def test_what_is_left_to_llvm() -> None:
    whole = image(ALL)
    other_machine = whole[:18] + struct.pack("<H", 183) + whole[20:]
    not_relocatable = whole[:16] + struct.pack("<H", 3) + whole[18:]
    for images, message in (
        ((b"",), "not an object file"),
        ((b"\x7fELF\x01" + whole[5:],), "not an object file"),
        ((other_machine,), "not relocatable code for x86-64"),
        ((not_relocatable,), "not relocatable code for x86-64"),
        ((whole,), "elsewhere is nowhere"),
        ((image(ALL, "small"), image(OTHER)), "whole address"),
        ((image(OTHER),), "no count"),
        ((image("@x = constant i64 1"),), "no count"),
        ((), "no code"),
        ((image(OTHER), image(OTHER)), "elsewhere is there twice"),
        *(((image(x),), "of a special kind") for x in SPECIAL),
        ((of_type(14),), "of a special kind"),  # functions that are called at first
        ((of_type(0x40000014),), "of a special kind"),  # relocations in another form
        ((image("@x = common global i64 0, align 128" + OTHER),), "common variables"),
    ):
        with pytest.raises(objects.Unsupported, match=message):
            objects.placed(images, "count", {})


def test_memory_that_may_not_run_code(monkeypatch: pytest.MonkeyPatch) -> None:
    class Process:
        @staticmethod
        def mprotect(*arguments: Any) -> int:
            return -1

    monkeypatch.setattr(objects, "_process", Process)
    with pytest.raises(OSError, match="may not be made to run code"):
        objects.placed((image(OTHER),), "elsewhere", {})
