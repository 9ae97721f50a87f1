"""A runner of the conformance suite that calls every op through the function that Nx has for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from tests.backend.calls import Array, Attrs

from einloom.backend import nx
from einloom.backend.catalogue import CATALOGUE, OpRow, infer
from einloom.backend.cpu import cpu
from einloom.backend.spec import ArraySpec

Specs = tuple[ArraySpec, ...]
DTYPES = {"bool", "uint8", "int32", "float16", "float32", "complex128"}  # one or two of each class
OTHERS = {
    *("int8", "int16", "int64", "uint16", "uint32", "uint64"),
    *("bfloat16", "float64", "complex64"),
}
ONLY = {"threefry2x32": {"int32"}}


def name_of(row: OpRow) -> str:
    """What Nx calls an op; nothing where it asks for none."""
    asked = [name.removeprefix("nx ") for name in row.asked.split(", ") if name.startswith("nx ")]
    return asked[0] if asked else ""


def more_dtypes(op: str) -> list[str]:
    """Those of Nx that are left for longer runs."""
    known = cpu().capabilities().get(op, frozenset()) if name_of(CATALOGUE[op]) else frozenset()
    return sorted(known & OTHERS & ONLY.get(op, known))


def into(call: Callable[..., Array], outputs: Specs, out: Array | None, *arrays: Array) -> Array:
    """A function that must be given an `out`: a fresh one if the suite gives none."""
    (spec,) = outputs
    target = nx.buffer(cpu(), spec.dtype, spec.shape) if out is None else out
    assert call(*arrays, out=target) is target
    return target


def by_int32(
    call: Callable[..., Array], outputs: Specs, out: Array | None, *arrays: Array
) -> Array:
    """Positions, which the catalogue gives as int64."""
    found = into(call, (ArraySpec(np.dtype(np.int32), outputs[0].shape),), None, *arrays)
    assert found.dtype == np.int32
    target = nx.buffer(cpu(), np.int64, found.shape) if out is None else out
    target[...] = found
    return target


def modulus(outputs: Specs, out: Array | None, x: Array) -> Array:
    """Real numbers, which Nx leaves complex."""
    if x.dtype.kind != "c":
        return into(nx.abs, outputs, out, x)
    wide = into(nx.abs, (ArraySpec(x.dtype, x.shape),), None, x)
    np.testing.assert_array_equal(wide.imag, 0)
    return into(nx.cast, outputs, out, wide)


def reduction(name: str, attrs: Attrs, outputs: Specs, out: Array | None, x: Array) -> Array:
    """With axes kept where the suite gives an `out`, and dropped elsewhere."""
    axes, call = attrs["axes"], getattr(nx, name)
    if out is None:
        return into(lambda *a, out: call(*a, axes=axes, keepdims=False, out=out), outputs, None, x)
    kept = np.expand_dims(out, axes)
    assert call(x, axes=axes, keepdims=True, out=kept) is kept
    return out


def index(x: Array) -> Array:
    return x.astype(np.int32)


def pairs(first: Any, second: Any) -> tuple[Any, ...]:
    return tuple(zip(first, second, strict=True))


def window(attrs: Attrs) -> dict[str, Any]:
    return {
        "kernel_size": attrs["kernel"],
        "stride": attrs["strides"],
        "dilation": attrs["dilation"],
        "padding": pairs(attrs["low"], attrs["high"]),
    }


def placed(found: Array, out: Array | None) -> Array:
    """Of functions that take no `out`: where the suite gives one, it is filled."""
    if out is None:
        return found
    out[...] = found
    return out


def run(op: str, attrs: Attrs, outputs: Specs, arrays: tuple[Array, ...], out: Array | None) -> Any:
    """What Nx's function for `op` gives."""
    name, row = name_of(CATALOGUE[op]), CATALOGUE[op]
    if op == "absolute":
        return modulus(outputs, out, *arrays)
    if op.startswith("reduce_"):
        return reduction(name, attrs, outputs, out, *arrays)
    if op in MADE:
        return placed(MADE[op](attrs, *arrays), out)
    if op in WRITTEN:
        return into(partial(WRITTEN[op], attrs), outputs, out, *arrays)
    function = getattr(nx, name)
    if op in POSITIONS:
        return by_int32(partial(function, **attrs, **POSITIONS[op]), outputs, out, *arrays)
    assert row.group == "elementwise" or not attrs
    return into(function, outputs, out, *arrays)


POSITIONS: dict[str, Attrs] = {
    "argmax": {"keepdims": False},
    "argmin": {"keepdims": False},
    "argsort": {},
}
MADE: dict[str, Callable[..., Array]] = {
    "reshape": lambda attrs, x: nx.reshape(x, attrs["shape"]),
    "transpose": lambda attrs, x: nx.permute(x, attrs["perm"]),
    "broadcast_in_dim": lambda attrs, x: nx.expand(x, attrs["shape"]),
    "slice": lambda attrs, x: nx.shrink(x, pairs(attrs["starts"], attrs["stops"])),
    "reverse": lambda attrs, x: nx.flip(x, [axis in attrs["axes"] for axis in range(x.ndim)]),
    "pad": lambda attrs, x: nx.pad(x, pairs(attrs["low"], attrs["high"]), attrs["value"]),
    "copy": lambda attrs, x: nx.copy(x),
    "contiguous": lambda attrs, x: nx.contiguous(x),
    "scatter_along_axis": lambda attrs, x, at, updates: nx.scatter(
        x, indices=index(at), updates=updates, **attrs
    ),
    "unfold": lambda attrs, x: nx.unfold(x, **window(attrs)),
    "fold": lambda attrs, x: nx.fold(x, output_size=attrs["sizes"], **window(attrs)),
}
"""Functions that return a tensor of their own, or a view."""

WRITTEN: dict[str, Callable[..., Array]] = {
    "concatenate": lambda attrs, *x, out: nx.cat(x, **attrs, out=out),
    "convert": lambda attrs, x, out: nx.cast(x, out=out),
    "cast": lambda attrs, x, out: nx.cast(x, out=out),
    "associative_scan": lambda attrs, x, out: nx.associative_scan(
        x, axis=attrs["axis"], op=attrs["kind"], out=out
    ),
    "sort": lambda attrs, x, out: nx.sort(x, **attrs, out=out),
    "take_along_axis": lambda attrs, x, at, out: nx.gather(x, index(at), **attrs, out=out),
    "fft": lambda attrs, x, out: nx.fft(x, axes=attrs["axes"], out=out),
    "ifft": lambda attrs, x, out: nx.ifft(x, axes=attrs["axes"], out=out),
    "rfft": lambda attrs, x, out: nx.rfft(x, dtype=out.dtype, axes=attrs["axes"], out=out),
    "irfft": lambda attrs, x, out: nx.irfft(
        x,
        dtype=out.dtype,
        axes=attrs["axes"],
        s=[*(x.shape[axis] for axis in attrs["axes"][:-1]), attrs["n"]],
        out=out,
    ),
}
"""Functions that are given an `out`."""


def says(op: str, attrs: Attrs, inputs: Specs) -> bool:
    """Whether Nx has words for a call: it knows no interior padding, for one."""
    x = inputs[0]
    if op == "broadcast_in_dim":
        return attrs["axes"] in ((), tuple(range(len(attrs["shape"]))))
    if op == "slice":
        return all(step == 1 for step in attrs["steps"])
    if op == "pad":
        return not any(attrs["interior"])
    if op in ("fft", "ifft") and x.dtype.kind != "c":
        return False
    return attrs.get("initial") is None and attrs.get("scale", 1.0) == 1.0


class ThroughNx:
    """Binds, claims and applies as a backend does; `says` tells which calls it can make."""

    def capabilities(self) -> dict[str, frozenset[str]]:
        own = cpu().capabilities()
        ops = (op for op, row in CATALOGUE.items() if op in own and name_of(row))
        return {op: own[op] & DTYPES & ONLY.get(op, own[op]) for op in ops}

    def bind(self, op: str, attrs: Attrs, inputs: Specs, outputs: Specs) -> Callable[..., Any]:
        del inputs
        return lambda *arrays, out=None: run(op, attrs, outputs, arrays, out)

    def apply(self, op: str, attrs: Attrs, *arrays: Array, out: Array | None = None) -> Any:
        outputs = infer(op, attrs, tuple(ArraySpec(x.dtype, x.shape) for x in arrays))
        return run(op, attrs, outputs, arrays, out)

    def to_device(self, x: Array) -> Array:
        return x

    def to_host(self, x: Array) -> Array:
        return x
