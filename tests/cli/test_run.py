"""`diffuse run`: what a user sees of scripts that succeed and, above all, of those that do not."""

from __future__ import annotations

import os
import signal
import sys
import time
import uuid
from pathlib import Path

import pytest
from launching import launch, missing_mpi, script_file, start

pytestmark = [
    pytest.mark.timeout(60),
    pytest.mark.skipif(bool(missing_mpi()), reason=missing_mpi() or "MPI is there"),
]

MPI = "import os, sys, time\nfrom mpi4py import MPI\nrank, size = MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size\n"
NOISE = ("MPI_ABORT", "Abort(", "prterun", "BAD TERMINATION", "runpy")


@pytest.fixture(autouse=True)
def leaves_nothing(monkeypatch, tmp_path):
    """After each test no process and no folder of its jobs is left."""
    mark = uuid.uuid4().hex
    monkeypatch.setenv("DIFFUSE_TEST_MARK", mark)
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where the job's folder goes
    own = os.getpid()
    yield
    deadline = time.monotonic() + 5
    while (left := _marked(mark) - {own}) and time.monotonic() < deadline:
        time.sleep(0.05)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert not left
    assert not list(tmp_path.glob("diffuse-*"))


def _marked(mark):
    found = set()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if f"DIFFUSE_TEST_MARK={mark}".encode() in environ.read_bytes():
                found.add(int(environ.parent.name))
        except OSError:
            continue
    return found


def quiet(text):
    """Whether a message is free of what launchers and bootstrap would add."""
    return not [word for word in NOISE if word in text]


@pytest.mark.ranks(1, 2, 3)
def test_rank_0_prints(ranks):
    done = launch(MPI + "print(f'{rank} of {size}', file=sys.stderr); print('value', size)", ranks)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"value {ranks}\n", f"0 of {ranks}\n")


@pytest.mark.ranks(2)
def test_all_output_is_prefixed_by_line(ranks):
    source = MPI + "print('a\\nb'); print('warning', file=sys.stderr); print('no newline', end='')"
    done = launch(source, ranks, options=["--all-output"])
    assert done.returncode == 0
    for rank in range(ranks):
        mine = [line for line in done.stdout.splitlines() if line.startswith(f"[{rank}] ")]
        assert mine == [f"[{rank}] a", f"[{rank}] b", f"[{rank}] no newline"]
    assert sorted(done.stderr.splitlines()) == ["[0] warning", "[1] warning"]


@pytest.mark.ranks(1, 2)
def test_process_looks_as_under_python(ranks, tmp_path):
    """Arguments, paths and names; options after the script belong to the script."""
    (tmp_path / "helper.py").write_text("there = True\n")
    script = tmp_path / "script.py"
    script.write_text(
        "import helper, os, sys, __main__\n"
        "print(sys.argv, sys.path[0], __name__, __file__, __spec__, __main__.helper.there, sep='\\n')\n"
    )
    done = launch(script, ranks, args=["-n", "7", "--profile", "two words"])
    expected = [str([str(script), "-n", "7", "--profile", "two words"]), str(tmp_path), "__main__", str(script)]
    assert done.stdout.splitlines() == [*expected, "None", "True"]
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.ranks(1, 2)
def test_module(ranks, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "part.py").write_text("import sys; print(sys.argv[1:], __name__, __package__)")
    done = launch(
        f"import os, runpy, subprocess, sys\nos.chdir({str(tmp_path)!r})\n"
        f"sys.exit(subprocess.run([sys.executable, '-m', 'diffuse_trace', 'run', '-n', '{ranks}', "
        "'-m', 'package.part', '-n', '--x']).returncode)"
    )
    assert (done.returncode, done.stdout) == (0, "['-n', '--x'] __main__ package\n")


@pytest.mark.ranks(2)
def test_stdin_goes_to_rank_0(ranks):
    source = MPI + "print(MPI.COMM_WORLD.gather(sys.stdin.read()))"
    assert launch(source, ranks, stdin="some text").stdout == "['some text', '']\n"


def test_settings_reach_the_ranks():
    source = "import os; print(*(os.environ.get('DIFFUSE_' + n) for n in ('PROFILE', 'GRID', 'TIMEOUT', 'THREADS')))"
    options = ["--profile", "--grid", "1x2", "--timeout", "5", "--threads", "3"]
    assert launch(source, 2, options=options).stdout == "1 1x2 5 3\n"
    cores = len(os.sched_getaffinity(0))
    shared = launch("import os; print(os.environ['DIFFUSE_THREADS'], os.environ['OMP_NUM_THREADS'])", 2).stdout
    assert 1 <= int(shared.split()[0]) <= max(1, cores // 2)
    given = launch("import os; print(os.environ['DIFFUSE_THREADS'])", 2, env={"DIFFUSE_THREADS": "5"}).stdout
    assert given == "5\n"


def test_more_ranks_than_cores():
    ranks = len(os.sched_getaffinity(0)) + 2
    done = launch(MPI + "print(MPI.COMM_WORLD.allreduce(rank))", ranks)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{ranks * (ranks - 1) // 2}\n", "")


def test_job_within_a_job():
    inner = "[sys.executable, '-m', 'diffuse_trace', 'run', '-n', '2', sys.argv[0], 'inner']"
    source = (
        MPI + f"import subprocess\nif sys.argv[1:]: print(size)\nelif rank == 0: subprocess.run({inner}, check=True)"
    )
    assert launch(source, 3).stdout == "2\n"


# Failures

FAIL = "def inner():\n    raise ValueError('wrong \u00e9')\n"


@pytest.mark.parametrize("waiting", ["MPI.COMM_WORLD.recv(source=1)", "time.sleep(50)"])
def test_one_rank_raises(waiting):
    done = launch(MPI + FAIL + f"print('begun')\nif rank == 1: inner()\n{waiting}", 2)
    assert (done.returncode, done.stdout) == (1, "begun\n")
    assert done.stderr.startswith('rank 1:\nTraceback (most recent call last):\n  File "')
    assert done.stderr.endswith("ValueError: wrong \u00e9\n")
    assert quiet(done.stderr)


def test_all_ranks_raise_and_it_is_shown_once():
    done = launch(MPI + FAIL + "print('begun')\nif rank == 0: time.sleep(0.3)\ninner()", 3)
    assert (done.returncode, done.stdout) == (1, "begun\n")
    assert done.stderr.count("rank ") == done.stderr.count("Traceback") == done.stderr.count("ValueError: wrong") == 1
    assert quiet(done.stderr)


def test_one_rank_raises_before_mpi_starts():
    source = "import os, time\nif '1' in (os.environ.get('OMPI_COMM_WORLD_RANK'), os.environ.get('PMI_RANK')): 1 / 0\n"
    begun = time.monotonic()
    done = launch(source + "time.sleep(30)", 2)
    assert done.returncode == 1
    assert done.stderr.startswith("rank 1:\nTraceback") and done.stderr.endswith("division by zero\n")
    assert time.monotonic() - begun < 15


def test_hook_of_the_user_makes_the_report():
    hook = "sys.excepthook = lambda *error: print('my own words', file=sys.stderr)\n"
    done = launch(MPI + hook + "if rank == 1: 1 / 0\nMPI.COMM_WORLD.recv(source=1)", 2)
    assert (done.returncode, done.stderr) == (1, "rank 1:\nmy own words\n")


@pytest.mark.parametrize("who", ["rank == 1", "True"])
def test_hook_of_the_package_reports_and_aborts(who):
    """What the runtime does once it has started MPI: the launcher's words about MPI_Abort are not shown."""
    hook = """
import traceback
from diffuse_trace.runtime.bootstrap import claim
def hook(*error):
    claim("error", f"rank {rank}:\\n" + "".join(traceback.format_exception(*error)))
    MPI.COMM_WORLD.Abort(1)
hook.__module__ = "diffuse_trace.runtime.ranks"
sys.excepthook = hook
"""
    done = launch(MPI + hook + f"if {who}: 1 / 0\nMPI.COMM_WORLD.recv(source=1)", 3)
    assert done.returncode == 1
    assert done.stderr.startswith("rank ") and done.stderr.count("Traceback") == 1
    assert quiet(done.stderr)


@pytest.mark.parametrize("who", ["rank == 1", "True"])
def test_exit_code_of_the_script(who):
    done = launch(MPI + f"print('begun')\nif {who}: sys.exit(3)\nMPI.COMM_WORLD.recv(source=1)", 2)
    assert (done.returncode, done.stdout, done.stderr) == (3, "begun\n", "")


def test_exit_with_a_message_shows_it_once():
    done = launch(MPI + "sys.exit('no such input')", 2)
    assert done.returncode == 1
    assert done.stderr in ("rank 0: no such input\n", "rank 1: no such input\n")


def test_output_of_a_slower_rank_is_not_lost():
    source = (
        "if rank == 0: time.sleep(0.3); print('the summary')\nimport atexit\natexit.register(print, 'bye')\nsys.exit(4)"
    )
    done = launch(MPI + source, 2)
    assert (done.returncode, done.stdout) == (4, "the summary\nbye\n")


def test_reason_of_a_silent_rank_is_shown():
    source = "if rank == 1:\n    print('disk full', file=sys.stderr)\n    sys.exit(5)\nMPI.COMM_WORLD.recv(source=1)"
    done = launch(MPI + source, 2)
    assert (done.returncode, done.stderr) == (5, "stderr of rank 1:\ndisk full\n")


@pytest.mark.parametrize("who", [0, 1])
def test_abort_passes_its_code(who):
    done = launch(MPI + f"if rank == {who}: MPI.COMM_WORLD.Abort(5)\nMPI.COMM_WORLD.recv(source={who})", 2)
    assert done.returncode == 5
    assert "abort" in done.stderr.lower()


def test_syntax_error():
    done = launch("x = = 1\n", 2)
    assert done.returncode == 1
    assert done.stderr.count("SyntaxError") == 1
    assert "Traceback" not in done.stderr and quiet(done.stderr)


def test_import_error():
    done = launch("import no_such_module\n", 2)
    assert done.returncode == 1
    assert done.stderr.count("ModuleNotFoundError") == 1 and quiet(done.stderr)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_killed_rank(ranks, number):
    last = ranks - 1
    source = f"if rank == {last}: os.kill(os.getpid(), {int(number)})\nMPI.COMM_WORLD.recv(source={last})"
    done = launch(MPI + source, ranks)
    if ranks == 1:
        assert done.returncode == -number  # the script is the process itself
        return
    assert done.returncode == 128 + number
    assert f"diffuse run: rank 1 was killed by signal {int(number)} (" in done.stderr
    assert "BAD TERMINATION" not in done.stderr and "prterun" not in done.stderr
    assert ("script.py" in done.stderr) == (number == signal.SIGSEGV)  # the stack, where there is one


@pytest.mark.parametrize("doing", ["time.sleep(50)", "MPI.COMM_WORLD.recv(source=1) if rank == 0 else time.sleep(50)"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_all_ranks(number, doing):
    with script_file(MPI + f"MPI.COMM_WORLD.barrier(); print('ready')\n{doing}") as script:
        process = start(["run", "-n", "2", str(script)])
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (128 + number, "", "")


def test_ctrl_c_lets_a_script_save():
    source = """
    try:
        MPI.COMM_WORLD.barrier(); print('ready')
        time.sleep(50)
    except KeyboardInterrupt:
        time.sleep(0.5)
        print('saved')
    """
    with script_file(MPI + "\n".join(line[4:] for line in source.splitlines())) as script:
        process = start(["run", "-n", "2", str(script)])
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "saved\n")


def test_quit_shows_where_each_rank_is():
    with script_file(MPI + "MPI.COMM_WORLD.barrier(); print('ready')\ntime.sleep(50)") as script:
        process = start(["run", "-n", "2", str(script)])
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGQUIT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 128 + signal.SIGQUIT
    assert err.count("script.py") == 2 and "stderr of rank 1:" in err


def test_kill_of_the_launcher_ends_the_ranks(tmp_path):
    with script_file(MPI + "MPI.COMM_WORLD.barrier(); print('ready')\ntime.sleep(50)") as script:
        process = start(["run", "-n", "2", str(script)])
        assert process.stdout.readline() == "ready\n"
        process.kill()
        process.communicate(timeout=20)
    for folder in tmp_path.glob("diffuse-*"):  # nobody is left to remove it
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()


# What cannot be started


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["-n", "0", "SCRIPT"], "'0' is not a number of ranks: use a whole number from 1 up"),
        (["-n", "-2", "SCRIPT"], "'-2' is not a number of ranks"),
        (["-n", "two", "SCRIPT"], "'two' is not a number of ranks"),
        (["-n", "2", "--grid", "2x", "SCRIPT"], "'2x' is not understood: use ranks along each axis"),
        (["-n", "3", "--grid", "2x2", "SCRIPT"], "the grid 2x2 takes 4 ranks, but -n is 3"),
        (["-n", "2", "--timeout", "0", "SCRIPT"], "'0' is not understood: use a number of seconds above 0"),
        (["-n", "2", "--threads", "many", "SCRIPT"], "'many' is not understood: use a whole number from 1 up"),
        (["-n", "2", "no_such_script.py"], "there is no script 'no_such_script.py'"),
        (["-n", "2"], "what shall run?"),
        (["-n", "2", "-m"], "-m needs the name of a module"),
    ],
)
def test_wrong_command_lines(arguments, message):
    with script_file("print('must not run')") as script:
        process = start(["run", *(str(script) if word == "SCRIPT" else word for word in arguments)])
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (2, "")
    assert message in err and "Traceback" not in err


def test_wrong_variables_are_found_before_the_start():
    done = launch("print('must not run')", 2, env={"DIFFUSE_HALO": "wide"})
    assert (done.returncode, done.stdout) == (2, "")
    assert "DIFFUSE_HALO='wide' is not understood" in done.stderr
    done = launch("print('runs')", 2, env={"DIFFUSE_TIMEOUTS": "3"})
    assert (done.returncode, done.stdout) == (0, "runs\n")
    assert "warning: DIFFUSE_TIMEOUTS is not a setting; do you mean DIFFUSE_TIMEOUT?" in done.stderr


def test_without_mpi4py_one_rank_runs_and_two_do_not(tmp_path):
    (tmp_path / "mpi4py.py").write_text("raise ModuleNotFoundError(\"No module named 'mpi4py'\")")
    env = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[:1], str(Path(__file__).parents[2])])}
    assert launch("print('runs')", 1, env=env).stdout == "runs\n"
    done = launch("print('must not run')", 2, env=env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("diffuse run: more than one rank needs mpi4py and an MPI library: pip install 'diff")
