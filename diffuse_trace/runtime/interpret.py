"""Programs on plain NumPy arrays: what each one means, whatever the plan and the number of ranks.

Tasks run in order on whole arrays, without fusion, partitions or JAX's arithmetic; tests compare everything else
with this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import ProgramError
from ..ir import Access, Block, Branch, IndexTask, Loop, Operand, Program, View
from ..lower.kernels import Context, kernel


def interpret(
    program: Program, inputs: Mapping[int, np.ndarray], operands: Sequence[Any] = ()
) -> dict[int, np.ndarray]:
    """Run a program on whole arrays.

    ``inputs`` holds the array of each input store by its id (left as it is), ``operands`` the scalars in the program's
    order.  Returns the arrays of the live stores by id.  Raises `ProgramError` where a task reads a store that nothing
    has written.
    """
    scalars = [np.asarray(v).astype(d) for v, d in zip(operands, program.operands, strict=True)]
    arrays: dict[int, np.ndarray] = {}
    for store, _ in program.inputs:
        array = np.array(inputs[store.id])
        if array.shape != store.shape or array.dtype != store.dtype:
            raise ProgramError(f"store %{store.id} is {store.dtype}{store.shape}, not {array.dtype}{array.shape}")
        arrays[store.id] = array
    _run_block(program, program.block(), arrays, scalars)
    return {id: array for id, array in arrays.items() if id in program.live}


def _run_block(program: Program, block: Block, arrays: dict[int, np.ndarray], scalars: Sequence[np.ndarray]) -> None:
    for item in block.items:
        if isinstance(item, int):
            _run(program.tasks[item], arrays, scalars)
            continue
        number, first, second = item
        region = program.regions[number]
        if isinstance(region, Loop):
            _assign(arrays, {c.inside.id: arrays[c.initial.id] for c in region.carried})
            _run_block(program, first, arrays, scalars)
            while arrays[region.predicate.id]:
                _run_block(program, second, arrays, scalars)
                _assign(arrays, {c.inside.id: arrays[c.result.id] for c in region.carried})
                _run_block(program, first, arrays, scalars)
        else:
            assert isinstance(region, Branch)
            holds = bool(arrays[region.predicate.id])
            _run_block(program, first if holds else second, arrays, scalars)
            _assign(arrays, {c.final.id: arrays[(c.first if holds else c.second).id] for c in region.chosen})


def _assign(arrays: dict[int, np.ndarray], values: dict[int, np.ndarray]) -> None:
    """All at once, each store an array of its own."""
    arrays.update({id: array.copy() for id, array in values.items()})


def _run(task: IndexTask, arrays: dict[int, np.ndarray], scalars: Sequence[np.ndarray]) -> None:
    blocks = [scalars[i.index] if isinstance(i, Operand) else _read(i, arrays) for i in task.inputs]
    whole = tuple((0, n) for n in task.shape)
    value = kernel(task.op).reference(Context(task, whole, whole, np), *blocks)
    store, view = task.output.store, task.output.view
    if task.reduces or store.id not in arrays:
        arrays[store.id] = np.zeros(store.shape, store.dtype)
    if task.reduces:
        kept = {a.source for a in view.axes}
        view = View(tuple(n if d in kept else 1 for d, n in enumerate(view.shape)), view.axes)
    _write(arrays[store.id], view, np.asarray(value).astype(store.dtype))


def _read(access: Access, arrays: Mapping[int, np.ndarray]) -> np.ndarray:
    if access.store.id not in arrays:
        raise ProgramError(f"store %{access.store.id} is read before anything is written to it")
    return np.asarray(access.view.of(arrays[access.store.id]))


def _write(array: np.ndarray, view: View, value: np.ndarray) -> None:
    if all(a.source is None for a in view.axes):
        # One element: NumPy gives a copy of it where a slice would give a view.
        if view.size:
            array[tuple(a.offset for a in view.axes)] = value.reshape(-1)[0]
        return
    view.of(array)[...] = value
