"""`diffuse` itself, `diffuse env` and `diffuse explain`."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from launching import start

from diffuse_trace import cli, config
from diffuse_trace.cli import env as env_command
from diffuse_trace.cli import machine, mpi
from diffuse_trace.errors import LaunchError

pytestmark = pytest.mark.timeout(120)


def diffuse(*arguments, **variables):
    process = start(arguments, variables)
    out, err = process.communicate(timeout=100)
    return process.returncode, out, err


def test_version():
    code, out, err = diffuse("--version")
    assert (code, err) == (0, "")
    assert out == f"diffuse-trace {machine.versions()['diffuse_trace']}\n"


@pytest.mark.parametrize("command", [(), ("run",), ("explain",), ("env",)])
def test_help_has_examples(command):
    code, out, err = diffuse(*command, "--help")
    assert (code, err) == (0, "")
    assert "examples:" in out and f"  diffuse {' '.join(command)}" in out


def test_no_command():
    code, out, err = diffuse()
    assert (code, out) == (2, "")
    assert "command" in err


def test_env_is_a_table_of_everything():
    code, out, err = diffuse("env", DIFFUSE_HALO="3")
    assert err == ""
    for word in ("Versions", "numpy", "Devices", "cpu:0", "Cores", *(s.env for s in config.SETTINGS.values())):
        assert word in out
    (halo,) = (line for line in out.splitlines() if "DIFFUSE_HALO" in line)
    assert halo.split()[:3] == ["DIFFUSE_HALO", "3", "environment"]


def test_env_as_json_with_problems():
    code, out, err = diffuse("env", "--json", DIFFUSE_HALO="wide", JAX_PLATFORMS="nonsense")
    report = json.loads(out)
    assert (code, err) == (1, "")
    assert any("DIFFUSE_HALO='wide'" in problem for problem in report["problems"])
    assert any("JAX cannot list its devices" in problem for problem in report["problems"])
    assert any("JAX_PLATFORMS=nonsense" in note for note in report["notes"])
    assert {"versions", "mpi", "devices", "cores", "settings"} <= set(report)


@pytest.fixture
def no_probes(monkeypatch):
    """The devices are not looked for, and MPI is what `mpi.library` is made to give."""
    monkeypatch.setattr(env_command, "_devices", lambda problems: ["cpu:0 cpu"])
    monkeypatch.setattr(config, "mistakes", list)

    def fail(*arguments):
        raise LaunchError("no MPI here")

    monkeypatch.setattr(mpi, "library", fail)


@pytest.mark.parametrize("installed, code", [(None, 0), ("4.1.0", 1)])
def test_no_mpi_is_a_problem_only_if_mpi4py_is_there(monkeypatch, no_probes, capsys, installed, code):
    monkeypatch.setattr(machine, "versions", lambda: {"mpi4py": installed, "diffuse_trace": "1"})
    assert cli.main(["env", "--json"]) == code
    report = json.loads(capsys.readouterr().out)
    assert ("no MPI here" in report["problems"], "no MPI here" in report["notes"]) == (bool(code), not code)


@pytest.mark.parametrize(
    "variable, value, word",
    [
        ("JAX_ENABLE_X64", "0", "64-bit"),
        ("JAX_DISABLE_JIT", "1", "nothing is fused"),
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=4", "several devices"),
    ],
)
def test_notes_of_what_gets_in_the_way(monkeypatch, no_probes, capsys, variable, value, word):
    monkeypatch.setattr(machine, "versions", lambda: {"mpi4py": None, "diffuse_trace": "1"})
    before = cli.env.collect()["notes"]
    monkeypatch.setenv(variable, value)
    added = [note for note in cli.env.collect()["notes"] if note not in before]
    assert len(added) == 1 and word in added[0]


# explain


MODEL = """\
import sys
import diffuse_trace as diffuse
import diffuse_trace.numpy as np

@diffuse.jit
def other(u):
    u += 1

@diffuse.jit
def step(u):
    u[1:-1] = 0.5 * (u[2:] + u[:-2])

u = np.ones(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
other(u), other(u)
"""


def explain(tmp_path, source, *arguments):
    path = tmp_path / "script.py"
    path.write_text(MODEL + source)
    command = [sys.executable, "-m", "diffuse_trace", "explain", *(a.format(path) for a in arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_explain_shows_the_plan_and_ends_the_script(tmp_path):
    done = explain(tmp_path, "step(u)\nprint('not reached')", "--ranks", "4", "{}:step", "--", "100")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("step: 3 tasks on 4 ranks") and "not reached" not in done.stdout
    assert "store %0 float64[100]" in done.stdout and "# script.py:11" in done.stdout
    assert "halo of %0, shifts (-1,), (1,): 16 B" in done.stdout


@pytest.mark.parametrize(
    "source, ending",
    [
        ("x = 1", "ended without a call of step"),
        ("raise SystemExit(3)", "failed before it called step"),
        ("1 / 0", "failed before it called step"),
    ],
)
def test_explain_says_which_functions_there_were(tmp_path, source, ending):
    done = explain(tmp_path, source, "{}:step")
    assert done.returncode == 1
    assert f"{ending}; jitted functions that it called: other\n" in done.stderr
    assert ("ZeroDivisionError" in done.stderr) == ("1 / 0" in source) and "bootstrap" not in done.stderr


@pytest.mark.parametrize(
    "target, message",
    [
        ("script.py", "write script.py:function"),
        ("script.py:", "write script.py:function"),
        (":step", "write script.py:function"),
        ("script.py:1st", "write script.py:function"),
        ("no_such_script.py:step", "there is no script 'no_such_script.py'"),
    ],
)
def test_explain_refuses_wrong_targets(capsys, target, message):
    assert cli.main(["explain", target]) == 2
    assert message in capsys.readouterr().err
