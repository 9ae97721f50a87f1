"""Programs that are compiled once for a device, and calls that are answered later."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from .._base.caches import Cache
from .._base.errors import Unsupported
from ..backend.devices import Device
from ..backend.devices import device as device_of
from ..backend.protocol import Backend
from ..backend.spec import Shape
from .compiling import Compiling
from .executable import Executable
from .extension import runtime_of
from .ir import Program
from .template import ProgramTemplate

EXECUTABLES: Cache[Executable] = Cache("executables", 256)


def executable_for(
    program: Program | ProgramTemplate,
    device: Device | str = "cpu",
    shapes: Sequence[Shape] | None = None,
    dtypes: Sequence[Any] | None = None,
) -> Executable:
    """The executable of a program on a device, compiled at the first call.

    There is one for each program, dtypes, shapes and device, and for the options that decide about kernels. A
    template needs the shapes of its inputs, and takes their dtypes.

    >>> from .trace import trace
    >>> template = trace(lambda x: x + x, "float64[n]")
    >>> executable_for(template, "cpu:1", [(3,)]) is executable_for(template, "cpu:1", [(3,)])
    True
    """
    where = device_of(device)
    if isinstance(program, ProgramTemplate):
        program = program.bind(shapes or [], dtypes)
    families = dict.fromkeys(ins.family for ins in program.instructions if ins.family is not None)
    runtimes = tuple(runtime_of(name, where.backend.name) for name in families)
    key = (program.digest, where.device_id, Compiling.now(), runtimes)
    return EXECUTABLES.get_or(key, lambda: Executable(program, where.backend))


def submit(
    call: Any, arrays: Sequence[Any], device: Device | str = "cpu", **keywords: Any
) -> Future[Any]:
    """call(*arrays, **keywords) by the thread of a device, after all that was submitted to it before."""

    def work() -> Any:
        return call(*arrays, **keywords)

    return device_of(device).runner.submit(lambda future: work)


def submit_to(
    backend: Backend, call: Any, arrays: Sequence[Any], device: Device | str | None, **keywords: Any
) -> Future[Any]:
    """The same for a call that this backend computes: by its own device where none is named.

    Raises:
        Unsupported: another backend's device is named.
    """
    where = device_of(backend.device if device is None else device)
    if where.backend.device != backend.device:
        raise Unsupported(
            f"submit(device={where.name!r}): the call runs on {backend.device}; leave device out, or compile "
            f"it for {where.name}"
        )
    return submit(call, arrays, where, **keywords)
