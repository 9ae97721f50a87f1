"""Which einsums the tests try: a corpus under headings, and random ones from a seed.

A case is a frozen value that prints as the lines that repeat it.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import permutations
from types import EllipsisType
from typing import Any

import numpy as np

from tests.oracles import label_sizes

Label = Hashable
Shape = tuple[int, ...]
Term = tuple[Label | EllipsisType, ...]
Equation = str | tuple[Term, ...]  # interleaved: a term per operand, then the output if explicit

NUMPY_2 = int(np.__version__.split(".")[0]) >= 2


@dataclass(frozen=True, slots=True)
class Case:
    """One call of einsum; its operands are drawn from its own seed."""

    equation: Equation
    shapes: tuple[Shape, ...]
    dtypes: tuple[str, ...] = ("float64",)  # one for all, or one per operand
    layouts: tuple[str, ...] = ("C",)
    seed: int = 0
    out: str | None = None  # dtype of `out`
    out_layout: str = "C"
    dtype: str | None = None
    order: str | None = None
    casting: str | None = None

    @property
    def labels(self) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
        """Labels of each operand and of the output, without ellipsis."""
        return resolve(self.equation, self.shapes)

    @property
    def compute_dtype(self) -> np.dtype:
        """dtype= if given, else the common dtype of the operands and `out`."""
        given = (*self.dtypes, self.out) if self.out else self.dtypes
        return np.dtype(self.dtype) if self.dtype else np.result_type(*map(np.dtype, given))

    @property
    def result_dtype(self) -> np.dtype:
        return np.dtype(self.out) if self.out else self.compute_dtype

    @property
    def is_view(self) -> bool:
        """One operand, nothing summed or converted: the result is a view of it."""
        inputs, output = self.labels
        kept = len(inputs) == 1 and set(inputs[0]) == set(output) and not self.embeds
        return kept and self.out is None and self.compute_dtype == np.dtype(self.dtypes[0])

    @property
    def embeds(self) -> bool:
        output = self.labels[1]
        return len(set(output)) < len(output)

    @property
    def numpy_can(self) -> bool:
        """NumPy has this form too, and means the same by it.

        A size 0 is left out: NumPy 2.4 then writes past the end of the result ("abc,de->deabc"
        with c of size 0 corrupts the heap).
        """
        inputs, output = self.labels
        if isinstance(self.equation, str):
            known = all(c.isascii() and c not in "()0123456789" for c in self.equation)
        else:
            named = {x for term in self.equation for x in term if x is not Ellipsis}
            known = all(type(x) is int and 0 <= x < 52 for x in named)
        ignores_dtype = len(inputs) == 1 and self.out is None and set(inputs[0]) == set(output)
        scalar = () in self.shapes or (self.out is not None and output == ())
        by_value = scalar and not NUMPY_2 and len({*self.dtypes, self.out or self.dtypes[0]}) > 1
        return (
            known
            and not any(0 in shape for shape in self.shapes)
            and len(set().union(*inputs)) <= 32
            and len(inputs) <= 31
            and max(map(len, inputs)) <= 32
            and not self.embeds
            and not (self.dtype and ignores_dtype)
            and not by_value
            and "bfloat16" not in self.dtypes
        )

    def operands(self) -> list[np.ndarray]:
        rng, count = np.random.default_rng(self.seed), len(self.shapes)
        return [
            lay_out(draw(rng, shape, np.dtype(dtype), self.compute_dtype), layout, rng)
            for shape, dtype, layout in zip(
                self.shapes, spread(self.dtypes, count), spread(self.layouts, count), strict=True
            )
        ]

    def out_array(self) -> np.ndarray | None:
        """An `out` of the right shape, full of what must not survive."""
        if self.out is None:
            return None
        inputs, output = self.labels
        sizes = label_sizes(inputs, self.shapes)
        dtype = np.dtype(self.out)
        junk = np.full([sizes[label] for label in output], 77 if dtype.kind in "biu" else np.nan)
        return lay_out(junk.astype(dtype), self.out_layout, np.random.default_rng(self.seed))

    def arguments(self, operands: Sequence[np.ndarray] | None = None) -> list[Any]:
        """Positional arguments of the call."""
        operands = self.operands() if operands is None else operands
        if isinstance(self.equation, str):
            return [self.equation, *operands]
        pairs = zip(operands, self.equation, strict=False)  # the output may follow
        arguments = [x for array, term in pairs for x in (array, list(term))]
        return arguments + [list(term) for term in self.equation[len(operands) :]]

    def keywords(self, out: np.ndarray | None = None) -> dict[str, Any]:
        """Keyword arguments of the call."""
        out = self.out_array() if out is None else out
        given = {"out": out, "dtype": self.dtype, "order": self.order, "casting": self.casting}
        given["embed_diagonal"] = self.embeds or None
        return {name: value for name, value in given.items() if value is not None}

    def __repr__(self) -> str:
        """The call that makes this case, without defaults."""
        shown = [repr(self.equation), repr(self.shapes)]
        for field in fields(self)[2:]:
            value = getattr(self, field.name)
            shown += [f"{field.name}={value!r}"] if value != field.default else []
        return f"Case({', '.join(shown)})"

    def __str__(self) -> str:
        return (
            "# from the root of the repository:\n"
            "import einloom\n"
            "from tests.cases import Case\n"
            f"case = {self!r}\n"
            "einloom.einsum(*case.arguments(), **case.keywords())"
        )


def resolve(
    equation: Equation, shapes: Sequence[Shape]
) -> tuple[list[tuple[Label, ...]], tuple[Label, ...]]:
    """Labels of each operand and of the output; the axes of '...' are ("...", k from the right)."""
    if isinstance(equation, str):
        left, arrow, right = re.sub(r"[\s()]", "", equation).partition("->")
        terms, output = [tokens(term) for term in left.split(",")], tokens(right) if arrow else None
    else:
        terms = list(equation[: len(shapes)])
        output = equation[len(shapes)] if len(equation) > len(shapes) else None
    hidden = [len(shape) - len(term) + 1 for term, shape in zip(terms, shapes, strict=True)]
    inputs = [expand(term, rank) for term, rank in zip(terms, hidden, strict=True)]
    widest = max([r for term, r in zip(terms, hidden, strict=True) if Ellipsis in term], default=0)
    if output is None:
        count = Counter(label for term in terms for label in term if label is not Ellipsis)
        once: list[Any] = [label for label, n in count.items() if n == 1]
        output = (Ellipsis, *sorted(once))
    return inputs, expand(output, widest)


def tokens(text: str) -> Term:
    return tuple(Ellipsis if t == "..." else t for t in re.findall(r"\.\.\.|.", text))


def expand(term: Term, rank: int) -> tuple[Label, ...]:
    """The term with its ellipsis, if any, as `rank` labels that count from the right."""
    hidden = [("...", k) for k in reversed(range(rank))]
    return tuple(x for label in term for x in (hidden if label is Ellipsis else [label]))


def spread(values: tuple[str, ...], count: int) -> tuple[str, ...]:
    return values * count if len(values) == 1 else values


# Operands ---------------------------------------------------------------------------------------


def draw(rng: np.random.Generator, shape: Shape, dtype: np.dtype, compute: np.dtype) -> np.ndarray:
    """Numbers with every bit of their dtype in use; integers wrap where the result is integer.

    No product of six leaves the range of float16.
    """
    if dtype.kind == "b":
        return np.asarray(rng.random(shape) < 0.6)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if compute.kind in "biu" else (max(info.min, -2), 2)
        return np.asarray(rng.integers(low, high, shape, dtype, endpoint=True))
    if dtype.kind == "c":
        part = np.zeros((), dtype).real.dtype
        values = np.empty(shape, dtype)
        values.real, values.imag = (draw(rng, shape, part, compute) for _ in range(2))
        return np.asarray(values * part.type(0.75))
    values = rng.uniform(0.5, 1.25, shape).astype(np.longdouble)
    values = values + rng.random(shape) * np.longdouble(2) ** -53  # bits beyond float64
    return np.asarray(values * rng.choice([-1, 1], shape), dtype)


LAYOUTS = (
    "C",
    "F",
    "transposed",
    "sliced",
    "reversed",
    "unaligned",
    "swapped",  # the other byte order
    "readonly",
    "broadcast",  # a zero stride; changes the values
)


def lay_out(values: np.ndarray, layout: str, rng: np.random.Generator) -> np.ndarray:
    """The same values (but for "broadcast") in another place in memory."""
    if layout in ("C", "F"):
        return np.array(values, order=layout)
    if layout == "transposed":
        order = rng.permutation(values.ndim)
        return np.array(values.transpose(order), order="C").transpose(np.argsort(order))
    if layout == "sliced":
        drawn = rng.integers(1, 4, values.ndim).tolist()
        pairs = [(n, s if n > 1 else 1) for n, s in zip(values.shape, drawn, strict=True)]
        room = np.zeros([n * step for n, step in pairs], values.dtype)
        view = room[(*(slice(None, None, step) for _, step in pairs), ...)]
        view[...] = values
        return view
    if layout == "reversed":
        flip = (*(slice(None, None, int(s)) for s in rng.choice([-1, 1], values.ndim)), ...)
        return np.array(values[flip], order="C")[flip]
    if layout == "unaligned":
        view = np.zeros(values.nbytes + 1, np.uint8)[1:].view(values.dtype).reshape(values.shape)
        view[...] = values
        return view
    if layout == "swapped":
        return values.astype(values.dtype.newbyteorder())
    if layout == "broadcast" and values.ndim:
        first = [slice(None)] * values.ndim
        first[rng.integers(values.ndim)] = slice(0, 1)
        return np.broadcast_to(values[tuple(first)], values.shape)
    values.flags.writeable = False
    return values


# Corpus -----------------------------------------------------------------------------------------


def tiny(equation: str, ellipsis: Shape = (), **sizes: int) -> Case:
    """The equation with every label of size 2 that is not given another."""
    terms = [tokens(term) for term in re.sub(r"\s", "", equation).partition("->")[0].split(",")]
    return Case(equation, tuple(shape_of(term, sizes, ellipsis) for term in terms))


def shape_of(term: Term, sizes: dict[str, int], ellipsis: Shape) -> Shape:
    sized = [ellipsis if label is Ellipsis else (sizes.get(str(label), 2),) for label in term]
    return tuple(n for under in sized for n in under)


def rows(*table: tuple[Any, ...]) -> list[Case]:
    """Cases from rows (equation, shape of each operand ...)."""
    return [Case(equation, tuple(shapes)) for equation, *shapes in table]


MANY = [chr(0x4E00 + k) for k in range(78)]  # more labels than the alphabet has letters
SIXTY_FOUR = [chr(0x5200 + k) for k in range(120)]

CORPUS: dict[str, list[Case]] = {
    "traces": rows(
        ("ii->", (3, 3)),
        ("ii", (3, 3)),
        ("iii->", (2, 2, 2)),
        ("iijj->", (2, 2, 3, 3)),
        ("ijij->", (2, 3, 2, 3)),
        ("iij->j", (3, 3, 2)),
        ("jii->j", (2, 3, 3)),
        ("abijjc->abc", (2, 1, 2, 3, 3, 2)),
        ("qaii->qia", (2, 3, 2, 2)),
        ("ij,ji->", (2, 3), (3, 2)),
        ("ii,jj->", (2, 2), (3, 3)),
        ("ij,jk,ki->", (2, 3), (3, 4), (4, 2)),
        ("iij,j->", (2, 2, 3), (3,)),
        ("iik,kjj->ij", (2, 2, 3), (3, 4, 4)),
    ),
    "diagonals": rows(
        ("ii->i", (3, 3)),
        ("iii->i", (2, 2, 2)),
        ("iij->ij", (2, 2, 3)),
        ("iij->ji", (2, 2, 3)),
        ("iji->ji", (2, 3, 2)),
        ("ijji->ij", (2, 3, 3, 2)),
        ("iijj->ji", (2, 2, 3, 3)),
        ("ii,i->i", (3, 3), (3,)),
        ("ii,ii->i", (3, 3), (3, 3)),
        ("ii,jj->ij", (2, 2), (3, 3)),
        ("ii,ij,jj->ij", (2, 2), (2, 3), (3, 3)),
        ("ii,ij->j", (2, 2), (2, 3)),
    ),
    "hyperedges": rows(
        ("i,i,i->i", (3,), (3,), (3,)),
        ("i,i,i->", (3,), (3,), (3,)),
        ("ij,ij,ij->ij", (2, 3), (2, 3), (2, 3)),
        ("ij,ik,il->jkl", (2, 3), (2, 2), (2, 4)),
        ("ij,ik,il->ijkl", (2, 3), (2, 2), (2, 4)),
        ("ai,aj,ak->ijk", (3, 2), (3, 3), (3, 2)),
        ("abx,bcx,cax->x", (2, 3, 2), (3, 2, 2), (2, 2, 2)),
        ("abx,bcx,cax->", (2, 3, 2), (3, 2, 2), (2, 2, 2)),
        ("x,xi,xj,xk->xijk", (2,), (2, 3), (2, 2), (2, 2)),
        ("abi,bci,cdi->ad", (2, 2, 3), (2, 3, 3), (3, 2, 3)),
        ("ii,ij,ik->jk", (3, 3), (3, 2), (3, 2)),
    ),
    "outer products": rows(
        ("i,j->ij", (3,), (2,)),
        ("i,j->ji", (3,), (2,)),
        ("i,j", (3,), (2,)),
        ("ij,kl->ijkl", (2, 3), (3, 2)),
        ("ij,kl->kilj", (2, 3), (3, 2)),
        ("i,j,k->kij", (2,), (3,), (4,)),
        ("i,j->i", (3,), (2,)),
        ("i,j->", (3,), (2,)),
        ("ij,kl->", (2, 3), (3, 2)),
        ("ab,b,c->ac", (2, 3), (3,), (2,)),
        ("a,b,c,d,e,f->fedcba", (2,), (2,), (3,), (1,), (2,), (2,)),
    ),
    "scalars": rows(
        ("", ()),
        ("->", ()),
        (",", (), ()),
        (",->", (), ()),
        (",,->", (), (), ()),
        (",i->i", (), (3,)),
        ("i,->i", (3,), ()),
        ("i,->", (3,), ()),
        (",ij,->ji", (), (2, 3), ()),
        ("i->", (4,)),
        ("ij->", (2, 3)),
        ("i,i->", (4,), (4,)),
        ("ij,ij->", (2, 3), (2, 3)),
        ("i,ij,j->", (2,), (2, 3), (3,)),
        (((), ()), ()),
    ),
    "size 0 and 1": rows(
        ("i->", (0,)),
        ("i->i", (0,)),
        ("ij->ji", (0, 2)),
        ("ij->i", (2, 0)),
        ("ij->j", (2, 0)),
        ("ii->", (0, 0)),
        ("ii->i", (0, 0)),
        ("ijk->", (2, 0, 3)),
        ("ij,jk->ik", (0, 3), (3, 2)),
        ("ij,jk->ik", (2, 0), (0, 3)),
        ("ij,jk->ik", (0, 0), (0, 0)),
        ("ij,ij->ij", (0, 2), (0, 2)),
        ("ij,ij->ij", (0, 1), (1, 3)),
        ("ij,jk->ik", (2, 1), (0, 3)),
        ("i,j->ij", (0,), (2,)),
        (",i->i", (), (0,)),
        ("ab,bc,cd->ad", (2, 0), (0, 3), (3, 2)),
        ("ab,bc,cd->ad", (2, 3), (3, 0), (0, 2)),
        ("i->", (1,)),
        ("ii->", (1, 1)),
        ("ij,jk->ik", (1, 1), (1, 1)),
        ("ij,jk->ik", (2, 1), (1, 3)),
        ("a,b,c->abc", (1,), (1,), (1,)),
        ("aib,bjc->iajc", (1, 2, 1), (1, 3, 1)),
        ("ij->i", (3, 1)),
    ),
    "broadcasting": rows(
        ("ij,jk->ik", (2, 1), (3, 4)),
        ("ij,jk->ik", (2, 3), (1, 4)),
        ("ij,ij->ij", (2, 1), (1, 3)),
        ("ij,ij->", (1, 3), (2, 1)),
        ("i,i->", (1,), (3,)),
        ("i,i->i", (3,), (1,)),
        ("ij,j,j->i", (2, 1), (3,), (1,)),
        ("ab,ab,ab->", (1, 1), (2, 1), (1, 3)),
        ("bij,bjk->bik", (1, 2, 3), (4, 3, 2)),
        ("bij,bjk->ik", (1, 2, 3), (4, 3, 2)),
        ("ii,i->i", (1, 1), (3,)),
        ("ii,i->", (3, 3), (1,)),
        ("iij,ij->j", (1, 1, 2), (3, 1)),
        ("ij,jk,kl->il", (2, 3), (1, 4), (1, 2)),
        ("ijp,ipq,ikq->ijk", (3, 1, 1), (3, 1, 3), (1, 3, 3)),
        ("gah,cdbcghefg->ef", (2, 3, 1), (1, 3, 1, 1, 1, 2, 1, 4, 1)),
        ("cacc,bcb->", (1, 1, 1, 1), (1, 4, 1)),
    ),
    "ellipsis": rows(
        ("...", (2, 3)),
        ("...->...", (2, 3)),
        ("...->", ()),
        ("...->...", ()),
        ("...ij->...ji", (2, 3, 4)),
        ("...ij->...ji", (3, 4)),
        ("...ji", (2, 3, 4)),
        ("i...->...", (2, 3, 2)),
        ("i...->i...", (2, 3, 2)),
        ("i...->...i", (2, 3, 2)),
        ("i...j->j...i", (2, 3, 2)),
        ("...ii->...i", (2, 3, 3)),
        ("...ii->...", (2, 3, 3)),
        ("i...i->...", (3, 2, 3)),
        ("...ij,...jk->...ik", (2, 3), (3, 2)),
        ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
        ("...ij,...jk->ik...", (2, 1, 2, 3), (1, 3, 3, 2)),
        ("i...,i...->...", (3, 2), (3, 2)),
        ("...i,...i", (2, 3), (3,)),
        ("ij...,j->i...", (2, 3, 2), (3,)),
        ("ij...,...->ij...", (2, 3), ()),
        ("...,...", (3, 1), (2,)),
        ("...,...,...->...", (2, 1), (3,), ()),
        ("ik,k...->i...", (2, 3), (3, 2)),
        ("...k,kj", (2, 2, 3), (3, 2)),
        ("k...,jk", (3, 2), (2, 3)),
        ("mj, ...jk, kn -> ...mn", (2, 3), (2, 3, 2), (2, 3)),
        ("...,i->i", (), (3,)),
        (((..., 0), (0, ...)), (2, 3)),
        (((..., 0), (..., 0, 1), (1, ...)), (2, 3), (3, 2)),
    ),
    "output permutations": [
        *(Case(f"ab,bcd->{''.join(p)}", ((2, 3), (3, 4, 2))) for p in permutations("acd")),
        *(Case(f"ijk->{''.join(p)}", ((2, 3, 4),)) for p in permutations("ijk")),
        *(Case(f"xab,xbc->{''.join(p)}", ((2, 3, 2), (2, 2, 4))) for p in permutations("xac")),
        *rows(
            ("ijkl->ljki", (2, 3, 2, 4)),
            ("ijkl->lj", (2, 3, 2, 4)),
            ("aib,cjb->jaic", (2, 3, 4), (3, 2, 4)),
            ("abc,dcb->da", (2, 3, 2), (4, 2, 3)),
        ),
    ],
    "implicit output": rows(
        ("ba", (2, 3)),
        ("ij,jk", (2, 3), (3, 4)),
        ("kj,ji", (2, 3), (3, 4)),
        ("ij,ij", (2, 3), (2, 3)),
        ("ij,jk,kl", (2, 3), (3, 2), (2, 4)),
        ("bA,Ac", (2, 3), (3, 4)),
        ("ba,C", (2, 3), (4,)),
        ("ijj", (2, 3, 3)),
        ("ij,ik,i", (2, 3), (2, 2), (2,)),
        (" i j , j k ", (2, 3), (3, 4)),
        (((1, 0),), (2, 3)),
        (((5, 2), (2, 3)), (2, 3), (3, 4)),
        ((("y", "x"), ("x", "w")), (2, 3), (3, 4)),
        (((-1, 7), (7, -2)), (2, 3), (3, 4)),
    ),
    "matmul-like": rows(
        ("ij,jk->ik", (2, 3), (3, 4)),
        ("ij,kj->ik", (2, 3), (4, 3)),
        ("ji,jk->ik", (3, 2), (3, 4)),
        ("ji,kj->ki", (3, 2), (4, 3)),
        ("ij,j->i", (3, 4), (4,)),
        ("i,ij->j", (3,), (3, 4)),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 2)),
        ("bij,bkj->bik", (2, 3, 4), (2, 2, 4)),
        ("ibj,bjk->ibk", (3, 2, 4), (2, 4, 2)),
        ("ijb,jkb->ikb", (2, 3, 2), (3, 4, 2)),
        ("ijk,jkl->il", (2, 3, 2), (3, 2, 4)),
        ("ijk,kjl->il", (2, 3, 2), (2, 3, 4)),
        ("aibj,bjck->aick", (2, 2, 2, 3), (2, 3, 2, 2)),
        ("abij,jibc->ac", (2, 2, 2, 3), (3, 2, 2, 4)),
        ("ij,ij->i", (2, 3), (2, 3)),
        ("ij,ij->j", (2, 3), (2, 3)),
        ("ij,ij->ji", (2, 3), (2, 3)),
        ("ij,jk->ijk", (2, 3), (3, 4)),
        ("ij,jk->", (2, 3), (3, 4)),
        ("ij,jk->j", (2, 3), (3, 4)),
        ("ijk,kl->ij", (2, 3, 2), (2, 3)),
        ("abc,cd->abd", (2, 3, 4), (4, 2)),
    ),
    "chains and networks": [
        tiny("ij,jk,kl->il", i=2, j=3, k=4, l=3),
        tiny("ij,jk,kl,l->i", i=3, j=2, k=3),
        tiny("ab,bc,cd,da->", b=3, c=4),
        tiny("ab,bc,cd,de,ef,fg->ag", c=3, e=3),
        tiny("ab,bc,cd,de,ef,fg,gh,hi,ij->ja"),
        tiny("ia,ajb,bk,ic,cjd,dk->", a=3, c=3),
        tiny("ai,bj,ck,ijk->abc", i=3, c=3),
        tiny("abi,acj,bcj->i", a=3, j=3),
        tiny("ab,ac,ad,bc,bd,cd->", b=3),
        tiny("abc,bcd,cde,def->af"),
        tiny("ab,bc,de,ef->acdf", b=3, e=3),
        tiny("ab,cd,bc,da,e->e", e=3),
        tiny("ea,fb,gc,hd,abcd->efgh"),
        tiny("ab,ac,bd,ce,cf,dg->efg"),
        tiny("ijk,klm,mni->jln", j=3, n=3),
    ],
    "real expressions": [
        # Coupled cluster: PySCF pyscf/cc/{rccsd,rintermediates,ccsd,rccsdt}.py
        tiny("abcd,ijcd->ijab", i=3, c=3),
        tiny("akic,kjcb->ijab", k=3, b=3),
        tiny("kcld,ilcd->ki", c=3),
        tiny("kcld,ic,ld->ki", c=3),
        tiny("ijcd,acbd->ijab", d=3, b=3),
        tiny("mled,miea->ladi", l=3, a=3),
        tiny("ladi,ljkdbc->ijkabc", d=3),
        # Algebraic diagrammatic construction: PySCF pyscf/adc/{radc_*,uadc_ee}.py
        tiny("lmdf,iaef,lmde->ia", a=3, d=3),
        tiny("mldf,mled,aebf->ab", a=3, e=3),
        tiny("i,i,Ijab,Jjab->IJ", i=3, J=3),
        tiny("ij,kl,ma,mb,ilca,kjcb", a=3),
        tiny("xie,zma,uwzbjme,zuwx,xyzu->xyzijab", i=1, m=3, w=1),
        # Integral transformations and Fock builds: PySCF pyscf/ao2mo, pyscf/df; psi4numpy
        tiny("pqrs,pi,qj,rk,sl->ijkl", i=3),
        tiny("pP,qQ,rR,sS,pqrs->PQRS", P=3),
        tiny("pqrs,rs->pq", p=3, s=3),
        tiny("xij,ij->x", x=3, i=3),
        tiny("pi,pi->p", p=5),
        tiny("ig,yg->yig", g=4, y=3),
        tiny("xria,xrjb->iajb", x=3, b=3),
        tiny("xri,xra->xria", x=3, r=4),
        tiny("ijp,pq,xqr,rs,kls->xijkl", x=3),
        tiny("xuvr,vj,ui,qij,rp->xpq", x=3),
        tiny("Adi,BDi->ABdD", A=3, d=3),
        tiny("Adg,BDg->ABdD", g=5, D=3),
        # Periodic and localised active spaces: mrh my_pyscf/pbc/mcscf, my_pyscf/mcscf
        tiny("auR,bvS,abcuvwt,cwT,abctU->RSTU", v=1, U=3, t=1),
        tiny("r,rij,rkl,rmn->rijklmn", r=3),
        # Phonons: phono3py phonon4/{fc4,frequency_shift}.py, conductivity
        tiny("ai,bj,ck,dl,xyzijkl->xyzabcd", y=1, z=1, a=3),
        tiny("im,jn,kp,lq,ijklmnpq->", i=3),
        tiny("abijjc->abc", a=3, j=3),
        # Equivariant networks: e3nn o3/{_tensor_product/_codegen,_s2grid,_so3grid}.py
        tiny("zuvw,ijk,zuvij->zwk", z=3, w=3),
        tiny("lmj,bj,lmi,l,b->mbi", m=3, j=3),
        tiny("...abc,abci,b->...i", ellipsis=(), a=3, i=3),
        # Gates: PennyLane math/decomposition.py, devices/qubit/apply_operation.py
        Case("mj, ...jk, kn -> ...mn", ((4, 4), (3, 4, 4), (4, 4))),
        tiny("...ghab,...abcdef->...ghcdef", ellipsis=(2,)),
        # Density-matrix renormalisation: TensorNetwork matrixproductstates/dmrg.py
        tiny("caA,abd,ceBb,edC->ABC", c=3, a=3, d=3),
        Case(
            (
                *((3, 1, -1), (1, 2, 5, 6), (3, 4, -2, 2), (4, 7, -3, 5), (7, 6, -4)),
                (-1, -2, -3, -4),
            ),
            ((2, 3, 2), (3, 2, 2, 2), (2, 1, 2, 2), (1, 2, 1, 2), (2, 2, 3)),
        ),
    ],
    "labels": rows(
        ("αβ,βγ->αγ", (2, 3), (3, 4)),
        ("βα", (2, 3)),
        ("01,12->02", (2, 3), (3, 4)),
        ("10", (2, 3)),
        ("i0é,é->0i", (2, 3, 2), (2,)),
        ("×÷,÷\u03a2->×\u03a2", (2, 3), (3, 4)),
        ("\U0001f600\U0001f601,\U0001f601\U0001f602->\U0001f600\U0001f602", (2, 3), (3, 4)),
        ("aA,Ab->ba", (2, 3), (3, 4)),
        ((("left", "bond"), ("bond", "right"), ("left", "right")), (2, 3), (3, 4)),
        ((((0, 0), (0, 1)), ((0, 1), "x"), ("x", (0, 0))), (2, 3), (3, 4)),
        (((10**20, -1), (-1, 1.5), (1.5, 10**20)), (2, 3), (3, 4)),
        (((60, 1), (1, 52), (60, 52)), (2, 3), (3, 4)),
        (((frozenset({1}), b"b"), (b"b",), (frozenset({1}),)), (2, 3), (3,)),
        # 78 labels, all but a few of size 1; an operand may have 32 axes everywhere
        (
            ",".join(map("".join, (MANY[:30], MANY[25:55], MANY[50:])))
            + f"->{MANY[77]}{MANY[40]}{MANY[0]}",
            (2, *[1] * 25, 3, 1, 1, 1),
            (1, 3, *[1] * 13, 2, *[1] * 9, 2, *[1] * 4),
            (2, *[1] * 26, 3),
        ),
        # an intermediate of 120 axes, whatever the order
        (
            ",".join("".join(SIXTY_FOUR[k : k + 30]) for k in (0, 30, 60, 90))
            + f",{''.join(SIXTY_FOUR[::4])},{''.join(SIXTY_FOUR[2::4])}->{SIXTY_FOUR[0]}",
            *[(2, *[1] * 29)] * 4,
            (2, *[1] * 29),
            (2, *[1] * 29),
        ),
    ),
    "order fixed by parentheses": rows(
        ("(ij,jk),kl->il", (2, 3), (3, 4), (4, 2)),
        ("ij,(jk,kl)->il", (2, 3), (3, 4), (4, 2)),
        ("(ij,kl),jk->il", (2, 3), (4, 2), (3, 4)),
        ("((ij,jk),kl),lm->im", (2, 3), (3, 4), (4, 2), (2, 3)),
        ("(ij,jk),(kl,lm)->mi", (2, 3), (3, 4), (4, 2), (2, 3)),
        ("( ij , jk ) , kl", (2, 3), (3, 4), (4, 2)),
        ("(ij,jk)->ik", (2, 3), (3, 4)),
        ("(ij)->ji", (2, 3)),
    ),
    "labels repeated in the output": rows(
        ("i->ii", (3,)),
        ("i->iii", (2,)),
        ("ii->ii", (3, 3)),
        ("ij->iji", (2, 3)),
        ("ij->jiji", (2, 3)),
        (",i->ii", (), (3,)),
        ("i,i->ii", (3,), (3,)),
        ("i,j->iij", (2,), (3,)),
        ("ij,jk->iki", (2, 3), (3, 4)),
        ("ij,jk,kl->lil", (2, 3), (3, 2), (2, 4)),
        ("i->ii", (0,)),
        ("...i->...ii", (2, 3)),
        ((("a",), ("a", "a")), (3,)),
    ),
    "previously failed": [
        # one case per bug that was found, with the commit that mends it; more in CALLS below
        *rows(
            ("ij->i", (3, 1)),  # 8aeb59e: a view, though a sum over an axis of size 1 is none
            ("iij->i", (2, 2, 1)),
            ("ij,jk,kl->lil", (2, 3), (3, 2), (2, 4)),  # 8aeb59e: in one step, without a plan
            ("i,i,i->ii", (3,), (3,), (3,)),
            ("(ij)->ji", (2, 3)),  # 8aeb59e: one operand in parentheses was taken for a step
            ("(ii)->i", (3, 3)),
        ),
        # 3a44ec9: the diagonal was embedded in an array of the other byte order
        Case("i->ii", ((3,),), layouts=("swapped",)),
    ],
}

# Calls that failed for one dtype or keyword, with the commit that mends them.
CALLS: list[Case] = [
    # 3a44ec9: dtype= was overlooked where the equation alone would give a view
    Case("ij->ji", ((2, 3),), ("float32",), dtype="float64"),
    Case("ii->i", ((3, 3),), ("int8",), dtype="float64"),
    Case("...->...", ((2, 3),), ("float16",), dtype="float64"),
    # 3a44ec9: order= was left to the view that was not taken
    Case("ij->ij", ((2, 3),), ("float32",), dtype="float64", order="F"),
    Case("ij->ji", ((2, 3),), ("float32",), dtype="float64", order="C"),
    Case("ijk->kji", ((2, 3, 4),), ("int32",), dtype="int64", order="C"),
    Case("ij->iji", ((2, 3),), order="F"),
    Case("i->ii", ((3,),), ("float32",), dtype="float64", order="F"),
]


# Random -----------------------------------------------------------------------------------------

DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "longdouble", "complex64", "complex128", "clongdouble"),
)
WEIGHTS = (1,) * 9 + (2, 4, 4, 1, 3, 4, 1)
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
MORE_LETTERS = LETTERS + "0123456789αβγδλμσωßé×÷≠√あ漢\U0001f600"
HASHABLES: tuple[Label, ...] = (
    *("left", "right", "x", "", -1, 10**20, 99, 1.5, b"b", None),
    *((0, 1), ("site", 3), frozenset({2})),
)
LARGEST = 400  # values of all labels together, which is what the oracle walks


def random_cases(seed: int, n: int) -> Iterator[Case]:
    """n equations over all forms, the same for the same seed."""
    r = random.Random(seed)
    for _ in range(n):
        yield random_case(r)


def random_case(r: random.Random) -> Case:
    terms, output, shapes = random_terms(r)
    labels = {label for term in terms for label in term if label is not Ellipsis}
    equation = write(r, terms, output, sorted(labels))
    dtypes = random_dtypes(r, len(shapes))
    casting = r.choice(["safe", "same_kind", "unsafe"]) if r.random() < 0.2 else None
    dtype = random_dtype(r, dtypes, casting or "safe") if r.random() < 0.2 else None
    case = Case(
        equation,
        tuple(shapes),
        dtypes,
        tuple(r.choice(LAYOUTS) if r.random() < 0.6 else "C" for _ in shapes),
        seed=r.randrange(2**32),
        dtype=dtype,
        order=r.choice("CFAK") if r.random() < 0.2 else None,
        casting=casting,
    )
    return with_out(r, case) if r.random() < 0.2 else case


def random_terms(r: random.Random) -> tuple[list[Term], Term | None, list[Shape]]:
    """Terms over small integers and '...', the output or None, and shapes that fit."""
    sizes = {label: r.choices([0, 1, 2, 3, 4, 5], [1, 4, 10, 10, 5, 3])[0] for label in range(8)}
    count = r.choices([1, 2, 3, 4, 5, 6], [4, 8, 5, 3, 2, 2])[0]
    depth = r.choice([0, 1, 2, 2]) if r.random() < 0.3 else 0
    hidden = [r.choice([1, 2, 3]) for _ in range(depth)]
    dots = bool(hidden) or r.random() < 0.05
    terms: list[Term] = []
    for _ in range(count):
        rank = r.choices([0, 1, 2, 3, 4], [1, 3, 6, 4, 2])[0]
        repeats = r.random() < 0.15
        term: list[Any] = [r.randrange(4) for _ in range(rank)] if repeats else []
        term = term or r.sample(range(8), rank)
        if dots and r.random() < 0.7:
            term.insert(r.randint(0, len(term)), Ellipsis)
        terms.append(tuple(term))
    used = sorted({label for term in terms for label in term if label is not Ellipsis})
    while math.prod(sizes[label] for label in used) * math.prod(hidden) > LARGEST:
        sizes[max(used, key=lambda label: (sizes[label], r.random()))] = r.choice([1, 2])
    shapes = [random_shape(r, term, sizes, hidden) for term in terms]
    if r.random() < 0.25:
        return terms, None, shapes
    output: list[Any] = r.sample(used, r.randint(0, len(used)))
    if output and r.random() < 0.05:
        output.insert(r.randint(0, len(output)), r.choice(output))  # needs embed_diagonal
    if any(Ellipsis in term for term in terms):
        output.insert(r.randint(0, len(output)), Ellipsis)
    return terms, tuple(output), shapes


def random_shape(
    r: random.Random, term: Term, sizes: dict[int, int], hidden: Sequence[int]
) -> Shape:
    """Shape of one operand: some labels, and some axes under '...', of size 1 here only."""
    own = {label: 1 if r.random() < 0.1 else size for label, size in sizes.items()}
    kept = hidden[r.randint(0, len(hidden)) :] if r.random() < 0.4 else hidden
    under = [1 if r.random() < 0.2 else size for size in kept]
    return tuple(n for x in term for n in (under if x is Ellipsis else [own[x]]))  # type: ignore[index]


def write(r: random.Random, terms: list[Term], output: Term | None, labels: list[int]) -> Equation:
    """The terms as a string or interleaved, in fresh names."""
    form = r.choices(["letters", "any letters", "integers", "hashables"], [8, 2, 3, 2])[0]
    pool: Sequence[Label]
    if form == "hashables" and output is not None:
        pool = HASHABLES
    elif form in ("integers", "hashables"):
        pool = range(26)
    else:
        pool = LETTERS if form == "letters" else MORE_LETTERS
    names: dict[Any, Any] = dict(zip(labels, r.sample(pool, len(labels)), strict=True))
    named = [tuple(names.get(x, x) for x in term) for term in terms]
    right = None if output is None else tuple(names.get(x, x) for x in output)
    if form in ("integers", "hashables"):
        return (*named, *([right] if right is not None else []))
    space = r.choice([" ", "  "]) if r.random() < 0.2 else ""
    arrow = "" if right is None else f"{space}->{space}{spell(right)}"
    return f"{space},{space}".join(map(spell, named)) + arrow


def spell(term: Term) -> str:
    return "".join("..." if x is Ellipsis else str(x) for x in term)


def random_dtypes(r: random.Random, count: int) -> tuple[str, ...]:
    if r.random() < 0.5:
        return tuple(r.choices(DTYPES, WEIGHTS))
    return tuple(r.choices(DTYPES, WEIGHTS, k=count))


def random_dtype(r: random.Random, dtypes: Sequence[str], casting: str) -> str:
    """A dtype= that every operand may be cast to; floats never become unsigned, complex real."""
    kinds = {np.dtype(name).kind for name in dtypes}

    def allowed(name: str) -> bool:
        target = np.dtype(name)
        defined = not (kinds & {"f", "c"} and target.kind in "bu") and not (
            "c" in kinds and target.kind != "c"
        )
        return defined and all(np.can_cast(np.dtype(d), target, casting) for d in dtypes)  # type: ignore[arg-type]

    return r.choice([name for name in DTYPES if allowed(name)])


def with_out(r: random.Random, case: Case) -> Case:
    """The case with an `out` that the casting rule lets the result into.

    With dtype=, NumPy reads `out` as well, so the cast must be allowed both ways there.
    """
    layout = r.choice(["C", "F", "transposed", "sliced", "reversed", "unaligned", "swapped"])

    def allowed(name: str) -> bool:
        compute, target = replace(case, out=name).compute_dtype, np.dtype(name)
        casting: Any = "same_kind" if case.casting == "unsafe" else case.casting or "safe"
        back = case.dtype is None or np.can_cast(target, compute, casting)
        return back and np.can_cast(compute, target, casting)

    fitting = [name for name in DTYPES if allowed(name)]
    return replace(case, out=r.choice(fitting), out_layout=layout)
