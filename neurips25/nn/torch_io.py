"""Parameters in the names and layouts of PyTorch, to ours and back.

A model's mapping is a list of :class:`TorchEntry`, one per parameter. PyTorch keeps a linear map
as ``[out, in]``; ours have the input axis first. torch itself is not needed.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import safetensors
import safetensors.numpy

# What torch.compile and data parallelism put in front of the names of the model they wrap.
_WRAPPERS = re.compile(r"^(?:(?:_orig_mod|module)\.)+")


class TorchEntry(NamedTuple):
    """One parameter there and here.

    Attributes:
      theirs: its name in the state dict.
      ours: its path in our pytree, names joined with ``/``.
      shape: of their array.
      load: their array to ours.
      dump: ours to theirs.
    """

    theirs: str
    ours: str
    shape: tuple[int, ...]
    load: Callable[[np.ndarray], np.ndarray]
    dump: Callable[[np.ndarray], np.ndarray]


def dense_entry(theirs: str, ours: str, d_in: int, *out: int) -> TorchEntry:
    """A linear map: theirs ``[prod(out), d_in]``, ours ``[d_in, *out]``.

    >>> dense_entry("fc.weight", "fc/w", 3, 2).load(np.arange(6).reshape(2, 3)).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    return TorchEntry(
        theirs,
        ours,
        (int(np.prod(out)), d_in),
        lambda w: w.T.reshape(d_in, *out),
        lambda p: p.reshape(d_in, -1).T,
    )


def same_entry(theirs: str, ours: str, *shape: int) -> TorchEntry:
    """An array that both keep alike: a bias, the scale of a norm, an embedding."""
    return TorchEntry(theirs, ours, shape, lambda w: w, lambda p: p)


def prefixed_entries(entries: Sequence[TorchEntry], theirs: str, ours: str) -> list[TorchEntry]:
    """The entries of a part inside a larger model.

    Args:
      entries: of the part.
      theirs: put in front of their names, ``"layers.0.attn."``.
      ours: put in front of our paths, ``"block_0/attn/"``.
    """
    return [e._replace(theirs=theirs + e.theirs, ours=ours + e.ours) for e in entries]


def read_torch_state(
    state_dict: Mapping[str, Any] | str | os.PathLike[str],
) -> dict[str, np.ndarray]:
    """A state dict as numpy arrays.

    Args:
      state_dict: name -> array (numpy, or anything ``np.asarray`` takes), or the path of a
        safetensors file.

    Returns:
      Name -> array. Prefixes left by ``torch.compile`` or data parallelism are taken off.

    Raises:
      FileNotFoundError: no such file.
      ValueError: not a safetensors file, or a damaged one.

    >>> list(read_torch_state({"_orig_mod.module.edge_module.weight": 0.0}))
    ['edge_module.weight']
    """
    if isinstance(state_dict, (str, os.PathLike)):
        try:
            state_dict = safetensors.numpy.load_file(os.fspath(state_dict))
        except safetensors.SafetensorError as error:
            raise ValueError(f"{state_dict}: not a whole safetensors file: {error}") from error
    return {_WRAPPERS.sub("", name): np.asarray(value) for name, value in state_dict.items()}


def params_from_torch(
    state_dict: Mapping[str, Any] | str | os.PathLike[str],
    entries: Sequence[TorchEntry],
    what: str,
) -> dict[str, Any]:
    """Parameters of a PyTorch checkpoint as our pytree.

    Args:
      state_dict: as for :func:`read_torch_state`.
      entries: all parameters of the model.
      what: how to call the model in an error.

    Returns:
      Nested dicts of float32 arrays (float64 stays float64).

    Raises:
      FileNotFoundError: no such file.
      ValueError: a parameter is missing, has another shape, or is not known to this model (all
        of them listed), or the file is damaged.

    >>> entries = [dense_entry("fc.weight", "fc/w", 3, 2), same_entry("fc.bias", "fc/b", 2)]
    >>> params = params_from_torch({"fc.weight": np.ones((2, 3)), "fc.bias": [0, 1]}, entries, "fc")
    >>> params["fc"]["w"].shape, params["fc"]["b"]
    ((3, 2), array([0., 1.], dtype=float32))
    """
    arrays = read_torch_state(state_dict)
    problems = [f"{e.theirs} is missing" for e in entries if e.theirs not in arrays]
    problems += [f"{n} is not known" for n in sorted(set(arrays) - {e.theirs for e in entries})]
    problems += [
        f"{e.theirs} has shape {arrays[e.theirs].shape}, needs {e.shape}"
        for e in entries
        if e.theirs in arrays and arrays[e.theirs].shape != e.shape
    ]
    if problems:
        raise ValueError(f"state_dict does not fit this {what}: " + "; ".join(problems))

    params: dict[str, Any] = {}
    for entry in entries:
        *parents, last = entry.ours.split("/")
        node = params
        for parent in parents:
            node = node.setdefault(parent, {})
        array = arrays[entry.theirs]
        kept = array if array.dtype == np.float64 else array.astype(np.float32)
        node[last] = np.asarray(entry.load(kept), order="C")
    return params


def params_to_torch(
    params: Mapping[str, Any], entries: Sequence[TorchEntry]
) -> dict[str, np.ndarray]:
    """The way back.

    Args:
      params: nested dicts of arrays.
      entries: all parameters of the model.

    Returns:
      Name -> numpy array; save it with ``safetensors.numpy.save_file`` or feed it to
      ``load_state_dict``.

    Raises:
      KeyError: ``params`` is of another model.
    """
    out = {}
    for entry in entries:
        leaf: Any = params
        for name in entry.ours.split("/"):
            leaf = leaf[name]
        out[entry.theirs] = np.asarray(entry.dump(np.asarray(leaf)), order="C")
    return out
