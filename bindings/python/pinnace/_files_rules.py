"""Which names a transfer leaves out, which files it replaces, and which it removes."""
import contextlib
import enum
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple, Optional

from . import _files_library as _files_library  # declares the functions
from ._library import checked, in_c, last_error, lib
from ._options import in_c_terms


class Existing(enum.Enum):
    """Which files of the target are replaced."""

    DIFFERENT = "different"  # those whose size or time differs from the source's
    NOT_NEWER = "not_newer"  # of these, only those that are not newer than the source's
    NOTHING = "nothing"


class Pattern(NamedTuple):
    """A pattern of names. `*` and `?` match no slash; `[abc]` is one of some characters; `**` between slashes stands
    for any directories. One that begins with a slash matches from the root of the transfer on, others at the end of a
    path. One that ends with a slash matches directories only."""

    text: str
    includes: bool


def include(text: str) -> Pattern:
    """Keeps the names that match."""
    return Pattern(text, True)


def exclude(text: str) -> Pattern:
    """Leaves out the names that match."""
    return Pattern(text, False)


class Deletion(NamedTuple):
    """What the source does not have is removed at the target: at most `most` files and directories by the transfer, and
    none of a listing or directory that has more, which fails with E2BIG. If the source is empty, it is a failure with
    EACCES, unless `force` is set."""

    most: Optional[int] = None
    force: bool = False


@dataclass(frozen=True)
class Rules:
    """The rules of a transfer. By default, files that differ in size or time are replaced, and nothing is removed.

    Of the patterns in `filter`, made by include and exclude, the first that matches a name counts. `checksum`: files of
    the same size are compared by their content. `whole_files`: a large file that differs is sent whole, and
    not only its blocks that differ. `compress`: chunks that shrink by an eighth travel compressed. `sparse`: holes are
    not sent, and zeros become holes. `hard_links`: a file with several names in a listing is sent once; its other names
    become hard links. `owner`: user and group ids are kept; a file whose ids may not be set fails. `xattrs`: extended
    attributes of the namespace `user.` are kept. `fsync`: a file gets its name only when its content is on the disk.
    `dry_run`: nothing is changed; Planned tells what would be. `more` has rules by their names in pinnace_files.h, as
    text."""

    filter: Sequence[Pattern] = ()
    existing: Existing = Existing.DIFFERENT
    checksum: bool = False
    whole_files: bool = False
    deletion: Optional[Deletion] = None
    compress: bool = False
    sparse: bool = False
    hard_links: bool = False
    owner: bool = False
    xattrs: bool = False
    fsync: bool = False
    dry_run: bool = False
    more: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@contextlib.contextmanager
def rules_in_c(rules: Optional[Rules]) -> Iterator[Any]:
    """Rules in C's terms; None for the default."""
    if rules is None:
        yield None
        return
    handle = lib.pinnace_files_rules_new()
    if handle is None:
        raise last_error()
    try:
        most, force = rules.deletion or Deletion()
        given = dict(
            existing=rules.existing.value, checksum=rules.checksum, whole_files=rules.whole_files,
            deletion=rules.deletion is not None, deletion_most=most, deletion_force=force,
            compress=rules.compress, sparse=rules.sparse, hard_links=rules.hard_links, owner=rules.owner,
            xattrs=rules.xattrs, fsync=rules.fsync, dry_run=rules.dry_run,
        )
        for key, value in in_c_terms(given, rules.more).items():
            checked(lib.pinnace_files_rules_set(handle, in_c(key), value))
        for pattern in rules.filter:
            add = lib.pinnace_files_rules_include if pattern.includes else lib.pinnace_files_rules_exclude
            checked(add(handle, in_c(pattern.text)))
        yield handle
    finally:
        lib.pinnace_files_rules_destroy(handle)
