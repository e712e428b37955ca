"""What every benchmark needs: interleaved timing, the machine's floors, one process per setting.

A benchmark module has ``measure(repeats, ...) -> rows`` and calls :func:`main_for` under
``__main__``. Each number of threads is measured in a process of its own that may run on so many
CPUs only: XLA sizes its thread pools by the affinity mask that it finds at its start.
"""

import argparse
import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import rich.console

Row = dict[str, Any]

# All variants of a benchmark run with the same allocator settings, those of the Makefile: freed
# memory is kept, in huge pages where there are any.
_ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:"
    "glibc.malloc.trim_threshold=17179869184:glibc.malloc.arena_max=1"
}


_CAN_PIN = hasattr(os, "sched_setaffinity")  # Linux


def cpu_count() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0)) if _CAN_PIN else os.cpu_count() or 1


@contextlib.contextmanager
def first_cpus(count: int) -> Iterator[None]:
    """Processes started in the body run on the first ``count`` CPUs of those allowed here."""
    if not _CAN_PIN:
        yield
        return
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def time_interleaved(
    calls: Mapping[str, Callable[[], Any]], repeats: int, rounds: int = 3
) -> dict[str, list[float]]:
    """Times several calls in turns, so that a disturbance hits them alike.

    Args:
      calls: name -> function that returns jax arrays (waited for) or plain numbers.
      repeats: timed calls of each, after three untimed ones in each round.
      rounds: how many turns.

    Returns:
      Name -> seconds of each timed call.
    """
    import jax

    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            for _ in range(3):
                jax.block_until_ready(call())
            for _ in range(-(-repeats // rounds)):
                start = time.perf_counter()
                jax.block_until_ready(call())
                times[name].append(time.perf_counter() - start)
    return times


def copy_bandwidth(megabytes: int = 256, repeats: int = 5) -> float:
    """Bytes per second copied between arrays that no cache holds, on all allowed CPUs.

    Each byte counts once, though a copy both reads and writes it. A kernel that only reads can
    therefore be faster than this; see :func:`read_bandwidth`.
    """
    source, target = (np.ones(megabytes * 250_000, np.float32) for _ in range(2))
    return source.nbytes / _best_time(np.copyto, (target, source), repeats)


def read_bandwidth(megabytes: int = 256, repeats: int = 5) -> float:
    """Bytes per second of the maximum of an array that no cache holds, on all allowed CPUs."""
    source = np.ones(megabytes * 250_000, np.float32)
    return source.nbytes / _best_time(np.max, (source,), repeats)


def _best_time(call: Callable[..., Any], arrays: Sequence[np.ndarray], repeats: int) -> float:
    # One thread per CPU, each with its part of the arrays.
    threads = cpu_count()
    parts = list(zip(*(np.array_split(array, threads) for array in arrays)))
    times = []
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        for _ in range(repeats):
            start = time.perf_counter()
            list(pool.map(lambda part: call(*part), parts))
            times.append(time.perf_counter() - start)
    return min(times)


def matmul_rate(repeats: int = 15) -> float:
    """FLOP/s of the best of several 1024 x 1024 x 1024 float32 matmuls."""
    import jax
    import jax.numpy as jnp

    square, matmul = jnp.ones((1024, 1024)), jax.jit(jnp.matmul)
    times = time_interleaved({"matmul": lambda: matmul(square, square)}, repeats)["matmul"]
    return 2 * 1024**3 / min(times)


def write_rows(path: pathlib.Path, rows: Sequence[Row]) -> None:
    """Writes rows as CSV; the first row names the columns, lists are left out."""
    from experiments.tables import write_csv

    columns = [name for name, value in rows[0].items() if not isinstance(value, list)]
    write_csv(path, columns, [[row.get(name, "") for name in columns] for row in rows])


def show(title: str, header: Sequence[str], cells: Sequence[Sequence[Any]]) -> None:
    """Prints a table wide enough for all of its columns."""
    from experiments.tables import print_table

    print_table(rich.console.Console(width=150), title, header, cells)


def main_for(
    module: str,
    measure: Callable[..., list[Row]],
    report: Callable[[list[Row], pathlib.Path], None],
    out: str,
    options: Mapping[str, Any],
) -> None:
    """Command line of a benchmark: ``--out --threads --repeats`` and its own options.

    Args:
      module: ``experiments.benchmarks.NAME``, run again in each subprocess.
      measure: ``(repeats=..., **options) -> rows``, called in the subprocess.
      report: ``(rows, out)``, called once with all rows; prints and writes.
      out: default output folder.
      options: name -> default of the benchmark's own options (an int or a tuple of ints).
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(out))
    parser.add_argument("--repeats", type=int, default=30, help="timed calls of each variant")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    threads = tuple(range(1, cpu_count() + 1))[:2] if _CAN_PIN else (cpu_count(),)
    for name, default in {"threads": threads, **options}.items():
        many = isinstance(default, tuple)
        parser.add_argument(f"--{name}", type=int, nargs="+" if many else None, default=default)
    args = vars(parser.parse_args())
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    chosen = {name: args[name] for name in ("repeats", *options)}
    if args["worker"]:
        print(json.dumps(measure(**chosen)))
        return
    if not 1 <= min(args["threads"]) <= max(args["threads"]) <= cpu_count():
        parser.error(f"--threads: {args['threads']} asked for, {cpu_count()} CPUs are here")
    if not _CAN_PIN and set(args["threads"]) != {cpu_count()}:
        parser.error(f"--threads: a process can have no less than all {cpu_count()} CPUs here")
    rows = []
    for count in args["threads"]:
        command = [sys.executable, "-m", module, "--worker"]
        for name, value in chosen.items():
            values = value if isinstance(value, (list, tuple)) else [value]
            command += [f"--{name}", *map(str, values)]
        with first_cpus(count):
            done = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True,
                env=_ALLOCATOR | os.environ | {"OMP_NUM_THREADS": str(count)},
            )  # fmt: skip
        rows += [{"threads": count, **row} for row in json.loads(done.stdout.splitlines()[-1])]
    report(rows, args["out"])
