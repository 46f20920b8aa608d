"""Putting messages into the rings of `rings.py`, and taking them out, from compiled code."""

from __future__ import annotations

from numba import njit

from .native import copy, load, load_acquire, store, store_release
from .rings import EPOCH, FIRST, KNOWN, MESSAGE, NUMBER, PUT, SIZE, SLOT_BYTES, SLOTS, TAKEN


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
    copy(slot + MESSAGE, place, size)
    store_release(slot + NUMBER, number + 1)
    store(ring + PUT, number + 1)
    return True


@njit
def take(ring, epoch, place):
    """Copy the next message of an epoch from a ring to an address; whether there was one.  Older ones are dropped."""
    while True:
        taken = load(ring + TAKEN)
        slot = ring + FIRST + taken % SLOTS * SLOT_BYTES
        # One of a later epoch waits until this rank has been told of what ended its own.
        if load_acquire(slot + NUMBER) != taken + 1 or load(slot + EPOCH) > epoch:
            return False
        current = load(slot + EPOCH) == epoch
        if current:
            copy(place, slot + MESSAGE, load(slot + SIZE))
        store_release(ring + TAKEN, taken + 1)
        if current:
            return True


@njit
def is_empty(ring, epoch):
    """Whether `take` would find nothing."""
    taken = load(ring + TAKEN)
    slot = ring + FIRST + taken % SLOTS * SLOT_BYTES
    return load_acquire(slot + NUMBER) != taken + 1 or load(slot + EPOCH) > epoch
