"""What servers, clients and transfers have in common: each owns an object of the C library."""
from types import TracebackType
from typing import Any, ClassVar, Optional, TypeVar

from ._library import checked

_Owner = TypeVar("_Owner", bound="Owner")


class Owner:
    """Owns one object of the C library, which is released once: by `close`, at the end of a `with` statement, or when
    this is garbage-collected."""

    # None: it was released, or was never made.
    _handle: Optional[int] = None
    # The function of C that releases it.
    _release_in_c: ClassVar[Any]

    def _take(self) -> Optional[int]:
        """The handle, to be released. Of several threads, one gets it."""
        taken: Optional[int] = self.__dict__.pop("_handle", None)
        return taken

    def close(self) -> None:
        handle = self._take()
        if handle is not None:
            checked(self._release_in_c(handle))

    def __enter__(self: _Owner) -> _Owner:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def __del__(self) -> None:
        handle = self._take()
        if handle is not None:
            self._release_in_c(handle)
