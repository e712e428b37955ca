"""The model of the experiments of arXiv:2501.19215: one attention layer, an MLP, a logit per token.

    x⁰ = embed(tokens),  x ← x + dropout(Att(x)),  x ← x + dropout(FFN(x)),  logit_i = head(x_i)

with Att any of the four mechanisms. Embedding, layers and head are separate modules.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from flax import linen
from jax.typing import DTypeLike

from neurips25.attention.strassen import StrassenMethod
from neurips25.attention.triple_modules import TripleAttention, triple_self_attention

_XAVIER = linen.initializers.xavier_uniform()
_KAIMING = linen.initializers.he_uniform()
_EMBED = linen.initializers.normal(1.0)
_NORM_EPS = 1e-6


class FieldEmbedding(linen.Module):
    """Sum of one learned table per integer field of a token.

    Attributes:
      sizes: exclusive upper bound of each field.
      features: width of the result.
      dtype: of the computation.
    """

    sizes: Sequence[int]
    features: int
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, tokens: jax.Array) -> jax.Array:
        """[..., F] integers -> [..., features]."""
        if tokens.shape[-1] != len(self.sizes) or not jnp.issubdtype(tokens.dtype, jnp.integer):
            raise ValueError(
                f"tokens has shape {tokens.shape} and dtype {tokens.dtype}, needs integers "
                f"[..., {len(self.sizes)}]"
            )
        tables = [
            linen.Embed(
                size, self.features, dtype=self.dtype, embedding_init=_EMBED, name=f"field_{i}"
            )
            for i, size in enumerate(self.sizes)
        ]
        return sum((table(tokens[..., i]) for i, table in enumerate(tables)), jnp.zeros(()))


class ReLUFeedForward(linen.Module):
    """``depth`` times dropout, Linear, ReLU; the last layer is rectified too.

    Attributes:
      depth: number of layers, all of the input's width.
      dropout: rate before each.
      dtype: of the computation.
    """

    depth: int = 3
    dropout: float = 0.0
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: jax.Array, deterministic: bool = True) -> jax.Array:
        """[..., C] -> [..., C]."""
        for _ in range(self.depth):
            x = linen.Dropout(self.dropout)(x, deterministic=deterministic)
            x = linen.Dense(x.shape[-1], kernel_init=_KAIMING, dtype=self.dtype)(x)
            x = jax.nn.relu(x)
        return x


class TokenClassifier(linen.Module):
    """A logit per token: dropout, Linear, ReLU, dropout, Linear to one.

    Attributes:
      dropout: rate before both layers.
      dtype: of the computation.
    """

    dropout: float = 0.0
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(self, x: jax.Array, deterministic: bool = True) -> jax.Array:
        """[..., C] -> [...], float32 at least."""
        for width in (x.shape[-1], 1):
            x = linen.Dropout(self.dropout)(x, deterministic=deterministic)
            x = linen.Dense(width, kernel_init=_XAVIER, dtype=self.dtype)(x)
            x = jax.nn.relu(x) if width != 1 else x
        return x[..., 0].astype(jnp.promote_types(x.dtype, jnp.float32))


class TripleEncoder(linen.Module):
    """``num_layers`` times attention and :class:`ReLUFeedForward`, each with a residual.

    Attributes:
      attention: the mechanism of all layers.
      num_layers, num_heads: of the stack; the width is that of the input.
      method: of evaluation, for Strassen attention.
      ffn_depth: layers of each MLP.
      dropout: rate on every residual branch and inside the MLPs; none inside attention.
      use_norm: LayerNorm of the stream before each branch; the paper's reported runs have none.
      out_proj: output projection of attention; the paper's layers have none.
      dtype: of the computation.
    """

    attention: TripleAttention | str = TripleAttention.STRASSEN
    num_layers: int = 1
    num_heads: int = 1
    method: StrassenMethod | str = StrassenMethod.STABLE
    ffn_depth: int = 3
    dropout: float = 0.0
    use_norm: bool = False
    out_proj: bool = False
    dtype: DTypeLike = jnp.float32

    @linen.compact
    def __call__(
        self,
        x: jax.Array,
        mask: jax.Array | None = None,
        queries: Sequence[int] | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """The stream after all layers.

        Args:
          x: [B, n, C].
          mask: bool [B, n], True where a token is real.
          queries: positions whose result is wanted; the last layer is evaluated for these alone.
          deterministic: no dropout; else an rng named ``dropout`` is needed.

        Returns:
          [B, n, C], or [B, len(queries), C].
        """
        for layer in range(self.num_layers):
            own = queries if layer == self.num_layers - 1 else None
            x = self._norm(x)
            y = triple_self_attention(
                self.attention,
                self.num_heads,
                method=self.method,
                out_proj=self.out_proj,
                dtype=self.dtype,
                name=f"attention_{layer}",
            )(x, mask, own)
            x = x if own is None else x[:, jnp.asarray(own)]
            x = self._norm(x + self._drop(y, deterministic))
            y = ReLUFeedForward(self.ffn_depth, self.dropout, self.dtype, name=f"ffn_{layer}")(
                x, deterministic
            )
            x = x + self._drop(y, deterministic)
        return x

    def _norm(self, x: jax.Array) -> jax.Array:
        return linen.LayerNorm(_NORM_EPS, dtype=self.dtype)(x) if self.use_norm else x

    def _drop(self, x: jax.Array, deterministic: bool) -> jax.Array:
        return linen.Dropout(self.dropout)(x, deterministic=deterministic)


class TripleClassifier(linen.Module):
    """Embedding, :class:`TripleEncoder` and :class:`TokenClassifier`: a logit per token.

    Attributes:
      d_model: width of the stream.
      encoder: an unbound encoder.
      field_sizes: upper bounds of the integer fields of a token, for learned tables; None takes
        real-valued features through a Linear layer.
      dropout: rate in the classifier.
    """

    d_model: int
    encoder: TripleEncoder
    field_sizes: Sequence[int] | None = None
    dropout: float = 0.0

    @linen.compact
    def __call__(
        self,
        inputs: jax.Array,
        mask: jax.Array | None = None,
        queries: Sequence[int] | None = None,
        deterministic: bool = True,
    ) -> jax.Array:
        """Logits of the tokens.

        Args:
          inputs: int [B, n, F] fields where ``field_sizes`` is given, else float [B, n, k].
          mask: bool [B, n], True where a token is real.
          queries: positions whose logit is wanted, None for all.
          deterministic: no dropout; else an rng named ``dropout`` is needed.

        Returns:
          [B, n] or [B, len(queries)].
        """
        dtype = self.encoder.dtype
        if self.field_sizes is None:
            x = linen.Dense(self.d_model, kernel_init=_XAVIER, dtype=dtype, name="embed")(inputs)
        else:
            x = FieldEmbedding(self.field_sizes, self.d_model, dtype, name="embed")(inputs)
        x = self.encoder(x, mask, queries, deterministic)
        return TokenClassifier(self.dropout, dtype, name="classifier")(x, deterministic)
