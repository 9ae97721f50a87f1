"""Draws as extension families of programs: functions of a key and of attributes.

A family "random.name.v1" has what the function of that name is asked for as attributes, `shape` and `dtype`
among them; sizes may be names of a template.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from .._base.errors import ProgramError
from ..backend.catalogue import Attrs
from ..backend.choice import elsewhere
from ..backend.cpu.buffers import empty
from ..backend.cpu.draws import Key, child
from ..backend.cpu.random_arrays import fill_bits, fill_integers, fill_normal, fill_uniform
from ..backend.cpu.random_orders import order
from ..backend.dims import as_size
from ..backend.rules import check_axis
from ..backend.spec import ArraySpec, dtype_from_name
from ..program.extension import register_family, register_runtime, runtime_of
from ..program.trace import Traced, traced_extension
from .arguments import words_of

Array = np.ndarray[Any, Any]
Specs = tuple[ArraySpec, ...]

SPLIT, FOLD = 0, 1  # kinds of children


def name_of(function: str) -> str:
    return f"random.{function}.v1"


def record(function: str, key: Traced, *operands: Any, **attrs: Any) -> Traced:
    """Append a draw to the trace of the key."""
    (found,) = traced_extension(name_of(function), attrs, key, *operands)
    return found


def _check_key(call: str, inputs: Specs, operands: int = 1) -> None:
    if len(inputs) != operands or inputs[0] != ArraySpec(np.dtype(np.uint32), (2,)):
        raise ProgramError(
            f"random.{call}: takes a key uint32[2] first, got {list(map(str, inputs))}"
        )


def _drawn(call: str) -> Callable[[Attrs, Specs], Specs]:
    def infer(attrs: Attrs, inputs: Specs) -> Specs:
        _check_key(call, inputs)
        return (ArraySpec(dtype_from_name(attrs["dtype"]), tuple(map(as_size, attrs["shape"]))),)

    return infer


def _filled(fill: Callable[..., None], *names: str) -> Callable[..., tuple[Array]]:
    def run(attrs: Attrs, key: Array) -> tuple[Array]:
        out = empty(attrs["shape"], dtype_from_name(attrs["dtype"]))
        fill(words_of(key), out, *(attrs[name] for name in names))
        return (out,)

    return run


def _split_specs(attrs: Attrs, inputs: Specs) -> Specs:
    _check_key("split", inputs)
    return (ArraySpec(np.dtype(np.uint32), (*map(as_size, attrs["shape"]), 2)),)


def split_keys(words: Key, shape: Any) -> Array:
    """Keys [*shape, 2], the child of each place."""
    return child(words, SPLIT, np.arange(math.prod(shape), dtype=np.uint64).reshape(shape))


def _split(attrs: Attrs, key: Array) -> tuple[Array]:
    return (split_keys(words_of(key), attrs["shape"]),)


def _fold_in_specs(attrs: Attrs, inputs: Specs) -> Specs:
    _check_key("fold_in", inputs)
    return inputs


def _fold_in(attrs: Attrs, key: Array) -> tuple[Array]:
    return (child(words_of(key), FOLD, np.array(attrs["data"], np.uint64)),)


def _permutation_specs(attrs: Attrs, inputs: Specs) -> Specs:
    if "n" in attrs:
        _check_key("permutation", inputs)
        return (ArraySpec(np.dtype(np.int64), (as_size(attrs["n"]),)),)
    _check_key("permutation", inputs, 2)
    check_axis("random.permutation", attrs["axis"], len(inputs[1].shape))
    return (ArraySpec(inputs[1].dtype, inputs[1].shape),)


def _permutation(attrs: Attrs, key: Array, x: Array | None = None) -> tuple[Array]:
    if x is None:
        return (order(words_of(key), attrs["n"]),)
    axis = attrs["axis"]
    return (np.take(x, order(words_of(key), x.shape[axis]), axis),)


_FAMILIES: dict[str, tuple[Any, Any]] = {
    "bits": (_drawn("bits"), _filled(fill_bits)),
    "uniform": (_drawn("uniform"), _filled(fill_uniform, "low", "high")),
    "normal": (_drawn("normal"), _filled(fill_normal, "loc", "scale")),
    "integers": (_drawn("integers"), _filled(fill_integers, "low", "high")),
    "split": (_split_specs, _split),
    "fold_in": (_fold_in_specs, _fold_in),
    "permutation": (_permutation_specs, _permutation),
}


def _on_device(function: str, attrs: Attrs, key: Any, *operands: Any) -> tuple[Any, ...]:
    """The runtime of a family on the device where the key lies."""
    from ..backend.gpu import draws  # what runs on the host needs none of it

    backend: Any = elsewhere(f"random.{function}", (key,))
    xp = backend.xp
    if function == "split":
        places = np.arange(math.prod(attrs["shape"]), dtype=np.uint64).reshape(attrs["shape"])
        return (draws.child(xp, key, SPLIT, places),)
    if function == "fold_in":
        return (draws.child(xp, key, FOLD, np.array(attrs["data"], np.uint64)),)
    if function == "permutation":
        axis = attrs.get("axis", 0)
        n = operands[0].shape[axis] if operands else attrs["n"]
        order = draws.permutation(xp, key, n)
        return (xp.take(operands[0], order, axis) if operands else order,)
    more = {name: value for name, value in attrs.items() if name not in ("shape", "dtype")}
    dtype = dtype_from_name(attrs["dtype"])
    return (getattr(draws, function)(xp, key, tuple(attrs["shape"]), dtype, **more),)


ON_DEVICES = {
    name: partial(_on_device, name)
    for name in ("bits", "uniform", "normal", "integers", "split", "fold_in", "permutation")
}
"""Runtimes on a GPU."""


def drawn_there(function: str, attrs: Attrs, key: Any, *operands: Any) -> Any:
    """A draw by a key that lies on a device, where it lies; None for a key of the host.

    Raises:
        ExtensionError: the function has no runtime there.
        Unsupported: an operand lies somewhere else.
    """
    if type(key) is np.ndarray and not operands:
        return None
    backend = elsewhere(f"random.{function}", (key, *operands))
    if backend is None:
        return None
    return runtime_of(name_of(function), backend.name).runtime(attrs, key, *operands)[0]


def register() -> None:
    """Declare the families and their runtimes on the CPU; once more changes nothing."""
    for function, (infer, run) in _FAMILIES.items():
        register_family(name_of(function), infer)
        register_runtime(name_of(function), "cpu", run)
        if function in ON_DEVICES:
            register_runtime(name_of(function), "gpu", ON_DEVICES[function])
