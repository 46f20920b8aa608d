"""Messages inside executables on 1 to 7 ranks, and jobs that fail: `on_ranks.py` is what the ranks run."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from launching import missing_mpi

from diffuse_trace.cli import mpi
from diffuse_trace.errors import LaunchError, NotSupportedError
from diffuse_trace.lower.transport import Box, ExchangeSpec, Message, Transport
from diffuse_trace.runtime import ranks as ranks_module
from diffuse_trace.runtime import wire
from diffuse_trace.runtime.packing import BOX_DIMS, BOX_SHAPE, BOX_UNIT, EXCHANGE_LIST, MESSAGE_LIST, flatten

SCRIPT = Path(__file__).with_name("on_ranks.py")
ROOT = SCRIPT.parents[2]
needs_mpi = pytest.mark.skipif(bool(missing_mpi()), reason=missing_mpi() or "MPI")


def on_ranks(case: str, count: int, timeout: float = 200, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a case with mpiexec itself: what a job does without the launcher of the package."""
    launcher = mpi.find_launcher(mpi.library())
    command = mpi.command(launcher, mpi.Layout(count, 1, bind=False, crowded=False))
    environment = mpi.clean_environment() | mpi.variables(launcher) | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    environment.pop("DIFFUSE_RUN_DIR", None)
    return subprocess.run(
        [*command, sys.executable, str(SCRIPT), case],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=timeout,
    )


def succeeds(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == ["ok"]


@pytest.mark.ranks(1, 2, 3, 4, 7)
def test_messages(ranks: int) -> None:
    """Halos, moves, copies and flags; all operators on all dtypes against NumPy; blocks from Python."""
    succeeds(on_ranks("through_rings,exchanges,reductions,from_python,runs_ahead", ranks))


@needs_mpi
@pytest.mark.parametrize(
    "case", ["through_mpi,exchanges,reductions,from_python,runs_ahead,mismatches,timeout", "ends_early"]
)
def test_all_messages_through_mpi(case: str) -> None:
    """As between the nodes of a cluster."""
    succeeds(on_ranks(case, 3, DIFFUSE_SHARED="0"))


@needs_mpi
def test_one_rank_without_shared_memory_is_enough_for_all_to_use_mpi() -> None:
    succeeds(on_ranks("through_mpi,exchanges", 3, DIFFUSE_TEST_APART="1"))


@pytest.mark.ranks(2, 3)
def test_long_messages_are_split(ranks: int) -> None:
    succeeds(on_ranks("split_messages", ranks, DIFFUSE_TEST_CHUNK="1000"))


@pytest.mark.ranks(2, 3, 4)
def test_ranks_that_differ_all_raise_and_go_on(ranks: int) -> None:
    succeeds(on_ranks("mismatches,timeout", ranks))


@pytest.mark.ranks(2, 3)
def test_a_rank_that_waits_for_one_that_has_ended_raises(ranks: int) -> None:
    succeeds(on_ranks("ends_early", ranks))


@needs_mpi
@pytest.mark.parametrize(
    "case, text",
    [
        ("ends_early_uncaught", "rank 1 has ended, while rank 0 runs waits.py:1"),
        ("one_way", "rank 1 has ended, while rank 0 runs oneway.py:1"),
        ("raises", "ValueError: this rank is broken"),
        ("thread_raises", "ZeroDivisionError"),
        ("interrupted", "\nKeyboardInterrupt"),
        ("leaves", "rank 1 has ended, while rank 0 runs innocent.py:1"),
    ],
)
def test_a_rank_that_fails_ends_the_job(case: str, text: str) -> None:
    start = time.monotonic()
    done = on_ranks(case, 2)
    assert done.returncode != 0
    assert done.stderr.count(text) == 1
    assert done.stderr.count("Traceback") <= 1
    assert time.monotonic() - start < 60


@needs_mpi
def test_the_error_of_a_job_is_shown_once(tmp_path: Path) -> None:
    done = on_ranks("fails_everywhere", 3, DIFFUSE_RUN_DIR=str(tmp_path))
    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert (tmp_path / "error").read_text().count("ValueError: all ranks are broken") == 1


@needs_mpi
def test_ranks_fill_the_cache_of_compiled_code_together(tmp_path: Path) -> None:
    for _ in range(2):
        succeeds(on_ranks("from_python,split_messages", 3, NUMBA_CACHE_DIR=str(tmp_path)))
    assert list(tmp_path.rglob("*.nbi"))


@needs_mpi
def test_code_that_cannot_be_kept_is_compiled_anyway(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    succeeds(on_ranks("from_python", 2, NUMBA_CACHE_DIR=str(blocked)))


# --- one process ---------------------------------------------------------------------------------


def test_one_process_needs_neither_mpi_nor_numba() -> None:
    code = """
import sys
sys.modules.update(dict.fromkeys(("mpi4py", "numba", "llvmlite")))  # importing them fails
from diffuse_trace.runtime import agree, mpi_ffi
from diffuse_trace.runtime.ranks import world
import jax.numpy as jnp, numpy as np
t = mpi_ffi.transport()
assert (t.rank, t.size, world().size, world().comm) == (0, 1, 1, None)
x = jnp.ones(3)
assert t.allreduce(x, "sum", (0,), 1, "", None)[0] is x
assert t.exscan(x, "prod", (0,), 1, "", None)[0].tolist() == [1, 1, 1]
t.check()
agree.agree(world(), 1, "")
assert len(agree.allgather_blocks(world(), np.ones(2))) == 1
"""
    environment = mpi.clean_environment() | {"JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=100)


def test_importing_starts_nothing() -> None:
    code = (
        "import sys, diffuse_trace.runtime.mpi_ffi, diffuse_trace.runtime.agree\n"
        "assert not {'mpi4py.MPI', 'numba'} & set(sys.modules)\n"
        "from diffuse_trace.lower import jax_compat; assert not jax_compat.backend_started()"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, timeout=100)


def test_transports_fit_the_interface() -> None:
    from diffuse_trace.runtime.mpi_ffi import MpiTransport, SingleTransport

    def use(transport: type[Transport]) -> None:
        for name in ("token", "exchange", "allreduce", "exscan"):
            assert callable(getattr(transport, name))

    use(SingleTransport)
    use(MpiTransport)


# --- launching -----------------------------------------------------------------------------------


def test_what_counts_as_launched_under_mpi() -> None:
    size = ranks_module.launched_size
    assert size({}) is None
    assert size({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}) is None  # a batch script, not a rank
    assert size({"OMPI_COMM_WORLD_SIZE": "4"}) == 4
    assert size({"PMI_SIZE": "2", "PMI_RANK": "1"}) == 2
    assert size({"PMIX_RANK": "0", "SLURM_NTASKS": "8"}) == 8
    assert size({"PMIX_RANK": "0"}) == 0


def _start(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = mpi.clean_environment() | {"PYTHONPATH": str(ROOT)} | variables
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=100)


def test_launched_without_mpi4py() -> None:
    code = "import sys; sys.modules['mpi4py'] = None\nfrom diffuse_trace.runtime.ranks import world\nworld()"
    done = _start(code, PMI_SIZE="4")
    assert "LaunchError" in done.stderr and "one of 4 MPI ranks" in done.stderr and "pip install" in done.stderr


@needs_mpi
def test_launched_by_another_mpi() -> None:
    other = "OMPI_COMM_WORLD_SIZE" if mpi.library().family == "hydra" else "PMI_SIZE"
    done = _start("from diffuse_trace.runtime.ranks import world\nworld()", **{other: "4"})
    assert "LaunchError" in done.stderr and "started 4 ranks" in done.stderr and "diffuse run -n 4" in done.stderr
    switched_off = _start(
        "from diffuse_trace.runtime.ranks import world\nassert world().size == 1", DIFFUSE_MPI="0", **{other: "4"}
    )
    assert switched_off.returncode == 0, switched_off.stderr


# --- descriptions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "box, unit, dims",
    [
        (Box(0, 0, (4, 6), (6, 1)), 4 * 6 * 8, 0),  # all of it is contiguous
        (Box(0, 2, (4, 3), (6, 1)), 3 * 8, 1),  # rows
        (Box(0, 2, (4, 1), (6, 1)), 8, 1),  # a column
        (Box(0, 5, (4, 6), (6, -1)), 8, 2),
        (Box(0, 0, (), ()), 8, 0),
        (Box(0, 0, (2, 3, 4, 6), (144, 48, 6, 1)), 24 * 8, 1),
    ],
)
def test_boxes_become_few_long_copies(box: Box, unit: int, dims: int) -> None:
    spec = ExchangeSpec((), (Message(1, (box,)),), (), (8,), 1, "")
    words = flatten(spec, 0, 0, 0)
    at = (EXCHANGE_LIST + MESSAGE_LIST) // 8
    assert words[at + BOX_UNIT // 8] == unit
    assert words[at + BOX_DIMS // 8] == dims
    assert words[at] == BOX_SHAPE + 4 * dims * 8


def test_a_copy_between_unlike_boxes_is_refused() -> None:
    spec = ExchangeSpec((), (), ((Box(0, 0, (2,), (1,)), Box(1, 0, (3,), (1,))),), (8, 8), 1, "")
    with pytest.raises(ValueError, match="shapes"):
        flatten(spec, 0, 1, 1)


def test_headers() -> None:
    words = wire.header(2**63 + 5, "a/long/path/" * 20 + "script.py:12", 3)
    assert words.nbytes == wire.HEADER and words[0] == -(2**63) + 5
    assert (wire.rank_of(words), wire.kind_of(words)) == (3, wire.MESSAGE)
    assert wire.text_of(words).endswith("path/script.py:12") and wire.text_of(words).startswith("\u2026")
    assert wire.text_of(wire.header(0, "h\u00fcgel.py:1", 0)) == "h\u00fcgel.py:1"
    assert wire.kind_of(wire.header(0, "", 1, wire.GOODBYE)) == wire.GOODBYE


def test_the_layout_of_frames_is_read_from_the_header() -> None:
    from diffuse_trace.lower import jax_compat

    layout = jax_compat.frame_layout()
    assert (layout.extension, layout.data, layout.metadata) == (8, 24, 24)
    assert layout.arguments < layout.results < layout.attributes
    structs = jax_compat._Structs("struct A {\n  int a;\n  B* b;\n  C c;\n  int64_t d;\n};\nstruct C {\n  int x;\n};\n")
    assert [structs.offset("A", name) for name in "abcd"] == [0, 8, 16, 24]
    with pytest.raises(RuntimeError, match="no field e"):
        structs.offset("A", "e")


def test_identities() -> None:
    from diffuse_trace.runtime.operators import identity

    assert identity("min", np.dtype(np.float32)) == np.inf and identity("max", np.dtype(np.int8)) == -128
    assert identity("min", np.dtype(bool)) and not identity("sum", np.dtype(bool))
    with pytest.raises(NotSupportedError, match="complex"):
        identity("min", np.dtype(np.complex64))
    with pytest.raises(NotSupportedError, match="median"):
        identity("median", np.dtype(np.float32))


def test_launch_errors_are_of_this_package() -> None:
    assert issubclass(LaunchError, RuntimeError)
