"""The layers behind the reference arrays, as our configs, parameters and inputs."""

import jax.numpy as jnp

from neurips25.attention import AttentionConfig, attention_params_from_torch

RENAMED = {
    "q_rank": "rank_q",
    "q_lora_rank": "q_latent_dim",
    "kv_lora_rank": "kv_latent_dim",
    "qk_rope_head_dim": "rope_head_dim",
    "using_groupnorm": "groupnorm",
}


def torch_state(arrays):
    """Name -> array as in the PyTorch state dict."""
    return {k[2:].replace("__", "."): v for k, v in arrays.items() if k.startswith("w_")}


def layer_sizes(arrays):
    """The ``cfg_*`` numbers as fields of :class:`AttentionConfig`."""
    given = {k[4:]: v.item() for k, v in arrays.items() if k.startswith("cfg_")}
    heads = given["n_head"]
    sizes = {"n_embd": given["n_embd"], "n_head": heads}
    sizes["head_dim"] = given.get("head_dim", sizes["n_embd"] // heads)
    sizes |= {ours: given[theirs] for theirs, ours in RENAMED.items() if theirs in given}
    if "rank" in given:
        sizes |= {"rank_k": given["rank"], "rank_v": given["rank"]}
    if "group_size" in given:
        sizes["num_kv_groups"] = heads // given["group_size"]
    return sizes


def reference_layer(arrays, kind, dtype, **options):
    """Config, parameters and input of ``attn_<kind>.npz``."""
    cfg = AttentionConfig(**layer_sizes(arrays), attention=kind, dtype=dtype, **options)
    params = attention_params_from_torch(torch_state(arrays), cfg)
    params = {name: jnp.asarray(value, dtype) for name, value in params.items()}
    return cfg, params, jnp.asarray(arrays["x"], dtype)
