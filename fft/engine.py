"""Which library transforms: SciPy's by default, any backend of `scipy.fft` where one is set.

A backend in the sense of SciPy is an object with `__ua_domain__ == "numpy.scipy.fft"` and
`__ua_function__`. It is called by way of `scipy.fft`, so that SciPy does what it lacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from .._base.errors import OptionError
from ..backend.cpu.fft_native import native

KNOWN = {"mkl_fft": "mkl_fft.interfaces.scipy_fft", "pyfftw": "pyfftw.interfaces.scipy_fft"}
DOMAIN = "numpy.scipy.fft"

_process: list[Any] = [None]
"""The backend that is set for the process; None: SciPy's transforms, called as einloom.fft decides."""
_UNSET = object()
_BLOCK: ContextVar[Any] = ContextVar("einloom_fft_engine", default=_UNSET)
"""The backend of the innermost `use_engine` of this thread or task."""


def current() -> Any:
    """The backend for a call made now, of the block or of the process; None: SciPy's transforms."""
    found = _BLOCK.get()
    return _process[0] if found is _UNSET else found


def set_engine(engine: Any) -> None:
    """Let another library do the transforms, for the whole process, but for blocks of `use_engine`.

    Args:
        engine: "scipy", the default; "mkl_fft" or "pyfftw", where installed; or any backend of
            scipy.fft, an object with `__ua_domain__` and `__ua_function__`. What it lacks is done by
            SciPy. Choices of threads, order and memory are then its own.

    Raises:
        OptionError: the engine is unknown, not installed, or no backend of scipy.fft.

    >>> set_engine("scipy")
    >>> get_engine()
    'scipy'
    """
    _process[0] = _found(engine)


def get_engine() -> str:
    """The name of the library that does the transforms."""
    return name_of(current())


def name_of(backend: Any) -> str:
    if backend is None:
        return "scipy"
    name = getattr(backend, "__name__", type(backend).__name__)
    return next((short for short, module in KNOWN.items() if module == name), name)


@contextmanager
def use_engine(engine: Any) -> Iterator[None]:
    """Another library inside a `with` block, for this thread or task alone.

    >>> with use_engine("scipy"):
    ...     get_engine()
    'scipy'
    """
    token = _BLOCK.set(_found(engine))
    try:
        yield
    finally:
        _BLOCK.reset(token)


def described() -> str:
    """The engine with the module that its functions come from."""
    name = get_engine()
    return name if name != "scipy" else f"scipy ({native().name})"


def call(backend: Any, name: str, x: Any, keywords: dict[str, Any]) -> Any:
    """`scipy.fft.name(x, **keywords)` by the backend, then by SciPy itself, never by us."""
    import scipy.fft

    given = {key: value for key, value in keywords.items() if value is not None}
    with scipy.fft.set_backend("scipy"), scipy.fft.set_backend(backend):
        return getattr(scipy.fft, name)(x, **given)


def _found(engine: Any) -> Any:
    if engine == "scipy":
        return None
    if isinstance(engine, str):
        if engine not in KNOWN:
            raise OptionError(
                f'set_engine({engine!r}): the engines with names are "scipy", '
                f"{', '.join(map(repr, KNOWN))}; pass any other as an object, a backend of scipy.fft"
            )
        try:
            engine = import_module(KNOWN[engine])
        except ImportError as error:
            raise OptionError(
                f"set_engine({engine!r}): it cannot be imported ({error}); install it, or use "
                f'"scipy"'
            ) from None
    if getattr(engine, "__ua_domain__", None) != DOMAIN or not callable(
        getattr(engine, "__ua_function__", None)
    ):
        raise OptionError(
            f"set_engine({engine!r:.60}): no backend of scipy.fft; it has no __ua_function__, or its "
            f"__ua_domain__ is not {DOMAIN!r}"
        )
    if getattr(engine, "__name__", "") == __name__.rpartition(".")[0]:
        raise OptionError('set_engine(einloom.fft): it would call itself; use "scipy"')
    return engine
