"""A GPU beside the libraries that it comes with, and beside torch, JAX and CuPy.

Raw calls of cuBLAS, cuTENSOR, cuFFT and plain copies are floors; peers are torch.einsum, cupy.einsum,
opt_einsum with torch, JAX compiled, and the linear algebra of CuPy and torch. Nobody rounds float32 to TF32.
Data are random. Without a card there is one result, which says so, and nothing is kept.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import opt_einsum

import einloom
from einloom.backend.gpu import cutensor
from einloom.backend.gpu.gemm import Matrices, bound, gemm_of
from einloom.backend.gpu.product import Product
from einloom.backend.gpu.uploads import Uploads
from einloom.backend.protocol import Backend
from einloom.backend.spec import ArraySpec
from einloom.contract.expression import Expression
from einloom.contract.problem_file import read_problem
from einloom.program.executable import Executable

from ..harness import CaseResult
from ..on_card import Timed, card, card_name, measure_on_card, once, queueing
from . import permutations, tccg
from .einsum import INSTANCES, SMALL

WIDE = {"float16": "float64", "float32": "float64", "complex64": "complex128"}
PRODUCTS = [
    ("ij,jk->ik", {"i": 256, "j": 256, "k": 256}),
    ("ij,jk->ik", {"i": 4096, "j": 4096, "k": 4096}),
    ("bij,bjk->bik", {"b": 20000, "i": 4, "j": 4, "k": 4}),
    ("bij,bjk->bik", {"b": 2000, "i": 32, "j": 32, "k": 32}),
    ("bji,bkj->bik", {"b": 200, "i": 128, "j": 128, "k": 128}),
]
FLOOR = "cuBLAS"
STRIDED: list[tuple[str, dict[str, int]]] = [
    ("kalb,kln->abn", {"k": 8, "a": 512, "l": 8, "b": 512, "n": 16}),
    ("kalb,kln->abn", {"k": 8, "a": 256, "l": 8, "b": 256, "n": 128}),
    ("kalb,ckln->abcn", {"k": 24, "a": 48, "l": 24, "b": 48, "c": 24, "n": 48}),
    ("abcd,dbe->ace", {"a": 400, "b": 32, "c": 300, "d": 24, "e": 24}),
    ("xakb,xbkc->xac", {"x": 64, "a": 200, "k": 16, "b": 24, "c": 200}),
]
UPLOADS = ((24, 8192, 256), (16, 12288, 1024))  # slices, rows and columns, terms of each
LAST = ("gm_queen5_5_3.wcsp",)  # of the networks: peers take minutes
ORDERS = (2, 4, 8, 16, 32, 64, 128, 256)
ELEMENTS = 1 << 24  # of a batch of systems, and of transforms
UNCHECKED = "einloom, unchecked"
SPECTRAL = 1 << 20  # of a batch whose eigenvalues are wanted: peers go from one matrix to the next
AGAIN = 12  # calls after which a contraction is a graph
LENGTHS = (1 << 10, 1 << 16, 1 << 20, 3 * 5 * 7 * 11 * 13)


def gpu(quick: bool) -> Iterator[CaseResult]:
    """Contractions, copies, matrices and transforms on a GPU, timed by events."""
    xp = card()
    if isinstance(xp, str):
        yield CaseResult("GPU", facts={"not measured": xp})
        return
    yield from cases(xp, einloom.backend.get("gpu"), quick)


def cases(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """All of them, over an array module that has CuPy's names."""
    for part in _PARTS:
        for result in part(xp, backend, quick):
            yield result
            freed(xp)


def freed(xp: Any) -> None:
    """What the libraries keep of the last case is in nobody's way."""
    xp.get_default_memory_pool().free_all_blocks()
    module = torch_on_card()
    if not isinstance(module, str):
        module.cuda.empty_cache()


def drawn(xp: Any, shape: Any, dtype: str, seed: int = 0) -> Any:
    """A random array on the device, where it is drawn."""
    xp.random.seed(seed)
    x: Any = xp.array(xp.random.standard_normal(tuple(shape)))
    if dtype.startswith("complex"):
        x = x + 1j * xp.array(xp.random.standard_normal(tuple(shape)))
    return x.astype(dtype)


def wide(x: Any) -> Any:
    return x.astype(WIDE.get(x.dtype.name, x.dtype.name))


# ---- contractions ---------------------------------------------------------------------------------


def products(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """Products of matrices beside cuBLAS."""
    for equation, sizes in PRODUCTS:
        said = "x".join(map(str, sizes.values()))
        if quick:
            sizes = {label: min(n, 6) for label, n in sizes.items()}
        shapes = [tuple(sizes[x] for x in term) for term in equation.partition("->")[0].split(",")]
        for dtype in ("float16", "float32", "float64", "complex64"):
            x, y = (drawn(xp, shape, dtype, k) for k, shape in enumerate(shapes))
            turned = (z.swapaxes(-1, -2) if equation.startswith("bji") else z for z in (x, y))
            name = f"{dtype} {equation} {said}"
            yield contraction(xp, backend, name, equation, (x, y), quick, floor=cublas(xp, *turned))


def cublas(xp: Any, a: Any, b: Any) -> Timed:
    """The raw call, into memory that is there."""
    out = xp.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    batch = a.shape[0] if a.ndim == 3 else 1
    lhs, rhs, target = (
        Matrices(*x.shape[-2:], x.size // batch, *(step // x.itemsize for step in x.strides[-2:]))
        for x in (a, b, out)
    )
    call = gemm_of(lhs, rhs, target, batch, (False, False))
    assert call is not None
    multiply = bound(xp, call, a.dtype, out.dtype)

    def run() -> Any:
        multiply(a, b, out)
        return out

    return Timed(run)


def contractions(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """The 48 of TCCG, beside the product of matrices with as many operations."""
    for dtype, short in (("float64", "f8"), ("float32", "f4")):
        found = list(tccg.cases(short, tccg.TINY if quick else 32 * tccg.MOST))
        for case in found[::24] if quick else found:
            *shapes, _ = case.shapes
            x, y = (drawn(xp, shape, dtype, k) for k, shape in enumerate(shapes))
            m, n, k = case.matrices
            floor = cublas(xp, x.reshape(m, k), y.reshape(k, n))
            name = f"{dtype} {case.family} {case.name}"
            yield contraction(xp, backend, name, case.equation, (x, y), quick, floor=floor)


def networks(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """The published einsum problems by their own path."""
    for file in sorted(INSTANCES.glob("*.json"), key=lambda file: (file.stem in LAST, file.stem)):
        if quick and file.stem not in SMALL:
            continue
        problem = read_problem(file)
        arrays = tuple(map(xp.array, problem.arrays(0)))
        path = [tuple(step) for step in problem.paths["opt_flops"]]
        yield contraction(xp, backend, problem.name, problem.equation, arrays, quick, path)


def strided(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """Products of which an operand does not fuse: as they lie by cuTENSOR, and copied first."""
    for equation, sizes in STRIDED:
        said = "x".join(map(str, sizes.values()))
        if quick:
            sizes = {label: min(n, 4) for label, n in sizes.items()}
        terms = equation.partition("->")[0].split(",")
        for dtype in ("float32", "float64", "complex128"):
            x, y = (
                drawn(xp, [sizes[k] for k in term], dtype, number)
                for number, term in enumerate(terms)
            )
            found, left_out = {}, {}
            if cutensor.module(xp) is None:
                left_out["cuTENSOR"] = "not installed"
            else:
                found["cuTENSOR"] = Timed(partial(_forced, xp, True, equation, x, y))
            found["packed"] = Timed(partial(_forced, xp, False, equation, x, y))
            yield measure_on_card(
                xp,
                f"{dtype} {equation} {said}",
                {"einloom": Timed(partial(einloom.einsum, equation, x, y)), **found},
                xp.einsum(equation, wide(x), wide(y)),
                dtype=dtype,
                baselines=("cuTENSOR", "packed"),
                facts={"strided": equation},
                left_out=left_out,
                quick=quick,
            )


def _forced(xp: Any, is_cutensor: bool, equation: str, x: Any, y: Any) -> Any:
    """A product by cuTENSOR, or with what does not fuse copied first."""
    left, right, out = equation.replace("->", ",").split(",")
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in out]
    summed = [label for label in shared if label not in out]
    attrs = {
        name: tuple(tuple(term.index(label) for label in labels) for term in (left, right))
        for name, labels in (("batch", batch), ("contracting", summed))
    }
    product = Product(xp, attrs, (ArraySpec(x.dtype, x.shape), ArraySpec(y.dtype, y.shape)))
    free = [label for label in left + right if label not in shared]
    if is_cutensor:
        found = cutensor.contract(xp, x, y, product.dims, product.shape)
        if found is None:
            raise einloom.Unsupported("cuTENSOR refuses it")
    else:
        found = xp.empty(product.shape, x.dtype)
        assert product.gemm(x, y, found)
    return found.transpose([[*batch, *free].index(label) for label in out])


def contraction(
    xp: Any,
    backend: Backend,
    name: str,
    equation: str,
    arrays: tuple[Any, ...],
    quick: bool,
    path: Any = None,
    floor: Timed | None = None,
) -> CaseResult:
    """One equation by everybody, by the same path; the floor may give the same numbers in another order."""
    asked = {"planner": path} if path else {}
    expression = Expression(einloom.plan(equation, *arrays, **asked), backend=backend)
    order = ["einsum_path", *path] if path else True
    found, left_out = elsewhere(equation, arrays, path)
    if path:
        try:
            found["einloom, graph"] = Timed(expression.capture(*arrays))
        except einloom.Unsupported as error:
            left_out["einloom, graph"] = str(error)[:200]
    return measure_on_card(
        xp,
        name,
        {
            "einloom": Timed(partial(expression, *arrays)),
            "cupy.einsum": Timed(partial(xp.einsum, equation, *arrays, optimize=order)),
            **found,
            **({} if floor is None else {FLOOR: floor}),
        },
        opt_einsum.contract(equation, *map(wide, arrays), optimize=path or "auto"),
        dtype=arrays[0].dtype.name,
        baselines=(FLOOR, "einloom, graph"),
        unchecked=(FLOOR,),
        facts={"equation": equation},
        left_out=left_out,
        quick=quick,
    )


def elsewhere(
    equation: str, arrays: tuple[Any, ...], path: Any
) -> tuple[dict[str, Timed], dict[str, str]]:
    """torch, opt_einsum with torch, and JAX, on the same numbers; and why one is left out."""
    made, left_out = {}, {}
    module = torch_on_card()
    if isinstance(module, str):
        left_out["torch"] = module
    else:
        tensors = [module.from_dlpack(x) for x in arrays]
        expression = opt_einsum.contract_expression(
            equation, *(x.shape for x in arrays), optimize=path or "auto"
        )
        made["torch.einsum"] = Timed(partial(module.einsum, equation, *tensors))
        made["opt_einsum+torch"] = Timed(partial(expression, *tensors))
    jax = jax_on_card()
    if isinstance(jax, str):
        left_out["jax"] = jax
    else:
        held = [jax.dlpack.from_dlpack(x) for x in arrays]
        order = path or "optimal"
        run = jax.jit(lambda *xs: jax.numpy.einsum(equation, *xs, optimize=order))
        made["jax"] = Timed(partial(run, *held), lambda value: value.block_until_ready())
    return made, left_out


@cache
def torch_on_card() -> Any:
    """The module torch, or why it takes no part."""
    try:
        import torch
    except ImportError:
        return "not installed"
    if not torch.cuda.is_available():
        return "sees no card"
    torch.backends.cuda.matmul.allow_tf32 = False
    return torch


@cache
def jax_on_card() -> Any:
    """The module jax, or why it takes no part."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the others need memory too
    try:
        import jax
    except ImportError:
        return "not installed"
    try:
        jax.devices("gpu")
    except RuntimeError:
        return "sees no card"
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_default_matmul_precision", "highest")
    return jax


# ---- copies, matrices, transforms -----------------------------------------------------------------


def copies(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """Permuted arrays, beside a plain copy of as many bytes."""
    for pattern in (*permutations.published(), *permutations.drawn()):
        if pattern.dtype not in ("float32", "float64", "complex128"):
            continue
        shape = permutations.shrunk(pattern.shape) if quick else pattern.shape
        memory = drawn(xp, [shape[axis] for axis in pattern.order], pattern.dtype)
        view = memory.transpose(np.argsort(pattern.order)).transpose(pattern.perm)
        out, flat = xp.empty(view.shape, view.dtype), xp.empty(memory.shape, memory.dtype)
        result = measure_on_card(
            xp,
            pattern.name,
            {
                "einloom": Timed(partial(backend.apply, "copy", {}, view, out=out)),
                "cupy": Timed(partial(xp.ascontiguousarray, view)),
                "copy": Timed(partial(_copied, xp, flat, memory)),
            },
            wide(view),
            dtype=pattern.dtype,
            baselines=("copy",),
            unchecked=("copy",),
            facts={"shape": shape, "rank": len(shape)},
            moved=2 * memory.nbytes,
            quick=quick,
        )
        result.copy_seconds = result.seconds["copy"]
        yield result


def _copied(xp: Any, target: Any, source: Any) -> Any:
    xp.copyto(target, source)
    return target


def matrices(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """Batches of solves, eigenvalues and singular values of small and medium orders."""
    for n in (2, 40) if quick else ORDERS:
        for dtype in ("float32", "float64"):
            singular = partial(xp.linalg.svd, compute_uv=False)
            for op, theirs, elements in (
                ("solve", xp.linalg.solve, ELEMENTS),
                ("eigvalsh", xp.linalg.eigvalsh, SPECTRAL),
                ("svdvals", singular, SPECTRAL),
            ):
                count = 3 if quick else max(1, min(1 << 16, elements // n**2))
                x, b = drawn(xp, (count, n, n), dtype), drawn(xp, (count, n, 2), dtype, 1)
                a = x @ x.swapaxes(-1, -2) / n + xp.array(np.eye(n, dtype=dtype))
                arrays = {"solve": (a, b), "eigvalsh": (a,), "svdvals": (x,)}[op]
                found, left_out = by_torch("linalg", op, arrays)
                ours = getattr(einloom.linalg, op)
                yield measure_on_card(
                    xp,
                    f"{op} {dtype} {count} of order {n}",
                    {
                        "einloom": Timed(partial(ours, *arrays)),
                        UNCHECKED: Timed(partial(_first_of, ours, *arrays)),
                        "cupy": Timed(partial(theirs, *arrays)),
                        **found,
                    },
                    theirs(*map(wide, arrays)),
                    dtype=dtype,
                    baselines=(UNCHECKED,),
                    facts={"op": op, "order": n},
                    left_out=left_out,
                    quick=quick,
                )


def _first_of(call: Callable[..., Any], *arrays: Any) -> Any:
    """As CuPy does, which looks at no codes: nothing waits."""
    return call(*arrays, on_error="info")[0]


def by_torch(
    room: str, op: str, arrays: tuple[Any, ...]
) -> tuple[dict[str, Timed], dict[str, str]]:
    """A function of one of torch's modules on the same numbers, or why there is none."""
    module = torch_on_card()
    if isinstance(module, str):
        return {}, {"torch": module}
    tensors = [module.from_dlpack(x) for x in arrays]
    return {"torch": Timed(partial(getattr(getattr(module, room), op), *tensors))}, {}


def transforms(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """Batches of complex transforms beside cuFFT."""
    for length in (8,) if quick else LENGTHS:
        for dtype in ("complex64", "complex128"):
            x = drawn(xp, (max(1, (64 if quick else ELEMENTS) // length), length), dtype)
            found, left_out = by_torch("fft", "fft", (x,))
            yield measure_on_card(
                xp,
                f"fft {dtype} {len(x)} of {length}",
                {
                    "einloom": Timed(partial(einloom.fft.fft, x)),
                    "cuFFT": Timed(partial(xp.fft.fft, x)),
                    **found,
                },
                xp.fft.fft(wide(x)),
                dtype=dtype,
                baselines=("cuFFT",),
                left_out=left_out,
                quick=quick,
            )


def uploads(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """Slices of arrays of the host: how much of the copying is hidden behind what is computed."""
    for slices, rows, terms in UPLOADS:
        n, m, k = (3, 5, 4) if quick else (slices, rows, terms)
        rng = np.random.default_rng(0)
        a, b = (rng.standard_normal(shape, np.float32) for shape in ((n, m, k), (n, k, m)))
        plan = replace(einloom.plan("smk,skn->mn", a, b), sliced=(0,))
        expression = Expression(plan, backend=backend)
        on = tuple(map(xp.array, (a, b)))
        run = partial(expression.run_slices, devices=("gpu:0",))
        seconds = {
            "einloom": _clock(xp, partial(run, a, b), quick),
            "computing": _clock(xp, partial(run, *on), quick),
            "uploading": _clock(xp, partial(_uploaded, xp, a, b), quick),
        }
        together, computing, uploading = seconds.values()
        hidden = (computing + uploading - together) / min(computing, uploading)
        yield CaseResult(
            f"upload {slices} slices of {rows} x {terms}",
            seconds=seconds,
            baselines=("computing", "uploading"),
            facts={"card": card_name(xp), "dtype": "float32", "hidden": f"{hidden:.2f}"},
        )


def _uploaded(xp: Any, a: Any, b: Any) -> None:
    pieces = {place: (x, ((0, 0),)) for place, x in enumerate((a, b))}
    queue = Uploads(xp, 0, [None, None], pieces, lambda number: (number,))
    for number in range(len(a)):
        queue(number)
    queue.close()


def _clock(xp: Any, call: Callable[[], Any], quick: bool) -> float:
    """Median seconds by the clock of the host, until the device is done."""
    seconds = [once(xp, Timed(call)) for _ in range(1 if quick else 5)]
    return statistics.median(seconds[1:] or seconds)


def overhead(xp: Any, backend: Backend, quick: bool) -> Iterator[CaseResult]:
    """What the host spends for each instruction of a program, none fused."""
    steps = 4 if quick else 100

    def chain(x: Any) -> Any:
        for _ in range(steps):
            x = einloom.einsum("ij,jk->ik", x, x)
        return x

    program = einloom.trace(chain, "float32[n,n]", sizes={"n": 4}).bind([(4, 4)])
    run = Executable(program, backend, fuse=False)
    x = xp.array(np.eye(4, dtype=np.float32))
    facts = {}
    for how, call in (("called", partial(run, x)), ("as a graph", run.capture(x))):
        seconds = queueing(xp, call, 3 if quick else 200)
        facts[f"each instruction, {how}"] = f"{seconds / steps * 1e6:.2f} us"
    labels = [chr(192 + k) for k in range(steps + 1)]
    equation = ",".join(f"{a}{b}" for a, b in pairwise(labels)) + f"->{labels[0]}{labels[-1]}"
    arrays = [x] * steps
    expression = Expression(einloom.plan(equation, *arrays), backend=backend)
    again = partial(expression, *arrays)
    for _ in range(AGAIN):
        again()
    seconds = queueing(xp, again, 3 if quick else 200)
    facts["each step of a contraction, called again"] = f"{seconds / (steps - 1) * 1e6:.2f} us"
    yield CaseResult("host time", facts=facts)


def _alone(part: Callable[..., Iterator[CaseResult]]) -> Callable[[bool], Iterator[CaseResult]]:
    def run(quick: bool) -> Iterator[CaseResult]:
        xp = card()
        if isinstance(xp, str):
            yield CaseResult("GPU", facts={"not measured": xp})
            return
        for result in part(xp, einloom.backend.get("gpu"), quick):
            yield result
            freed(xp)

    run.__doc__ = part.__doc__
    return run


_PARTS = (
    products,
    contractions,
    strided,
    networks,
    copies,
    matrices,
    transforms,
    uploads,
    overhead,
)
PARTS = {part.__name__: _alone(part) for part in _PARTS}
