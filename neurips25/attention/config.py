"""What one attention layer is: its kind, its sizes and its options, checked once.

Every function of this package that takes a ``cfg`` only reads attributes of
:class:`AttentionConfig`, so a model config that subclasses it can be passed as it is.
"""

import dataclasses
import enum
import numbers

import jax.numpy as jnp
from jax.typing import DTypeLike

from neurips25.nn.enums import parse_enum
from neurips25.nn.rope import RopeStyle


class AttentionKind(enum.StrEnum):
    """The token mixers of arXiv:2501.06425, table 1, plus the third-order variant."""

    MHA = "mha"
    MQA = "mqa"
    GQA = "gqa"
    MLA = "mla"
    TPA = "tpa"
    TPA_KVONLY = "tpa_kvonly"
    TPA_NC_A = "tpa_nc_a"
    TPA_NC_B = "tpa_nc_b"
    TPA3 = "tpa3"


class HeadActivation(enum.StrEnum):
    """What is applied to the head-side (A) factors after their linear map."""

    IDENTITY = "identity"
    SIGMOID = "sigmoid"
    SOFTMAX = "softmax"  # over the heads


class InitScheme(enum.StrEnum):
    """Bounds of the Xavier-uniform start of the TPA factors.

    PAPER: fans of the merged matrix, as the paper's appendix G states. REPO: the fans that
    the released code ends up with because it initialises a 3-D view of the weight.
    """

    PAPER = "paper"
    REPO = "repo"


SOFTMAX_KINDS = (AttentionKind.MHA, AttentionKind.MQA, AttentionKind.GQA)
"""Kinds with ordinary key and value heads."""


@dataclasses.dataclass(frozen=True)
class AttentionConfig:
    """Sizes and options of one attention layer (arXiv:2501.06425).

    ``n_head * head_dim`` need not equal ``n_embd``. Enum fields also take their text, and
    dtypes their name. Hashable, so it can be a static argument of ``jax.jit``.

    Raises:
      ValueError: an option out of its range, or two that contradict each other.

    >>> AttentionConfig(n_embd=128, n_head=16, head_dim=16, attention="tpa", rank_q=4).rank_q
    4
    """

    n_embd: int
    """Width d of the residual stream."""
    n_head: int
    """Query heads h."""
    head_dim: int
    """Features d_h per head; even."""
    attention: AttentionKind = AttentionKind.TPA
    num_kv_groups: int = 1
    """Key/value heads G of GQA (MQA always has one, MHA one per query head)."""

    rank_q: int = 6
    rank_k: int = 2
    rank_v: int = 2
    factor_dim_b: int = 8
    """d_b of third-order TPA; d_c = head_dim // d_b."""
    shared_b: bool = False
    """TPA with one feature-side factor b for keys and values; needs rank_k == rank_v."""
    head_activation: HeadActivation = HeadActivation.IDENTITY

    q_latent_dim: int = 512
    """MLA: width d'_c of the query latent."""
    kv_latent_dim: int = 256
    """MLA: width d_c of the cached latent."""
    rope_head_dim: int = 32
    """MLA: rotated features d_h^R per head; even."""

    rope_base: float = 1e4
    rope_style: RopeStyle = RopeStyle.HALF
    rope_dtype: DTypeLike | None = None
    """Rounds the cos/sin tables to this dtype (the released code: bfloat16)."""
    rope_fraction: float = 1.0
    """Share of the features that is rotated."""
    rope_decay: float = 1.0
    """The rotated part is multiplied by decay ** (t theta_j)."""

    groupnorm: bool = False
    """RMSNorm over the features of each head's output, one learned scale for all heads."""
    init: InitScheme = InitScheme.PAPER
    dtype: DTypeLike = jnp.float32
    """Compute dtype; parameters stay float32."""

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("attention", parse_enum(AttentionKind, self.attention, "attention"))
        put("head_activation", parse_enum(HeadActivation, self.head_activation, "head_activation"))
        put("rope_style", parse_enum(RopeStyle, self.rope_style, "rope_style"))
        put("init", parse_enum(InitScheme, self.init, "init"))
        put("dtype", jnp.dtype(self.dtype))
        if self.rope_dtype is not None:
            put("rope_dtype", jnp.dtype(self.rope_dtype))
        self._check_sizes()
        self._check_kind()

    def _check_sizes(self) -> None:
        for name in (
            "n_embd",
            "n_head",
            "head_dim",
            "num_kv_groups",
            "rank_q",
            "rank_k",
            "rank_v",
            "factor_dim_b",
            "q_latent_dim",
            "kv_latent_dim",
            "rope_head_dim",
        ):
            value = getattr(self, name)
            whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
            if not whole or value < 1:
                raise ValueError(f"{name}={value!r} must be an integer >= 1")
            object.__setattr__(self, name, int(value))
        if self.head_dim % 2:
            raise ValueError(f"head_dim={self.head_dim} must be even: RoPE rotates pairs")
        if not self.rope_base > 1.0:
            raise ValueError(f"rope_base={self.rope_base} must be above 1")
        if not 0.0 < self.rope_fraction <= 1.0:
            raise ValueError(f"rope_fraction={self.rope_fraction} must be in (0, 1]")
        if not 0.0 < self.rope_decay <= 1.0:
            raise ValueError(f"rope_decay={self.rope_decay} must be in (0, 1]")
        for name in ("dtype", "rope_dtype"):
            dtype = getattr(self, name)
            if dtype is not None and not jnp.issubdtype(dtype, jnp.floating):
                raise ValueError(f"{name}={dtype} must be a floating-point dtype")

    def _check_kind(self) -> None:
        kind = self.attention
        if kind is AttentionKind.GQA and self.n_head % self.num_kv_groups:
            raise ValueError(
                f"n_head={self.n_head} must be a multiple of num_kv_groups={self.num_kv_groups}"
            )
        if kind is AttentionKind.MLA and self.rope_head_dim % 2:
            raise ValueError(f"rope_head_dim={self.rope_head_dim} must be even: RoPE rotates pairs")
        if kind is AttentionKind.TPA3:
            if self.factor_dim_b % 2:
                raise ValueError(f"factor_dim_b={self.factor_dim_b} must be even: RoPE rotates b")
            if self.head_dim % self.factor_dim_b:
                raise ValueError(
                    f"head_dim={self.head_dim} must be a multiple of "
                    f"factor_dim_b={self.factor_dim_b}"
                )
        if self.shared_b:
            if kind is not AttentionKind.TPA:
                raise ValueError(f"shared_b needs attention='tpa', not {kind.value!r}")
            if self.rank_k != self.rank_v:
                raise ValueError(
                    f"shared_b needs rank_k == rank_v, got {self.rank_k} and {self.rank_v}"
                )

    @property
    def factor_dim_c(self) -> int:
        """d_c of third-order TPA: ``head_dim // factor_dim_b``."""
        return self.head_dim // self.factor_dim_b


def num_kv_heads(kind: AttentionKind | str, cfg: AttentionConfig) -> int:
    """Key/value heads of the softmax kinds: h for MHA, G for GQA, 1 for MQA.

    Raises:
      ValueError: ``kind`` has no key/value heads of its own.
    """
    kind = parse_enum(AttentionKind, kind, "kind")
    if kind is AttentionKind.MHA:
        return cfg.n_head
    if kind is AttentionKind.MQA:
        return 1
    if kind is AttentionKind.GQA:
        return cfg.num_kv_groups
    raise ValueError(f"kind={kind.value!r} does not cache key/value heads")
