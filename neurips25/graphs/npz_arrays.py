"""Arrays of an ``.npz`` file, without pickles and with errors that name the file."""

import contextlib
import os
import pathlib
import zipfile
import zlib
from collections.abc import Iterator

import numpy as np

from neurips25.data import replaced_file


@contextlib.contextmanager
def errors_name(path: str | os.PathLike[str]) -> Iterator[None]:
    """Puts the name of a file before the message of a ValueError that hasn't got it."""
    try:
        yield
    except ValueError as error:
        if str(error).startswith(f"{path}: "):
            raise
        raise ValueError(f"{path}: {error}") from error


class NpzArrays:
    """The arrays of one ``.npz`` file, each read when it is asked for.

    Args:
      path: the file.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, if it isn't an ``.npz`` file.
    """

    def __init__(self, path: str | os.PathLike[str]):
        self.path = pathlib.Path(path)
        # Not np.load: it would take a .npy file too, and offer to unpickle anything else.
        if not zipfile.is_zipfile(self.path):
            with open(self.path, "rb"):
                pass
            raise ValueError(f"{self.path}: not an .npz file (or cut short)")
        with zipfile.ZipFile(self.path) as archive:
            self.names = [name.removesuffix(".npy") for name in archive.namelist()]

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def __getitem__(self, name: str) -> np.ndarray:
        """One array.

        Raises:
          ValueError: naming the file and the array, if it is missing, broken or an array of
            Python objects.
        """
        if name not in self.names:
            raise ValueError(
                f"{self.path}: has no array {name!r}, only {', '.join(sorted(self.names))}"
            )
        try:
            with np.load(self.path, allow_pickle=False) as archive:
                return archive[name]
        except (ValueError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{self.path}: array {name!r} can't be read: {error}") from error


def load_npy(path: str | os.PathLike[str]) -> np.ndarray:
    """The array of an ``.npy`` file.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, if it is broken or holds Python objects.
    """
    with open(path, "rb") as file:
        try:
            return np.lib.format.read_array(file, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise ValueError(f"{path}: not a readable .npy file: {error}") from error


def save_npz(path: str | os.PathLike[str], **arrays: np.ndarray) -> None:
    """Writes a compressed ``.npz`` file, which replaces an old one only once it is complete."""
    with replaced_file(path) as unfinished, open(unfinished, "wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)
