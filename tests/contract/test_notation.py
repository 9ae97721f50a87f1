"""Text and interleaved lists become the terms they spell; labels become integers in order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import resolve as resolve_by_hand
from tests.cases import spell

from einloom import CallError, ShapeError, SubscriptError
from einloom.contract.notation import interleaved, parse, resolve

D = Ellipsis

# text -> terms as strings ("." for an ellipsis), output or None
TEXTS: dict[str, tuple[list[str], str | None]] = {
    "ij,jk->ik": (["ij", "jk"], "ik"),
    "ij,jk": (["ij", "jk"], None),
    " i j ,\tjk\n-> i k ": (["ij", "jk"], "ik"),
    "": ([""], None),
    "->": ([""], ""),
    ",": (["", ""], None),
    ",->": (["", ""], ""),
    ",,->": (["", "", ""], ""),
    "i,->i": (["i", ""], "i"),
    "ii": (["ii"], None),
    "ii->i": (["ii"], "i"),
    "i->ii": (["i"], "ii"),
    "...": (["."], None),
    "...->...": (["."], "."),
    "...ij,j...->i...": ([".ij", "j."], "i."),
    "i...j->...": (["i.j"], "."),
    "i ... j -> ...": (["i.j"], "."),
    "aZ09": (["aZ09"], None),
    "αβ,βé->αé": (["αβ", "βé"], "αé"),
    "×÷,÷Ϣ->×Ϣ": (["×÷", "÷Ϣ"], "×Ϣ"),
    "漢\U0001f600->\U0001f600": (["漢\U0001f600"], "\U0001f600"),
    "(ij,jk),kl->il": (["ij", "jk", "kl"], "il"),
    "()": ([""], None),
}

# text -> groups, innermost first; ~k names group k
GROUPS: dict[str, tuple[tuple[int, ...], ...]] = {
    "a,b": (),
    "(a,b)": ((0, 1),),
    "(a),b": ((0,),),
    "(a,b),c": ((0, 1),),
    "a,(b,c)": ((1, 2),),
    "(a,c),(b,d)": ((0, 1), (2, 3)),
    "((a,b),c),d": ((0, 1), (~0, 2)),
    "(a,(b,(c,d)))": ((2, 3), (1, ~0), (0, ~1)),
    "((a,b),(c,d)),e": ((0, 1), (2, 3), (~0, ~1)),
    "((a))": ((0,), (~0,)),
    "(,)": ((0, 1),),
    " ( a , b ) , c ": ((0, 1),),
}


def tokens(term: str) -> tuple[Any, ...]:
    return tuple(D if char == "." else char for char in term)


@pytest.mark.parametrize("text", TEXTS)
def test_parse(text: str) -> None:
    terms, output = TEXTS[text]
    notation = parse(text)
    assert notation.terms == tuple(map(tokens, terms))
    assert notation.output == (None if output is None else tokens(output))
    assert str(notation) == text


@pytest.mark.parametrize("text", GROUPS)
def test_groups(text: str) -> None:
    assert parse(text).groups == GROUPS[text]
    assert parse(text + "->").groups == GROUPS[text]


def test_parse_is_remembered() -> None:
    assert parse("ab,bc->ac") is parse("ab,bc->ac")


# Round trips ------------------------------------------------------------------------------------

LABELS = "abcXYZ019éλ漢\U0001f600"


@st.composite
def equations(draw: Any) -> tuple[list[tuple[Any, ...]], tuple[Any, ...] | None, list[int]]:
    """Terms, an output or None, and how many axes each ellipsis stands for."""
    terms: list[tuple[Any, ...]] = []
    hidden: list[int] = []
    for _ in range(draw(st.integers(1, 5))):
        term = draw(st.lists(st.sampled_from(LABELS), max_size=4))
        dots = draw(st.booleans())
        if dots:
            term.insert(draw(st.integers(0, len(term))), D)
        terms.append(tuple(term))
        hidden.append(draw(st.integers(0, 3)) if dots else 0)
    if draw(st.booleans()):
        return terms, None, hidden
    known = sorted({label for term in terms for label in term if label is not D})
    output = draw(st.lists(st.sampled_from(known), unique=True)) if known else []
    if any(hidden) or draw(st.booleans()):
        output.insert(draw(st.integers(0, len(output))), D)
    return terms, tuple(output), hidden


def written(terms: list[tuple[Any, ...]], output: tuple[Any, ...] | None) -> str:
    return ",".join(map(spell, terms)) + ("" if output is None else f"->{spell(output)}")


@given(equations(), st.sampled_from(["", " ", "\t ", "\u2003"]))
def test_text_round_trip(equation: Any, blank: str) -> None:
    """Blanks anywhere but inside "..." and "->" have no meaning."""
    terms, output, _ = equation
    text = written(terms, output)
    spaced = blank.join(text).replace(blank.join("..."), "...").replace(blank.join("->"), "->")
    for string in (text, blank + spaced + blank):
        notation = parse(string)
        assert notation.terms == tuple(terms)
        assert notation.output == output


@given(equations())
def test_resolve_gives_every_axis_its_label(equation: Any) -> None:
    terms, output, hidden = equation
    shapes = [(2,) * (len(t) - (D in t) + h) for t, h in zip(terms, hidden, strict=True)]
    text = written(terms, output)
    found = resolve(parse(text), [len(shape) for shape in shapes])
    inputs, out = resolve_by_hand(text, shapes)
    order = list(dict.fromkeys(label for term in inputs for label in term))
    assert found.inputs == tuple(tuple(map(order.index, term)) for term in inputs)
    assert found.output == tuple(map(order.index, out))
    named = [label for label in order if isinstance(label, str)]
    assert [label for label in found.labels if isinstance(label, str)] == named


@given(equations())
def test_interleaved_is_the_string_in_other_labels(equation: Any) -> None:
    """Labels by position in the alphabet: both forms have the same integers, and the same order."""
    terms, output, hidden = equation
    numbers = {label: k - 5 for k, label in enumerate(sorted(LABELS))}
    numbers[D] = D
    ndims = [len(t) - (D in t) + h for t, h in zip(terms, hidden, strict=True)]
    arguments: list[Any] = []
    for term, ndim in zip(terms, ndims, strict=True):
        arguments += [np.zeros((1,) * ndim), [numbers[label] for label in term]]
    if output is not None:
        arguments.append([numbers[label] for label in output])
    operands, notation = interleaved(arguments)
    assert [operand.ndim for operand in operands] == ndims
    one, other = resolve(notation, ndims), resolve(parse(written(terms, output)), ndims)
    assert (one.inputs, one.output) == (other.inputs, other.output)


@st.composite
def bracketed(draw: Any, leaves: int = 7) -> tuple[str, list[list[int]]]:
    """Text of terms in random parentheses, and the operands inside each pair, as they close."""
    count = draw(st.integers(1, leaves))
    parts: list[tuple[str, list[int]]] = [(draw(st.sampled_from("abc")), [k]) for k in range(count)]
    closed: list[list[int]] = []
    for _ in range(draw(st.integers(0, 6))):
        first = draw(st.integers(0, len(parts) - 1))
        last = draw(st.integers(first, len(parts) - 1))
        inside = parts[first : last + 1]
        members = [operand for _, operands in inside for operand in operands]
        text = ",".join(text for text, _ in inside)
        parts[first : last + 1] = [(f"({text})", members)]
        closed.append(members)
    return ",".join(text for text, _ in parts), closed


@given(bracketed())
def test_groups_are_what_the_parentheses_enclose(case: tuple[str, list[list[int]]]) -> None:
    text, closed = case
    operands: list[list[int]] = []  # of each group
    for group in parse(text).groups:
        operands.append([x for m in group for x in ([m] if m >= 0 else operands[~m])])
    assert sorted(operands) == sorted(closed)


@given(st.text(alphabet="ij.,->() é1%A\n", max_size=12))
def test_any_text_is_read_or_refused_with_its_spot(text: str) -> None:
    """No text does anything but parse or raise SubscriptError with the text and a caret in it."""
    try:
        notation = parse(text)
    except SubscriptError as error:
        message = str(error)
        assert message.startswith("einsum: ")
        assert "^" in message
        return
    again = parse("".join(text.split()))
    assert (again.terms, again.output) == (notation.terms, notation.output)


# Interleaved ------------------------------------------------------------------------------------

A = np.zeros((2, 3))


def test_interleaved_labels_of_any_kind() -> None:
    labels = ["x", 1, (0, 1), None, 1.5, b"b", frozenset({2}), np.int64(7), 10**20, str]
    arguments: list[Any] = []
    for label in labels:
        arguments += [A, [label, "shared"]]
    _, notation = interleaved([*arguments, labels[::-1]])
    found = resolve(notation, [2] * len(labels))
    assert [found.labels[label] for label in found.output] == labels[::-1]


@pytest.mark.parametrize("labels", [(0, 1), [0, 1], np.array([0, 1]), range(2), iter([0, 1]), "ij"])
def test_interleaved_lists_of_any_kind(labels: Any) -> None:
    _, notation = interleaved([A, labels, []])
    assert len(notation.terms[0]) == 2


def test_equal_integers_are_one_label() -> None:
    _, notation = interleaved([A, [np.int8(1), 2], A, [1, np.uint64(2)], [np.int32(1)]])
    assert notation.terms == ((1, 2), (1, 2))
    assert notation.output == (1,)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ([A], SubscriptError, "plan"),
        ([A, 3], CallError, "operand 0"),
        ([A, [0, 1], A, None], CallError, "operand 1"),
        ([A, [0, 1], 5], CallError, "the output"),
        ([A, [[0], 1]], CallError, "hashable"),
        ([A, [..., 0, ...]], SubscriptError, "operand 0"),
        ([A, [0, 1], [..., ...]], SubscriptError, "the output"),
        ([A, [("...", 1), 0]], CallError, "ellips"),
    ],
)
def test_interleaved_errors(arguments: list[Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=r"^plan: ") as caught:
        interleaved(arguments, "plan")
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("labels", "says"),
    [([0, "x"], "all strings or all integers"), ([(0, 1), (0, 2)], "Give the output labels")],
)
def test_implicit_output_needs_labels_with_an_order(labels: list[Any], says: str) -> None:
    _, notation = interleaved([A, labels])
    with pytest.raises(SubscriptError, match=says):
        resolve(notation, [2])


def test_implicit_output_of_labels_without_an_order_that_are_all_summed() -> None:
    _, notation = interleaved([A, [0, "x"], A, [0, "x"]])
    assert resolve(notation, [2, 2]).output == ()


# Errors of resolve, beyond those that test_einsum_errors.py shows ---------------------------------


@pytest.mark.parametrize(
    ("text", "ndims", "error", "says"),
    [
        ("ij,jk", [2], SubscriptError, "2 operands, got 1"),
        ("ij", [1], ShapeError, "operand 0 has 1 axes, its subscripts name 2"),
        ("i", [2], ShapeError, 'write "..."'),
        ("i...", [0], ShapeError, "name 1 or more"),
        ("...i->i", [2], ShapeError, "the ellipsis stands for 1 axes"),
        ("i->j", [1], SubscriptError, "Labels of the operands: 'i'"),
        ("i->ii", [1], SubscriptError, "embed_diagonal=True"),
    ],
)
def test_resolve_errors(text: str, ndims: list[int], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=r"^compile: ") as caught:
        resolve(parse(text), ndims, "compile")
    assert says in str(caught.value)
    assert text in str(caught.value)


def test_an_ellipsis_of_no_axes_may_be_left_out_of_the_output() -> None:
    assert resolve(parse("...i->i"), [1]).output == (0,)


def test_repeated_output_labels() -> None:
    found = resolve(parse("ij->iji"), [2], embed_diagonal=True)
    assert (found.inputs, found.output) == (((0, 1),), (0, 1, 0))
