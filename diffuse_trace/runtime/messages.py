"""Sending and receiving from compiled code: requests, waiting, headers and failures.

All state is in one table of int64, the `Table` of `engine.py`, whose address each function gets as ``t``.
"""

from __future__ import annotations

from numba import njit

from .native import call, call_double, copy, load, load32, store
from .near import is_empty, put, take
from .wire import (
    EAGER,
    HEADER,
    HEADER_WORDS,
    MISMATCH,
    MPI_ERROR,
    NOTICE_TAG,
    NOTICE_WORDS,
    NOTICED,
    OK,
    TIMEOUT,
    WORD,
)

# Places in the table, in bytes.  Functions of MPI and of C first, then handles, then settings and memory.
(
    ISEND,
    IRECV,
    TEST,
    IPROBE,
    RECV,
    CANCEL,
    WTIME,
    YIELD,
    COMM,
    BYTE_TYPE,
    ANY_SOURCE,
    REQUEST_SIZE,
    RANK,
    TAG,
    EPOCH,
    CHUNK,
    SPIN,
    TIMEOUT_MS,
    OUTBOX,
    INBOX,
    REQUESTS,
    SLOTS,
    SLOT_COUNT,
    FLAG,
    STATUS,
    NOTICE,
    FAILURE,
    ABANDONED,
    CLOCKED,
    WAITED,
    RINGS,
    TABLE_BYTES,
) = range(0, 32 * WORD, WORD)

# A slot describes one request: what it is, its peer, where its header is and how many bytes must follow that.  Those
# to be put into a ring or taken from one are no requests of MPI.
_KIND, _PEER, _PLACE, _PAYLOAD, SLOT_BYTES = range(0, 5 * WORD, WORD)
_DONE, _SEND, _FIRST, _MORE, _PUT, _TAKE = range(6)

# The record of a failure: its kind, MPI's code, how many peers were waited for and which, then the header of what ran
# here and that of what was met.  A notice that was received has its two headers there.
FAIL_KIND, FAIL_CODE, FAIL_WAITING, FAIL_PEERS = (n * WORD for n in range(4))
MOST_PEERS = 16
FAIL_HEADERS = FAIL_PEERS + MOST_PEERS * WORD
FAIL_BYTES = FAIL_HEADERS + NOTICE_WORDS * WORD

_LINE = 64  # bytes of a cache line
_LOOK = 255  # polls between looks at the clock and for notices, plus one a power of two


@njit
def begin(t):
    """Start a new set of messages."""
    store(t + SLOT_COUNT, 0)


@njit
def _ring_from(t, peer):
    """The ring from another rank; 0 if there is none."""
    return load(load(t + RINGS) + 2 * peer * WORD)


@njit
def _ring_to(t, peer):
    return load(load(t + RINGS) + (2 * peer + 1) * WORD)


@njit
def _note(t, kind, peer, place, payload):
    """Take the next slot; its number."""
    n = load(t + SLOT_COUNT)
    slot = load(t + SLOTS) + n * SLOT_BYTES
    store(slot + _KIND, kind)
    store(slot + _PEER, peer)
    store(slot + _PLACE, place)
    store(slot + _PAYLOAD, payload)
    store(t + SLOT_COUNT, n + 1)
    return n


@njit
def _post(t, function, kind, peer, tag, place, size, payload):
    """Start one request for ``size`` bytes at an address."""
    n = _note(t, kind, peer, place, payload)
    request = load(t + REQUESTS) + n * load(t + REQUEST_SIZE)
    code = call(load(t + function), (place, size, load(t + BYTE_TYPE), peer, tag, load(t + COMM), request))
    if code != 0:
        store(load(t + SLOTS) + n * SLOT_BYTES + _KIND, _DONE)
        failure = load(t + FAILURE)
        if load(failure + FAIL_KIND) == OK:
            store(failure + FAIL_KIND, MPI_ERROR)
            store(failure + FAIL_CODE, code)


@njit
def _post_payload(t, function, kind, peer, place, payload):
    limit, done = load(t + CHUNK), 0
    while done < payload:
        part = min(payload - done, limit)
        _post(t, function, kind, peer, load(t + TAG) + 1, place + HEADER + done, part, 0)
        done += part


@njit
def post_receive(t, peer, place, payload):
    """Receive a header and ``payload`` bytes at an address, where there is room for `room`; `finish` waits for them.

    A payload that does not fit behind the header comes in messages of its own.  They are received only once the header
    has told that they are as long as expected: MPI libraries do not all survive a message that is longer.
    """
    store(place, 0)  # so that a message too short for a header cannot pass for an old one
    store(place + 2 * WORD, -1)
    if _ring_from(t, peer) != 0:
        _note(t, _TAKE, peer, place, payload)
    else:
        _post(t, IRECV, _FIRST, peer, load(t + TAG), place, EAGER, payload)


@njit
def post_send(t, header, peer, place, payload):
    """Send ``payload`` bytes that stand behind room for a header, which is filled in here."""
    copy(place, header, HEADER)
    store(place + WORD, payload)
    fits = HEADER + payload <= EAGER
    size = HEADER + payload if fits else HEADER
    if _ring_to(t, peer) == 0:
        _post(t, ISEND, _SEND, peer, load(t + TAG), place, size, 0)
    elif not put(_ring_to(t, peer), load(t + EPOCH), place, size):
        _note(t, _PUT, peer, place, size)
    if not fits:
        _post_payload(t, ISEND, _SEND, peer, place, payload)


@njit
def room(payload):
    """The bytes to keep for a message."""
    return (max(HEADER + payload, EAGER) + _LINE - 1) // _LINE * _LINE


@njit
def finish(t, header):
    """Wait for all messages posted since `begin`; 0, or the kind of failure, which is then on record."""
    slots, requests, size = load(t + SLOTS), load(t + REQUESTS), load(t + REQUEST_SIZE)
    test, flag, status = load(t + TEST), load(t + FLAG), load(t + STATUS)
    spin, epoch = load(t + SPIN), load(t + EPOCH)
    failure = load(t + FAILURE)
    if load(failure + FAIL_KIND) != OK:
        return _fail(t, header, load(failure + FAIL_KIND), load(failure + FAIL_CODE), 0)
    polls, start, first = 0, 0.0, 0.0
    while True:
        pending, i = 0, -1
        # Payloads are added on the way.
        while i + 1 < load(t + SLOT_COUNT):
            i += 1
            slot = slots + i * SLOT_BYTES
            kind = load(slot + _KIND)
            if kind == _DONE:
                continue
            if kind == _TAKE:
                ring = _ring_from(t, load(slot + _PEER))
                done = take(ring, epoch, load(slot + _PLACE), load(header), load(slot + _PAYLOAD))
            elif kind == _PUT:
                done = put(_ring_to(t, load(slot + _PEER)), epoch, load(slot + _PLACE), load(slot + _PAYLOAD))
            else:
                store(flag, 0)
                code = call(test, (requests + i * size, flag, status))
                if code != 0:
                    store(slot + _KIND, _DONE)
                    return _fail(t, header, MPI_ERROR, code, 0)
                done = load32(flag) != 0
            if not done:
                pending += 1
                continue
            store(slot + _KIND, _DONE)
            if kind in (_FIRST, _TAKE):
                place, payload = load(slot + _PLACE), load(slot + _PAYLOAD)
                if not _matches(header, slot):
                    return _fail(t, header, MISMATCH, 0, place)
                if HEADER + payload > EAGER:
                    _post_payload(t, IRECV, _MORE, load(slot + _PEER), place, payload)
                    if load(failure + FAIL_KIND) != OK:
                        return _fail(t, header, MPI_ERROR, load(failure + FAIL_CODE), 0)
        if pending == 0:
            if first != 0.0:
                waited = call_double(load(t + WTIME), ()) - first
                store(t + WAITED, load(t + WAITED) + int(waited * 1e9))
            return OK
        if polls == 0 and load(t + CLOCKED) != 0:
            first = call_double(load(t + WTIME), ())
        polls += 1
        if polls > spin:
            call(load(t + YIELD), ())
        if polls & _LOOK == 0:
            now = call_double(load(t + WTIME), ())
            if start == 0.0:
                start = now
            if _noticed(t):
                return _fail(t, header, NOTICED, 0, 0)
            ended = _farewell(t)
            if ended != 0:
                return _fail(t, header, MISMATCH, 0, ended)
            if (now - start) * 1000.0 > load(t + TIMEOUT_MS):
                return _fail(t, header, TIMEOUT, 0, 0)


@njit
def _matches(header, slot):
    place = load(slot + _PLACE)
    return (
        load(place) == load(header)
        and load(place + WORD) == load(slot + _PAYLOAD)
        and load(place + 2 * WORD) == load(slot + _PEER)
    )


@njit
def _noticed(t):
    """Whether another rank has told of a failure; the notice is then on record."""
    while True:
        store(load(t + FLAG), 0)
        call(load(t + IPROBE), (load(t + ANY_SOURCE), NOTICE_TAG, load(t + COMM), load(t + FLAG), load(t + STATUS)))
        if load32(load(t + FLAG)) == 0:
            return False
        notice = load(t + NOTICE)
        call(
            load(t + RECV),
            (
                notice,
                NOTICE_WORDS * WORD,
                load(t + BYTE_TYPE),
                load(t + ANY_SOURCE),
                NOTICE_TAG,
                load(t + COMM),
                load(t + STATUS),
            ),
        )
        # The word for the payload holds the epoch: this rank may have left it already.
        if load(notice + WORD) >= load(t + EPOCH):
            copy(load(t + FAILURE) + FAIL_HEADERS, notice, NOTICE_WORDS * WORD)
            return True


@njit
def _farewell(t):
    """Where the farewell of a rank is whose ring this rank waits for in vain; 0 if there is none.

    Farewells come through MPI, and are the only headers from ranks with rings that do.
    """
    for i in range(load(t + SLOT_COUNT)):
        slot = load(t + SLOTS) + i * SLOT_BYTES
        if load(slot + _KIND) != _TAKE:
            continue
        peer, place = load(slot + _PEER), load(slot + _PLACE)
        store(load(t + FLAG), 0)
        call(load(t + IPROBE), (peer, load(t + TAG), load(t + COMM), load(t + FLAG), load(t + STATUS)))
        # What it has put there before it ended comes first; `finish` takes that in its next round.
        if load32(load(t + FLAG)) == 0 or not is_empty(_ring_from(t, peer), load(t + EPOCH)):
            continue
        call(
            load(t + RECV),
            (place, HEADER, load(t + BYTE_TYPE), peer, load(t + TAG), load(t + COMM), load(t + STATUS)),
        )
        store(slot + _KIND, _DONE)
        return place
    return 0


@njit
def _fail(t, header, kind, code, met):
    """Put a failure on record and give up all that is pending."""
    failure = load(t + FAILURE)
    store(failure + FAIL_KIND, kind)
    store(failure + FAIL_CODE, code)
    if kind != NOTICED:
        copy(failure + FAIL_HEADERS, header, HEADER)
        if met != 0:
            copy(failure + FAIL_HEADERS + HEADER, met, HEADER)
        else:
            for w in range(HEADER_WORDS):
                store(failure + FAIL_HEADERS + HEADER + w * WORD, 0)
    else:
        # The notice is on record, so its memory is free for the header of what ran here.
        copy(load(t + NOTICE), header, HEADER)
    waiting = 0
    for i in range(load(t + SLOT_COUNT)):
        slot = load(t + SLOTS) + i * SLOT_BYTES
        what = load(slot + _KIND)
        if what == _DONE:
            continue
        if what != _MORE and waiting < MOST_PEERS:
            store(failure + FAIL_PEERS + waiting * WORD, load(slot + _PEER))
            waiting += 1
        if what in (_PUT, _TAKE):
            continue
        if what == _SEND or not _cancelled(t, i):
            store(t + ABANDONED, 1)
    store(failure + FAIL_WAITING, waiting)
    return kind


@njit
def _cancelled(t, i):
    request = load(t + REQUESTS) + i * load(t + REQUEST_SIZE)
    call(load(t + CANCEL), (request,))
    for _ in range(1000):
        store(load(t + FLAG), 0)
        if call(load(t + TEST), (request, load(t + FLAG), load(t + STATUS))) != 0 or load32(load(t + FLAG)) != 0:
            return True
    return False


@njit
def failed(t):
    """Whether an earlier operation has failed: later ones then do nothing."""
    return load(load(t + FAILURE) + FAIL_KIND) != OK
