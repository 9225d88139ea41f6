"""What holds noise or state that was paid for once: it is not copied, pickled or used in a fork."""

# SPDX-License-Identifier: Apache-2.0

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["Alone"]


class Alone:
    """Refuses to be copied and pickled: two holders would give more answers than were paid for."""

    __slots__ = ()

    def __copy__(self) -> NoReturn:
        _refuse("copied")

    def __deepcopy__(self, memo: dict[int, Any]) -> NoReturn:
        _refuse("copied")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        _refuse("pickled")


def _refuse(what: str) -> NoReturn:
    msg = (
        f"A started stream cannot be {what}: two holders of one stream and its noise would give "
        "more answers than were paid for. Start another where it is needed."
    )
    raise TypeError(msg)
