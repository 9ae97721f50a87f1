"""The command `einloom`: contract files, print plans, run problems, the demo, and what is installed.

Exit codes: 0 done; 1 a check failed; 2 bad input, with one message on stderr; 3 too little memory;
130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from . import __version__
from ._base.errors import (
    DTypeError,
    EinloomError,
    FileFormatError,
    MemoryLimitError,
    OptionError,
    PathError,
    ShapeError,
    SubscriptError,
)
from ._base.memory import available_bytes
from ._base.numbers import format_bytes, format_count, format_seconds
from ._base.options import cache_dir, num_threads
from ._base.progress import Progress
from .backend.cpu.backend import cpu
from .backend.cpu.warm import COMMON, warmup
from .backend.table import op_table
from .contract.api import compile, plan
from .contract.delivery import check_memory
from .contract.einsum import einsum
from .contract.problem_file import read_problem
from .program.passes import stages

DONE, FAILED, BAD_INPUT, NO_MEMORY, INTERRUPTED = 0, 1, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    # "->" alone is an equation; a blank keeps argparse from reading it as an option
    options = _parser().parse_args([f" {x}" if x.startswith("->") else x for x in given])
    command: Callable[[argparse.Namespace], int] = options.command
    try:
        return command(options)
    except MemoryError as error:
        return _complain(error, NO_MEMORY)
    except (EinloomError, OSError) as error:
        return _complain(error, BAD_INPUT)
    except KeyboardInterrupt:
        return _complain("interrupted", INTERRUPTED)


def contract(options: argparse.Namespace) -> int:
    """einloom contract EQUATION a.npy b.npy ... -o out.npy"""
    operands = [_load(name) for name in options.files]
    _check_output(options.output)
    start = time.perf_counter()
    result = einsum(
        options.equation,
        *operands,
        optimize=_planner(options.planner),
        dtype=options.dtype,
        memory_limit=_limit(options.memory_limit),
    )
    seconds = time.perf_counter() - start
    result = np.asarray(result)
    if options.output:
        with open(options.output, "wb") as file:
            np.save(file, result, allow_pickle=False)
    facts: dict[str, Any] = {
        "equation": options.equation,
        "shape": list(result.shape),
        "dtype": str(result.dtype),
        "seconds": seconds,
        "output": options.output,
    }
    if result.ndim == 0 and result.dtype.kind in "biufc":
        value = complex(result)
        facts["value"] = [value.real, value.imag] if result.dtype.kind == "c" else value.real
    lines = [f"{options.equation}: {result.dtype}{list(result.shape)} in {format_seconds(seconds)}"]
    lines += [f"value {result[()]}"] if result.ndim == 0 else []
    lines += [f"written to {options.output}"] if options.output else []
    return _report(options, facts, "\n".join(lines))


def show_plan(options: argparse.Namespace) -> int:
    """einloom plan EQUATION --shapes 2,3 3,4"""
    if not options.shapes:
        raise OptionError("plan: give a shape for each operand, as in --shapes 2,3 3,4")
    _check_output(options.save)
    _check_output(options.html)
    found = plan(
        options.equation,
        *(_shape(text) for text in options.shapes),
        dtype=options.dtype,
        planner=_planner(options.planner),
        objective=options.objective,
        memory_limit=_limit(options.memory_limit),
        seed=options.seed,
    )
    if options.save:
        Path(options.save).write_text(found.to_json(), encoding="utf-8")
    if options.html:
        Path(options.html).write_text(found.to_html(), encoding="utf-8")
    facts = {
        "path": found.path,
        "cost": found.cost,
        "flops": found.flops,
        "largest_intermediate": found.largest_intermediate,
        "peak_bytes": found.peak_bytes,
        "n_slices": found.n_slices,
        "planner": found.planner,
        "proof": found.proof,
    }
    text = str(found)
    if options.tree:
        facts["tree"] = found.draw()
        text += f"\n\n{facts['tree']}"
    if options.explain:
        facts["explanation"] = found.explain()
        text += f"\n\n{facts['explanation']}"
    if options.program:
        counts = [(name, len(program.instructions)) for name, program in stages(found.lowered)]
        passes = ", ".join(f"{name} {n}" for name, n in counts)
        timing = found.scheduled  # of the program as it is run: groups are fused
        memory = timing.memory.text(timing.program)
        text += f"\n\n{timing.program}\ninstructions: {passes}\n{memory}"
        facts["program"], facts["memory"] = str(timing.program), memory
    return _report(options, facts, text)


def run(options: argparse.Namespace) -> int:
    """einloom run problem.json --path opt_flops"""
    problem = read_problem(options.problem)
    choice: Any = "auto"
    if options.path != "auto":
        if options.path not in problem.paths:
            raise OptionError(
                f"run(--path {options.path}): {options.problem} has the paths "
                f"{', '.join(problem.paths) or 'none'}; or take auto"
            )
        choice = problem.paths[options.path]
    start = time.perf_counter()
    try:
        found = plan(
            problem.equation,
            *problem.shapes,
            dtype=problem.dtype,
            planner=choice,
            memory_limit=_limit(options.memory_limit),
        )
    except (SubscriptError, ShapeError, DTypeError, PathError) as error:
        raise FileFormatError(f"{options.problem}: {error}") from None
    plan_seconds = time.perf_counter() - start
    check_memory(found.peak_bytes, 0, "run", "operands, intermediates and result")
    expression = compile(found)
    arrays = problem.arrays(options.seed)
    seconds: list[float] = []
    with Progress(problem.name, options.repeat) as progress:
        for _ in range(options.repeat):
            start = time.perf_counter()
            result = expression(*arrays)
            seconds.append(time.perf_counter() - start)
            progress.advance()
    finite = bool(np.all(np.isfinite(result)))
    norm = float(np.linalg.norm(np.ravel(result)))
    facts = {
        "name": problem.name,
        "path": options.path,
        "operands": len(arrays),
        "flops": found.flops,
        "largest_intermediate": found.largest_intermediate,
        "peak_bytes": found.peak_bytes,
        "n_slices": found.n_slices,
        "plan_seconds": plan_seconds,
        "seconds": seconds,
        "shape": list(np.shape(result)),
        "norm": norm,
        "finite": finite,
    }
    best = min(seconds)
    rows = [
        ("problem", f"{problem.name}, {len(arrays)} operands, {problem.dtype}"),
        ("path", f"{options.path}, planned in {format_seconds(plan_seconds)}"),
        ("flops", format_count(found.flops)),
        ("largest intermediate", f"{format_count(found.largest_intermediate)} elements"),
        ("predicted peak", format_bytes(found.peak_bytes)),
        (
            "time",
            f"{format_seconds(best)} (best of {len(seconds)}), {found.flops / best / 1e9:.2f} GFLOP/s",
        ),
        (
            "result",
            f"shape {np.shape(result)}, norm {norm:.6g}" + ("" if finite else ", NOT FINITE"),
        ),
    ]
    text = "\n".join(f"{name:>22}:  {value}" for name, value in rows)
    return _report(options, facts, text, DONE if finite else FAILED)


def demo(options: argparse.Namespace) -> int:
    """einloom demo"""
    from .demo.run import run_demo

    def to_stderr(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    def to_stdout(line: str) -> None:
        print(line, flush=True)

    quiet = options.json
    report = run_demo(
        options.ising,
        options.circuit,
        echo=(lambda _: None) if quiet else to_stdout,
        progress=to_stderr if quiet else to_stdout,
    )
    if quiet:
        print(json.dumps(report.to_json()))
    return DONE if report.ok else FAILED


def ops(options: argparse.Namespace) -> int:
    """einloom ops"""
    backend = cpu()
    facts = {
        op: {backend.name: sorted(names)} for op, names in sorted(backend.capabilities().items())
    }
    return _report(options, facts, op_table([backend]).rstrip())


def warm(options: argparse.Namespace) -> int:
    """einloom warmup float32 float64"""
    start = time.perf_counter()
    kernels = warmup(options.dtypes)
    seconds = time.perf_counter() - start
    folder = os.fspath(cache_dir())
    text = f"{kernels} kernels ready in {format_seconds(seconds)}, kept in {folder}"
    return _report(options, {"kernels": kernels, "seconds": seconds, "folder": folder}, text)


def info(options: argparse.Namespace) -> int:
    """einloom info"""
    from .backend.gpu import missing as gpu_missing

    no_gpu = gpu_missing()
    packages = {name: _version(name) for name in _PACKAGES}
    missing = {
        name: remedy for name, remedy in _PACKAGES.items() if packages[name] is None and remedy
    }
    facts: dict[str, Any] = {
        "einloom": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "threads": num_threads(),
        "memory_available": available_bytes(),
        "cache_dir": str(cache_dir()),
        "blas": _blas(),
        "devices": ["cpu", *([] if no_gpu else ["gpu"])],
        "gpu": no_gpu or "usable",
        "packages": packages,
        "missing": missing,
    }
    available = facts["memory_available"]
    rows = [
        ("einloom", __version__),
        ("Python", f"{facts['python']} on {facts['platform']}"),
        ("threads", f"{facts['threads']} of {facts['cpus']} CPUs (EINLOOM_THREADS)"),
        ("memory available", "unknown" if available is None else format_bytes(available)),
        ("devices", ", ".join(facts["devices"])),
        ("GPU", facts["gpu"]),
        ("compiled kernels in", facts["cache_dir"]),
        *(("BLAS", line) for line in facts["blas"]),
        *((name, version) for name, version in packages.items() if version is not None),
        *((name, f"missing: {remedy}") for name, remedy in missing.items()),
    ]
    return _report(options, facts, "\n".join(f"{name:>20}:  {value}" for name, value in rows))


_PACKAGES = {  # distribution -> what to do when it is missing ("": it is required)
    "numpy": "",
    "scipy": "",
    "numba": "",
    "opt_einsum": "",
    "threadpoolctl": "",
    "ml_dtypes": 'bfloat16 operands; pip install "einloom[lowprec]"',
    "matplotlib": 'figures of plans; pip install "einloom[plot]"',
    "torch": "torch tensors as operands; install it by torch's own instructions",
}


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _blas() -> list[str]:
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return ["unknown (threadpoolctl is missing)"]
    return [
        f"{pool['internal_api']} {pool['version']}, {_kernels(pool)}{pool['num_threads']} threads"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    ]


def _kernels(pool: dict[str, Any]) -> str:
    """For which processor a library computes, where it says."""
    return f"kernels for {pool['architecture']}, " if pool.get("architecture") else ""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="einloom",
        description="Plan, compile and run tensor contractions.",
        epilog="Exit codes: 0 done, 1 a check failed, 2 bad input, 3 too little memory, 130 interrupted.",
    )
    parser.add_argument("--version", action="version", version=f"einloom {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Callable[[argparse.Namespace], int], help: str) -> Any:
        sub = commands.add_parser(name, help=help, description=help)
        sub.set_defaults(command=function)
        sub.add_argument("--json", action="store_true", help="print one JSON object for machines")
        return sub

    def planning(sub: Any) -> None:
        sub.add_argument(
            "--memory-limit", metavar="SIZE", help='bytes, "4GiB", or a fraction below 1'
        )

    one = command("contract", contract, "contract arrays in .npy or .npz files")
    one.add_argument("equation", type=str.strip, help='subscripts, as in "ij,jk->ik"')
    one.add_argument("files", nargs="+", help="operands: a.npy, or b.npz, or b.npz:name")
    one.add_argument("-o", "--output", metavar="FILE", help="write the result to this .npy file")
    one.add_argument("--dtype", help="dtype of computation and result")
    one.add_argument(
        "--planner",
        default="auto",
        help="auto, greedy, random-greedy, elimination, optimal, dp, kahypar, none",
    )
    planning(one)

    two = command("plan", show_plan, "print how an equation would be contracted")
    two.add_argument("equation", type=str.strip, help='subscripts, as in "ij,jk->ik"')
    two.add_argument(
        "--shapes",
        nargs="*",
        default=[],
        metavar="N,M,...",
        help='one for each operand; "" for a scalar',
    )
    two.add_argument("--dtype", help="dtype of the operands (default float64)")
    two.add_argument(
        "--planner",
        default="auto",
        help="auto, greedy, random-greedy, elimination, optimal, dp, kahypar, none",
    )
    two.add_argument("--objective", default="time", help="time, flops, size, write or peak")
    two.add_argument("--seed", type=_seed, default=0)
    two.add_argument(
        "--program", action="store_true", help="print the program and what the passes did"
    )
    two.add_argument("--tree", action="store_true", help="draw the contraction tree")
    two.add_argument(
        "--explain", action="store_true", help="print what dominates, and what slicing would change"
    )
    two.add_argument("--html", metavar="FILE", help="write a page with the tree and charts")
    two.add_argument("--save", metavar="FILE", help="write the plan as JSON")
    planning(two)

    three = command("run", run, "contract random tensors for a problem file (JSON)")
    three.add_argument("problem", help="a file with format_string, shapes and paths")
    three.add_argument("--path", default="auto", help="a path of the file by name, or auto")
    three.add_argument("--repeat", type=_positive, default=1, metavar="N", help="run N times")
    three.add_argument("--seed", type=_seed, default=0)
    planning(three)

    four = command("demo", demo, "Ising partition functions and circuit amplitudes, each checked")
    four.add_argument("--ising", metavar="FILE", help="JSON with lengths and betas")
    four.add_argument("--circuit", metavar="FILE", help="a circuit in the qsim text format")

    command("ops", ops, "every op of the catalogue, and the dtypes that each backend computes")
    five = command("warmup", warm, "compile kernels ahead, so that no first call waits for it")
    five.add_argument(
        "dtypes", nargs="*", default=list(COMMON), metavar="DTYPE", help="default: %(default)s"
    )
    command("info", info, "versions, BLAS, threads, devices, and what is missing")
    return parser


def _report(options: argparse.Namespace, facts: dict[str, Any], text: str, code: int = DONE) -> int:
    print(json.dumps(_finite(facts)) if options.json else text)
    return code


def _finite(value: Any) -> Any:
    """JSON has no NaN and no infinity: null stands for them."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _complain(error: object, code: int) -> int:
    print(f"einloom: {error}", file=sys.stderr)
    return code


def _load(name: str) -> Any:
    path, _, member = name.partition(".npz:")
    path = f"{path}.npz" if member else name
    try:
        with open(path, "rb") as file:
            loaded = np.load(file, allow_pickle=False)
            return loaded if isinstance(loaded, np.ndarray) else _member(loaded, path, member)
    except FileNotFoundError:
        raise FileFormatError(f"{path}: no such file") from None
    except FileFormatError:
        raise
    except MemoryError as error:
        raise MemoryLimitError(f"{path}: {error}; use a machine with more memory") from None
    except (OSError, ValueError, EOFError, KeyError, RuntimeError, BadZipFile, zlib.error) as error:
        raise FileFormatError(f"{path}: this is no readable .npy or .npz file ({error})") from None


def _member(archive: Any, path: str, member: str) -> Any:
    """One array of an .npz file; its name may be left out if there is but one."""
    names = archive.files
    if not names:
        raise FileFormatError(f"{path} holds no array")
    if not member and len(names) == 1:
        member = names[0]
    if member not in names:
        raise FileFormatError(
            f"{path} holds the arrays {', '.join(names)}; name one, as in {path}:{names[0]}"
        )
    array = archive[member]
    if not isinstance(array, np.ndarray):
        raise FileFormatError(f"{path}: its member {member} is no array")
    return array


def _check_output(name: str | None) -> None:
    """Refuse a file that cannot be written before anything is computed for it."""
    if name is None:
        return
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        raise OptionError(f"{name}: cannot be written; give a file name in a folder that exists")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise OptionError(f"{name}: no permission to write there; give another file name")


def _shape(text: str) -> tuple[int, ...]:
    sizes = text.strip().replace("x", ",").removesuffix(",")
    try:
        shape = tuple(int(n) for n in sizes.split(",")) if sizes else ()
    except ValueError:
        shape = (-1,)
    if any(n < 0 for n in shape):
        raise OptionError(f'plan(--shapes {text!r}): write sizes with commas, as in "2,3,4"')
    return shape


def _planner(name: str) -> Any:
    return False if name == "none" else name


def _limit(text: str | None) -> Any:
    """A number stays a number, so that a fraction is one; anything else is a size string."""
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        return text
    return int(value) if value >= 1 and value.is_integer() else value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("give an integer >= 0")
    return value


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("give a positive integer")
    return value


if __name__ == "__main__":
    sys.exit(main())
