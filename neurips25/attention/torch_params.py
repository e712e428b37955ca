"""Parameters of the attention layers of the released T6 models in PyTorch.

Rows of the head-side factors are head-major there (row = head · R + r), rows of the feature-side
factors rank-major (row = r · D + feature). Covered are the layers of ``T6``, ``T6_kvonly``,
``llama-mha``, ``llama-gqa`` (MQA included) and ``llama-mla``.

Source: the code released with arXiv:2501.06425.
"""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from neurips25.attention.config import (
    SOFTMAX_KINDS,
    AttentionConfig,
    AttentionKind,
    num_kv_heads,
)
from neurips25.nn.torch_io import TorchEntry, dense_entry, params_from_torch, same_entry


def attention_torch_entries(cfg: AttentionConfig) -> list[TorchEntry]:
    """Names and layouts of one layer's parameters.

    Args:
      cfg: the layer.

    Returns:
      Entries with the names that the layer itself uses: ``c_proj.weight`` and ``c_q.weight``,
      ``c_qkv.W_A_q.weight``, ``q_a_proj.weight``, ... by kind.

    Raises:
      ValueError: the kind has no PyTorch counterpart.
    """
    d, h, dh = cfg.n_embd, cfg.n_head, cfg.head_dim
    kind = cfg.attention
    entries = [_output("c_proj.weight", "wo", h, dh, d)]
    if cfg.groupnorm:
        entries.append(same_entry("subln.weight", "head_norm", dh))
    if kind in SOFTMAX_KINDS:
        groups = num_kv_heads(kind, cfg)
        for name, heads in (("q", h), ("k", groups), ("v", groups)):
            entries.append(dense_entry(f"c_{name}.weight", f"w{name}", d, heads, dh))
    elif kind is AttentionKind.MLA:
        dq, dc, dr = cfg.q_latent_dim, cfg.kv_latent_dim, cfg.rope_head_dim
        entries += [
            dense_entry("q_a_proj.weight", "w_dq", d, dq),
            same_entry("q_a_layernorm.weight", "q_norm", dq),
            dense_entry("q_b_proj.weight", "w_uq", dq, h, dh + dr),
            dense_entry("kv_a_proj_with_mqa.weight", "w_dkv", d, dc + dr),
            same_entry("kv_a_layernorm.weight", "kv_norm", dc),
            dense_entry("kv_b_proj.weight", "w_ukv", dc, h, 2 * dh),
        ]
    elif kind in (AttentionKind.TPA, AttentionKind.TPA_KVONLY) and not cfg.shared_b:
        ranks = {"q": cfg.rank_q, "k": cfg.rank_k, "v": cfg.rank_v}
        if kind is AttentionKind.TPA_KVONLY:
            entries.append(dense_entry("c_qkv.c_q.weight", "wq", d, h, dh))
            del ranks["q"]
        for name, rank in ranks.items():
            entries += [
                _head_factor(f"c_qkv.W_A_{name}.weight", f"wa_{name}", d, rank, h),
                dense_entry(f"c_qkv.W_B_{name}.weight", f"wb_{name}", d, rank, dh),
            ]
    else:
        what = f"{kind.value!r}{' with shared_b' if cfg.shared_b else ''}"
        raise ValueError(f"attention={what} has no counterpart among the released PyTorch models")
    return entries


def attention_params_from_torch(
    state_dict: Mapping[str, Any] | str | os.PathLike[str], cfg: AttentionConfig
) -> dict[str, np.ndarray]:
    """Parameters of one released PyTorch attention layer, for the layer that ``cfg`` names.

    Args:
      state_dict: name -> array (numpy, or anything ``np.asarray`` takes), or the path of a
        safetensors file, with the names of :func:`attention_torch_entries`.
      cfg: the layer.

    Returns:
      Name -> float32 array (float64 stays float64), as in
      :func:`~neurips25.attention.self_attention`.

    Raises:
      ValueError: a parameter is missing, has another shape, or is not known to this layer
        (all of them listed), or the kind has no PyTorch counterpart.
    """
    return params_from_torch(
        state_dict, attention_torch_entries(cfg), f"{cfg.attention.value} layer"
    )


def _head_factor(theirs: str, ours: str, d: int, rank: int, heads: int) -> TorchEntry:
    # [heads * rank, d] <-> [d, rank, heads]
    return TorchEntry(
        theirs,
        ours,
        (heads * rank, d),
        lambda w: w.reshape(heads, rank, d).transpose(2, 1, 0),
        lambda p: p.transpose(2, 1, 0).reshape(heads * rank, d),
    )


def _output(theirs: str, ours: str, heads: int, dim: int, d: int) -> TorchEntry:
    # [d, heads * dim] <-> [heads, dim, d]
    return TorchEntry(
        theirs,
        ours,
        (d, heads * dim),
        lambda w: w.T.reshape(heads, dim, d),
        lambda p: p.reshape(heads * dim, d).T,
    )
