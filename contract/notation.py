"""Text or interleaved lists -> Equation: labels end here, integers from now on.

    notation  =  list [ "->" term ]          list  =  item { "," item }
    item      =  term | "(" list ")"         term  =  { label | "..." }

A label in a string is an ASCII letter or digit, or any non-ASCII character that is no space.
Parentheses fix the order of contraction. Blanks have no meaning.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from .._base.caches import Cache
from .._base.errors import CallError, ShapeError, SubscriptError, caret

Label: TypeAlias = Hashable
Token: TypeAlias = Any
"""A label, or Ellipsis."""
Group: TypeAlias = tuple[int, ...]
"""Members of a parenthesis: operand numbers, or ~k for an earlier group k."""


@dataclass(frozen=True, slots=True)
class Notation:
    """An equation as written, its ellipses not yet resolved to axes."""

    terms: tuple[tuple[Token, ...], ...]
    output: tuple[Token, ...] | None  # None: implicit
    groups: tuple[Group, ...] = ()
    text: str | None = None
    spots: tuple[tuple[int, ...], ...] = ()  # where each term's tokens stand in text, output last

    def __str__(self) -> str:
        return self.text if self.text is not None else "interleaved labels"


@dataclass(frozen=True, slots=True)
class Equation:
    """Labels as integers 0, 1, ... in order of first appearance; `labels` are the user's names."""

    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    labels: tuple[Label, ...]
    groups: tuple[Group, ...]


_NOTATIONS: Cache[Notation] = Cache(
    "notation", 4096, weigh=lambda notation: 1 + len(notation.text or "") // 64
)


def parse(text: str, call: str = "einsum") -> Notation:
    """Read a string.

    >>> parse("(ij,jk),kl->il").groups
    ((0, 1),)
    """
    found = _NOTATIONS.get(text)
    if found is None:
        found = _NOTATIONS.put(text, _plain(text) or _Parser(text, call).notation())
    return found


def _plain(text: str) -> Notation | None:
    """What the parser makes of letters, commas and an arrow alone; None where there is more."""
    inputs, arrow, output = text.partition("->")
    if not (text.isascii() and inputs.replace(",", "").isalnum()):
        return None
    if output and not output.isalnum():
        return None
    terms, spots, at = [], [], 0
    for term in inputs.split(","):
        terms.append(tuple(term))
        spots.append(tuple(range(at, at + len(term))))
        at += len(term) + 1
    if not arrow:
        return Notation(tuple(terms), None, (), text, tuple(spots))
    spots.append(tuple(range(at + 1, len(text))))
    return Notation(tuple(terms), tuple(output), (), text, tuple(spots))


def interleaved(arguments: Sequence[Any], call: str = "einsum") -> tuple[list[Any], Notation]:
    """Operands and notation of `a, [labels], b, [labels], ..., [output labels]`."""
    pairs, odd = divmod(len(arguments), 2)
    if pairs == 0:
        raise SubscriptError(
            f"{call}: give subscripts and operands, or operands each with its labels"
        )
    operands = list(arguments[: 2 * pairs : 2])
    terms = tuple(_label_list(arguments[2 * k + 1], f"operand {k}", call) for k in range(pairs))
    output = _label_list(arguments[-1], "the output", call) if odd else None
    notation = Notation(terms, output)
    for term, place in [
        *((t, f"operand {k}") for k, t in enumerate(terms)),
        (output or (), "the output"),
    ]:
        if sum(token is Ellipsis for token in term) > 1:
            raise SubscriptError(f"{call}: the labels of {place} hold more than one ellipsis")
    return operands, notation


def resolve(
    notation: Notation, ndims: Sequence[int], call: str = "einsum", embed_diagonal: bool = False
) -> Equation:
    """Give every axis of every operand its label; ellipses become labels counted from the right."""
    if len(ndims) != len(notation.terms):
        raise SubscriptError(
            f"{call}: the subscripts name {len(notation.terms)} operands, got {len(ndims)}.\n"
            + _shown(notation)
        )
    terms: list[list[Label]] = []
    broadcast = 0
    for k, (term, ndim) in enumerate(zip(notation.terms, ndims, strict=True)):
        if len(term) == ndim and Ellipsis not in term:
            terms.append(list(term))
        else:
            terms.append(_expanded(notation, k, ndim, call))
            broadcast = max(broadcast, sum(map(_is_broadcast, terms[-1])))
    ellipsis = [_broadcast_label(k) for k in range(broadcast, 0, -1)]
    output = _output(notation, terms, ellipsis, call, embed_diagonal)
    number: dict[Label, int] = {}
    for labels in terms:
        for label in labels:
            if label not in number:
                number[label] = len(number)
    inputs = tuple([tuple([number[label] for label in labels]) for labels in terms])
    return Equation(
        inputs, tuple([number[label] for label in output]), tuple(number), notation.groups
    )


def _broadcast_label(k: int) -> Label:
    return ("...", k)


def label_name(label: Label) -> str:
    """A label as messages show it."""
    return f"of ellipsis axis -{label[1]}" if _is_broadcast(label) else repr(label)  # type: ignore[index]


def _is_broadcast(label: Label) -> bool:
    return type(label) is tuple and len(label) == 2 and label[0] == "..."


def _expanded(notation: Notation, operand: int, ndim: int, call: str) -> list[Label]:
    term = notation.terms[operand]
    named = sum(token is not Ellipsis for token in term)
    has_ellipsis = named < len(term)
    if named > ndim or (named < ndim and not has_ellipsis):
        remedy = "" if named > ndim else ', or write "..." for the axes to broadcast'
        raise ShapeError(
            f"{call}: operand {operand} has {ndim} axes, its subscripts name {named}"
            f"{' or more' if has_ellipsis else ''}.\n{_shown(notation, operand)}"
            f"Give one label for each axis{remedy}."
        )
    labels: list[Label] = []
    for token in term:
        if token is Ellipsis:
            labels.extend(_broadcast_label(k) for k in range(ndim - named, 0, -1))
        else:
            labels.append(token)
    return labels


def _output(
    notation: Notation,
    terms: list[list[Label]],
    ellipsis: list[Label],
    call: str,
    embed_diagonal: bool,
) -> list[Label]:
    if notation.output is None:
        return ellipsis + _implicit(notation, terms, call)
    known = set().union(*terms)
    output: list[Label] = []
    for position, token in enumerate(notation.output):
        if token is Ellipsis:
            output.extend(ellipsis)
            continue
        if token not in known:
            raise SubscriptError(
                f"{call}: the output label {token!r} is in no operand.\n{_shown(notation, -1, position)}"
                f"Labels of the operands: {_listed(known)}."
            )
        if token in output and not embed_diagonal:
            raise SubscriptError(
                f"{call}: the output repeats the label {token!r}.\n{_shown(notation, -1, position)}"
                f"Pass embed_diagonal=True to place the result on a diagonal."
            )
        output.append(token)
    if ellipsis and Ellipsis not in notation.output:
        raise ShapeError(
            f'{call}: the ellipsis stands for {len(ellipsis)} axes, the output has no "..." for them.\n'
            f"{_shown(notation, -1)}Write them in the output, or give them labels to sum over."
        )
    return output


def _implicit(notation: Notation, terms: list[list[Label]], call: str) -> list[Label]:
    """Labels that occur once, sorted, as NumPy orders the output of a string without an arrow."""
    counts: dict[Label, int] = {}
    for term in terms:
        for label in term:
            counts[label] = counts.get(label, 0) + (not _is_broadcast(label))
    once = [label for label, count in counts.items() if count == 1]
    kinds = {str if isinstance(label, str) else int if _is_int(label) else object for label in once}
    if len(kinds) > 1 or object in kinds:
        raise SubscriptError(
            f"{call}: without output labels the result's axes are sorted by label, which needs labels "
            f"that are all strings or all integers, got {_listed(once)}. Give the output labels."
        )
    return sorted(once)  # type: ignore[type-var]


def _is_int(label: Label) -> bool:
    return hasattr(label, "__index__") and not isinstance(label, bool)


def _label_list(value: Any, place: str, call: str) -> tuple[Token, ...]:
    try:
        labels = tuple(value)
        if any(_is_broadcast(label) for label in labels):
            raise TypeError("the tuples ('...', k) are the labels of ellipses")
        for label in labels:
            hash(label)
    except TypeError as error:
        raise CallError(
            f"{call}: the labels of {place} should be a list of hashable labels, got {value!r:.60} "
            f"({error})"
        ) from None
    return tuple(int(label) if _is_int(label) else label for label in labels)


def _listed(labels: Any) -> str:
    shown = [repr(label) for label in labels if not _is_broadcast(label)]
    return ", ".join(sorted(shown)[:30]) + (", ..." if len(shown) > 30 else "") or "none"


def _shown(notation: Notation, term: int | None = None, token: int | None = None) -> str:
    """The text with carets under a term or one token of it; nothing for interleaved labels."""
    if notation.text is None:
        return ""
    if term is None:
        return f"    {notation.text}\n"
    spots = notation.spots[term]
    if token is not None:
        return caret(notation.text, spots[token]) + "\n"
    if len(spots) == 0:
        return f"    {notation.text}\n"
    width = spots[-1] + (3 if notation.text[spots[-1]] == "." else 1) - spots[0]
    return caret(notation.text, spots[0], width) + "\n"


class _Parser:
    """One pass over the characters, with a stack of open parentheses."""

    def __init__(self, text: str, call: str) -> None:
        self.text, self.call, self.at = text, call, 0
        self.terms: list[tuple[Token, ...]] = []
        self.spots: list[tuple[int, ...]] = []
        self.groups: list[Group] = []
        self.open: list[tuple[int, list[int]]] = []  # (where it opened, members so far)
        self.members: list[int] = []
        self.tokens: list[Token] = []
        self.token_spots: list[int] = []
        self.closed = False  # a parenthesis has just closed: no label may follow

    def notation(self) -> Notation:
        output: tuple[Token, ...] | None = None
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == ",":
                self._end_item()
            elif char == "(":
                self._open()
            elif char == ")":
                self._close()
            elif char == "-":
                output = self._arrow()
                break
            elif not char.isspace():
                if self.closed:
                    raise self._error('expected "," or "->" after ")"')
                self._token()
            self.at += 1
        else:
            self._end_list()
        return Notation(tuple(self.terms), output, tuple(self.groups), self.text, tuple(self.spots))

    def _token(self) -> None:
        char = self.text[self.at]
        if char == ".":
            if self.text[self.at : self.at + 3] != "...":
                raise self._error('"." is no label; an ellipsis is "..."')
            if Ellipsis in self.tokens:
                raise self._error("more than one ellipsis in a term", width=3)
            self._append(Ellipsis)
            self.at += 2
        elif char.isascii() and not char.isalnum():
            raise self._error(
                f"{char!r} is no label; labels are letters, digits and non-ASCII characters"
            )
        else:
            self._append(char)

    def _append(self, token: Token) -> None:
        self.tokens.append(token)
        self.token_spots.append(self.at)

    def _end_item(self) -> None:
        if not self.closed:
            self.members.append(len(self.terms))
            self._end_term()
        self.closed = False

    def _end_term(self) -> None:
        self.terms.append(tuple(self.tokens))
        self.spots.append(tuple(self.token_spots))
        self.tokens, self.token_spots = [], []

    def _open(self) -> None:
        if self.tokens or self.closed:
            raise self._error('expected "," before "("')
        self.open.append((self.at, self.members))
        self.members = []

    def _close(self) -> None:
        if not self.open:
            raise self._error('")" closes nothing')
        self._end_item()
        self.groups.append(tuple(self.members))
        _, self.members = self.open.pop()
        self.members.append(~(len(self.groups) - 1))
        self.closed = True

    def _end_list(self) -> None:
        self._end_item()
        if self.open:
            self.at = self.open[-1][0]
            raise self._error('"(" is never closed')

    def _arrow(self) -> tuple[Token, ...]:
        if self.text[self.at : self.at + 2] != "->":
            raise self._error('"-" is no label; the arrow is "->"')
        self._end_list()
        self.at += 2
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == "-":
                raise self._error('a second "->"', width=2)
            if char in ",()":
                raise self._error(f"{char!r} in the output, which is one term")
            if not char.isspace():
                self._token()
            self.at += 1
        self.spots.append(tuple(self.token_spots))
        return tuple(self.tokens)

    def _error(self, what: str, width: int = 1) -> SubscriptError:
        return SubscriptError(f"{self.call}: {what}.\n{caret(self.text, self.at, width)}")
