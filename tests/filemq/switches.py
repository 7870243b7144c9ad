"""The named switches of client and server. Without a switch both are correct peers.

A defect is what libfilemq 2.0 does; an attack is what a hostile peer may do; a form is something that the protocol
permits and libfilemq does not do.
"""
from __future__ import annotations

from enum import Enum
from typing import TypeVar


class Switch(str, Enum):
    """A member's value is its name on the command line, `help` what it does."""

    help: str

    def __new__(cls, value: str, text: str) -> "Switch":
        member = str.__new__(cls, value)
        member._value_ = value
        member.help = text
        return member


class ServerSwitch(Switch):
    NO_RESYNC = "no-resync", "defect: ignores RESYNC, so files that exist are never sent"
    CACHE_IGNORED = "cache-ignored", "defect: RESYNC sends files that the cache names, too"
    LIVELOCK = "livelock", ("defect: with some credit, but too little for the next chunk, sends the last message"
                            " (whichever client's) for ever, and reads nothing any more")
    STRAY_AT_END = "stray-at-end", "defect: sends the last message once more when there is nothing left to send"
    EVERYTHING_TO_ALL = "everything-to-all", "defect: a subscriber of a mount gets every file of it"
    FIRST_MOUNT = "first-mount", "defect: a path below no mount subscribes to the first one"
    MTIME_SECONDS = "mtime-seconds", "defect: misses an edit within the same second that keeps the size"
    ABORT_ON_TRUNCATION = "abort-on-truncation", "defect: ends if a file shrinks while it is sent"

    EOF_WITH_DATA = "eof-with-data", "form: the last chunk with data has eof=1; no empty chunk follows"
    SMALL_CHUNKS = "small-chunks", "form: chunks of 1,000 octets"
    HEADERS = "headers", "form: fills the reserved headers"

    REFUSE_OHAI = "refuse-ohai", "form: answers OHAI with SRSLY"
    RTFM_SECOND_ICANHAZ = "rtfm-second-icanhaz", "attack: answers a client's second ICANHAZ with RTFM"
    BEYOND_CREDIT = "beyond-credit", "attack: needs no credit; chunks of 8,000,000 octets"
    WRONG_SIGNATURE = "wrong-signature", "attack: sends each CHEEZBURGER after one with another signature"
    OFFSET_LIE = "offset-lie", "attack: offsets are 2^40 too large, except the first of a file"
    NEVER_ENDS = "never-ends", "attack: no eof and no empty chunk; the next file follows"
    TRUNCATED = "truncated-frames", "attack: sends half of each CHEEZBURGER"
    HUGE_LENGTHS = "huge-lengths", "attack: lengths of 2^32 - 1 for the name, the headers and the chunk"
    DOTDOT_NAMES = "dotdot-names", "attack: names with `..` that lead beside the inbox"
    ABSOLUTE_NAMES = "absolute-names", "attack: names that are an absolute path without the first slash"
    ODD_NAMES = "odd-names", "attack: empty, `.`, NUL, no UTF-8, 300 octets long, a directory, no slash"
    DELETE_ROOT = "delete-root", "attack: deletes `/`, the alias and names with `..`"
    BAD_OPERATION = "bad-operation", "attack: operations 0, 3 and 255"


class ClientSwitch(Switch):
    NAME_IGNORED = "name-ignored", "defect: writes a chunk to whatever file is open, also after a restart"
    CREDIT_LEAK = "credit-leak", "defect: no credit back for foreign files and for files it cannot write"
    IN_PLACE = "in-place", "defect: writes the file itself; the rest of a longer old file stays"
    EOF_IGNORED = "eof-ignored", "defect: only an empty chunk ends a file"
    TRAVERSAL = "traversal", "defect: follows `..` in names out of the inbox; needs a directory as the limit"
    SECOND_SUBSCRIBE = "second-subscribe", "defect: a second subscription is an error, and is never sent"
    SUBSCRIBING = "cheezburger-while-subscribing", "defect: ends at a CHEEZBURGER before ICANHAZ-OK"
    OFFSET_UNCHECKED = "offset-unchecked", "defect: writes a chunk wherever its offset says"

    RELATIVE_CACHE = "relative-cache", "form: names in the cache are relative to the path"
    UPPER_CASE = "upper-case-digests", "form: digests in capital letters"

    NO_OHAI = "no-ohai", "attack: begins with ICANHAZ and NOM"
    NO_CREDIT = "no-credit", "attack: subscribes and never sends NOM"
    WRONG_SIGNATURE = "wrong-signature", "attack: frames with another signature"
    TRUNCATED = "truncated-frames", "attack: each command cut at every octet"
    HUGE_LENGTHS = "huge-lengths", "attack: lengths and counts of 2^32 - 1"
    HUGE_CREDIT = "huge-credit", "attack: two NOM with 2^64 - 1 each"
    DOTDOT_PATHS = "dotdot-paths", "attack: subscribes to paths with `..`, without a slash, and to the empty one"
    FOREIGN_CACHE = "foreign-cache", "attack: a cache with names of other paths, with `..`, and odd digests"
    MILLION_SUBSCRIPTIONS = "million-subscriptions", "attack: a million different ICANHAZ"
    MILLION_NOMS = "million-noms", "attack: a million NOM of no credit"
    SERVER_COMMANDS = "server-commands", "attack: sends what only a server may send"


S = TypeVar("S", bound=Switch)


def describe(switches: type[S]) -> str:
    return "\n".join(f"  {switch.value:30} {switch.help}" for switch in switches)
