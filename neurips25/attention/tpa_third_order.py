"""Third-order Tensor Product Attention: the feature side is itself an outer product.

arXiv:2501.06425, appendix C:

    Q_t = 1/R Σ_r a_r ⊗ vec(b_r ⊗ c_r),   a_r ∈ R^H, b_r ∈ R^{d_b}, c_r ∈ R^{d_c}, d_h = d_b d_c,

where vec stacks columns (flat index c·d_b + b). Rotating b_r on its interleaved pairs, in the
sense opposite to second-order TPA, is RoPE on Q_t by the block-diagonal I ⊗ R_tᵀ (theorem C.1),
so the cached factors are a, the rotated b, and c.
"""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import ArrayLike, DTypeLike

from neurips25.attention.cache import ThirdOrderCache, TPACache, first_row, update_cache
from neurips25.attention.config import AttentionConfig
from neurips25.attention.softmax import causal_attention, check_call, merge_heads
from neurips25.attention.tpa import assemble, head_factor
from neurips25.attention.tpa_decode import flash_tpa_decode
from neurips25.attention.tpa_modules import create_params, feature_start, head_start
from neurips25.nn.rope import RopeStyle, apply_rope


def third_order_assemble(a: jax.Array, b: jax.Array, c: jax.Array) -> jax.Array:
    """The slice of each token, 1/R Σ_r a_r ⊗ vec(b_r ⊗ c_r).

    Args:
      a: [..., R, H].
      b: [..., R, d_b].
      c: [..., R, d_c].

    Returns:
      [..., H, d_b d_c]; feature c·d_b + b is the product of b's entry b and c's entry c.

    Raises:
      ValueError: the leading axes or the ranks differ.

    Source: arXiv:2501.06425, appendix C.

    >>> one = jnp.ones((1, 1))
    >>> third_order_assemble(one, jnp.array([[1.0, 2.0]]), jnp.array([[1.0, 10.0]])).tolist()
    [[1.0, 2.0, 10.0, 20.0]]
    """
    return assemble(a, _vec_outer(b, c))


def rope_third_order(
    b: jax.Array,
    positions: ArrayLike,
    base: float = 1e4,
    dtype: DTypeLike | None = None,
    fraction: float = 1.0,
    decay: float = 1.0,
) -> jax.Array:
    """R_t b: each pair (u, v) = (b_{2j}, b_{2j+1}) becomes (u cos φ − v sin φ, u sin φ + v cos φ).

    φ = t base^(−2j/d_b).

    Args:
      b: [..., T, R, d_b].
      positions: [T] or [..., T].
      base, dtype, fraction, decay: as for :func:`neurips25.nn.rope.apply_rope`.

    Returns:
      The shape and dtype of ``b``.

    Raises:
      ValueError: ``positions`` does not fit ``b``.

    Source: arXiv:2501.06425, theorem C.1.

    >>> rope_third_order(jnp.array([[[1.0, 0.0]]]), jnp.array([1]))[0, 0].round(4).tolist()
    [0.5403..., 0.8414...]
    """
    return apply_rope(
        b, -jnp.asarray(positions), base, RopeStyle.INTERLEAVED, dtype, fraction, 1.0 / decay
    )


def third_order_self_attention(
    params: Mapping[str, jax.Array],
    x: jax.Array,
    cfg: AttentionConfig,
    positions: jax.Array | None = None,
    cache: ThirdOrderCache | None = None,
    decode: bool = False,
) -> jax.Array | tuple[jax.Array, ThirdOrderCache]:
    """Causal self-attention with third-order queries, keys and values.

    Args:
      params: for s in q, k, v: ``wa_s`` [d, R_s, H], ``wb_s`` [d, R_s, d_b], ``wc_s``
        [d, R_s, d_c]; ``wo`` [H, D, d], and with ``cfg.groupnorm`` also ``head_norm`` [D].
      x: [B, T, d].
      cfg: head_activation, rope options but the style, groupnorm and the compute dtype are
        read.
      positions: [T] or [B, T] int32; None is 0..T−1 (needed for decoding).
      cache: rows are written into it: 0..T−1, or with ``decode`` from ``positions[:, 0]`` on.
      decode: attend over the cache rows up to each token's position, not over ``x`` alone.

    Returns:
      y [B, T, d], or (y, new cache) where a cache is given.

    Raises:
      ValueError: shapes that do not fit, or ``decode`` without cache or positions.

    Source: arXiv:2501.06425, appendix C.
    """
    positions = check_call(x, cfg, positions, cache, decode)
    x = x.astype(cfg.dtype)

    def features(name: str) -> jax.Array:
        return jnp.einsum("btd,drn->btrn", x, params[name].astype(cfg.dtype))

    def rotated(name: str) -> jax.Array:
        return rope_third_order(
            features(name),
            positions,
            cfg.rope_base,
            cfg.rope_dtype,
            cfg.rope_fraction,
            cfg.rope_decay,
        )

    aq, bq, cq = head_factor(params, "q", x, cfg), rotated("wb_q"), features("wc_q")
    new = ThirdOrderCache(
        ak=head_factor(params, "k", x, cfg),
        bk=rotated("wb_k"),
        ck=features("wc_k"),
        av=head_factor(params, "v", x, cfg),
        bv=features("wb_v"),
        cv=features("wc_v"),
    )
    if cache is not None and decode:
        cache = update_cache(cache, new, first_row(positions))
        # With b ⊗ c formed for the rows, a step is one of second-order TPA.
        rows = TPACache(
            ak=cache.ak,
            bk=_vec_outer(cache.bk, cache.ck),
            av=cache.av,
            bv=_vec_outer(cache.bv, cache.cv),
        )
        length = jnp.broadcast_to(positions, x.shape[:2]) + 1
        y = flash_tpa_decode(aq, _vec_outer(bq, cq), rows, length)
        return merge_heads(params, y, cfg), cache
    y = causal_attention(
        third_order_assemble(aq, bq, cq),
        third_order_assemble(new.ak, new.bk, new.ck),
        third_order_assemble(new.av, new.bv, new.cv),
    )
    y = merge_heads(params, y, cfg)
    return y if cache is None else (y, update_cache(cache, new, 0))


class ThirdOrderTPASelfAttention(linen.Module):
    """Third-order TPA layer; see :func:`third_order_self_attention`."""

    cfg: AttentionConfig

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        positions: jax.Array | None = None,
        cache: ThirdOrderCache | None = None,
        decode: bool = False,
    ) -> jax.Array | tuple[jax.Array, ThirdOrderCache]:
        cfg = self.cfg
        starts = {}
        for side, rank in (("q", cfg.rank_q), ("k", cfg.rank_k), ("v", cfg.rank_v)):
            starts[f"wa_{side}"] = head_start(cfg, rank)
            starts[f"wb_{side}"] = feature_start(cfg, rank, cfg.factor_dim_b)
            starts[f"wc_{side}"] = feature_start(cfg, rank, cfg.factor_dim_c)
        params = create_params(self, cfg, starts)
        return third_order_self_attention(params, x, cfg, positions, cache, decode)


def _vec_outer(b: jax.Array, c: jax.Array) -> jax.Array:
    """vec(b ⊗ c), columns stacked: [..., d_b], [..., d_c] -> [..., d_b d_c]."""
    if b.ndim < 1 or b.shape[:-1] != c.shape[:-1]:
        raise ValueError(f"c has shape {c.shape}, needs {(*b.shape[:-1], 'd_c')} to go with b")
    return (c[..., :, None] * b[..., None, :]).reshape(*b.shape[:-1], -1)
