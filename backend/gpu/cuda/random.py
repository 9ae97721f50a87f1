"""Random numbers that are a function of a key and a place: the CPU's, in all bits."""

from __future__ import annotations

from typing import Literal

from ...spec import Axes, Shape
from .kernel import THREADS, CudaKernel, blocks_of, kept
from .layout import index_type, layout
from .text import unit
from .types import TYPES

CIPHER = """
extern "C" __global__ void $name(
    $out* out, const $key* key, const $counter* counter, Pairs<$layout, $index> g) {
    typedef $index Index;
    for (Index i = first_element<Index>(); i < g.axes.count; i += next_element<Index>()) {
        Index at[3];
        g.axes.offsets(i, at);
        const Words k = {(unsigned)key[at[1]], (unsigned)key[at[1] + g.other[1]]};
        const Words x = {(unsigned)counter[at[2]], (unsigned)counter[at[2] + g.other[2]]};
        const Words found = threefry(k, x);
        out[at[0]] = ($out)found.a;
        out[at[0] + g.other[0]] = ($out)found.b;
    }
}
"""

PAIRS = """
extern "C" __global__ void $name($out* out, const unsigned* key, Count count) {
    const long long places = (count.of + 1) / 2;
    for (long long i = first_element<long long>(); i < places; i += next_element<long long>()) {
        $out x, y;
        $draw(key, (unsigned long long)i, &x, &y);
        out[2 * i] = x;
        if (2 * i + 1 < count.of) out[2 * i + 1] = y;
    }
}
"""

SINGLES = """
extern "C" __global__ void $name(double* out, const unsigned* key, Count count) {
    for (long long i = first_element<long long>(); i < count.of; i += next_element<long long>()) {
        out[i] = below_one64(words_at(key, (unsigned long long)i, 0));
    }
}
"""

Drawn = Literal["words", "uniform", "normal"]


def threefry(
    dtypes: tuple[str, str, str], shape: Shape, out: Axes, key: Axes, counter: Axes
) -> CudaKernel:
    """The op threefry2x32: pairs of words along the last axis, of any integers modulo 2**32.

    Args:
        dtypes: of out, key and counter.
        shape: of all three; the last size is 2.
        out, key, counter: strides in elements.

    >>> threefry(("uint32",) * 3, (10, 2), (2, 1), (0, 1), (2, 1)).geometry
    (10, 10, 2, 0, 2, 1, 1, 1)
    """
    return _known(
        kept(
            ("threefry", dtypes, shape, out, key, counter),
            lambda: _cipher(dtypes, shape, (out, key, counter)),
        )
    )


def _known(kernel: CudaKernel | None) -> CudaKernel:
    assert kernel is not None
    return kernel


def _cipher(dtypes: tuple[str, str, str], shape: Shape, strides: tuple[Axes, ...]) -> CudaKernel:
    axes = layout(shape[:-1], *(of[:-1] for of in strides))
    index = index_type(axes, layout((2,), *(of[-1:] for of in strides)))
    out, key, counter = (TYPES[name] for name in dtypes)
    source, name = unit(
        ("layout", "threefry", "pairs"),
        "threefry",
        CIPHER,
        out=out,
        key=key,
        counter=counter,
        layout=axes.type(index),
        index=index,
    )
    geometry = (*axes.geometry(), *(of[-1] for of in strides))
    grid, block = blocks_of(axes.count), (THREADS, 1, 1)
    return CudaKernel(
        source, name, grid, block, ("out", "key", "counter"), geometry, index != "int"
    )


def draw(what: Drawn, dtype: str, count: int) -> CudaKernel:
    """Fill `count` numbers of a contiguous array from a key of two words, uint32.

    `words` are uint32, `uniform` and `normal` numbers float32 or float64.

    >>> draw("normal", "float32", 1000).arrays
    ('out', 'key')
    """
    return _known(kept(("draw", what, dtype, count), lambda: _drawn(what, dtype, count)))


def _drawn(what: Drawn, dtype: str, count: int) -> CudaKernel:
    files = ("layout", "threefry", "pairs", "draws")
    singles = what == "uniform" and dtype == "float64"
    if singles:
        source, name = unit(files, "uniform", SINGLES)
    else:
        call = {"words": "bits", "uniform": "uniforms", "normal": "normals"}[what]
        source, name = unit(files, what, PAIRS, out=TYPES[dtype], draw=call)
    grid = blocks_of(count if singles else -(-count // 2))
    return CudaKernel(source, name, grid, (THREADS, 1, 1), ("out", "key"), (count,), True)
