"""Options that are enums, given as text: the member, or an error that helps."""

import difflib
import enum
from typing import TypeVar

_E = TypeVar("_E", bound=enum.StrEnum)


def parse_enum(cls: type[_E], value: str, name: str) -> _E:
    """The member of ``cls`` with this value.

    Args:
      cls: a ``StrEnum``.
      value: a member, or the text of one.
      name: how to call the option in the error.

    Returns:
      The member.

    Raises:
      ValueError: no such member; the message lists them and names the nearest.

    >>> from neurips25.nn import RopeStyle
    >>> parse_enum(RopeStyle, "half", "rope_style").name
    'HALF'
    """
    try:
        return cls(value)
    except ValueError:
        options = [member.value for member in cls]
        near = difflib.get_close_matches(str(value), options, n=1, cutoff=0.0)[0]
        raise ValueError(
            f"{name}={value!r} is not one of {', '.join(options)}; did you mean {near!r}?"
        ) from None
