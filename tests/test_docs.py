"""What the pages and the README say of files, targets and code is so."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import einloom
from einloom._base.options import Options

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.md")])

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)

page = pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """Language and text of every fenced block."""
    return ((match[1], match[2]) for match in FENCE.finditer(text))


def prose(text: str) -> str:
    """The page without its fenced blocks."""
    return FENCE.sub("", text)


def links(text: str) -> list[str]:
    """Targets of the links of a page; what stands in code is none."""
    return LINK.findall(re.sub(r"`[^`\n]*`", "", prose(text)))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and myst make them."""
    words = (
        re.sub(r"[^\w\- ]", "", head.lower()) for head in HEADING.findall(prose(path.read_text()))
    )
    return {word.strip().replace(" ", "-") for word in words}


def makefile_targets() -> set[str]:
    return set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@page
def test_internal_links_lead_somewhere(path: Path) -> None:
    for link in links(path.read_text()):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.is_file(), f"{link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{target.name} has no heading for #{anchor}"


@page
def test_make_targets_exist(path: Path) -> None:
    """`make a`, and `make a|b|c`, wherever it stands as code."""
    text = path.read_text()
    code = re.findall(r"`make ([^`]*)`", prose(text)) + re.findall(
        r"^make (.*)$", text, re.MULTILINE
    )
    named = {target for line in code for target in line.split()[0].split("|")}
    assert named <= makefile_targets()


@page
def test_python_blocks_are_doctests(path: Path) -> None:
    for language, text in blocks(path.read_text()):
        if language == "python":
            assert text.startswith(">>> "), f"not run as a test:\n{text}"
            assert text.endswith("\n\n"), f"the fence would be read as output:\n{text}"


@pytest.mark.parametrize("path", [*PAGES, *ROOT.glob("docs/*.py")], ids=lambda path: path.name)
def test_no_path_of_one_machine(path: Path) -> None:
    paths = re.findall(r"(?:/home/|/Users/|/tmp/|[A-Z]:\\)\S*", path.read_text())
    assert not paths


def docs(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_targets_of_a_developer_are_described() -> None:
    named = set(re.findall(r"`make ([a-z]+)`", docs("development.md")))
    assert {"demo", "test", "check", "format", "bench", "docs"} <= named


def test_public_names_are_described() -> None:
    described = re.findall(r"^\.\. auto\w+:: (\w+)(?:\(\))?$", docs("api.md"), re.MULTILINE)
    assert sorted(described) == sorted(set(einloom.__all__))


def test_options_are_described() -> None:
    for name in (field.name for field in fields(Options)):
        assert f"| `{name}` |" in docs("start.md")
        assert f"`EINLOOM_{name.upper()}`" in docs("api.md")


def test_caches_are_described() -> None:
    """Every cache that the library makes, with its bound."""
    rooms = [ROOT / room for room in ("src", "backend", "program", "contract", "linalg")]
    sources = [path.read_text() for room in rooms for path in room.rglob("*.py")]
    made = {match for text in sources for match in re.findall(r'= Cache\("(\w+)", (\d+)\)', text)}
    assert made
    for name, bound in made:
        assert re.search(rf"^\| `{name}` \|.*\| {bound} \|$", docs("how_it_works.md"), re.MULTILINE)


def test_nothing_is_left_of_a_merge() -> None:
    """No file that is kept has a line that tells two sides of a conflict apart."""
    if not (ROOT / ".git").exists() or not shutil.which("git"):
        pytest.skip("no checkout")
    run = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    files = [ROOT / os.fsdecode(name) for name in run.stdout.split(b"\0") if name]
    texts = {path: path.read_bytes() for path in files if path.is_file()}
    assert texts
    left = re.compile(rb"^(<{7}|>{7}) ", re.MULTILINE)
    assert not [path for path, text in texts.items() if b"\0" not in text and left.search(text)]
