"""Files that are replaced whole: a reader finds the old content or the new, never a part."""

import contextlib
import os
import pathlib
import secrets
from collections.abc import Iterator


@contextlib.contextmanager
def replaced_file(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Gives a temporary path to write to, which takes the place of the target at the end.

    The temporary lies beside the target, hidden and with the suffix ``.tmp``. If the body
    raises anything, an interrupt too, it is removed and the target stays as it was. On
    success it is flushed to the disk first, so that a power cut leaves no part of a file.

    Args:
      path: file to replace or to make; its folder is made if it isn't there.

    Returns:
      Context manager that gives the temporary path.

    Raises:
      OSError: the file could not be written; ``FileNotFoundError`` if the body wrote none.

    >>> import tempfile
    >>> target = pathlib.Path(tempfile.mkdtemp(), "new", "a.txt")
    >>> with replaced_file(target) as temporary:
    ...     _ = temporary.write_text("all of it")
    >>> target.read_text(), [p.name for p in target.parent.iterdir()]
    ('all of it', ['a.txt'])
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not a process id: hosts that share a file system may have the same.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def replace_text(path: str | os.PathLike[str], text: str) -> None:
    """Writes a text file, wholly or not at all: a kill or a full disk leaves the old content.

    Args:
      path: file to write; its folder is made if it isn't there.
      text: its new content, written as UTF-8.

    Raises:
      OSError: the file could not be written.
      UnicodeEncodeError: ``text`` holds half of a surrogate pair.
    """
    with replaced_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
