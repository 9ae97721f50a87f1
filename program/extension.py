"""Extension families: ops declared and run outside the catalogue (factorisations, transforms).

A family is named "room.op.vN" and declares how dtypes and shapes of its outputs follow from its
inputs; a runtime runs it on one backend. Registration is idempotent. A family without a runtime for
the backend is an error, never a fallback.

What a runtime can compute before there are arrays (tables, plans of a vendor's library, sizes of workspaces)
it prepares once for each call's attributes and specs: all programs share it, in the cache "extensions".
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from .._base.caches import Cache
from .._base.errors import EinloomError, ExtensionError
from ..backend.catalogue import Attrs
from ..backend.dims import is_symbolic
from ..backend.spec import ArraySpec

Metadata = Callable[[Attrs, tuple[ArraySpec, ...]], tuple[ArraySpec, ...]]
Runtime = Callable[..., tuple[Any, ...]]
"""`runtime(attrs, *arrays)` returns one array for each declared output."""
Prepare = Callable[[Attrs, tuple[ArraySpec, ...]], Any]
"""`prepare(attrs, inputs)` returns what the runtime then takes as `prepared=`; it is shared by threads."""

_NAME = re.compile(r"[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*\.v[1-9][0-9]*")
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class Family:
    """A named extension op and its output rule."""

    name: str
    infer: Metadata


class Registered(NamedTuple):
    """What runs a family on one backend."""

    runtime: Runtime
    prepare: Prepare | None = None


class _Prepared(NamedTuple):
    value: Any  # None too, which the cache could not tell from nothing


_FAMILIES: dict[str, Family] = {}
_RUNTIMES: dict[tuple[str, str], Registered] = {}
PREPARED: Cache[_Prepared] = Cache("extensions", 256)


def register_family(name: str, infer: Metadata) -> Family:
    """Declare a family; declaring the same one again changes nothing."""
    if not _NAME.fullmatch(name):
        raise ExtensionError(
            f'extension family {name!r} is malformed: write "room.op.vN", as in "linalg.svd.v1"'
        )
    with _LOCK:
        known = _FAMILIES.setdefault(name, Family(name, infer))
    if known.infer is not infer:
        raise ExtensionError(
            f"extension family {name!r} is already declared with another output rule"
        )
    return known


def register_runtime(
    name: str, backend: str, runtime: Runtime, prepare: Prepare | None = None
) -> None:
    """Give a family its runtime on one backend; a second, different one is refused.

    Args:
        name: of the family, which is declared.
        backend: "cpu", say.
        runtime: `runtime(attrs, *arrays)` returns an array for each output, in a tuple.
        prepare: `prepare(attrs, inputs)` returns what depends on attributes, dtypes and shapes alone; the
            runtime takes it as `prepared=`. It is called when a program is bound, once for all programs
            whose calls are alike, as long as the cache "extensions" keeps it.
    """
    family_of(name)
    with _LOCK:
        known = _RUNTIMES.setdefault((name, backend), Registered(runtime, prepare))
    if known.runtime is not runtime or known.prepare is not prepare:
        raise ExtensionError(
            f"extension family {name!r} already has a runtime on backend {backend!r}; "
            f"unregister it first, or use a new version of the family"
        )


def unregister_family(name: str) -> None:
    """Forget a family and its runtimes."""
    with _LOCK:
        _FAMILIES.pop(name, None)
        for key in [key for key in _RUNTIMES if key[0] == name]:
            del _RUNTIMES[key]


def family_of(name: str) -> Family:
    """The declared family of this name."""
    try:
        return _FAMILIES[name]
    except KeyError:
        room = name.partition(".")[0]
        raise ExtensionError(
            f"extension family {name!r} is unknown; import the package that declares it "
            f"(einloom.{room}?). Known: {', '.join(sorted(_FAMILIES)) or 'none'}"
        ) from None


def infer_extension(
    name: str, attrs: Attrs, inputs: tuple[ArraySpec, ...]
) -> tuple[ArraySpec, ...]:
    """The outputs that the family's rule declares; sizes may be known later, the rule is total."""
    family = family_of(name)
    try:
        outputs = family.infer(attrs, inputs)
    except EinloomError:
        raise
    except Exception as error:
        if not any(is_symbolic(spec.shape) for spec in inputs):
            raise
        raise ExtensionError(
            f"the output rule of extension family {name!r} fails on sizes that are known later, "
            f"({', '.join(map(str, inputs))}): {error}; it may use arithmetic, and minimum and maximum "
            f"of einloom.backend.dims"
        ) from error
    if not isinstance(outputs, (tuple, list)) or not all(
        isinstance(spec, ArraySpec) for spec in outputs
    ):
        raise ExtensionError(
            f"the output rule of extension family {name!r} returned {outputs!r:.60}; it must return "
            f"a tuple with an ArraySpec for each output"
        )
    return tuple(outputs)


def runtime_of(name: str, backend: str) -> Registered:
    """What runs a family on a backend."""
    family_of(name)
    runtime = _RUNTIMES.get((name, backend))
    if runtime is None:
        raise ExtensionError(
            f"extension family {name!r} has no runtime on backend {backend!r}; nothing else is tried"
        )
    return runtime


def bind_extension(
    name: str,
    backend: str,
    attrs: Attrs,
    outputs: tuple[ArraySpec, ...],
    inputs: tuple[ArraySpec, ...] = (),
) -> Callable[..., Any]:
    """A kernel for one call of a family: checks the number, dtypes and shapes of what comes back."""
    registered = runtime_of(name, backend)
    runtime = registered.runtime
    if registered.prepare is not None:
        made = _prepared(name, backend, registered.prepare, attrs, inputs)
        runtime = partial(runtime, prepared=made)

    def run(*arrays: Any) -> Any:
        results = runtime(attrs, *arrays)
        if not isinstance(results, (tuple, list)) or not all(hasattr(x, "dtype") for x in results):
            kinds = [type(x).__name__ for x in results] if isinstance(results, tuple) else results
            raise ExtensionError(
                f"extension {name!r} on {backend!r} returned {kinds!r}, declared a tuple of arrays"
            )
        results = tuple(results)
        got = tuple(ArraySpec(x.dtype, x.shape) for x in results)
        if got != outputs:
            raise ExtensionError(
                f"extension {name!r} on {backend!r} returned ({', '.join(map(str, got))}), "
                f"declared ({', '.join(map(str, outputs))})"
            )
        return results if len(results) != 1 else results[0]

    return run


def _prepared(
    name: str, backend: str, prepare: Prepare, attrs: Attrs, inputs: tuple[ArraySpec, ...]
) -> Any:
    """The function is a part of the key: a family that is declared anew finds nothing of the old one."""
    # as text: 1, 1.0 and True are equal, and not the same attribute
    key = (name, backend, prepare, repr(sorted(attrs.items())), inputs)
    return PREPARED.get_or(key, lambda: _Prepared(prepare(attrs, inputs))).value


def _renew_lock() -> None:
    """In the child of a fork: another thread may have held it."""
    global _LOCK
    _LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)
