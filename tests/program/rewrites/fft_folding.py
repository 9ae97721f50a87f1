"""fft_folding: programs written by hand with what becomes of them, and what holds afterwards."""

from __future__ import annotations

from tests.program.rewrites.common import Rewrites

from einloom.program.builder import Builder
from einloom.program.ir import Program
from einloom.program.passes.fft_folding import FFTS, INVERSE
from einloom.program.passes.rewrite import use_counts

LAST = (1,)


def number(b: Builder, value: complex, shape: tuple[int, ...], dtype: str = "complex128") -> int:
    slot = b("constant", value=value, dtype=dtype)
    return b("broadcast_in_dim", slot, shape=shape, axes=())


def there_and_back(b: Builder) -> tuple[int, ...]:
    """What is left is 4 x, and a number that nobody reads."""
    x = b.input("c16", (3, 4))
    return (b("ifft", b("fft", x, axes=LAST), axes=LAST),)


def normalised(b: Builder) -> tuple[int, ...]:
    """x itself, which the program must not return as a view."""
    x = b.input("c16", (3, 4))
    y = b("ifft", b("fft", x, axes=(0, 1)), axes=(1, 0))
    return (b("multiply", y, number(b, 1 / 12, (3, 4))),)


def inside(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (3, 4))
    y = b("fft", b("ifft", x, axes=LAST, scale=0.25), axes=LAST)
    return (b("negate", y),)


def of_real(b: Builder) -> tuple[int, ...]:
    x = b.input("f4", (3, 4))
    return (b("ifft", b("fft", x, axes=LAST), axes=LAST, scale=0.25),)


def half_spectra(b: Builder) -> tuple[int, ...]:
    """Of as many numbers as before; 6 of 7 are others, and so is an irfft that comes first."""
    x = b.input("f8", (3, 7))
    half = b("rfft", x, axes=LAST)
    same = b("irfft", half, axes=LAST, n=7, scale=1 / 7)
    other = b("irfft", half, axes=LAST, n=6)
    again = b("rfft", other, axes=LAST)
    return b("negate", same), again


def other_axes(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (3, 4))
    return (b("ifft", b("fft", x, axes=(0,)), axes=LAST),)


def scaled_before_and_behind(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (3, 4))
    y = b("fft", b("multiply", number(b, 2, (3, 4)), x), axes=LAST)
    return (b("divide", y, number(b, 8, (3, 4))),)


def read_twice(b: Builder) -> tuple[int, ...]:
    """The product is read by another as well; so is the transform."""
    x = b.input("c16", (4,))
    twice = b("multiply", x, number(b, 2, (4,)))
    y = b("fft", twice, axes=(0,))
    return b("add", y, twice), b("multiply", y, number(b, 3, (4,)))


def not_real(b: Builder) -> tuple[int, ...]:
    x = b.input("c16", (4,))
    return (b("multiply", b("fft", x, axes=(0,)), number(b, 1j, (4,))),)


def sizes(b: Builder) -> tuple[int, ...]:
    """What a size divides: the size is known."""
    x = b.input("c8", (4,))
    y = b("ifft", x, axes=(0,))
    size = b.convert(b("shape_of", y, axis=0), b.spec(y).dtype)
    return (b("divide", y, b("broadcast_in_dim", size, shape=(4,), axes=())),)


CONSTANT = "constant() [dtype='complex128', value={}]"
FILLED = "broadcast_in_dim({}) [axes=(), shape={}]"

REWRITES: Rewrites = [
    (
        there_and_back,
        [
            f"%3 = {CONSTANT.format('4.0')}",
            f"%4 = {FILLED.format('%3', '(3,4)')}",
            "%2 = multiply(%0, %4)",
            "return %2",
        ],
    ),
    (
        normalised,
        [
            f"%3 = {CONSTANT.format(repr(1 / 12))}",
            f"%4 = {FILLED.format('%3', '(3,4)')}",
            "%5 = copy(%0)",
            "return %5",
        ],
    ),
    (inside, ["%3 = negate(%0)", "return %3"]),
    (of_real, ["%2 = convert(%0) [dtype='complex64']", "return %2"]),
    (
        half_spectra,
        [
            "%1 = rfft(%0) [axes=(1,)]",
            "%3 = irfft(%1) [axes=(1,), n=6]",
            "%4 = rfft(%3) [axes=(1,)]",
            "%5 = negate(%0)",
            "return %5, %4",
        ],
    ),
    (
        other_axes,
        ["%1 = fft(%0) [axes=(0,)]", "%2 = ifft(%1) [axes=(1,)]", "return %2"],
    ),
    (
        scaled_before_and_behind,
        [
            f"%1 = {CONSTANT.format(2)}",
            f"%2 = {FILLED.format('%1', '(3,4)')}",
            f"%5 = {CONSTANT.format(8)}",
            f"%6 = {FILLED.format('%5', '(3,4)')}",
            "%7 = fft(%0) [axes=(1,), scale=0.25]",
            "return %7",
        ],
    ),
    (
        read_twice,
        [
            f"%1 = {CONSTANT.format(2)}",
            f"%2 = {FILLED.format('%1', '(4,)')}",
            "%3 = multiply(%0, %2)",
            "%4 = fft(%3) [axes=(0,)]",
            "%5 = add(%4, %3)",
            f"%6 = {CONSTANT.format(3)}",
            f"%7 = {FILLED.format('%6', '(4,)')}",
            "%8 = multiply(%4, %7)",
            "return %5, %8",
        ],
    ),
    (
        not_real,
        [
            "%1 = fft(%0) [axes=(0,)]",
            f"%2 = {CONSTANT.format('1j')}",
            f"%3 = {FILLED.format('%2', '(4,)')}",
            "%4 = multiply(%1, %3)",
            "return %4",
        ],
    ),
    (
        sizes,
        [
            "%2 = constant() [dtype='int64', value=4]",
            "%3 = cast(%2) [dtype='complex64']",
            f"%4 = {FILLED.format('%3', '(4,)')}",
            "%5 = ifft(%0) [axes=(0,), scale=0.25]",
            "return %5",
        ],
    ),
]


def holds(program: Program) -> None:
    """No transform reads its inverse along the same axes, in the forms that are written here."""
    made = {slot: ins for ins in program.instructions for slot in ins.outputs}
    uses = use_counts(program)
    for ins in program.instructions:
        if ins.op not in FFTS or ins.inputs[0] not in made:
            continue
        inner = made[ins.inputs[0]]
        axes = set(ins.attrs["axes"])
        if inner.op == INVERSE.get(ins.op) and set(inner.attrs["axes"]) == axes:
            assert ins.op == "irfft"
            assert program.slots[inner.inputs[0]].shape != program.slots[ins.outputs[0]].shape
        if inner.op == "multiply" and uses[inner.outputs[0]] == 1:
            assert all(x not in made or made[x].op != "broadcast_in_dim" for x in inner.inputs)
