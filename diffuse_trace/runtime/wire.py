"""What travels between ranks: the header of each message, tags, and the notice of a failure.

All messages of the package go between two ranks in the order in which both ends expect them, whether they are sent
inside an executable or from Python.  Each starts with a header that says what the sender runs, so that two ranks that
run different things find out instead of waiting for each other.

A rank that finds an error sends all others a notice and enters a new epoch, in which messages have another tag: what is
left of the old epoch can no longer be taken for something else.  A rank that gets a notice fails too and follows.
"""

from __future__ import annotations

import numpy as np

WORD = 8
#: Bytes of a header: digest, bytes that follow, kind and rank, then text.
HEADER = 128
HEADER_WORDS = HEADER // WORD
TEXT_WORD = 3
#: Bytes of the longest message that holds header and payload together.
EAGER = 4032
#: Words of a notice: the sender's own header, then that of the rank it met (or zeros).
NOTICE_WORDS = 2 * HEADER_WORDS

NOTICE_TAG = 1
_FIRST_TAG, _TAGS = 2, 16000  # MPI promises tags up to 32767

#: Kinds of headers, stored above the rank in their word; in a notice the kind of failure stands there.
MESSAGE, GOODBYE = 0, 1
KIND_SHIFT = 32

#: Kinds of failures.
OK, MISMATCH, TIMEOUT, MPI_ERROR, NOTICED = range(5)


def tag(epoch: int) -> int:
    """The tag of the headers of an epoch; the next one is that of payloads that come on their own."""
    return _FIRST_TAG + 2 * (epoch % _TAGS)


def header(digest: int, where: str, rank: int, kind: int = MESSAGE) -> np.ndarray:
    """A header of 16 int64 whose payload is still empty."""
    words = np.zeros(HEADER_WORDS, np.int64)
    words[0] = (digest + 2**63) % 2**64 - 2**63
    words[2] = rank | kind << KIND_SHIFT
    room = words[TEXT_WORD:].view(np.uint8)
    text = where.encode()
    if len(text) > room.size:
        # The end of a file's name and the line's number say more than the beginning of the path.
        text = "\u2026".encode() + text[len(text) - room.size + 3 :]
    room[: len(text)] = np.frombuffer(text, np.uint8)
    return words


def kind_of(words: np.ndarray) -> int:
    """The kind of a header."""
    return int(words[2]) >> KIND_SHIFT


def rank_of(words: np.ndarray) -> int:
    """The rank that wrote a header."""
    return int(words[2]) & 0xFFFFFFFF


def text_of(words: np.ndarray) -> str:
    """The user's line in a header; empty if there is none."""
    return words[TEXT_WORD:HEADER_WORDS].tobytes().rstrip(b"\0").decode(errors="replace")
