"""Kernels of our own: source text compiled once for each device, and launched over arrays.

A kernel is a frozen value that the modules under `cuda` make. Whoever launches one has a fallback in terms of
the array module, which runs where that has no compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..._base.caches import Cache, Quick
from ..._base.log import log
from .cuda.kernel import PLAIN_SHARED
from .modules import Module

MOST_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
OPTIONS = ("-std=c++17", "--fmad=false")  # a product and a sum are two roundings, as on the CPU


class CudaKernel(Protocol):
    """What `launch` reads of a kernel."""

    @property
    def source(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def grid(self) -> tuple[int, int, int]: ...
    @property
    def block(self) -> tuple[int, int, int]: ...
    @property
    def shared(self) -> int: ...
    @property
    def features(self) -> str: ...

    def parameters(self) -> Any:
        """The last argument, a struct of integers, as an array whose bytes it is."""
        ...


class Card(NamedTuple):
    """What kernels are chosen by.

    Attributes:
        capability: of computing, 90 for 9.0; 0 where a card does not tell, and of AMD's.
        processors: multiprocessors, each of which runs some blocks at once.
        shared_memory: bytes that a block may have if a launch asks for them.
    """

    capability: int
    processors: int
    shared_memory: int


COMPILED: Cache[Any] = Cache("cuda_functions", 1024)
PREPARED: Quick[tuple[CudaKernel, Any, Any]] = Quick("cuda_launches", 4096)
"""By number of the kernel, which is kept with it: the function and its last argument."""
CARDS: Cache[Card] = Cache("cuda_cards", 64)
"""What cards told, by module and card."""


def can_launch(xp: Module) -> bool:
    """Whether the array module compiles CUDA."""
    return hasattr(xp, "RawKernel")


def launch(xp: Module, kernel: CudaKernel, *arrays: Any) -> None:
    """Queue a kernel on the current stream; `arrays` are its pointers, outputs first."""
    key = (id(xp), id(kernel), _card(xp) if _is_of_a_card(kernel) else 0)
    found = PREPARED.get(key)
    if found is None:
        found = _prepared(xp, kernel)
        PREPARED.put(key, found)
    _, function, record = found
    if kernel.shared:
        function(kernel.grid, kernel.block, (*arrays, record), shared_mem=kernel.shared)
    else:
        function(kernel.grid, kernel.block, (*arrays, record))


def launcher(xp: Module, kernel: CudaKernel) -> Callable[..., None]:
    """`launch` of one kernel as a function of the arrays, for who keeps it: nothing is looked up any more."""
    if _is_of_a_card(kernel):
        return partial(launch, xp, kernel)
    _, function, record = _prepared(xp, kernel)
    grid, block, shared = kernel.grid, kernel.block, kernel.shared

    def start(*arrays: Any) -> None:
        if shared:
            function(grid, block, (*arrays, record), shared_mem=shared)
        else:
            function(grid, block, (*arrays, record))

    return start


def _prepared(xp: Module, kernel: CudaKernel) -> tuple[CudaKernel, Any, Any]:
    return kernel, function_of(xp, kernel), by_value(kernel.parameters())


def function_of(xp: Module, kernel: CudaKernel) -> Any:
    """Its text as a function, `function(grid, block, arguments)`; compiled when it is first called."""
    key: tuple[Any, ...] = (id(xp), kernel.name, kernel.source)
    if _is_of_a_card(kernel):
        key = (*key, _card(xp))
    return COMPILED.get_or(key, lambda: _compiled(xp, kernel))


def _is_of_a_card(kernel: CudaKernel) -> bool:
    """What a function may take of shared memory is set on each card, and what is compiled for features is
    loaded on each."""
    return kernel.shared > PLAIN_SHARED or bool(kernel.features)


def _card(xp: Module) -> int:
    return int(xp.cuda.Device().id)


def _compiled(xp: Module, kernel: CudaKernel) -> Any:
    """A text serves several sizes: one that goes beyond what all may have gets the most there is."""
    if kernel.features:
        return _with_features(xp, kernel)
    function = xp.RawKernel(kernel.source, kernel.name, OPTIONS)
    if kernel.shared > PLAIN_SHARED:
        function.max_dynamic_shared_size_bytes = shared_memory(xp)
    return function


class Architecture(str):
    """The name of one with features of its own, such as "90a". CuPy writes it into an option, keeps what is
    compiled by it, and compares it as a number."""

    __slots__ = ()

    def __int__(self) -> int:
        return int(self.rstrip("af"))


FEATURES: Quick[bool] = Quick("cuda_features", 64)
"""What cards and compilers turned out to have, by module, card and architecture; what was found may be taken
back, which a `Cache` does not."""
_LOADED: dict[tuple[Any, ...], tuple[Module, Any]] = {}
"""Code for features of one card, with the array module, whose number is part of the key. No cache, since
nothing may leave it: graphs know code by its address, and CuPy unloads such a module with its last reference
(that of a RawKernel it keeps itself)."""
NOTHING = 'extern "C" __global__ void nothing(int) {}'


def has_features(xp: Module, features: str) -> bool:
    """Whether kernels can be compiled for the features of one card alone, and loaded: CuPy has no public
    function that does, so it is tried once, on nothing."""
    found = FEATURES.get((id(xp), _card(xp), features))
    if found is None:
        # whatever another version of CuPy, or an older compiler, makes of it
        error = _error_of(lambda: _compile(xp, NOTHING, features))
        if error is not None:
            log.info("no kernels for %s: %s: %s", features, type(error).__name__, error)
        found = _noted(xp, features, error)
    return found


def can_start(xp: Module, kernel: CudaKernel) -> bool:
    """Whether a kernel for features is compiled and loaded, now or by a call before; where memory was all
    that was missing, the next to ask may be luckier."""
    if not has_features(xp, kernel.features):
        return False
    error = _error_of(lambda: function_of(xp, kernel))
    if error is not None:
        what = (kernel.name, kernel.features, type(error).__name__, error)
        log.warning("kernel %s for %s cannot be loaded: %s: %s", *what)
    return _noted(xp, kernel.features, error)


def _error_of(function: Callable[[], Any]) -> Exception | None:
    try:
        function()
    except Exception as error:
        return error
    return None


def _noted(xp: Module, features: str, error: Exception | None) -> bool:
    is_for_want_of_memory = isinstance(error, MemoryError) or "OUT_OF_MEMORY" in str(error)
    if not is_for_want_of_memory:
        FEATURES.put((id(xp), _card(xp), features), error is None)
    return error is None


def _compile(xp: Module, source: str, features: str) -> Any:
    key = (id(xp), _card(xp), features, source)
    found = _LOADED.get(key)
    if found is None:
        compiler = xp.cuda.compiler
        made = compiler._compile_module_with_cache(source, OPTIONS, arch=Architecture(features))
        found = _LOADED.setdefault(key, (xp, made))  # of two threads the first keeps its own
    return found[1]


def _with_features(xp: Module, kernel: CudaKernel) -> Any:
    function = _compile(xp, kernel.source, kernel.features).get_function(kernel.name)
    if kernel.shared > PLAIN_SHARED:
        xp.cuda.driver.funcSetAttribute(function.ptr, MOST_SHARED, shared_memory(xp))
    return function


def shared_memory(xp: Module) -> int:
    """Bytes of shared memory that a block of the current card may have if a launch asks for them."""
    return card_of(xp).shared_memory


def card_of(xp: Module) -> Card:
    """The current card."""
    device = xp.cuda.Device()

    def asked() -> Card:  # each attribute is a call of the driver
        told = device.attributes
        is_hip = getattr(xp.cuda.runtime, "is_hip", False)
        said = "" if is_hip else str(getattr(device, "compute_capability", ""))
        return Card(
            int(said) if said.isdigit() else 0,
            int(told.get("MultiProcessorCount", 0)),
            int(told.get("MaxSharedMemoryPerBlockOptin", PLAIN_SHARED)),
        )

    return CARDS.get_or((id(xp), device.id), asked)


def by_value(words: Any) -> Any:
    """An array of integers as one structured scalar, which CuPy copies into the arguments.

    >>> by_value(np.array([5, 1], np.int32)).nbytes
    8
    """
    record = np.dtype([("words", words.dtype, (len(words),))])
    return np.ascontiguousarray(words).view(record)[0]
