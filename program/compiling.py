"""What decides, beside the program and the device, which kernels a program is bound to: a few options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from .._base.errors import OptionError
from .._base.options import get_options, num_threads, options


@dataclass(frozen=True, slots=True)
class Compiling:
    """The options that were in force when a program was compiled; an `Executable` has it as `compiling`.

    Attributes:
        threads: of parallel kernels.
        small: multiplications below which kernels are not used.
        engine: that was asked for, or None.
        provider: who multiplies matrices.
        precision: of products on a GPU.

    >>> with options(threads=2, engine="gemm"):
    ...     Compiling.now().threads, Compiling.now().engine
    (2, 'gemm')
    """

    threads: int
    small: float
    engine: str | None
    provider: str
    precision: str

    @classmethod
    def now(cls) -> Compiling:
        """What is in force here."""
        found = get_options()
        return cls(num_threads(), found.small, found.engine, found.provider, found.precision)

    @property
    def changes(self) -> dict[str, Any]:
        """Arguments of `einloom.options`, or of a Context, with which another program is compiled alike."""
        return asdict(self)


def check_changes(call: str, changes: Mapping[str, Any] | None) -> dict[str, Any]:
    """Changes of those options, with values that they may have."""
    names = [field.name for field in fields(Compiling)]
    if not isinstance(changes or {}, Mapping) or not set(changes or {}) <= set(names):
        raise OptionError(
            f"{call}(options={changes!r:.60}): give a mapping of {', '.join(names)} to values"
        )
    with options(**(changes or {})):  # which looks at the values
        return dict(changes or {})


def within(changes: Mapping[str, Any], act: Callable[[Any], None]) -> Callable[[Any], None]:
    """`act` where these options are in force."""
    if not changes:
        return act

    def run(given: Any) -> None:
        with options(**changes):
            act(given)

    return run
