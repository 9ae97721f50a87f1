"""The door for operands: what becomes a numpy.ndarray, what returns as torch, what is refused.

Nothing is copied silently: what cannot be read in place, or would lose meaning (a mask, a gradient,
a trace, a device), raises `ConversionError` naming the conversion to write.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._base.errors import ConversionError

_FOREIGN = {  # package of the operand's type -> what the user can write instead
    "dask": "call .compute() on it, or map einsum over its blocks (dask.array.einsum)",
    "sparse": "call .todense() on it",
    "cupy": "call .get() on it (this program runs on the CPU)",
    "tensorflow": "call .numpy() on it",
    "xarray": "pass its .values and name the dimensions in the subscripts",
}


_HOST = (1, 3, 11, 13)  # device types of DLPack that the CPU reads: its own, pinned, managed
CUDA = 2  # that of memory of a GPU


def as_ndarray(x: Any, call: str, position: int) -> np.ndarray[Any, Any]:
    """`x` as a plain numpy.ndarray, without a copy wherever memory can be shared."""
    if type(x) is np.ndarray:
        return x
    if isinstance(x, np.ma.MaskedArray):
        raise refused(x, call, position, "a mask has no meaning here; call .filled(0) on it")
    if isinstance(x, (np.ndarray, np.generic)):
        return np.asarray(x)
    package = type(x).__module__.partition(".")[0]
    if package == "torch":
        return _from_torch(x, call, position)
    if package in _FOREIGN:
        raise refused(x, call, position, _FOREIGN[package])
    if type(x).__module__.startswith("scipy.sparse"):
        raise refused(x, call, position, "call .toarray() on it")
    if package in ("jax", "jaxlib") and "Tracer" in type(x).__name__:
        raise refused(x, call, position, "it is traced; call einloom outside jax.jit and jax.grad")
    return _converted(x, call, position)


def is_torch(x: Any) -> bool:
    """Whether results should go back as torch tensors, because this operand is one."""
    return type(x).__module__.partition(".")[0] == "torch" and hasattr(x, "__dlpack__")


def check_torch_out(out: Any, call: str) -> None:
    """Refuse an `out` whose memory does not hold its values: a lazily conjugated or negated tensor."""
    if out.is_conj() or out.is_neg():
        raise ConversionError(
            f"{call}(out=...): out is a lazily conjugated or negated view; pass out.resolve_conj() "
            f"or out.resolve_neg(), or the tensor it shows"
        )


def to_torch(x: np.ndarray[Any, Any]) -> Any:
    """A torch tensor that shares the memory of `x` (copied only if torch cannot read its strides)."""
    import torch

    x = np.asarray(x)
    if not x.flags.writeable or any(stride < 0 for stride in x.strides):
        x = x.copy()
    if x.dtype.name == "bfloat16":
        return torch.from_dlpack(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_dlpack(x)


def resolved(x: Any, call: str, position: int) -> Any:
    """A torch tensor whose memory holds its values, on any device; what has none is refused."""
    if getattr(x, "requires_grad", False):
        raise refused(x, call, position, "it requires a gradient; call .detach() on it")
    if getattr(x, "is_sparse", False):
        raise refused(x, call, position, "call .to_dense() on it")
    for resolve in ("resolve_conj", "resolve_neg"):  # torch conjugates and negates lazily
        x = getattr(x, resolve, lambda x=x: x)()
    return x


def is_on_host(x: Any) -> bool:
    """Whether a torch tensor lies where the CPU reads it."""
    return getattr(getattr(x, "device", None), "type", "cpu") == "cpu"


def _from_torch(x: Any, call: str, position: int) -> np.ndarray[Any, Any]:
    if not is_on_host(x) and not getattr(x, "requires_grad", False):
        device = x.device.type
        said = f"it is on device {device!r}; call .cpu() on it"
        raise refused(x, call, position, said + (_without_gpu() if device == "cuda" else ""))
    x = resolved(x, call, position)
    if "bfloat16" in str(getattr(x, "dtype", "")):
        return _bfloat16(x)
    try:
        return np.asarray(np.from_dlpack(x))
    except (BufferError, RuntimeError, TypeError) as error:
        raise refused(x, call, position, f"DLPack says: {error}") from None


def _bfloat16(x: Any) -> np.ndarray[Any, Any]:
    """NumPy's DLPack has no bfloat16: pass the bits as int16."""
    import torch

    from .spec import dtype_from_name

    return np.from_dlpack(x.view(torch.int16)).view(dtype_from_name("bfloat16"))


def _converted(x: Any, call: str, position: int) -> np.ndarray[Any, Any]:
    place = getattr(x, "__dlpack_device__", None)
    if place is not None and (device := place())[0] not in _HOST:
        said = f"it is on device {device}; copy it to the CPU first"
        raise refused(x, call, position, said + (_without_gpu() if device[0] == CUDA else ""))
    if place is None and getattr(x, "__cuda_array_interface__", None) is not None:
        said = "it lies on a GPU; copy it to the CPU first"  # numpy.asarray would, and say nothing
        raise refused(x, call, position, said + _without_gpu())
    try:
        if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
            return np.asarray(np.from_dlpack(x))
        return np.asarray(x)
    except (ValueError, TypeError, BufferError, RuntimeError) as error:
        raise refused(x, call, position, f"NumPy cannot read it: {error}") from None


def _without_gpu() -> str:
    """Why a call with arrays of a GPU does not run there, where CuPy is what it lacks."""
    from .gpu import missing

    why = missing()
    return "" if why is None else f", or to compute on the GPU: {why}"


def refused(x: Any, call: str, position: int, remedy: str) -> ConversionError:
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    return ConversionError(f"{call}: operand {position} is a {kind}: {remedy}")
