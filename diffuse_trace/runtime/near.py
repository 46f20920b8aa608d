"""Putting messages into the rings of `rings.py`, and taking them out, from compiled code."""

from __future__ import annotations

from numba import njit

from .native import copy, load, load_acquire, store, store_release
from .rings import (
    EPOCH,
    FIRST,
    KNOWN,
    MESSAGE,
    NUMBER,
    PAYLOAD,
    PUT,
    SIZE,
    SLOT_BYTES,
    SLOTS,
    TAKEN,
    TEXT,
    TEXT_BYTES,
)
from .wire import HEADER, TEXT_WORD, WORD

_TEXT_AT = TEXT_WORD * WORD


@njit
def put(ring, epoch, place, size):
    """Put ``size`` bytes at an address into a ring; whether it had room for them."""
    number = load(ring + PUT)
    if number - load(ring + KNOWN) == SLOTS:
        # Only now, since reading what the other rank writes takes as long as a message does.
        taken = load_acquire(ring + TAKEN)
        store(ring + KNOWN, taken)
        if number - taken == SLOTS:
            return False
    slot = ring + FIRST + number % SLOTS * SLOT_BYTES
    store(slot + EPOCH, epoch)
    store(slot + SIZE, size)
    for w in range(TEXT_WORD):
        store(slot + MESSAGE + w * WORD, load(place + w * WORD))
    copy(slot + PAYLOAD, place + HEADER, size - HEADER)
    copy(slot + TEXT, place + _TEXT_AT, TEXT_BYTES)
    store_release(slot + NUMBER, number + 1)
    store(ring + PUT, number + 1)
    return True


@njit
def take(ring, epoch, place, digest, payload):
    """Copy the next message of an epoch from a ring to an address; whether there was one.  Older ones are dropped.

    The header's text is copied only if the message is not the one with this digest that announces this payload.
    """
    while True:
        taken = load(ring + TAKEN)
        slot = ring + FIRST + taken % SLOTS * SLOT_BYTES
        # One of a later epoch waits until this rank has been told of what ended its own.
        if load_acquire(slot + NUMBER) != taken + 1 or load(slot + EPOCH) > epoch:
            return False
        current = load(slot + EPOCH) == epoch
        if current:
            for w in range(TEXT_WORD):
                store(place + w * WORD, load(slot + MESSAGE + w * WORD))
            copy(place + HEADER, slot + PAYLOAD, load(slot + SIZE) - HEADER)
            if load(place) != digest or load(place + WORD) != payload:
                copy(place + _TEXT_AT, slot + TEXT, TEXT_BYTES)
        store_release(ring + TAKEN, taken + 1)
        if current:
            return True


@njit
def is_empty(ring, epoch):
    """Whether `take` would find nothing."""
    taken = load(ring + TAKEN)
    slot = ring + FIRST + taken % SLOTS * SLOT_BYTES
    return load_acquire(slot + NUMBER) != taken + 1 or load(slot + EPOCH) > epoch
