"""Every subcommand on good and bad input: output, exit code, one message that says what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import einloom
from einloom import Plan, cli
from einloom.backend.cpu import backend as cpu_backend
from einloom.contract import delivery
from einloom.contract.problem_file import ProblemFile, read_problem
from einloom.program.serial import program_from_json

A = np.arange(6.0).reshape(2, 3)
B = np.arange(12.0).reshape(3, 4)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of arrays, good and bad, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", A)
    np.save("b.npy", B)
    np.save("z.npy", A * 1j)
    np.save("scalar.npy", np.float32(2.5))
    np.save("nan.npy", np.array([1, np.nan]))
    np.save("date.npy", np.datetime64("2024-02-29"))
    np.save("text.npy", np.array([["x"]]))
    np.savez("one.npz", x=A)
    np.savez_compressed("two.npz", first=A, second=B)
    np.savez("none.npz")
    whole = Path("a.npy").read_bytes()
    Path("empty.npy").write_bytes(b"")
    Path("cut.npy").write_bytes(whole[:-8])
    Path("header.npy").write_bytes(whole[:8] + b"\xff" * 100)
    Path("words.npy").write_text("these are words\n")
    np.save("pickled.npy", np.array([{"a": 1}], object), allow_pickle=True)
    Path("pickle.npy").write_bytes(b"\x80\x04\x95" + b"junk" * 10)
    archive = Path("two.npz").read_bytes()
    Path("cut.npz").write_bytes(archive[: len(archive) // 2])
    stored = Path("one.npz").read_bytes()
    Path("flipped.npz").write_bytes(stored.replace(A[1].tobytes(), A[0].tobytes()))
    Path("zip.npz").write_bytes(b"PK\x03\x04 and no more")
    with zipfile.ZipFile("words.npz", "w") as words:
        words.writestr("x.npy", "these are words")
    header = (
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }".ljust(117) + b"\n"
    )
    Path("vast.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    Path("folder").mkdir()
    return tmp_path


@pytest.fixture
def run(files: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command line in the folder; exit code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        try:
            code = cli.main(arguments)
        except SystemExit as stop:  # argparse's way
            code = stop.code if isinstance(stop.code, int) else 1
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def good(run: Run) -> Callable[..., str]:
    """Run what must succeed without a word on stderr; its stdout."""

    def call(*arguments: str) -> str:
        code, out, err = run(*arguments)
        assert (code, err) == (0, "")
        return out

    return call


def problem(file: str = "p.json", **changes: Any) -> str:
    """Write a problem file."""
    content = {
        "name": "three matrices",
        "format_string": "ij,jk,kl->il",
        "shapes": [[2, 30], [30, 4], [4, 5]],
        "dtype": "float64",
        "paths": {
            "opt_size": {"path": [[0, 1], [0, 1]]},
            "opt_flops": {"path": [[1, 2], [0, 1]]},
        },
        "source": "made up",
    }
    kept = {key: value for key, value in (content | changes).items() if value is not ...}
    Path(file).write_text(json.dumps(kept))
    return file


# contract ---------------------------------------------------------------------------------------


def test_contract(good: Callable[..., str]) -> None:
    out = good("contract", "ij,jk->ik", "a.npy", "b.npy", "-o", "out.npy")
    assert "ij,jk->ik: float64[2, 4] in " in out
    assert "written to out.npy" in out
    np.testing.assert_array_equal(np.load("out.npy"), A @ B)


@pytest.mark.parametrize(
    ("operands", "want"),
    [
        (["one.npz", "b.npy"], A @ B),
        (["one.npz:x", "b.npy"], A @ B),
        (["two.npz:first", "two.npz:second"], A @ B),
        (["./two.npz:first", "folder/../b.npy"], A @ B),
        (["z.npy", "b.npy"], 1j * A @ B),
    ],
)
def test_contract_reads_npy_and_npz(
    good: Callable[..., str], operands: list[str], want: np.ndarray
) -> None:
    good("contract", "ij,jk->ik", *operands, "--output", "out")
    np.testing.assert_array_equal(np.load("out"), want)
    assert not Path("out.npy").exists()


def test_contract_json(good: Callable[..., str]) -> None:
    facts = json.loads(good("contract", "ij,jk->ik", "a.npy", "b.npy", "--json", "-o", "c.npy"))
    assert facts["equation"] == "ij,jk->ik"
    assert (facts["shape"], facts["dtype"], facts["output"]) == ([2, 4], "float64", "c.npy")
    assert facts["seconds"] >= 0
    assert "value" not in facts


@pytest.mark.parametrize(
    ("arguments", "value", "shown"),
    [
        (("ij,jk->", "a.npy", "b.npy"), float((A @ B).sum()), "394.0"),
        (("ij->", "z.npy"), [0.0, 15.0], "15j"),
        (("->", "scalar.npy"), 2.5, "2.5"),
        (("", "scalar.npy"), 2.5, "2.5"),
        ((" -> ", "scalar.npy"), 2.5, "2.5"),
        ((",->", "scalar.npy", "scalar.npy"), 6.25, "6.25"),
        (("i->", "nan.npy"), None, "nan"),
    ],
)
def test_contract_to_a_scalar(
    good: Callable[..., str], arguments: tuple[str, ...], value: Any, shown: str
) -> None:
    assert f"value {shown}" in good("contract", *arguments).replace("(", "").replace("0+", "")
    facts = json.loads(good("contract", *arguments, "--json"), parse_constant=pytest.fail)
    assert facts["value"] == value
    assert facts["shape"] == []


def test_contract_a_scalar_that_is_no_number(good: Callable[..., str]) -> None:
    assert "2024-02-29" in good("contract", "->", "date.npy")
    assert "value" not in json.loads(good("contract", "->", "date.npy", "--json"))


def test_contract_options(good: Callable[..., str]) -> None:
    facts = json.loads(good("contract", "ij,jk", "a.npy", "b.npy", "--dtype", "c16", "--json"))
    assert facts["dtype"] == "complex128"
    operands = ("ij,jk,ik->", "a.npy", "b.npy", "c.npy")
    np.save("c.npy", np.ones((2, 4)))
    for planner in ("auto", "greedy", "random-greedy", "optimal", "dp", "none"):
        facts = json.loads(good("contract", *operands, "--planner", planner, "--json"))
        assert facts["value"] == (A @ B).sum()
    for limit in ("1GiB", "1000000", "0.5", "1e6"):
        good("contract", "ij,jk", "a.npy", "b.npy", "--memory-limit", limit)


def test_contract_may_overwrite_its_operand(good: Callable[..., str]) -> None:
    good("contract", "ij->ji", "a.npy", "-o", "a.npy")
    np.testing.assert_array_equal(np.load("a.npy"), A.T)


# plan -------------------------------------------------------------------------------------------


def test_plan(good: Callable[..., str]) -> None:
    arguments = ("ij,jk,kl->il", "--shapes", "2,30", "30x4", "4,5,")
    out = good("plan", *arguments)
    assert out == f"{einloom.plan('ij,jk,kl->il', (2, 30), (30, 4), (4, 5))}\n"
    facts = json.loads(good("plan", *arguments, "--json"))
    assert facts["path"] == [[0, 1], [0, 1]]
    assert facts["cost"] == 2 * 30 * 4 + 2 * 4 * 5
    assert facts["flops"] == 2 * facts["cost"]
    assert facts["largest_intermediate"] == 10
    assert (facts["planner"], facts["proof"]) == ("optimal", "optimal")
    assert facts["peak_bytes"] > 0


def test_plan_of_scalars(good: Callable[..., str]) -> None:
    assert json.loads(good("plan", ",i,", "--shapes", "", "3", " ", "--json"))["flops"] >= 3
    assert json.loads(good("plan", "->", "--shapes", "", "--json"))["path"] == [[0]]


def test_plan_program_and_save(good: Callable[..., str]) -> None:
    out = good(
        "plan", "iij,jk->k", "--shapes", "3,3,4", "4,5", "--program", "--save", "p.json",
        "--dtype", "float32", "--objective", "size", "--seed", "7", "--planner", "greedy",
    )  # fmt: skip
    assert "extract_diagonal" in out
    assert "instructions: lowered " in out
    assert "memory: packed" in out
    plan = Plan.from_json(Path("p.json").read_text())
    assert (plan.dtype, plan.objective, plan.seed) == (np.dtype("f4"), "size", 7)
    assert plan.planner == "greedy"
    facts = json.loads(good("plan", "ij,jk", "--shapes", "2,3", "3,4", "--program", "--json"))
    assert facts["program"].startswith("program(")
    assert facts["memory"].startswith("memory: packed")
    with pytest.raises(einloom.FileFormatError):
        program_from_json(facts["program"])  # it is the listing, for people


def test_plan_seen(good: Callable[..., str]) -> None:
    arguments = ("ij,jk,kl->il", "--shapes", "2,30", "30,4", "4,5")
    plan = einloom.plan("ij,jk,kl->il", (2, 30), (30, 4), (4, 5))
    out = good("plan", *arguments, "--tree", "--explain", "--html", "plan.html")
    assert out == f"{plan}\n\n{plan.draw()}\n\n{plan.explain()}\n"
    assert Path("plan.html").read_text(encoding="utf-8") == plan.to_html()
    facts = json.loads(good("plan", *arguments, "--tree", "--explain", "--json"))
    assert (facts["tree"], facts["explanation"]) == (plan.draw(), plan.explain())


def test_plan_of_what_no_memory_holds(good: Callable[..., str]) -> None:
    vast = f"{10**12},{10**12}"
    facts = json.loads(good("plan", "ij,jk->ik", "--shapes", vast, vast, "--json"))
    assert facts["cost"] == 10**36


# run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["opt_size", "opt_flops", "auto", None])
def test_run(good: Callable[..., str], path: str | None) -> None:
    name = problem()
    chosen = ["--path", path] if path else []
    facts = json.loads(good("run", name, *chosen, "--json", "--repeat", "3", "--seed", "1"))
    problem_file = read_problem(name)
    arrays = problem_file.arrays(1)
    want = np.einsum(problem_file.equation, *arrays)
    assert facts["norm"] == pytest.approx(np.linalg.norm(want))
    assert facts["shape"] == [2, 5]
    assert facts["finite"] is True
    assert len(facts["seconds"]) == 3
    assert facts["operands"] == 3
    assert (facts["name"], facts["path"]) == ("three matrices", path or "auto")
    assert facts["flops"] == {"opt_flops": 2 * 2 * 30 * 5 + 2 * 30 * 4 * 5}.get(path or "", 560)
    out = good("run", name, *chosen)
    assert "three matrices, 3 operands, float64" in out
    assert "GFLOP/s" in out


@pytest.mark.parametrize("dtype", ["float32", "complex64", "int8", "uint64", "bool", "float16"])
def test_run_in_every_dtype(good: Callable[..., str], dtype: str) -> None:
    facts = json.loads(good("run", problem(dtype=dtype), "--json"))
    assert facts["finite"] is True
    assert facts["norm"] > 0


def test_run_without_name_dtype_and_paths(good: Callable[..., str]) -> None:
    name = problem("anonymous.json", name=..., dtype=..., paths=..., source=...)
    assert json.loads(good("run", name, "--json"))["name"] == "anonymous"


def test_run_draws_the_same_for_the_same_seed(good: Callable[..., str]) -> None:
    name = problem()
    norms = [json.loads(good("run", name, "--json", "--seed", s))["norm"] for s in "0012"]
    assert norms[0] == norms[1]
    assert len(set(norms)) == 3


def test_run_tells_when_the_result_is_not_finite(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ProblemFile, "arrays", lambda self, seed: [np.full(s, np.nan) for s in self.shapes]
    )
    code, out, err = run("run", problem(), "--json")
    facts = json.loads(out, parse_constant=pytest.fail)
    assert (code, err) == (1, "")
    assert (facts["finite"], facts["norm"]) == (False, None)
    assert "NOT FINITE" in run("run", problem())[1]


# demo and info ------------------------------------------------------------------------------------


@pytest.fixture
def small_demo(files: Path) -> list[str]:
    """Arguments of a demo of few qubits and a small lattice."""
    Path("ising.json").write_text(json.dumps({"lengths": [2, 3], "betas": [0.4]}))
    Path("c.qsim").write_text("2\n0 hz_1_2 0\n0 x_1_2 1\n1 fs 0 1 1.5 0.5\n2 y_1_2 0\n2 hz_1_2 1\n")
    return ["demo", "--ising", "ising.json", "--circuit", "c.qsim"]


def test_demo(good: Callable[..., str], small_demo: list[str]) -> None:
    out = good(*small_demo)
    assert "Ising 2x2" in out
    assert out.count("passed") >= 4
    assert "FAILED" not in out


def test_demo_json(run: Run, small_demo: list[str]) -> None:
    code, out, err = run(*small_demo, "--json")
    report = json.loads(out)
    assert code == 0
    assert report["ok"] is True
    assert all(row["ok"] for row in report["rows"])
    assert "contracting" in err  # progress goes there, so that stdout is JSON alone


def test_a_demo_that_fails_a_check(
    run: Run, small_demo: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from einloom.demo import run as demo_run

    monkeypatch.setattr(demo_run, "kaufman_log_partition", lambda length, beta: 1.0)
    code, out, _ = run(*small_demo)
    assert code == 1
    assert "FAILED" in out


def test_info(good: Callable[..., str]) -> None:
    out = good("info")
    for word in (einloom.__version__, np.__version__, "threads", "BLAS", "memory available"):
        assert word in out
    facts = json.loads(good("info", "--json"))
    assert facts["einloom"] == einloom.__version__
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["devices"] == (["cpu", "gpu"] if facts["gpu"] == "usable" else ["cpu"])
    assert facts["gpu"] in out
    assert facts["threads"] >= 1
    assert set(facts["missing"]) == {n for n, v in facts["packages"].items() if v is None}


def test_info_says_how_to_get_what_is_missing(
    good: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "_version", lambda name: None if name == "ml_dtypes" else "1")
    assert "pip install" in good("info")
    assert "pip install" in json.loads(good("info", "--json"))["missing"]["ml_dtypes"]


def test_version_and_help(run: Run) -> None:
    assert run("--version")[:2] == (0, f"einloom {einloom.__version__}\n")
    for command in ((), ("contract",), ("plan",), ("run",), ("demo",), ("info",)):
        code, out, err = run(*command, "--help")
        assert (code, err) == (0, "")
        assert "usage: einloom" in out
    assert "Exit codes" in run("--help")[1]


# Bad input ----------------------------------------------------------------------------------------

BAD_FILES = {
    "missing.npy": "no such file",
    "missing.npz:x": "no such file",
    "folder": "readable",
    "empty.npy": "readable",
    "cut.npy": "readable",
    "header.npy": "readable",
    "words.npy": "readable",
    "pickled.npy": "readable",
    "pickle.npy": "readable",
    "cut.npz": "readable",
    "zip.npz": "readable",
    "flipped.npz": "readable",
    "words.npz": "no array",
    "two.npz": "name one, as in two.npz:first",
    "two.npz:third": "first, second",
    "none.npz": "no array",
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_contract_bad_files(run: Run, name: str) -> None:
    code, out, err = run("contract", "ij,jk->ik", name, "b.npy", "-o", "out.npy")
    assert (code, out) == (2, "")
    assert err.startswith(f"einloom: {name.partition(':')[0]}")
    assert BAD_FILES[name] in err
    assert err.count("\n") == 1
    assert not Path("out.npy").exists()


def test_a_pickle_is_never_run(run: Run, files: Path) -> None:
    """An object whose unpickling would leave a trace."""

    class Trap:
        def __reduce__(self) -> Any:
            return Path.touch, (Path("sprung"),)

    np.save("trap.npy", np.array([Trap()], object), allow_pickle=True)
    np.savez("trap.npz", x=np.array([Trap()], object))
    for name in ("trap.npy", "trap.npz", "trap.npz:x"):
        assert run("contract", "i->i", name)[0] == 2
    assert not Path("sprung").exists()


def test_a_file_that_no_memory_holds(run: Run) -> None:
    code, out, err = run("contract", "i->", "vast.npy")
    assert (code, out) == (3, "")
    assert "vast.npy" in err


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("contract", "ij,jk->ik", "a.npy", "a.npy"), 2, "label 'j' has size 3 in operand 0 and 2"),
        (("contract", "ij,jk->ik", "a.npy"), 2, "2 operands, got 1"),
        (("contract", "ijk->", "a.npy"), 2, "operand 0 has 2 axes"),
        (("contract", "i%->", "a.npy"), 2, "'%' is no label"),
        (("contract", "ij->->", "a.npy"), 2, "^"),
        (("contract", "ij,", "text.npy", "scalar.npy"), 2, "operand 0 has dtype <U1"),
        (("contract", "ij", "a.npy", "--dtype", "float99"), 2, "'float99'"),
        (("contract", "ij->i", "a.npy", "--dtype", "int8"), 2, "int8"),
        (("contract", "ij", "a.npy", "--planner", "best"), 2, "auto, greedy"),
        (("contract", "ij", "a.npy", "--memory-limit", "much"), 2, "Give bytes"),
        (("contract", "ij", "a.npy", "--memory-limit", "-3"), 2, "memory_limit"),
        (("contract", "ij", "a.npy", "--memory-limit", "nan"), 2, "Give bytes"),
        (("contract", "ij", "a.npy", "--memory-limit", "inf"), 2, "Give bytes"),
        (("contract", "ij,jk->ik", "a.npy", "b.npy", "--memory-limit", "100"), 3, "smallest"),
        (("contract", "ij", "a.npy", "-o", "nowhere/out.npy"), 2, "nowhere/out.npy"),
        (("contract", "ij", "a.npy", "-o", "folder"), 2, "folder"),
        (("contract", "ij"), 2, "required: files"),
        (("contract",), 2, "required: equation, files"),
        (("contract", "ij", "a.npy", "--no-such-option"), 2, "--no-such-option"),
        (("plan", "ij,jk->ik"), 2, "--shapes 2,3 3,4"),
        (("plan", "ij,jk->ik", "--shapes"), 2, "--shapes 2,3 3,4"),
        (("plan", "ij,jk->ik", "--shapes", "2,3"), 2, "2 operands, got 1"),
        (("plan", "ij,jk->ik", "--shapes", "2,3", "4,5"), 2, "'j'"),
        (("plan", "ij", "--shapes", "2,x"), 2, '"2,3,4"'),
        (("plan", "ij", "--shapes", "2,,3"), 2, '"2,3,4"'),
        (("plan", "ij", "--shapes", "2.0,3"), 2, '"2,3,4"'),
        (("plan", "ij", "--shapes", "2,-3"), 2, '"2,3,4"'),
        (("plan", "ij", "--shapes", "two,three"), 2, '"2,3,4"'),
        (("plan", "i", "--shapes", "3", "--seed", "x"), 2, "--seed"),
        (("plan", "i", "--shapes", "3", "--objective", "speed"), 2, "time, flops, size"),
        (("plan", "i,i", "--shapes", "3", "3", "--dtype", "U5"), 2, "U5"),
        (("plan", "i", "--shapes", "3", "--save", "nowhere/p.json"), 2, "nowhere/p.json"),
        (("plan", "i", "--shapes", "3", "--html", "nowhere/p.html"), 2, "nowhere/p.html"),
        (("plan", "ij,jk", "--shapes", "99,99", "99,99", "--memory-limit", "1kB"), 3, "smallest"),
        (("run", "missing.json"), 2, "missing.json: cannot be read"),
        (("run", "folder"), 2, "folder: cannot be read"),
        (("run", "words.npy"), 2, "words.npy: this is no JSON"),
        (("run", "a.npy"), 2, "a.npy: cannot be read"),
        (("run", "empty.npy"), 2, "empty.npy: this is no JSON"),
        (("demo", "--ising", "missing.json"), 2, "missing.json"),
        (("demo", "--ising", "words.npy"), 2, "words.npy"),
        ((), 2, "required: COMMAND"),
        (("nonsense",), 2, "invalid choice: 'nonsense'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_arguments(run: Run, arguments: tuple[str, ...], code: int, says: str) -> None:
    got, out, err = run(*arguments)
    assert got == code
    assert says in err
    assert "Traceback" not in err
    assert err.startswith(("einloom: ", "usage: "))
    assert out == "" or arguments[0] == "demo"  # which tells what it is about to do


def test_no_work_is_done_for_an_output_that_cannot_be_written(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli, "einsum", lambda *_, **__: pytest.fail("computed in vain"))
    assert run("contract", "ij", "a.npy", "-o", "nowhere/out.npy")[0] == 2
    monkeypatch.setattr(os, "access", lambda *_: False)
    code, _, err = run("contract", "ij", "a.npy", "-o", "out.npy")
    assert code == 2
    assert "out.npy: no permission" in err


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format_string": ...}, "the key 'format_string' is missing"),
        ({"shapes": ...}, "the key 'shapes' is missing"),
        ({"format_string": 3}, "format_string should be a string"),
        ({"format_string": "ij,jk->%"}, "'%' is no label"),
        ({"shapes": 3}, "shapes should be a list"),
        ({"shapes": [[2, 30], [30, 4]]}, "3 operands, got 2"),
        ({"shapes": [[2, 30], [31, 4], [4, 5]]}, "'j' has size 30 in operand 0 and 31"),
        ({"shapes": [[2, 30], [30, 4], [4, -5]]}, "integers >= 0"),
        ({"shapes": [[2, 30], [30, 4], [4, 5.0]]}, "integers >= 0"),
        ({"shapes": [[2, 30], [30, 4], "45"]}, "integers >= 0"),
        ({"shapes": [[2, 30], [30, 4], [4, True]]}, "integers >= 0"),
        ({"dtype": "float99"}, "float99"),
        ({"dtype": "U5"}, "numbers"),
        ({"dtype": "object"}, "numbers"),
        ({"dtype": None}, "dtype should be a string"),
        ({"paths": [1]}, "paths should be an object"),
        ({"paths": {"x": 1}}, "path x should be an object"),
        ({"paths": {"x": {}}}, "the key 'path' is missing"),
        ({"paths": {"x": {"path": 3}}}, "path x should be a list"),
        ({"paths": {"x": {"path": [[0, "1"]]}}}, "integers >= 0"),
    ],
    ids=repr,
)
def test_run_bad_problems(run: Run, changes: dict[str, Any], says: str) -> None:
    code, out, err = run("run", problem(**changes))
    assert (code, out) == (2, "")
    assert err.startswith("einloom: p.json: ")
    assert says in err


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"', "[" * 50_000, '{"a": 1,}'])
def test_run_what_is_no_problem(run: Run, text: str) -> None:
    Path("p.json").write_text(text)
    code, out, err = run("run", "p.json")
    assert (code, out) == (2, "")
    assert err.startswith("einloom: p.json: ")


def test_run_bad_paths(run: Run) -> None:
    bad = {"x": {"path": [[0, 1], [0, 5]]}, "y": {"path": [[0, 1]]}, "z": {"path": []}}
    for name in bad:
        code, out, err = run("run", problem(paths=bad), "--path", name)
        assert (code, out) == (2, "")
        assert err.startswith("einloom: p.json: ")
        assert "path" in err
    code, _, err = run("run", problem(), "--path", "best")
    assert code == 2
    assert "p.json has the paths opt_size, opt_flops; or take auto" in err
    assert "none; or take auto" in run("run", problem(paths={}), "--path", "best")[2]
    for bad_count in ("0", "-1", "x", "1.5"):
        assert run("run", problem(), "--repeat", bad_count)[0] == 2


@pytest.mark.parametrize("limit", [["--memory-limit", "1kB"], ["--memory-limit", "1000"]])
def test_run_limits(run: Run, limit: list[str]) -> None:
    code, out, err = run("run", problem(), *limit)
    assert (code, out) == (3, "")
    assert "the memory limit is 1000 B" in err


def test_run_what_does_not_fit_draws_nothing(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operands alone would be too large: that is known before they are drawn."""
    shapes = [[10**7, 30], [30, 10**7], [10**7, 5]]
    monkeypatch.setattr(delivery, "available_bytes", lambda: 1 << 30)
    monkeypatch.setattr(np.random, "default_rng", lambda *_: pytest.fail("drawn"))
    code, out, err = run("run", problem(shapes=shapes), "--path", "opt_size")
    assert (code, out) == (3, "")
    assert "predicted peak" in err
    assert "1.00 GiB are available" in err
    vast = problem(shapes=[[10**30, 30], [30, 4], [4, 5]])
    assert run("run", vast)[0] == 3


# Interrupts ---------------------------------------------------------------------------------------


class InterruptedOnce:
    """A kernel's binder whose kernel is interrupted the first time it runs."""

    def __init__(self, bind: Callable[..., Any]) -> None:
        self.bind, self.pending = bind, True

    def __call__(self, *arguments: Any, **more: Any) -> Callable[..., Any]:
        kernel = self.bind(*arguments, **more)

        def interrupted(*arrays: Any, **keywords: Any) -> Any:
            if self.pending:
                self.pending = False
                raise KeyboardInterrupt
            return kernel(*arrays, **keywords)

        return interrupted


@pytest.fixture
def interrupted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    einloom.clear_caches()
    bind = InterruptedOnce(cpu_backend.BINDERS["dot_general"])
    monkeypatch.setitem(cpu_backend.BINDERS, "dot_general", bind)


@pytest.mark.usefixtures("interrupted_once")
def test_ctrl_c(run: Run) -> None:
    arguments = ("contract", "ij,jk->ik", "a.npy", "b.npy", "-o", "out.npy")
    assert run(*arguments) == (130, "", "einloom: interrupted\n")
    assert not Path("out.npy").exists()
    assert run(*arguments)[0] == 0
    np.testing.assert_array_equal(np.load("out.npy"), A @ B)


@pytest.mark.usefixtures("interrupted_once")
def test_ctrl_c_in_a_run(run: Run) -> None:
    assert run("run", problem())[0] == 130
    assert run("run", problem())[0] == 0


@pytest.mark.usefixtures("interrupted_once")
def test_ctrl_c_leaves_caches_usable() -> None:
    """The expression stays remembered; `out` may be half written, the operands are whole."""
    before, out = A.copy(), np.empty((2, 4))
    with pytest.raises(KeyboardInterrupt):
        einloom.einsum("ij,jk->ik", A, B, out=out)
    np.testing.assert_array_equal(A, before)
    np.testing.assert_array_equal(einloom.einsum("ij,jk->ik", A, B, out=out), A @ B)
    np.testing.assert_array_equal(einloom.einsum("ij,jk->ik", A, B), A @ B)
    assert einloom.cache_info()["expressions"].currsize >= 1


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def test_ctrl_c_while_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = sys.modules["einloom.contract.planners.parts"]
    einloom.clear_caches()
    operands = [np.eye(2)] * 12
    text = "ab,bc,cd,de,ef,fg,gh,hi,ij,jk,kl,lm->am"
    with monkeypatch.context() as patch:
        patch.setattr(parts, "simplify", interrupt)
        with pytest.raises(KeyboardInterrupt):
            einloom.einsum(text, *operands)
    assert einloom.cache_info()["expressions"].currsize == 0
    np.testing.assert_array_equal(einloom.einsum(text, *operands), np.eye(2))


def test_ctrl_c_in_a_parallel_kernel() -> None:
    """The pool of threads serves the next call."""
    from einloom.backend.cpu.threads import parallel_for

    pieces: list[tuple[int, int]] = []

    with pytest.raises(KeyboardInterrupt):
        parallel_for(interrupt, 100, threads=4)
    parallel_for(lambda start, stop: pieces.append((start, stop)), 100, threads=4)
    assert sorted(pieces) == [(0, 25), (25, 50), (50, 75), (75, 100)]
    a = np.arange(4000, dtype="i8").reshape(20, 10, 20)
    with einloom.options(small=0, threads=4):
        np.testing.assert_array_equal(einloom.einsum("bij,bij->bi", a, a), (a * a).sum(2))


# As a process -------------------------------------------------------------------------------------


def process(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(einloom.__file__).parents[1])}
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "einloom", *arguments],
        capture_output=True, text=True, env=environment, **options,
    )  # fmt: skip


def test_module(files: Path) -> None:
    done = process("contract", "ij,jk->ik", "a.npy", "b.npy", "-o", "out.npy", "--json", cwd=files)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["shape"] == [2, 4]
    np.testing.assert_array_equal(np.load("out.npy"), A @ B)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("plan", "ij,jk->ik", "--shapes", "2,3", "3,4"), 0),
        (("contract", "ij,jk", "a.npy", "cut.npz"), 2),
        (("contract", "ij,jk", "a.npy", "b.npy", "--memory-limit", "10"), 3),
    ],
)
def test_module_exit_codes(files: Path, arguments: tuple[str, ...], code: int) -> None:
    done = process(*arguments, cwd=files)
    assert done.returncode == code
    assert (done.stdout != "") == (code == 0)
    assert (done.stderr != "") == (code != 0)
    assert "Traceback" not in done.stderr
