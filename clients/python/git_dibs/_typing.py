"""`Required` for Python 3.10, where type checkers know it and the standard library does not."""

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from typing_extensions import Required
else:
    try:
        from typing import Required
    except ImportError:

        class Required:
            def __class_getitem__(cls, item):
                return item


__all__ = ["Required", "TypedDict"]
