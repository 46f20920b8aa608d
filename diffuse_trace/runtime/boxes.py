"""Copying boxes between buffers and the wire, in compiled code; `packing.py` describes them."""

from __future__ import annotations

from numba import njit

from . import packing as at
from .native import copy, load, load8, load16, load32, store, store8, store16, store32
from .wire import WORD

_STRIP = 16  # elements of a line that are copied before the next line is begun


@njit
def _copy_line(target, source, unit, n, target_step, source_step):
    if unit == 8:
        for i in range(n):
            store(target + i * target_step, load(source + i * source_step))
    elif unit == 4:
        for i in range(n):
            store32(target + i * target_step, load32(source + i * source_step))
    elif unit == 16:
        for i in range(n):
            store(target + i * target_step, load(source + i * source_step))
            store(target + i * target_step + 8, load(source + i * source_step + 8))
    elif unit == 1:
        for i in range(n):
            store8(target + i * target_step, load8(source + i * source_step))
    elif unit == 2:
        for i in range(n):
            store16(target + i * target_step, load16(source + i * source_step))
    else:
        for i in range(n):
            copy(target + i * target_step, source + i * source_step, unit)


@njit
def _copy_plane(target, source, unit, n, target_step, source_step, lines, target_skip, source_skip):
    """Copy lines side by side, a strip at a time: where they lie across the source, each of its cache lines is read
    for several of them while it is at hand.
    """
    for start in range(0, n, _STRIP):
        width = min(n - start, _STRIP)
        for i in range(lines):
            _copy_line(
                target + start * target_step + i * target_skip,
                source + start * source_step + i * source_skip,
                unit,
                width,
                target_step,
                source_step,
            )


@njit
def copy_box(box, target, source):
    """Copy units of contiguous bytes along axes that have a step on either side."""
    unit, dims = load(box + at.BOX_UNIT), load(box + at.BOX_DIMS)
    if dims == 0:
        copy(target, source, unit)
        return
    shape = box + at.BOX_SHAPE
    source_steps = shape + dims * WORD
    target_steps = source_steps + dims * WORD
    counts = target_steps + dims * WORD
    last = (dims - 1) * WORD
    n, target_step, source_step = load(shape + last), load(target_steps + last), load(source_steps + last)
    planes = dims > 1 and abs(load(source_steps + last - WORD)) < abs(source_step)
    outer = last - 2 * WORD if planes else last - WORD
    for d in range(0, outer + WORD, WORD):
        store(counts + d, 0)
    while True:
        if planes:
            side = last - WORD
            lines, target_skip, source_skip = load(shape + side), load(target_steps + side), load(source_steps + side)
            _copy_plane(target, source, unit, n, target_step, source_step, lines, target_skip, source_skip)
        else:
            _copy_line(target, source, unit, n, target_step, source_step)
        d = outer
        while d >= 0:
            count = load(counts + d) + 1
            source += load(source_steps + d)
            target += load(target_steps + d)
            if count < load(shape + d):
                store(counts + d, count)
                break
            source -= count * load(source_steps + d)
            target -= count * load(target_steps + d)
            store(counts + d, 0)
            d -= WORD
        if d < 0:
            return


@njit
def _travels(box, active):
    flag = load(box + at.BOX_FLAG)
    return flag < 0 or load32(active + 4 * flag) != 0


@njit
def measure(message, active):
    """(bytes, boxes that travel, address of the next message)."""
    size, travelling, box = 0, 0, message + at.MESSAGE_LIST
    for _ in range(load(message + at.MESSAGE_BOXES)):
        if _travels(box, active):
            size += load(box + at.BOX_BYTES)
            travelling += 1
        box += load(box + at.BOX_LENGTH)
    return size, travelling, box


@njit
def data(buffers, n, offset):
    """The address of the elements of XLA's n-th buffer."""
    return load(load(buffers + n * WORD) + offset)


@njit
def _end(end, wire, sources, arguments, results, offset):
    number, place = load(end), load(end + WORD)
    if number == at.WIRE:
        return wire
    # What is updated in place is an argument and a result; both have one address.
    return place + (data(arguments, number, offset) if number < sources else data(results, number - sources, offset))


@njit
def move_boxes(box, n, wire, active, sources, arguments, results, offset):
    """Copy n boxes; on the wire they stand one behind the other from an address on."""
    for _ in range(n):
        if _travels(box, active):
            source = _end(box + at.BOX_FROM, wire, sources, arguments, results, offset)
            target = _end(box + at.BOX_TO, wire, sources, arguments, results, offset)
            copy_box(box, target, source)
            wire += load(box + at.BOX_BYTES)
        box += load(box + at.BOX_LENGTH)
