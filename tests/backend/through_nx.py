"""A runner of the conformance suite that calls every op through the function that Nx has for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tests.backend.calls import Array, Attrs

from einloom.backend import nx
from einloom.backend.catalogue import CATALOGUE, OpRow, infer
from einloom.backend.cpu import cpu
from einloom.backend.spec import ArraySpec, dtype_name

Specs = tuple[ArraySpec, ...]
DTYPES = {"bool", "uint8", "int32", "float16", "float32", "complex128"}  # one or two of each class
OTHERS = {
    *("int8", "int16", "int64", "uint16", "uint32", "uint64"),
    *("bfloat16", "float64", "complex64"),
}


def name_of(row: OpRow) -> str:
    """What Nx calls an op; nothing where it asks for none."""
    asked = [name.removeprefix("nx ") for name in row.asked.split(", ") if name.startswith("nx ")]
    return asked[0] if asked else ""


def more_dtypes(op: str) -> list[str]:
    """Those of Nx that are left for longer runs."""
    known = cpu().capabilities().get(op, frozenset()) if name_of(CATALOGUE[op]) else frozenset()
    return sorted(known & OTHERS) if op != "threefry2x32" else []


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


def window(attrs: Attrs) -> dict[str, Any]:
    padding = tuple(zip(attrs["low"], attrs["high"], strict=True))
    return {
        "kernel_size": attrs["kernel"],
        "stride": attrs["strides"],
        "dilation": attrs["dilation"],
        "padding": padding,
    }


def with_out(call: Callable[..., Array], **more: Any) -> Callable[..., Array]:
    return lambda *arrays, out: call(*arrays, **more, out=out)


def placed(found: Array, out: Array | None) -> Array:
    """Of functions that take no `out`: where the suite gives one, it is filled."""
    if out is None:
        return found
    out[...] = found
    return out


def run(op: str, attrs: Attrs, outputs: Specs, arrays: tuple[Array, ...], out: Array | None) -> Any:
    """What Nx's function for `op` gives."""
    name, row, x = name_of(CATALOGUE[op]), CATALOGUE[op], arrays[0]
    if op == "absolute":
        return modulus(outputs, out, x)
    if row.group == "elementwise" or op in ("matmul", "threefry2x32"):
        return into(getattr(nx, name), outputs, out, *arrays)
    if op.startswith("reduce_"):
        return reduction(name, attrs, outputs, out, x)
    if op in MOVES:
        return placed(MOVES[op](attrs, x), out)
    axis = attrs.get("axis")
    if op in ("argmax", "argmin"):
        return by_int32(with_out(getattr(nx, name), axis=axis, keepdims=False), outputs, out, x)
    if op == "argsort":
        descending = attrs["descending"]
        return by_int32(with_out(nx.argsort, axis=axis, descending=descending), outputs, out, x)
    if op in ALLOCATING:
        return placed(ALLOCATING[op](attrs, *arrays), out)
    return into(
        with_out(WRITING[op], **{k: attrs[v] for k, v in KEYWORDS[op].items()}),
        outputs,
        out,
        *arrays,
    )


MOVES: dict[str, Callable[[Attrs, Array], Array]] = {
    "reshape": lambda attrs, x: nx.reshape(x, attrs["shape"]),
    "transpose": lambda attrs, x: nx.permute(x, attrs["perm"]),
    "broadcast_in_dim": lambda attrs, x: nx.expand(x, attrs["shape"]),
    "slice": lambda attrs, x: nx.shrink(
        x, tuple(zip(attrs["starts"], attrs["stops"], strict=True))
    ),
    "reverse": lambda attrs, x: nx.flip(x, [axis in attrs["axes"] for axis in range(x.ndim)]),
}
ALLOCATING: dict[str, Callable[..., Array]] = {
    "pad": lambda attrs, x: nx.pad(
        x, tuple(zip(attrs["low"], attrs["high"], strict=True)), attrs["value"]
    ),
    "copy": lambda attrs, x: nx.copy(x),
    "contiguous": lambda attrs, x: nx.contiguous(x),
    "scatter_along_axis": lambda attrs, x, where, updates: nx.scatter(
        x, indices=index(where), updates=updates, **attrs
    ),
    "unfold": lambda attrs, x: nx.unfold(x, **window(attrs)),
    "fold": lambda attrs, x: nx.fold(x, output_size=attrs["sizes"], **window(attrs)),
}
WRITING: dict[str, Callable[..., Array]] = {
    "concatenate": lambda *x, axis, out: nx.cat(x, axis=axis, out=out),
    "associative_scan": nx.associative_scan,
    "sort": nx.sort,
    "take_along_axis": lambda x, at, axis, out: nx.gather(x, index(at), axis=axis, out=out),
    "fft": nx.fft,
    "ifft": nx.ifft,
    "rfft": lambda x, axes, out: nx.rfft(x, dtype=out.dtype, axes=axes, out=out),
    "irfft": lambda x, axes, n, out: nx.irfft(
        x, dtype=out.dtype, axes=axes, s=[*(x.shape[axis] for axis in axes[:-1]), n], out=out
    ),
}
KEYWORDS: dict[str, dict[str, str]] = {  # of Nx's functions, and the attributes that they are
    "concatenate": {"axis": "axis"},
    "associative_scan": {"axis": "axis", "op": "kind"},
    "sort": {"axis": "axis", "descending": "descending"},
    "take_along_axis": {"axis": "axis"},
    "fft": {"axes": "axes"},
    "ifft": {"axes": "axes"},
    "rfft": {"axes": "axes"},
    "irfft": {"axes": "axes", "n": "n"},
}


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
        return {op: own[op] & DTYPES for op in ops if own[op] & DTYPES}

    def bind(self, op: str, attrs: Attrs, inputs: Specs, outputs: Specs) -> Callable[..., Any]:
        del inputs
        return lambda *arrays, out=None: run(op, attrs, outputs, arrays, out)

    def apply(self, op: str, attrs: Attrs, *arrays: Array, out: Array | None = None) -> Any:
        outputs = infer(op, attrs, tuple(ArraySpec(x.dtype, x.shape) for x in arrays))
        if op == "cast":
            assert dtype_name(outputs[0].dtype) == attrs["dtype"]
            return into(nx.cast, outputs, out, *arrays)
        return run(op, attrs, outputs, arrays, out)

    def to_device(self, x: Array) -> Array:
        return x

    def to_host(self, x: Array) -> Array:
        return x
