"""T6: a decoder-only language model with Tensor Product Attention (or a baseline) inside.

Yifan Zhang, Yifeng Liu, Huizhuo Yuan, Zhen Qin, Yang Yuan, Quanquan Gu, Andrew Chi-Chih Yao:
"Tensor Product Attention Is All You Need", NeurIPS 2025, arXiv:2501.06425.

    x <- x + Attention(RMSNorm(x));   x <- x + SwiGLU(RMSNorm(x));   logits = RMSNorm(x) Wte^T

The norms have no learned weight, the output matrix is the embedding, there is no position
embedding (RoPE acts inside attention), and both output projections of a block start at
zero, so that a fresh model's logits depend on the embedding alone. All kinds of
:class:`~neurips25.attention.AttentionKind` share this model; only the token mixer differs.
"""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen

from neurips25.attention import AttentionConfig, init_cache, self_attention
from neurips25.data import IGNORE_INDEX
from neurips25.nn import SwiGLU, constrain_batch, masked_mean, rms_norm, uniform_init


@dataclasses.dataclass(frozen=True)
class T6Config(AttentionConfig):
    """Sizes of the whole model; the attention fields are those of the base class.

    Raises:
      ValueError: a size below 1 (or what the base class refuses).

    >>> T6Config(n_embd=768, n_head=34, head_dim=64).ffn_hidden
    2048
    """

    vocab_size: int = 50304
    """Number of token ids V."""
    n_layer: int = 12
    """Blocks L."""
    block_size: int = 1024
    """Training context in tokens; RoPE itself sets no limit."""
    ffn_hidden: int = 0
    """Width of SwiGLU; 0 means floor(8 n_embd / 3)."""
    tie_embeddings: bool = True
    """Use the embedding as output matrix."""
    scan_layers: bool = False
    """Run full-sequence passes as one scan over the layers: compiles once for all of them,
    at the price of a stacked copy of the block parameters. Parameters keep their names."""
    remat: bool = False
    """Recompute each block in the backward pass instead of storing its activations."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.ffn_hidden:
            object.__setattr__(self, "ffn_hidden", 8 * self.n_embd // 3)
        for name in ("vocab_size", "n_layer", "block_size", "ffn_hidden"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)!r} must be at least 1")


class T6Block(linen.Module):
    """Pre-norm block: attention, then SwiGLU, each added to the stream.

    ``(x [B, T, d], positions [T] or [B, T], cache, decode) -> (x [B, T, d], cache)``; the
    cache is None when None was given.
    """

    cfg: T6Config

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: Any = None,
        decode: bool = False,
    ) -> tuple[jax.Array, Any]:
        x = constrain_batch(x)
        attention = self_attention(self.cfg, name="attn")
        out = attention(rms_norm(x), positions, cache, decode)
        y, cache = (out, None) if cache is None else out
        x = x + y
        x = x + SwiGLU(self.cfg.ffn_hidden, dtype=self.cfg.dtype, name="mlp")(rms_norm(x))
        return x, cache


def _scan_blocks(
    cfg: T6Config, params: list[Any], x: jax.Array, positions: jax.Array | None
) -> jax.Array:
    def body(x: jax.Array, block: Any) -> tuple[jax.Array, None]:
        return T6Block(cfg, parent=None).apply({"params": block}, x, positions)[0], None

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params)
    return jax.lax.scan(jax.checkpoint(body) if cfg.remat else body, x, stacked)[0]


class T6LM(linen.Module):
    """The language model.

    Parameters: ``wte`` [V, d], ``block_i/attn/...``, ``block_i/mlp/{w1,w2,w3}`` and, when
    embeddings are not tied, ``lm_head`` [V, d].
    """

    cfg: T6Config

    @linen.compact
    def __call__(
        self,
        tokens: jax.Array,
        cache: tuple[Any, ...] | None = None,
        positions: jax.Array | None = None,
        decode: bool = False,
    ) -> Any:
        """Next-token logits, with or without a cache.

        Args:
          tokens: [B, T] integer token ids.
          cache: one cache per layer, from :func:`init_lm_cache`.
          positions: [T] or [B, T] int32 absolute positions, default 0..T-1. When decoding,
            the rows of the cache that the tokens are written to.
          decode: with a cache, False fills its rows 0..T-1 with a prompt (prefill), True
            appends the tokens at ``positions`` and attends over everything before them.

        Returns:
          Logits [B, T, V] in float32 (float64 for a float64 model); with a cache
          ``(logits, cache)``.

        Raises:
          ValueError: ``tokens`` is not [B, T], or ``cache`` has another number of layers.

        Source: arXiv:2501.06425, sec. 3 and appendix G.
        """
        cfg = self.cfg
        if tokens.ndim != 2:
            raise ValueError(f"tokens has shape {tokens.shape}, needs [batch, time]")
        if cache is not None and len(cache) != cfg.n_layer:
            raise ValueError(f"cache has {len(cache)} layers, the model has {cfg.n_layer}")
        init = uniform_init(1 / math.sqrt(cfg.n_embd))
        wte = self.param("wte", init, (cfg.vocab_size, cfg.n_embd))
        head = wte
        if not cfg.tie_embeddings:
            head = self.param("lm_head", init, (cfg.vocab_size, cfg.n_embd))

        x = jnp.take(wte, tokens, axis=0).astype(cfg.dtype)
        caches = []
        if cfg.scan_layers and cache is None and not self.is_initializing():
            blocks = [self.variables["params"][f"block_{i}"] for i in range(cfg.n_layer)]
            x = _scan_blocks(cfg, blocks, x, positions)
        else:
            block_class = linen.remat(T6Block, static_argnums=(4,)) if cfg.remat else T6Block
            for i in range(cfg.n_layer):
                layer_cache = None if cache is None else cache[i]
                block = block_class(cfg, name=f"block_{i}")
                x, layer_cache = block(x, positions, layer_cache, decode)
                caches.append(layer_cache)
        logits = jnp.einsum(
            "btd,vd->btv",
            rms_norm(constrain_batch(x)),
            head.astype(cfg.dtype),
            preferred_element_type=jnp.promote_types(cfg.dtype, jnp.float32),
        )
        return logits if cache is None else (logits, tuple(caches))


def init_lm_cache(
    cfg: T6Config, batch: int, max_len: int, dtype: Any = jnp.float32
) -> tuple[Any, ...]:
    """Empty caches for all layers.

    Args:
      cfg: the model.
      batch: sequences B.
      max_len: rows M: prompt and generated tokens together.
      dtype: of the cached numbers.

    Returns:
      ``n_layer`` caches with leaves ``[B, M, ...]``.
    """
    return tuple(init_cache(cfg.attention, cfg, batch, max_len, dtype) for _ in range(cfg.n_layer))


def cross_entropy(logits: jax.Array, targets: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Mean negative log-likelihood of the targets that are not :data:`IGNORE_INDEX`.

    Args:
      logits: [..., V]; computed in float32 at least.
      targets: [...] integer ids, -1 where there is no target.

    Returns:
      Scalar loss in nats per token, and the number of targets as a float32 scalar.

    Raises:
      ValueError: shapes that do not belong together.

    >>> loss, count = cross_entropy(jnp.zeros((1, 3, 4)), jnp.array([[0, 3, -1]]))
    >>> round(float(loss), 4), float(count)
    (1.3863, 2.0)
    """
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets has shape {targets.shape}, logits of shape {logits.shape} "
            f"need {logits.shape[:-1]}"
        )
    valid = targets != IGNORE_INDEX
    logits = logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, jnp.where(valid, targets, 0))
    return masked_mean(losses, valid)
