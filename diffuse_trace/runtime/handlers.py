"""The functions that XLA calls for an exchange, an allreduce and a scan, to be compiled by Numba.

No address is part of an executable, which may be kept on disk: they come with the token, an array of the address of
the table of `engine.py` and of that of a `Descriptions`.  Each call has two attributes: ``description``, the number of
its own one there, and ``token``, which of its operands that is.
"""

from __future__ import annotations

from numba import njit

from ..lower import jax_compat
from . import packing as at
from .boxes import data, measure, move_boxes
from .messages import INBOX, OUTBOX, begin, failed, finish, post_receive, post_send, room
from .native import call, copy, load, store32
from .wire import HEADER, OK, WORD

_layout = jax_compat.frame_layout()
_EXTENSION, _ARGUMENTS, _RESULTS = _layout.extension, _layout.arguments, _layout.results
_ATTRIBUTES, _DATA, _VALUE, _METADATA = _layout.attributes, _layout.data, _layout.value, _layout.metadata
_MAJOR_AT, _MINOR_AT = _layout.major, _layout.minor
_MAJOR, _MINOR = _layout.version
_DESCRIPTION, _TOKEN = 0, 1  # attributes come sorted by name


@njit
def answered(frame):
    """XLA asks each function once which interface it was written for, through an extension of the frame."""
    extension = load(frame + _EXTENSION)
    if extension == 0:
        return False
    metadata = load(extension + _METADATA)
    store32(metadata + _MAJOR_AT, _MAJOR)
    store32(metadata + _MINOR_AT, _MINOR)
    return True


@njit
def attribute(frame, n):
    return load(load(load(load(frame + _ATTRIBUTES) + n * WORD) + _VALUE))


@njit
def _addresses(frame):
    """(address of the table, address of the description) of a call."""
    token = data(load(frame + _ARGUMENTS), attribute(frame, _TOKEN), _DATA)
    descriptions = load(load(token + WORD))
    return load(token), load(descriptions + attribute(frame, _DESCRIPTION) * WORD)


def exchange(frame):
    """Operands: sources, buffers updated in place, flags, token.  Results: those buffers, new ones, the token."""
    if not answered(frame):
        t, spec = _addresses(frame)
        _exchange(t, spec, load(frame + _ARGUMENTS), load(frame + _RESULTS))
    return 0


@njit
def _exchange(t, spec, arguments, results):
    if failed(t):
        return
    begin(t)
    sources = load(spec + at.EXCHANGE_SOURCES)
    active = data(arguments, load(spec + at.EXCHANGE_FLAGS), _DATA)
    receives = load(spec + at.EXCHANGE_RECEIVES)
    message, place = spec + at.EXCHANGE_LIST, load(t + INBOX)
    for _ in range(receives):
        size, travelling, following = measure(message, active)
        if travelling != 0:
            post_receive(t, load(message + at.MESSAGE_PEER), place, size)
            place += room(size)
        message = following
    place = load(t + OUTBOX)
    for _ in range(load(spec + at.EXCHANGE_SENDS)):
        size, travelling, following = measure(message, active)
        if travelling != 0:
            boxes, n = message + at.MESSAGE_LIST, load(message + at.MESSAGE_BOXES)
            move_boxes(boxes, n, place + HEADER, active, sources, arguments, results, _DATA)
            post_send(t, spec, load(message + at.MESSAGE_PEER), place, size)
            place += room(size)
        message = following
    move_boxes(message, load(spec + at.EXCHANGE_COPIES), 0, active, sources, arguments, results, _DATA)
    if finish(t, spec) != OK:
        return
    message, place = spec + at.EXCHANGE_LIST, load(t + INBOX)
    for _ in range(receives):
        size, travelling, following = measure(message, active)
        if travelling != 0:
            boxes, n = message + at.MESSAGE_LIST, load(message + at.MESSAGE_BOXES)
            move_boxes(boxes, n, place + HEADER, active, sources, arguments, results, _DATA)
            place += room(size)
        message = following


# --- reductions ----------------------------------------------------------------------------------


@njit
def swap(t, header, target, source, place, size):
    """Send ``size`` bytes at an address to one rank and receive as many from another into the inbox; -1 is no rank."""
    begin(t)
    if source >= 0:
        post_receive(t, source, load(t + INBOX), size)
    if target >= 0:
        outbox = load(t + OUTBOX)
        if place != outbox + HEADER:
            copy(outbox + HEADER, place, size)
        post_send(t, header, target, outbox, size)
    return finish(t, header)


@njit
def _combine(spec, left, right, out):
    function, items = load(spec + at.COMBINE_FUNCTION), load(spec + at.COMBINE_ITEMS)
    call(function, (load(spec + at.COMBINE_OPERATOR), left, right, out, items))


@njit
def _rank(spec, place):
    return load(spec + at.COMBINE_RANKS + place * WORD)


def allreduce(frame):
    """Operands: an array, the token.  Results: the array combined, and the token."""
    if not answered(frame):
        t, spec = _addresses(frame)
        array, total = data(load(frame + _ARGUMENTS), 0, _DATA), data(load(frame + _RESULTS), 0, _DATA)
        copy(total, array, load(spec + at.COMBINE_ITEMS) * load(spec + at.COMBINE_ITEMSIZE))
        _allreduce(t, spec, total)
    return 0


@njit
def _allreduce(t, spec, total):
    """Recursive doubling; the lower ranks' part is always the left operand, so that all ranks get the same bits."""
    if failed(t):
        return
    place, ranks = load(spec + at.COMBINE_PLACE), load(spec + at.COMBINE_SIZE)
    size = load(spec + at.COMBINE_ITEMS) * load(spec + at.COMBINE_ITEMSIZE)
    received = load(t + INBOX) + HEADER
    power = 1
    while power * 2 <= ranks:
        power *= 2
    # Of the first ranks, those at even places hand theirs to the next, which stands for both.
    extra = ranks - power
    if place < 2 * extra and place % 2 == 0:
        peer = _rank(spec, place + 1)
        if swap(t, spec, peer, -1, total, size) == OK and swap(t, spec, -1, peer, total, size) == OK:
            copy(total, received, size)
        return
    if place < 2 * extra:
        if swap(t, spec, -1, _rank(spec, place - 1), total, size) != OK:
            return
        _combine(spec, received, total, total)
        me = place // 2
    else:
        me = place - extra
    step = 1
    while step < power:
        other = me ^ step
        peer = _rank(spec, 2 * other + 1 if other < extra else other + extra)
        if swap(t, spec, peer, peer, total, size) != OK:
            return
        if other < me:
            _combine(spec, received, total, total)
        else:
            _combine(spec, total, received, total)
        step *= 2
    if place < 2 * extra:
        swap(t, spec, _rank(spec, place - 1), -1, total, size)


def exscan(frame):
    """Operands: an array, the operator's identity, the token.  Results: the scan, over the identity, and the token."""
    if not answered(frame):
        t, spec = _addresses(frame)
        array = data(load(frame + _ARGUMENTS), 0, _DATA)
        _exscan(t, spec, array, data(load(frame + _RESULTS), 0, _DATA))
    return 0


@njit
def _exscan(t, spec, array, before):
    """Doubling: after each step a rank knows twice as many of the ranks before it."""
    if failed(t):
        return
    place, ranks = load(spec + at.COMBINE_PLACE), load(spec + at.COMBINE_SIZE)
    size = load(spec + at.COMBINE_ITEMS) * load(spec + at.COMBINE_ITEMSIZE)
    received = load(t + INBOX) + HEADER
    own = load(t + OUTBOX) + HEADER  # the sum up to this rank, kept where it is sent from
    copy(own, array, size)
    step = 1
    while step < ranks:
        target = _rank(spec, place + step) if place + step < ranks else -1
        source = _rank(spec, place - step) if place - step >= 0 else -1
        if swap(t, spec, target, source, own, size) != OK:
            return
        if source >= 0:
            if step == 1:
                copy(before, received, size)
            else:
                _combine(spec, received, before, before)
            _combine(spec, received, own, own)
        step *= 2


def step(t, header, target, source):
    """For calls from Python: send an empty message to one rank and receive one from another."""
    if failed(t):
        return 0
    return swap(t, header, target, source, 0, 0)
