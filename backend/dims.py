"""Sizes that are known later: integer arithmetic over named sizes, in a normal form.

A `DimExpr` is a polynomial with integer coefficients over names, axes of inputs, and what is no
polynomial (//, min, max). It takes an int's place wherever a shape is computed: an operation whose
result does not depend on a name gives an int. `==` compares normal forms. What cannot be decided
before names have values counts as possible: `differ` and `exceeds` are true only of what is proven.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from graphlib import CycleError, TopologicalSorter
from operator import index
from typing import Any, TypeVar

from .._base.errors import ProgramError

Token = int | str | tuple[int, int]
"""Of postfix code: a number, a name or operation, or (input, axis)."""
Atom = tuple[Token, ...]
Monomial = tuple[Atom, ...]
Size = Any
"""int or DimExpr: rules and specs are typed for int, and a DimExpr stands in for one."""

LONGEST = 10_000  # tokens of an expression; those that programs need have a few
MULTIPLIED_OUT = 1000  # tokens to which a product of sums may grow; a longer one stays as it is
T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class DimExpr:
    """An integer that depends on sizes known later; made by `dim`, `input_dim` and arithmetic.

    >>> n, m = dim("n"), dim("m")
    >>> 2 * (n + m) - n, (2 * n + 3) // 2, minimum(n, n + 1), maximum(n, m), n - n
    (2*m+n, n+1, n, max(m,n), 0)
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def code(self) -> Atom:
        """The expression in postfix order."""
        return _code(self.terms)

    @property
    def names(self) -> frozenset[str]:
        """The names that stand in it."""
        return frozenset(x for x in self.code if type(x) is str and x not in OPERATIONS)

    @property
    def axes(self) -> frozenset[tuple[int, int]]:
        """The axes of inputs that stand in it."""
        return frozenset(x for x in self.code if type(x) is tuple)

    def evaluate(
        self,
        sizes: Mapping[str, Size] | None = None,
        shapes: Sequence[Sequence[int]] = (),
        negative: bool = False,
    ) -> int:
        """Its value where names have these sizes and inputs these shapes.

        Sizes may be defined by others, `{"n": 2 * dim("m"), "m": 3}`, but not in a circle.

        >>> (dim("n") // 2 + input_dim(0, 1)).evaluate({"n": 7}, [(4, 5)])
        8
        """
        known = sizes or {}
        if any(isinstance(value, DimExpr) for value in known.values()):
            known = resolved(known, shapes)
        found: int = run(self.code, lambda token: _leaf(token, known, shapes, self), OPERATIONS)
        if found < 0 and not negative:
            raise ProgramError(f"the size {self} is {found}, with {_told(self, known, shapes)}")
        return found

    def substitute(self, sizes: Mapping[str, Size]) -> Size:
        """The expression with these in place of names; other names stay."""
        known: Mapping[Any, Size] = sizes
        return run(self.code, lambda x: known[x] if x in known else _size(x), SIZES)

    def __add__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else add(self, x)

    def __radd__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else add(x, self)

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else subtract(self, x)

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else subtract(x, self)

    def __mul__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else multiply(self, x)

    def __rmul__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else multiply(x, self)

    def __floordiv__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else floor_divide(self, x)

    def __rfloordiv__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else floor_divide(x, self)

    def __neg__(self) -> Any:
        return multiply(-1, self)

    def __lt__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else _is_less(self, x)

    def __gt__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else _is_less(x, self)

    def __le__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else not _is_less(x, self)

    def __ge__(self, other: Any) -> Any:
        return NotImplemented if (x := _operand(other)) is None else not _is_less(self, x)

    def __bool__(self) -> bool:
        raise ProgramError(f"whether the size {self} is 0 is known only when it has a value")

    def __repr__(self) -> str:
        return run(self.code, _shown, INFIX)[0]


def dim(name: str) -> DimExpr:
    """The size of this name, an integer >= 0."""
    if not isinstance(name, str) or not name.isidentifier() or name in OPERATIONS:
        raise ProgramError(f"{name!r} is no name of a size; give an identifier, such as 'n'")
    return DimExpr(((((name,),), 1),))


def input_dim(number: int, axis: int) -> DimExpr:
    """The size of an axis of input `number`, an integer >= 0."""
    if any(type(k) is not int or k < 0 for k in (number, axis)):
        raise ProgramError(f"input_dim({number!r}, {axis!r}): give two integers >= 0")
    return DimExpr((((((number, axis),),), 1),))


def as_size(value: Any) -> Size:
    """A size as the user writes it: an integer, a DimExpr or a name."""
    if isinstance(value, str):
        return dim(value)
    if (size := _operand(value)) is None:
        raise ProgramError(f"{value!r:.60} is no size; give an integer, a name or a DimExpr")
    return size


def is_symbolic(sizes: Iterable[Size]) -> bool:
    """Whether some of these are known only later."""
    return any(isinstance(n, DimExpr) for n in sizes)


def names_of(size: Size) -> frozenset[str]:
    """The names that a size depends on; none for an int."""
    return size.names if isinstance(size, DimExpr) else frozenset()


def expressions(value: Any) -> Iterator[DimExpr]:
    """The expressions in an attribute."""
    if isinstance(value, DimExpr):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from expressions(item)


# ---- arithmetic ---------------------------------------------------------------------------------


def add(a: Size, b: Size) -> Size:
    terms = _terms(a)
    for monomial, factor in _terms(b).items():
        terms[monomial] = terms.get(monomial, 0) + factor
    return _made(terms)


def subtract(a: Size, b: Size) -> Size:
    return add(a, multiply(-1, b))


def multiply(a: Size, b: Size) -> Size:
    left, right = _terms(a), _terms(b)
    grown = len(code_of(a)) * len(right) + len(code_of(b)) * len(left)
    if grown > MULTIPLIED_OUT and isinstance(a, DimExpr) and isinstance(b, DimExpr):
        return _atom(*_sorted_code(a, b), "*")
    terms: dict[Monomial, int] = {}
    for one, p in left.items():
        for other, q in right.items():
            monomial = tuple(sorted((*one, *other), key=_order))
            terms[monomial] = terms.get(monomial, 0) + p * q
    return _made(terms)


def floor_divide(a: Size, b: Size) -> Size:
    """a // b as Python's; whole multiples of an integer b are taken out: (4n + 5) // 2 = 2n + 2."""
    if isinstance(b, DimExpr):
        return _atom(*code_of(a), *code_of(b), "//")
    if b == 0:
        raise ProgramError(f"the size ({a})//0 divides by zero")
    whole = {monomial: factor // b for monomial, factor in _terms(a).items()}
    rest = _made({monomial: factor % b for monomial, factor in _terms(a).items()})
    if isinstance(rest, DimExpr):
        rest = _atom(*rest.code, b, "//")
    else:
        rest //= b
    return add(_made(whole), rest)


def minimum(a: int, b: int) -> int:
    """min(a, b) of integers or of sizes that are known later."""
    return _extreme(a, b, "min")


def maximum(a: int, b: int) -> int:
    """max(a, b) of integers or of sizes that are known later."""
    return _extreme(a, b, "max")


def _extreme(a: Size, b: Size, which: str) -> Size:
    if type(a) is int and type(b) is int:
        return min(a, b) if which == "min" else max(a, b)
    low, high = interval(subtract(a, b))
    if low is not None and low >= 0:
        return b if which == "min" else a
    if high is not None and high <= 0:
        return a if which == "min" else b
    return _atom(*_sorted_code(a, b), which)


# ---- what is proven ------------------------------------------------------------------------------


def differ(a: Size, b: Size) -> bool:
    """Whether a != b whatever the values of names."""
    if a == b or (type(a) is int and type(b) is int):
        return bool(a != b)
    low, high = interval(subtract(a, b))
    return (low is not None and low > 0) or (high is not None and high < 0)


def exceeds(a: Size, b: Size) -> bool:
    """Whether a > b whatever the values of names."""
    if type(a) is int and type(b) is int:
        return a > b
    low, _ = interval(subtract(a, b))
    return low is not None and low > 0


def shapes_differ(x: Sequence[Size], y: Sequence[Size]) -> bool:
    """Whether two shapes differ whatever the values of names."""
    return x != y and (len(x) != len(y) or any(map(differ, x, y)))


def _is_less(a: Size, b: Size) -> bool:
    low, high = interval(subtract(a, b))
    if high is not None and high < 0:
        return True
    if low is not None and low >= 0:
        return False
    raise ProgramError(
        f"whether {a} < {b} is known only when names have values; use minimum and maximum of "
        f"einloom.backend.dims"
    )


Interval = tuple[int | None, int | None]
"""Least and largest value; None where there is none."""


def interval(x: Size) -> Interval:
    """Bounds of a size whose names are any integers >= 0."""
    return run(code_of(x), lambda t: (t, t) if type(t) is int else (0, None), INTERVALS)


def _sum(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = a, b
    return None if p is None or r is None else p + r, None if q is None or s is None else q + s


def _product(a: Interval, b: Interval) -> Interval:
    for (low, high), (r, s) in ((a, b), (b, a)):
        if low is not None and low == high:
            ends = (None if r is None else low * r, None if s is None else low * s)
            return (0, 0) if low == 0 else ends if low > 0 else ends[::-1]
    (p, q), (r, s) = a, b
    if q is not None and q <= 0:
        return _negated(_product(_negated(a), b))
    if s is not None and s <= 0:
        return _negated(_product(a, _negated(b)))
    if p is None or r is None or p < 0 or r < 0:
        return None, None
    return p * r, None if q is None or s is None else q * s


def _negated(a: Interval) -> Interval:
    low, high = a
    return None if high is None else -high, None if low is None else -low


def _quotient(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = a, b
    if r is None or r <= 0:
        return None, None
    low = None if p is None else p // r if p < 0 else 0 if s is None else p // s
    high = None if q is None else q // r if q >= 0 else -1 if s is None else q // s
    return low, high


def _least(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = a, b
    low = None if p is None or r is None else min(p, r)
    return low, s if q is None else q if s is None else min(q, s)


def _largest(a: Interval, b: Interval) -> Interval:
    (p, q), (r, s) = a, b
    high = None if q is None or s is None else max(q, s)
    return r if p is None else p if r is None else max(p, r), high


# ---- extents -------------------------------------------------------------------------------------


class Extent(Enum):
    """What a number says of a size: the size itself, an upper bound of it, or nothing.

    Sums, products, minima and maxima of bounds are bounds; a difference is one only of exact sizes,
    and a quotient only by an exact one.
    """

    EXACT = 0
    BOUND = 1
    UNKNOWN = 2

    def __add__(self, other: Extent) -> Extent:
        return max(self, other, key=lambda extent: extent.value)

    __mul__ = __add__

    def __sub__(self, other: Extent) -> Extent:
        return Extent.EXACT if self is other is Extent.EXACT else Extent.UNKNOWN

    def __floordiv__(self, other: Extent) -> Extent:
        return self if other is Extent.EXACT else Extent.UNKNOWN


def extent_of(x: Size, bounded: Collection[str]) -> Extent:
    """The extent of a size in which these names are upper bounds and the others exact.

    >>> extent_of(2 * dim("r") + dim("n"), {"r"}), extent_of(dim("n") - dim("r"), {"r"})
    (<Extent.BOUND: 1>, <Extent.UNKNOWN: 2>)
    """
    found, _ = run(code_of(x), lambda t: (_extent(t, bounded), type(t) is int and t < 0), EXTENTS)
    return found


def _extent(token: Token, bounded: Collection[str]) -> Extent:
    return Extent.BOUND if token in bounded else Extent.EXACT


Signed = tuple[Extent, bool]
"""An extent, and whether it is that of a negative number."""


def _joined(a: Signed, b: Signed) -> Signed:
    return a[0] + b[0], False


def _scaled(a: Signed, b: Signed) -> Signed:
    falls = a[1] or b[1]  # a bound times a negative number is subtracted
    return Extent.EXACT - (a[0] + b[0]) if falls else a[0] * b[0], falls


def _divided(a: Signed, b: Signed) -> Signed:
    falls = b[1] and a[0] is Extent.BOUND
    return Extent.UNKNOWN if falls else a[0] // b[0], False


# ---- definitions ---------------------------------------------------------------------------------


def resolved(sizes: Mapping[str, Size], shapes: Sequence[Sequence[int]] = ()) -> dict[str, int]:
    """Integers of sizes that are defined by one another, which they must not be in a circle."""
    graph = {
        name: value.names if isinstance(value, DimExpr) else () for name, value in sizes.items()
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        circle = " <- ".join(error.args[1])
        raise ProgramError(f"sizes are defined in a circle: {circle}") from None
    known: dict[str, int] = {}
    for name in order:
        value = sizes.get(name)
        if isinstance(value, DimExpr):
            known[name] = value.evaluate(known, shapes)
        elif value is not None:
            known[name] = value
    return known


def evaluated(value: Any, sizes: Mapping[str, int], shapes: Sequence[Sequence[int]] = ()) -> Any:
    """An attribute with integers in place of expressions."""
    if isinstance(value, DimExpr):
        return value.evaluate(sizes, shapes, negative=True)
    if isinstance(value, tuple):
        return tuple(evaluated(item, sizes, shapes) for item in value)
    return value


def _leaf(token: Token, sizes: Mapping[str, int], shapes: Sequence[Any], of: DimExpr) -> int:
    if type(token) is str:
        if token not in sizes:
            raise ProgramError(f"the size {of} has no value: {token} is not given")
        return sizes[token]
    if type(token) is int:
        return token
    assert type(token) is tuple
    number, axis = token
    if number >= len(shapes):
        raise ProgramError(f"the size {of} names input {number}, there are {len(shapes)}")
    if axis >= len(shapes[number]):
        raise ProgramError(
            f"the size {of} names axis {axis} of input {number}, which has {len(shapes[number])}"
        )
    return int(shapes[number][axis])


def _told(expr: DimExpr, sizes: Mapping[str, int], shapes: Sequence[Any]) -> str:
    values = [f"{name} = {sizes[name]}" for name in sorted(expr.names)]
    values += [f"x{k}.{axis} = {shapes[k][axis]}" for k, axis in sorted(expr.axes)]
    return ", ".join(values)


# ---- postfix code --------------------------------------------------------------------------------


def run(
    code: Iterable[Token], leaf: Callable[[Token], T], operations: Mapping[Any, Callable[[T, T], T]]
) -> T:
    """The value of postfix code; a loop, so that no depth is too deep."""
    stack: list[T] = []
    for token in code:
        if type(token) is str and token in operations:
            right = stack.pop()
            stack.append(operations[token](stack.pop(), right))
        else:
            stack.append(leaf(token))
    (value,) = stack
    return value


def from_code(code: Iterable[Any]) -> Size:
    """The size that postfix code computes; `ProgramError` for what is no such code."""
    try:
        return run(code, _size, SIZES)
    except (IndexError, ValueError, TypeError):
        raise ProgramError(f"{code!r:.60} is no postfix code of a size") from None


def code_of(x: Size) -> Atom:
    return x.code if isinstance(x, DimExpr) else (x,)


def _code(terms: Iterable[tuple[Monomial, int]]) -> Atom:
    code: list[Token] = []
    for count, (monomial, factor) in enumerate(terms):
        atoms = list(monomial)
        if factor != 1 or not atoms:
            atoms.insert(0, (factor,))
        for position, atom in enumerate(atoms):
            code += atom
            code += ["*"] * (position > 0)
        code += ["+"] * (count > 0)
    return tuple(code)


def _made(terms: dict[Monomial, int]) -> Size:
    """The size of these terms: an int where no name is left."""
    kept = {monomial: factor for monomial, factor in terms.items() if factor}
    if not kept.keys() - {()}:
        return kept.get((), 0)
    ordered = sorted(kept.items(), key=lambda term: (-len(term[0]), list(map(_order, term[0]))))
    made = DimExpr(tuple(ordered))
    if sum(len(atom) for monomial, _ in ordered for atom in monomial) > LONGEST:
        raise ProgramError(f"the size {str(made)[:60]}... has more than {LONGEST} parts")
    return made


def _atom(*code: Token) -> Size:
    return _made({(code,): 1})


def _size(token: Any) -> Size:
    """The size that one token means."""
    if type(token) is str:
        return dim(token)
    return token if type(token) is int else input_dim(*token)


def _terms(x: Size) -> dict[Monomial, int]:
    return dict(x.terms) if isinstance(x, DimExpr) else {(): x}


def _order(atom: Atom) -> str:
    return " ".join(map(str, atom))


def _sorted_code(a: Size, b: Size) -> Atom:
    """The operands of an operation whose order does not matter."""
    first, second = sorted((code_of(a), code_of(b)), key=_order)
    return first + second


def _operand(value: Any) -> Size | None:
    if isinstance(value, DimExpr):
        return value
    return index(value) if hasattr(value, "__index__") and not isinstance(value, bool) else None


Text = tuple[str, int]
"""An expression and how tightly it binds: 1 sums, 2 products, 3 everything else."""


def _shown(token: Token) -> Text:
    if type(token) is tuple:
        return f"x{token[0]}.{token[1]}", 3
    return str(token), 3


def _infix(sign: str, strength: int) -> Callable[[Text, Text], Text]:
    def join(a: Text, b: Text) -> Text:
        signed = sign == "//" and a[0][0] == "-"  # m-n//2 would be read as m-(n//2)
        left = a[0] if a[1] >= strength and not signed else f"({a[0]})"
        right = b[0] if b[1] > strength or sign == "+" else f"({b[0]})"
        if sign == "*" and left == "-1":
            return f"-{right}", strength
        return (left + right if sign == "+" and right[0] == "-" else left + sign + right), strength

    return join


def _function(name: str) -> Callable[[Text, Text], Text]:
    return lambda a, b: (f"{name}({a[0]},{b[0]})", 3)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "*": lambda a, b: a * b,
    "//": lambda a, b: _divide(a, b),
    "min": min,
    "max": max,
}
SIZES: dict[str, Callable[[Size, Size], Size]] = {
    "+": add, "*": multiply, "//": floor_divide, "min": minimum, "max": maximum,
}  # fmt: skip
INTERVALS: dict[str, Callable[[Interval, Interval], Interval]] = {
    "+": _sum, "*": _product, "//": _quotient, "min": _least, "max": _largest,
}  # fmt: skip
EXTENTS: dict[str, Callable[[Signed, Signed], Signed]] = {
    "+": _joined, "*": _scaled, "//": _divided, "min": _joined, "max": _joined,
}  # fmt: skip
INFIX: dict[str, Callable[[Text, Text], Text]] = {
    "+": _infix("+", 1), "*": _infix("*", 2), "//": _infix("//", 2),
    "min": _function("min"), "max": _function("max"),
}  # fmt: skip


def _divide(a: int, b: int) -> int:
    if b == 0:
        raise ProgramError(f"a size divides {a} by zero")
    return a // b
