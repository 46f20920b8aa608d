"""`diffuse env`: what the package finds around it, and what is wrong with that."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from typing import Any

from .. import config
from ..errors import LaunchError
from . import machine, mpi

_EXAMPLES = """\
examples:
  diffuse env                    a table
  diffuse env --json             the same for programs and bug reports

Exit code: 1 if there are problems, that is, something that makes runs fail; 0 otherwise, notes or not.
"""

_DEVICES = """
import json, jax
print(json.dumps([[d.platform, d.device_kind, d.id] for d in jax.devices()]))
"""

# Flags that undo what the package sets for its ranks, and what they do.
_XLA_FLAGS = {
    "--xla_force_host_platform_device_count": "splits a rank into several devices, of which one is used",
    "--xla_cpu_multi_thread_eigen=false": "keeps a rank from using its threads",
    "--xla_cpu_enable_fast_math=true": "lets XLA reorder sums and drop NaN: results differ from NumPy's",
    "--xla_disable_all_hlo_passes=true": "turns kernel fusion off",
}


def add_parser(commands: Any) -> None:
    """Add this command to the subparsers of `diffuse`."""
    parser = commands.add_parser(
        "env",
        help="show versions, MPI, devices and settings",
        description="Show the versions, MPI, devices, cores and settings in use, and what is wrong with them.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=env, prog=parser.prog)


def env(options: argparse.Namespace) -> int:
    """Print the report; 1 if it has problems."""
    report = collect()
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        _print(report)
    return 1 if report["problems"] else 0


def collect() -> dict[str, Any]:
    """The report as JSON values: versions, mpi, devices, cores, settings, problems, notes."""
    problems = config.mistakes()
    notes: list[str] = []
    versions = machine.versions()
    cores = machine.cores()
    return {
        "versions": versions,
        "mpi": _mpi(problems, notes, installed=versions["mpi4py"] is not None),
        "devices": _devices(problems),
        "cores": {
            "usable": cores,
            "restricted": machine.restricted(),
            "threads per rank": {f"-n {ranks}": max(1, cores // ranks) for ranks in sorted({1, 2, cores})},
        },
        "settings": [
            {"variable": row.setting.env, "value": row.value, "source": row.source, "meaning": row.setting.doc}
            for row in config.table()
        ],
        "problems": problems,
        "notes": notes + _surroundings(),
    }


def _mpi(problems: list[str], notes: list[str], installed: bool) -> dict[str, str | None]:
    found: dict[str, str | None] = {"library": None, "path": None, "launcher": None}
    try:
        library = mpi.library()
        found |= {"library": f"{library.vendor} {library.version}", "path": library.path}
        found["launcher"] = str(mpi.find_launcher(library))
    except LaunchError as error:
        # Without mpi4py there is one rank, and nothing wrong with that.
        (problems if installed else notes).append(str(error))
    return found


def _devices(problems: list[str]) -> list[str]:
    # In a process of its own: starting JAX takes memory on accelerators, and may fail.
    try:
        probe = subprocess.run([sys.executable, "-c", _DEVICES], capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        problems.append("JAX did not list its devices within 120 seconds")
        return []
    if probe.returncode:
        reason = (probe.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        problems.append(f"JAX cannot list its devices: {reason}")
        return []
    return [f"{platform}:{number} {kind}" for platform, kind, number in json.loads(probe.stdout.splitlines()[-1])]


def _surroundings() -> list[str]:
    """Variables of other packages that get in the way."""
    notes = []
    if os.environ.get("JAX_ENABLE_X64", "1").lower() in ("0", "false", "off", "no"):
        notes.append("JAX_ENABLE_X64 is off; the package needs 64-bit types and turns it on")
    if platforms := os.environ.get("JAX_PLATFORMS"):
        notes.append(f"JAX_PLATFORMS={platforms} limits the devices that JAX looks for")
    if os.environ.get("JAX_DISABLE_JIT", "0").lower() not in ("", "0", "false", "off", "no"):
        notes.append("JAX_DISABLE_JIT is on: nothing is compiled, so nothing is fused")
    flags = os.environ.get("XLA_FLAGS", "")
    notes += [f"XLA_FLAGS has {flag}, which {effect}" for flag, effect in _XLA_FLAGS.items() if flag in flags]
    threads, own = os.environ.get("OMP_NUM_THREADS"), os.environ.get("DIFFUSE_THREADS")
    if threads and own and threads != own:
        notes.append(f"OMP_NUM_THREADS={threads} and DIFFUSE_THREADS={own} differ")
    return notes


def _print(report: dict[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    # In a pipe there is no width to fit into: one row stays one line.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 200)

    def show(title: str, rows: list[tuple[str, ...]], headings: tuple[str, ...] = ()) -> None:
        table = Table(*headings, box=box.SIMPLE_HEAD if headings else None, show_header=bool(headings), padding=(0, 2))
        for row in rows:
            # Text, not str: in a str rich would take [...] for markup.
            table.add_row(*map(Text, row))
        console.print(f"\n[bold]{title}[/bold]")
        console.print(table)

    show("Versions", [(name, version or "-") for name, version in report["versions"].items()])
    show("MPI", [(name, value or "-") for name, value in report["mpi"].items()])
    show("Devices", [(device,) for device in report["devices"]] or [("none",)])
    cores = report["cores"]
    share = ", ".join(f"{threads} with {ranks}" for ranks, threads in cores["threads per rank"].items())
    limited = " (limited by affinity or quota: ranks are not bound)" if cores["restricted"] else ""
    show("Cores", [("usable", f"{cores['usable']}{limited}"), ("threads per rank", share)])
    columns = ("variable", "value", "source", "meaning")
    show("Settings", [tuple(row[column] for column in columns) for row in report["settings"]], columns)
    for title in ("problems", "notes"):
        if report[title]:
            show(title.capitalize(), [(f"- {text}",) for text in report[title]])
