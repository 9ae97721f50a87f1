"""How fast elements are read and written at indices, and windows taken out and added back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..harness import CaseResult
from .single_ops import OpCase, updated

SIZES, QUICK = (1000, 10_000), (20, 50)  # rows and columns


def index(quick: bool) -> Iterator[CaseResult]:
    """Gathers, scatters, unfold and fold of 10^7 elements."""
    rng = np.random.default_rng(11)
    shape = QUICK if quick else SIZES
    for cases in (gathers(shape, rng), scatters(shape, rng), sliding(quick, rng)):
        for case in cases:
            yield case.measured(quick)


def gathers(shape: tuple[int, int], rng: np.random.Generator) -> Iterator[OpCase]:
    columns = shape[1]
    for dtype in ("float64", "float32", "complex128"):
        flat = rng.random(shape[0] * columns).astype(dtype)
        places = rng.integers(0, flat.size, flat.size)
        yield OpCase(
            f"take {dtype}, elements",
            "take",
            {"axis": 0},
            (flat, places),
            lambda x, i: np.take(x, i),
            lambda torch: torch.take,
            lambda jax: lambda x, i: jax.numpy.take(x, i, mode="clip"),
        )
    x = rng.random(shape)
    table = x.reshape(-1, 100 if columns % 100 == 0 else 10)
    yield OpCase(
        "take float64, rows of 100",
        "take",
        {"axis": 0},
        (table, rng.integers(0, len(table), len(table))),
        lambda x, i: np.take(x, i, axis=0),
        lambda torch: lambda x, i: torch.index_select(x, 0, i),
        lambda jax: lambda x, i: jax.numpy.take(x, i, axis=0, mode="clip"),
    )
    yield OpCase(
        "take float64, columns",
        "take",
        {"axis": 1},
        (x, rng.integers(0, columns, columns)),
        lambda x, i: np.take(x, i, axis=1),
        lambda torch: lambda x, i: torch.index_select(x, 1, i),
        lambda jax: lambda x, i: jax.numpy.take(x, i, axis=1, mode="clip"),
    )
    for axis in (0, 1):
        yield OpCase(
            f"take_along_axis float64, axis {axis}",
            "take_along_axis",
            {"axis": axis},
            (x, rng.integers(0, shape[axis], shape)),
            lambda x, i, axis=axis: np.take_along_axis(x, i, axis),
            lambda torch, axis=axis: lambda x, i: torch.gather(x, axis, i),
            lambda jax, axis=axis: lambda x, i: jax.numpy.take_along_axis(x, i, axis, mode="clip"),
        )
    yield _windows(x, rng)


def _windows(x: Any, rng: np.random.Generator) -> OpCase:
    """Squares of 8 by 8 at random places."""
    corners = rng.integers(0, min(x.shape) - 8, (x.size // 64, 2))
    attrs = {
        "offset_dims": (1, 2),
        "collapsed_slice_dims": (),
        "start_index_map": (0, 1),
        "index_vector_dim": 1,
        "slice_sizes": (8, 8),
    }
    view = np.lib.stride_tricks.sliding_window_view(x, (8, 8))

    def by_jax(jax: Any) -> Any:
        def cut(x: Any, corner: Any) -> Any:
            return jax.lax.dynamic_slice(x, corner, (8, 8))

        return lambda x, corners: jax.vmap(cut, (None, 0))(x, corners)

    return OpCase(
        "gather float64, windows of 8 by 8",
        "gather",
        attrs,
        (x, corners),
        lambda x, corners: view[corners[:, 0], corners[:, 1]],
        lambda torch: lambda x, i: x.unfold(0, 8, 1).unfold(1, 8, 1)[i[:, 0], i[:, 1]],
        by_jax,
    )


def scatters(shape: tuple[int, int], rng: np.random.Generator) -> Iterator[OpCase]:
    x, u = rng.random(shape), rng.random(shape)
    n = x.size
    flat = x.reshape(-1), rng.permutation(n), u.reshape(-1)
    yield _along("scatter_along_axis set, elements", 0, "set", flat)
    flat = x.reshape(-1), rng.integers(0, n, n), u.reshape(-1)
    yield _along("scatter_along_axis add, elements", 0, "add", flat)
    for axis in (0, 1):
        lines = x, rng.permuted(np.indices(shape)[axis], axis=axis), u
        yield _along(f"scatter_along_axis set, axis {axis}", axis, "set", lines)
        lines = x, rng.integers(0, shape[axis], shape), u
        yield _along(f"scatter_along_axis add, axis {axis}", axis, "add", lines)
    width = 100 if shape[1] % 100 == 0 else 10
    table, more = x.reshape(-1, width), u.reshape(-1, width)
    attrs = {
        "update_window_dims": (1,),
        "inserted_window_dims": (0,),
        "scatter_dims_to_operand_dims": (0,),
        "index_vector_dim": 1,
    }
    yield OpCase(
        f"scatter, rows of {width}",
        "scatter",
        attrs,
        (table, rng.integers(0, len(table), (len(table), 1)), more),
        lambda x, i, u: updated(x, lambda y: np.add.at(y, i[:, 0], u)),
        lambda torch: lambda x, i, u: x.index_add(0, i[:, 0], u),
        lambda jax: lambda x, i, u: x.at[i[:, 0]].add(u),
        tolerance=1e-12,
    )


def _along(name: str, axis: int, mode: str, arrays: tuple[Any, ...]) -> OpCase:
    def by_numpy(x: Any, i: Any, u: Any) -> Any:
        where = [*np.indices(i.shape, sparse=True)]
        where[axis] = i
        if mode == "add":
            return updated(x, lambda y: np.add.at(y, tuple(where), u))
        return updated(x, lambda y: np.put_along_axis(y, i, u, axis))

    def by_torch(torch: Any) -> Any:
        if mode == "add":
            return lambda x, i, u: torch.scatter_add(x, axis, i, u)
        return lambda x, i, u: torch.scatter(x, axis, i, u)

    def by_jax(jax: Any) -> Any:
        def run(x: Any, i: Any, u: Any) -> Any:
            where = [*jax.numpy.indices(i.shape, sparse=True)]
            where[axis] = i
            there = x.at[tuple(where)]
            return there.add(u) if mode == "add" else there.set(u)

        return run

    attrs = {"axis": axis, "mode": mode, "unique_indices": False}
    tolerance = 1e-12 if mode == "add" else 0
    return OpCase(name, "scatter_along_axis", attrs, arrays, by_numpy, by_torch, by_jax, tolerance)


def sliding(quick: bool, rng: np.random.Generator) -> Iterator[OpCase]:
    """Windows over images, as torch.nn.functional has them."""
    for name, kernel, step, low, images in (
        ("3 by 3", 3, 1, 1, (16, 4, 128, 128)),
        ("8 by 8, side by side", 8, 8, 0, (16, 4, 384, 384)),
        ("5 by 5, every other", 5, 2, 2, (8, 8, 128, 128)),
    ):
        shape = (2, 2, 16, 16) if quick else images
        attrs = {
            name: (n, n)
            for name, n in zip(
                ("kernel", "strides", "dilation", "low", "high"),
                (kernel, step, 1, low, low),
                strict=True,
            )
        }
        yield from _sliding(name, rng.random(shape, np.float32), attrs)


def _sliding(name: str, x: Any, attrs: dict[str, Any]) -> Iterator[OpCase]:
    kernel, step, low, sizes = attrs["kernel"], attrs["strides"], attrs["low"], x.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (low[0],) * 2, (low[1],) * 2))
    view = np.lib.stride_tricks.sliding_window_view(padded, kernel, (2, 3))
    view = view[:, :, :: step[0], :: step[1]].transpose(0, 1, 4, 5, 2, 3)
    shape = (*x.shape[:2], kernel[0] * kernel[1], view.shape[4] * view.shape[5])
    columns = np.ascontiguousarray(view).reshape(shape)
    keywords = {"padding": low, "stride": step}

    def unfold(x: Any) -> Any:
        pad = ((0, 0), (0, 0), (low[0],) * 2, (low[1],) * 2)
        found = np.lib.stride_tricks.sliding_window_view(np.pad(x, pad), kernel, (2, 3))
        found = found[:, :, :: step[0], :: step[1]].transpose(0, 1, 4, 5, 2, 3)
        return np.ascontiguousarray(found).reshape(shape)

    def fold(columns: Any) -> Any:
        whole = np.zeros_like(padded)
        rows, others = view.shape[4:]
        for k, (a, b) in enumerate(np.ndindex(*kernel)):
            cut = slice(a, a + rows * step[0], step[0]), slice(b, b + others * step[1], step[1])
            whole[(..., *cut)] += columns[:, :, k].reshape(*x.shape[:2], rows, others)
        return whole[:, :, low[0] : low[0] + sizes[0], low[1] : low[1] + sizes[1]]

    yield OpCase(
        f"unfold, {name}",
        "unfold",
        attrs,
        (x,),
        unfold,
        lambda torch: lambda x: torch.nn.functional.unfold(x, kernel, **keywords).reshape(shape),
    )
    flat = (x.shape[0], -1, shape[-1])
    yield OpCase(
        f"fold, {name}",
        "fold",
        {"sizes": sizes, **attrs},
        (columns,),
        fold,
        lambda torch: (
            lambda c: torch.nn.functional.fold(c.reshape(flat), sizes, kernel, **keywords)
        ),
        tolerance=1e-5,
    )
