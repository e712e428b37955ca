"""Where the parameters of T6 live on a data x fsdp x tensor mesh.

Heads and hidden units go to ``tensor``, the model width to ``fsdp``; the head-side factors
of TPA split over heads, the feature-side factors, which all heads share, only over width.
"""

from jax.sharding import PartitionSpec as P

# (regular expression over the parameter's path, axes); the first match decides.
T6_RULES = (
    (r"(wte|lm_head)$", P(("fsdp", "tensor"))),  # [V, d]
    (r"attn/wa_[qkv]$", P("fsdp", None, "tensor")),  # [d, R, H]
    (r"attn/w[bc]_\w+$", P("fsdp")),  # [d, R, D]
    (r"attn/a_[qkv]$", P(None, "tensor")),  # [R, H]
    (r"attn/b_[qkv]$", P()),  # [R, D], small and read by every head
    (r"attn/w[qkv]$", P("fsdp", "tensor")),  # [d, heads, D]
    (r"attn/w_d(q|kv)$", P("fsdp")),  # [d, latent]
    (r"attn/w_u(q|kv)$", P("fsdp", "tensor")),  # [latent, H, ...]
    (r"attn/wo$", P("tensor", None, "fsdp")),  # [H, D, d]
    (r"mlp/w[12]$", P("fsdp", "tensor")),  # [d, hidden]
    (r"mlp/w3$", P("tensor", "fsdp")),  # [hidden, d]
)
