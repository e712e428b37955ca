"""Parameters to and from safetensors files."""

import os
from typing import Any

import jax
import numpy as np
import safetensors
import safetensors.numpy

from neurips25.data import replaced_file
from neurips25.training.mesh import path_name


def save_params(path: str | os.PathLike[str], params: Any) -> None:
    """Writes nested parameters to one safetensors file.

    Args:
      path: the file; replaced only when the new one is complete.
      params: nested dicts of arrays. Names are joined with ``/``.

    Raises:
      ValueError: a name contains ``/``, or the tree holds something other than dicts.
      OSError: the file cannot be written.
    """
    flat = {}
    for keys, leaf in jax.tree_util.tree_flatten_with_path(params)[0]:
        if not all(isinstance(k, jax.tree_util.DictKey) and "/" not in str(k.key) for k in keys):
            raise ValueError(f"params: needs nested dicts with names without '/', has {keys}")
        flat[path_name(keys)] = np.asarray(leaf, order="C")
    with replaced_file(path) as partial:
        safetensors.numpy.save_file(flat, partial)


def load_params(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads parameters that :func:`save_params` wrote.

    Args:
      path: a safetensors file.

    Returns:
      Nested dicts of numpy arrays.

    Raises:
      FileNotFoundError: no such file.
      ValueError: not a safetensors file, or a damaged one.
    """
    try:
        flat = safetensors.numpy.load_file(path)
    except safetensors.SafetensorError as error:
        raise ValueError(f"{path}: not a whole safetensors file: {error}") from error
    tree: dict[str, Any] = {}
    for name, array in flat.items():
        *parents, last = name.split("/")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = array
    return tree
