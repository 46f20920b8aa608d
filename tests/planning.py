"""Plans of programs that are written as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from diffuse_trace.fuse import Plan, plan
from diffuse_trace.fuse.verify import verify_plan
from diffuse_trace.ir import Program, canonical
from diffuse_trace.ir.text import loads
from diffuse_trace.ir.verify import verify


def program_of(text: str, ranks: int = 4) -> Program:
    """The program of a text, in which inputs marked ``input []`` lie canonically on so many ranks."""
    program = loads(text)
    program = replace(program, inputs=tuple((s, p if p.dims else canonical(s.shape, ranks)) for s, p in program.inputs))
    verify(program)
    return program


def planned(text: str, ranks: int = 4, **options: Any) -> Plan:
    """The plan of `program_of`, verified."""
    made = plan(program_of(text, ranks), ranks, **options)
    verify_plan(made)
    return made


def shape_of(made: Plan) -> tuple[int, int, int, int]:
    """Groups, exchanges, allreduces, temporaries."""
    return len(made.groups()), len(made.exchanges()), len(made.reductions()), len(made.temporaries())
