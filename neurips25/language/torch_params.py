"""Parameters of the released PyTorch models to ours and back.

PyTorch stores linear maps as ``[out, in]``; rows of the head-side factors are head-major
(row = head * R + r), rows of the feature-side factors rank-major (row = r * D + feature).
Ours are ``[in, R, H]`` and ``[in, R, D]``. Covered are the models ``T6``, ``T6_kvonly``,
``llama-mha``, ``llama-gqa`` (MQA included) and ``llama-mla``.
"""

import os
import pathlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy

from neurips25.attention import AttentionConfig, AttentionKind
from neurips25.attention.config import num_kv_heads
from neurips25.language.t6 import T6Config

_WRAPPERS = ("_orig_mod.", "module.")


class _Entry(NamedTuple):
    theirs: str
    ours: str
    shape: tuple[int, ...]  # of their array
    load: Callable[[np.ndarray], np.ndarray]
    dump: Callable[[np.ndarray], np.ndarray]


def _dense(theirs: str, ours: str, d_in: int, *out: int) -> _Entry:
    # [prod(out), d_in] <-> [d_in, *out]
    return _Entry(
        theirs,
        ours,
        (int(np.prod(out)), d_in),
        lambda w: w.T.reshape(d_in, *out),
        lambda p: p.reshape(d_in, -1).T,
    )


def _head_factor(theirs: str, ours: str, d: int, rank: int, heads: int) -> _Entry:
    # [heads * rank, d] <-> [d, rank, heads]
    return _Entry(
        theirs,
        ours,
        (heads * rank, d),
        lambda w: w.reshape(heads, rank, d).transpose(2, 1, 0),
        lambda p: p.transpose(2, 1, 0).reshape(heads * rank, d),
    )


def _output(theirs: str, ours: str, heads: int, dim: int, d: int) -> _Entry:
    # [d, heads * dim] <-> [heads, dim, d]
    return _Entry(
        theirs,
        ours,
        (d, heads * dim),
        lambda w: w.T.reshape(heads, dim, d),
        lambda p: p.reshape(heads * dim, d).T,
    )


def _vector(theirs: str, ours: str, *shape: int) -> _Entry:
    return _Entry(theirs, ours, shape, lambda w: w, lambda p: p)


def _attention_entries(cfg: AttentionConfig) -> list[_Entry]:
    d, h, dh = cfg.n_embd, cfg.n_head, cfg.head_dim
    kind = cfg.attention
    entries = [_output("c_proj.weight", "wo", h, dh, d)]
    if cfg.groupnorm:
        entries.append(_vector("subln.weight", "head_norm", dh))
    if kind in (AttentionKind.MHA, AttentionKind.GQA, AttentionKind.MQA):
        groups = num_kv_heads(kind, cfg)
        for name, heads in (("q", h), ("k", groups), ("v", groups)):
            entries.append(_dense(f"c_{name}.weight", f"w{name}", d, heads, dh))
    elif kind is AttentionKind.MLA:
        dq, dc, dr = cfg.q_latent_dim, cfg.kv_latent_dim, cfg.rope_head_dim
        entries += [
            _dense("q_a_proj.weight", "w_dq", d, dq),
            _vector("q_a_layernorm.weight", "q_norm", dq),
            _dense("q_b_proj.weight", "w_uq", dq, h, dh + dr),
            _dense("kv_a_proj_with_mqa.weight", "w_dkv", d, dc + dr),
            _vector("kv_a_layernorm.weight", "kv_norm", dc),
            _dense("kv_b_proj.weight", "w_ukv", dc, h, 2 * dh),
        ]
    elif kind in (AttentionKind.TPA, AttentionKind.TPA_KVONLY) and not cfg.shared_b:
        ranks = {"q": cfg.rank_q, "k": cfg.rank_k, "v": cfg.rank_v}
        if kind is AttentionKind.TPA_KVONLY:
            entries.append(_dense("c_qkv.c_q.weight", "wq", d, h, dh))
            del ranks["q"]
        for name, rank in ranks.items():
            entries += [
                _head_factor(f"c_qkv.W_A_{name}.weight", f"wa_{name}", d, rank, h),
                _dense(f"c_qkv.W_B_{name}.weight", f"wb_{name}", d, rank, dh),
            ]
    else:
        what = f"{kind.value!r}{' with shared_b' if cfg.shared_b else ''}"
        raise ValueError(f"attention={what} has no counterpart among the released PyTorch models")
    return entries


def _entries(cfg: T6Config) -> list[_Entry]:
    d, hidden = cfg.n_embd, cfg.ffn_hidden
    block = [
        e._replace(theirs=f"attn.{e.theirs}", ours=f"attn/{e.ours}")
        for e in _attention_entries(cfg)
    ] + [
        _dense("mlp.c_fc1.weight", "mlp/w1", d, hidden),
        _dense("mlp.c_fc2.weight", "mlp/w2", d, hidden),
        _dense("mlp.c_proj.weight", "mlp/w3", hidden, d),
    ]
    entries = [_vector("transformer.wte.weight", "wte", cfg.vocab_size, d)]
    if not cfg.tie_embeddings:
        entries.append(_vector("lm_head.weight", "lm_head", cfg.vocab_size, d))
    for i in range(cfg.n_layer):
        entries += [
            e._replace(theirs=f"transformer.h.{i}.{e.theirs}", ours=f"block_{i}/{e.ours}")
            for e in block
        ]
    return entries


def _plain_name(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


def _converted(
    arrays: Mapping[str, np.ndarray], entries: list[_Entry], what: str
) -> dict[str, Any]:
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
        node[last] = np.ascontiguousarray(entry.load(kept))
    return params


def attention_params_from_torch(
    state_dict: Mapping[str, Any], cfg: AttentionConfig
) -> dict[str, np.ndarray]:
    """Parameters of one released PyTorch attention layer, for the layer that ``cfg`` names.

    Args:
      state_dict: name -> array, with the names that the layer itself uses: ``c_proj.weight``
        and ``c_q.weight``, ``c_qkv.W_A_q.weight``, ``q_a_proj.weight``, ... by kind.
      cfg: the layer.

    Returns:
      Name -> float32 array (float64 stays float64), as in
      :func:`~neurips25.attention.self_attention`.

    Raises:
      ValueError: a parameter is missing, has another shape, or is not known to this layer
        (all of them listed), or the kind has no PyTorch counterpart.
    """
    arrays = {name: np.asarray(value) for name, value in state_dict.items()}
    return _converted(arrays, _attention_entries(cfg), f"{cfg.attention.value} layer")


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
      ValueError: a parameter is missing, has another shape, or is not known to this model
        (all of them listed), the tied matrices differ, or the kind has no PyTorch counterpart.
    """
    if isinstance(state_dict, (str, os.PathLike)):
        state_dict = safetensors.numpy.load_file(pathlib.Path(state_dict))
    arrays = {_plain_name(name): np.asarray(value) for name, value in state_dict.items()}
    head = None if not cfg.tie_embeddings else arrays.pop("lm_head.weight", None)
    entries = _entries(cfg)
    if head is not None and "transformer.wte.weight" not in arrays:
        arrays["transformer.wte.weight"] = head
    elif head is not None and not np.array_equal(head, arrays["transformer.wte.weight"]):
        raise ValueError("lm_head.weight differs from transformer.wte.weight: not tied")
    return _converted(arrays, entries, f"{cfg.attention.value} model")


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
    out = {}
    for entry in _entries(cfg):
        leaf: Any = params
        for name in entry.ours.split("/"):
            leaf = leaf[name]
        out[entry.theirs] = np.ascontiguousarray(entry.dump(np.asarray(leaf)))
    if cfg.tie_embeddings:
        out["lm_head.weight"] = out["transformer.wte.weight"].copy()
    return out
