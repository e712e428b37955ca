"""Parameters of the released T6 models in PyTorch to ours and back.

Covered are the models ``T6``, ``T6_kvonly``, ``llama-mha``, ``llama-gqa`` (MQA included) and
``llama-mla``; their attention layers are those of ``neurips25/attention/torch_params.py``.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from neurips25.attention import attention_torch_entries
from neurips25.language.t6 import T6Config
from neurips25.nn import (
    TorchEntry,
    dense_entry,
    params_from_torch,
    params_to_torch,
    prefixed_entries,
    read_torch_state,
    same_entry,
)


def t6_params_from_torch(
    state_dict: Mapping[str, Any] | str | os.PathLike[str], cfg: T6Config
) -> dict[str, Any]:
    """Parameters of a released PyTorch checkpoint as a pytree for :class:`T6LM`.

    Args:
      state_dict: name -> array (numpy, or anything ``np.asarray`` takes), or the path of a
        safetensors file. Prefixes left by ``torch.compile`` or data parallelism are ignored.
      cfg: the model the checkpoint is of.

    Returns:
      Nested dicts of float32 arrays (float64 stays float64).

    Raises:
      FileNotFoundError: no such file.
      ValueError: a parameter is missing, has another shape, or is not known to this model
        (all of them listed), the tied matrices differ, the file is damaged, or the kind has no
        PyTorch counterpart.
    """
    entries = _entries(cfg)
    arrays = read_torch_state(state_dict)
    head = None if not cfg.tie_embeddings else arrays.pop("lm_head.weight", None)
    if head is not None and "transformer.wte.weight" not in arrays:
        arrays["transformer.wte.weight"] = head
    elif head is not None and not np.array_equal(head, arrays["transformer.wte.weight"]):
        raise ValueError("lm_head.weight differs from transformer.wte.weight: not tied")
    return params_from_torch(arrays, entries, f"{cfg.attention.value} model")


def t6_params_to_torch(params: Mapping[str, Any], cfg: T6Config) -> dict[str, np.ndarray]:
    """The way back: parameter names and layouts of the released PyTorch models.

    Args:
      params: parameters of :class:`T6LM`.
      cfg: the model.

    Returns:
      Name -> numpy array, ``lm_head.weight`` included; save it with
      ``safetensors.numpy.save_file`` or feed it to ``load_state_dict``.

    Raises:
      ValueError: the kind has no PyTorch counterpart.
      KeyError: ``params`` is of another model.
    """
    out = params_to_torch(params, _entries(cfg))
    if cfg.tie_embeddings:
        out["lm_head.weight"] = out["transformer.wte.weight"].copy()
    return out


def _entries(cfg: T6Config) -> list[TorchEntry]:
    d, hidden = cfg.n_embd, cfg.ffn_hidden
    block = [
        *prefixed_entries(attention_torch_entries(cfg), "attn.", "attn/"),
        dense_entry("mlp.c_fc1.weight", "mlp/w1", d, hidden),
        dense_entry("mlp.c_fc2.weight", "mlp/w2", d, hidden),
        dense_entry("mlp.c_proj.weight", "mlp/w3", hidden, d),
    ]
    entries = [same_entry("transformer.wte.weight", "wte", cfg.vocab_size, d)]
    if not cfg.tie_embeddings:
        entries.append(same_entry("lm_head.weight", "lm_head", cfg.vocab_size, d))
    for i in range(cfg.n_layer):
        entries += prefixed_entries(block, f"transformer.h.{i}.", f"block_{i}/")
    return entries
