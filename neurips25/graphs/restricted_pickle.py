"""Pickles from strangers: numpy arrays, scipy sparse matrices and plain containers only.

A pickle is a program that may call anything it names. This reader looks every name up in a
short list and refuses the rest, so that a data file can hold data and nothing else.
"""

import collections
import copyreg
import functools
import os
import pathlib
import pickle
import re
from typing import Any

import numpy as np

from neurips25.graphs.sparse_arrays import stored_matrix


def load_data_pickle(path: str | os.PathLike[str]) -> Any:
    """Reads a pickle of data, written by Python 2 or 3.

    Args:
      path: the file.

    Returns:
      Numbers, strings, lists, tuples, dicts and numpy arrays as they were; a sparse matrix in
      CSR, CSC or COO form as ``scipy.sparse.csr_array``, with its indices checked.

    Raises:
      FileNotFoundError: if there is no such file.
      ValueError: naming the file, and what it asked for if that is anything else than the
        above; or if it is broken.
    """
    path = pathlib.Path(path)
    with open(path, "rb") as file:
        try:
            value = _DataUnpickler(file, encoding="latin1").load()
        except _NotData as error:
            raise ValueError(f"{path}: {error}") from None
        except Exception as error:
            # Broken bytes end in whatever error the opcode they hit happens to raise.
            raise ValueError(f"{path}: broken pickle: {type(error).__name__}: {error}") from error
    if isinstance(value, _StoredSparse):
        try:
            return stored_matrix(type(value).__name__[:3], vars(value))
        except (ValueError, TypeError) as error:
            raise ValueError(f"{path}: broken sparse matrix: {error}") from error
    return value


class _NotData(Exception):
    pass


class _StoredSparse:
    """Takes the attributes that scipy pickled, without running any code of scipy's on them."""


def _latin1(text: str, encoding: str = "utf-8") -> bytes:
    if encoding != "latin1":
        raise _NotData(f"asks for _codecs.encode to {encoding!r}, only latin1 bytes are data")
    return text.encode("latin1")


def _empty_bytes() -> bytes:
    return b""


# The second names are those of Python 2.
_CLASSES: dict[str, type] = {
    "builtins.dict": dict,
    "builtins.list": list,
    "builtins.object": object,
    "__builtin__.dict": dict,
    "__builtin__.list": list,
    "__builtin__.object": object,
    "collections.OrderedDict": collections.OrderedDict,
    "collections.defaultdict": collections.defaultdict,
    "numpy.dtype": np.dtype,
    "numpy.ndarray": np.ndarray,
}
# numpy keeps its own private and has moved them between versions, so its objects name them.
_FUNCTIONS: dict[str, Any] = {
    "_codecs.encode": _latin1,
    # How old protocols spell the data of an array without entries.
    "builtins.bytes": _empty_bytes,
    "__builtin__.bytes": _empty_bytes,
    "copyreg._reconstructor": copyreg._reconstructor,  # type: ignore[attr-defined]
    "copy_reg._reconstructor": copyreg._reconstructor,  # type: ignore[attr-defined]
    "numpy.core.multiarray._reconstruct": np.empty(0).__reduce__()[0],
    "numpy.core.multiarray.scalar": np.int64(0).__reduce__()[0],
    "numpy.core.numeric._frombuffer": np.empty(1).__reduce_ex__(5)[0],
}


class _DataUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        asked = f"{module}.{name}"
        if asked in _CLASSES:
            return _CLASSES[asked]
        # What a pickle names it may also set attributes of; so it gets copies of its own.
        function = _FUNCTIONS.get(re.sub(r"^numpy\._core\.", "numpy.core.", asked))
        if function is not None:
            return functools.partial(function)
        sparse = r"scipy\.sparse\.(_?(csr|csc|coo)\.)?((csr|csc|coo)_(matrix|array))"
        if re.fullmatch(sparse, asked):
            return type(name, (_StoredSparse,), {})
        raise _NotData(
            f"asks for {asked}; only numpy arrays, scipy's CSR, CSC and COO matrices, "
            "dicts and lists are read"
        )
