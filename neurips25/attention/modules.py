"""The self-attention layer of a kind."""

from flax import linen

from neurips25.attention.config import AttentionConfig, AttentionKind
from neurips25.attention.mla import MultiheadLatentAttention
from neurips25.attention.softmax import GroupedQueryAttention, MultiHeadAttention
from neurips25.attention.tpa_modules import TPAKVOnlySelfAttention, TPASelfAttention
from neurips25.attention.tpa_third_order import ThirdOrderTPASelfAttention


def self_attention(cfg: AttentionConfig, name: str | None = None) -> linen.Module:
    """The layer that ``cfg.attention`` names, all called alike.

    ``layer(x[B, T, d], positions=None, cache=None, decode=False)`` gives y [B, T, d], or
    (y, new cache) where a cache is given.

    Args:
      cfg: of the layer.
      name: of the submodule, for use inside another linen module.

    Returns:
      An unbound linen module.

    >>> type(self_attention(AttentionConfig(n_embd=8, n_head=2, head_dim=4))).__name__
    'TPASelfAttention'
    """
    layers: dict[AttentionKind, type[linen.Module]] = {
        AttentionKind.MHA: MultiHeadAttention,
        AttentionKind.MQA: GroupedQueryAttention,
        AttentionKind.GQA: GroupedQueryAttention,
        AttentionKind.MLA: MultiheadLatentAttention,
        AttentionKind.TPA: TPASelfAttention,
        AttentionKind.TPA_NC_A: TPASelfAttention,
        AttentionKind.TPA_NC_B: TPASelfAttention,
        AttentionKind.TPA_KVONLY: TPAKVOnlySelfAttention,
        AttentionKind.TPA3: ThirdOrderTPASelfAttention,
    }
    return layers[cfg.attention](cfg, name=name)
