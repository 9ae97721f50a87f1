"""Lists of matrices of different sizes: the blocks of tensors with a symmetry, elements of a mesh.

Matrices of one shape and dtype are stacked and done as one batch. A batch that is large enough to keep all
threads busy has them all; the others are shared out among the threads of one pool, the largest first, with
one thread of BLAS each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .._base.errors import CallError, MatrixShapeError
from .._base.options import get_options, num_threads
from ..backend.catalogue import Attrs
from ..backend.cpu.blas import ONE_BLAS_THREAD
from ..backend.cpu.threads import parallel_for
from . import ops
from .beyond import one_of
from .failures import NOT_FINITE, OnError, check_on_error, settle
from .op import Op, not_finite
from .operands import check_square, common, operand
from .results import EighResult, SVDResult

Array = np.ndarray[Any, Any]
Members = list[tuple[Array, ...]]

LONE = (
    256  # matrices of this order and above use the threads of BLAS, where they are much of the work
)
SHARE = 8  # much: this part of it


def solve_batch(
    matrices: Iterable[Any],
    right_sides: Iterable[Any],
    *,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """x_i with a_i @ x_i = b_i, for matrices of different sizes, on all threads.

    Args:
        matrices: a_i [n_i, n_i].
        right_sides: b_i, as many: a vector [n_i] or [n_i, k_i].
        check_finite: look for NaN and infinity first; they are failures then.
        on_error: "raise" names the matrices that failed, "nan" fills their results, "info" returns their
            codes as well.

    Returns:
        list of arrays shaped like the b_i; some may be parts of one array. With on_error="info"
        (list, info int32 [matrices]).

    Raises:
        LinAlgError: singular matrices.
        MatrixShapeError, DTypeError: the message names the matrix.

    Complexity: sum of n_i³/3 multiplications, beside one copy of operands that share a shape.

    >>> import numpy as np
    >>> [x.tolist() for x in solve_batch([np.eye(2), [[4.0]]], [np.ones(2), np.ones((1, 1))])]
    [[1.0, 1.0], [[0.25]]]
    """
    call = "solve_batch"
    left, right = list(matrices), list(right_sides)
    if len(left) != len(right):
        raise CallError(f"{call}: {len(left)} matrices and {len(right)} right-hand sides")
    members: Members = []
    vectors = []
    for at, pair in enumerate(zip(left, right, strict=True)):
        a, b = common(f"{call}: system {at}", *(operand(call, x, at) for x in pair))
        _check_matrix(f"{call}: system {at}", a, is_square=True)
        vectors.append(b.ndim == 1)
        b = b[:, None] if b.ndim == 1 else b
        if b.ndim != 2 or len(b) != len(a):
            raise MatrixShapeError(
                f"{call}: system {at}: a matrix of shape {a.shape} and a right-hand side of shape "
                f"{b.shape} do not fit; give [n] or [n, k]"
            )
        members.append((a, b))
    found, info = _each(ops.SOLVE, call, {}, members, on_error, check_finite)
    results = [x[:, 0] if is_one else x for (x,), is_one in zip(found, vectors, strict=True)]
    return (results, info) if on_error == "info" else results


def svd_batch(
    matrices: Iterable[Any],
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a_i = U_i @ diag(S_i) @ Vh_i, for matrices of different sizes, on all threads.

    Args:
        matrices: a_i [m_i, n_i].
        full_matrices, compute_uv: as in `svd`, but thin by default.
        check_finite, on_error: as in `solve_batch`.

    Returns:
        list of SVDResult, or of S_i alone; with on_error="info" (list, info).

    Raises:
        LinAlgError: no convergence.
        MatrixShapeError, DTypeError: the message names the matrix.

    >>> import numpy as np
    >>> [s.tolist() for _, s, _ in svd_batch([np.eye(2), 3 * np.ones((1, 1))])]
    [[1.0, 1.0], [3.0]]
    """
    call = "svd_batch"
    attrs = {"full": bool(full_matrices), "vectors": bool(compute_uv)}
    members = _matrices(call, matrices, is_square=False)
    found, info = _each(ops.SVD, call, attrs, members, on_error, check_finite)
    results = [SVDResult(*x) if compute_uv else x[0] for x in found]
    return (results, info) if on_error == "info" else results


def eigh_batch(
    matrices: Iterable[Any],
    UPLO: str = "L",  # noqa: N803
    compute_vectors: bool = True,
    *,
    check_finite: bool = False,
    on_error: OnError = "raise",
) -> Any:
    """a_i V_i = V_i diag(w_i) of Hermitian matrices of different sizes, on all threads.

    Args:
        matrices: a_i [n_i, n_i], of which one triangle is read.
        UPLO: "L" for the lower triangles, "U" for the upper ones.
        compute_vectors: False for eigenvalues alone.
        check_finite, on_error: as in `solve_batch`.

    Returns:
        list of EighResult, or of the w_i alone; with on_error="info" (list, info).

    Raises:
        LinAlgError: no convergence.
        MatrixShapeError, DTypeError: the message names the matrix.

    >>> import numpy as np
    >>> [w.tolist() for w, _ in eigh_batch([np.diag([2.0, 1.0]), np.ones((1, 1))])]
    [[1.0, 2.0], [1.0]]
    """
    call = "eigh_batch"
    one_of(call, "UPLO", UPLO, ("L", "U", "l", "u"))
    attrs = {"upper": UPLO in ("U", "u"), "vectors": bool(compute_vectors)}
    members = _matrices(call, matrices, is_square=True)
    found, info = _each(ops.EIGH, call, attrs, members, on_error, check_finite)
    results = [EighResult(*x) if compute_vectors else x[0] for x in found]
    return (results, info) if on_error == "info" else results


def _matrices(call: str, given: Iterable[Any], is_square: bool) -> Members:
    members: Members = []
    for at, x in enumerate(given):
        a = common(f"{call}: matrix {at}", operand(call, x, at))[0]
        _check_matrix(f"{call}: matrix {at}", a, is_square)
        members.append((a,))
    return members


def _check_matrix(what: str, a: Array, is_square: bool) -> None:
    if a.ndim != 2:
        raise MatrixShapeError(f"{what} has shape {a.shape}; give one matrix for each entry")
    if is_square:
        check_square(what, a)


# ---- groups of one shape ---------------------------------------------------------------------------


def _each(
    op: Op, call: str, attrs: Attrs, members: Members, on_error: OnError, check_finite: bool
) -> tuple[list[tuple[Any, ...]], Array]:
    """The outputs of an op for every member, and its code."""
    check_on_error(call, on_error)
    info = np.zeros(len(members), np.int32)
    results: list[tuple[Any, ...]] = [()] * len(members)
    groups: dict[Any, list[int]] = {}
    for at, arrays in enumerate(members):
        groups.setdefault(tuple((x.shape, x.dtype) for x in arrays), []).append(at)

    def run(group: list[int]) -> None:
        stacks = tuple(_stacked([members[at][k] for at in group]) for k in range(len(members[0])))
        infinite = not_finite(stacks) if check_finite else None
        if infinite is not None:
            stacks = tuple(np.where(infinite[:, None, None], 0, x) for x in stacks)
        outputs, codes = op.run(attrs, *stacks)
        codes = np.zeros(len(group), np.int32) if codes is None else codes
        if infinite is not None:
            codes = np.where(infinite, np.int32(NOT_FINITE), codes)
        if on_error != "raise":
            settle(call, op.failure, outputs, codes, on_error)
        info[group] = codes
        for k, at in enumerate(group):
            results[at] = tuple(x[k] for x in outputs)

    _shared_out(run, list(groups.values()), members)
    settle(call, op.failure, (), info, on_error)
    return results, info


def _stacked(arrays: list[Array]) -> Array:
    return arrays[0][None] if len(arrays) == 1 else np.stack(arrays)


def _shared_out(
    run: Callable[[list[int]], None], groups: list[list[int]], members: Members
) -> None:
    """Groups that keep all threads busy one after another, the others at once."""
    work = [len(group) * _work(members[group[0]][0].shape) for group in groups]
    total, threads = sum(work), num_threads()
    alone: list[list[int]] = []
    shared: list[list[int]] = []
    for group, size in sorted(zip(groups, work, strict=True), key=lambda pair: -pair[1]):
        n = max(members[group[0]][0].shape)
        is_busy = len(group) >= 4 * threads or (n >= LONE and size * SHARE >= total)
        (alone if is_busy or total < get_options().small else shared).append(group)
    for group in alone:
        run(group)
    if len(shared) == 1:
        run(shared[0])
    elif shared:
        _in_pool(run, shared, threads)


def _work(shape: Sequence[int]) -> int:
    m, n = shape
    return m * n * min(m, n)


def _in_pool(run: Callable[[list[int]], None], groups: list[list[int]], threads: int) -> None:
    """Each thread takes the next group when it is done with one."""
    waiting = deque(groups)

    def piece(start: int, stop: int) -> None:
        while True:
            try:
                group = waiting.popleft()
            except IndexError:
                return
            try:
                run(group)
            except BaseException:
                waiting.clear()
                raise

    with ONE_BLAS_THREAD:
        parallel_for(piece, min(threads, len(groups)), threads)
