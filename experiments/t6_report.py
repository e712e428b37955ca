"""Tables and figures of the T6 experiment, and what they are drawn from."""

import functools
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import rich.console
from ml_collections import ConfigDict

from experiments.benchmarks import decode, harness
from experiments.figures import plot_curves
from experiments.t6_claims import claim_records
from experiments.tables import print_table, write_csv, write_orderings
from experiments.training_run import result_file, stored
from neurips25.attention import cache_bytes
from neurips25.evidence import ClaimRecord, mean_and_se, new_figure, save_figure, write_records
from neurips25.language import T6LM, T6Config, init_lm_cache


def decode_error(cfg: T6Config, params: Any, tokens: np.ndarray) -> float:
    """Largest difference between the logits of a cached and an un-cached pass.

    Matrix products have the full precision of their dtype, on accelerators that round more by
    default too: the question is whether both passes compute the same.

    Args:
      cfg, params: the model.
      tokens: [T] token ids; the first half is prefilled, the rest decoded one by one.

    Returns:
      max |difference| over the decoded positions, in logits.
    """
    window = jnp.asarray(tokens, jnp.int32)[None]
    length = window.shape[1]
    half = length // 2

    @jax.jit
    def compare(params: Any) -> jax.Array:
        model = T6LM(cfg)
        whole = model.apply({"params": params}, window)
        cache = init_lm_cache(cfg, 1, length)
        _, cache = model.apply({"params": params}, window[:, :half], cache)

        def step(cache: Any, position: jax.Array) -> tuple[Any, jax.Array]:
            token = jax.lax.dynamic_slice_in_dim(window, position, 1, axis=1)
            logits, cache = model.apply(
                {"params": params}, token, cache, position[None, None], decode=True
            )
            return cache, logits[0, 0]

        _, decoded = jax.lax.scan(step, cache, jnp.arange(half, length))
        return jnp.abs(decoded - whole[0, half:]).max()

    with jax.default_matmul_precision("highest"):
        return float(compare(params))


def _validation_rows(
    config: ConfigDict, configs: Mapping[str, T6Config], results: Sequence[Any]
) -> list[list[Any]]:
    rows = []
    for kind in config.kinds:
        own = [r for r in results if r.kind == kind]
        loss = mean_and_se([r.loss for r in own])
        se = "-" if loss.se is None else f"{loss.se:.4f}"
        budget = 4 * configs[kind].n_embd ** 2
        rows.append([
            kind, configs[kind].n_head, own[0].parameters,
            f"{own[0].attention_parameters / budget:.3f}", own[0].cache_numbers,
            len(own), f"{loss.value:.4f}", se, f"{np.exp(loss.value):.3f}",
            f"{loss.value / np.log(2):.3f}", f"{np.mean([r.seconds for r in own]):.0f}",
            configs[kind].init if configs[kind].attention.startswith("tpa") else "-",
            sum(not np.isfinite(r.loss) for r in own),
        ])  # fmt: skip
    return rows


_VALIDATION_HEADER = (
    "attention", "heads", "parameters", "attention / 4d^2", "cached numbers per token and layer",
    "seeds", "nats/token", "s.e.", "perplexity", "bits/token", "seconds",
    "init of the factors", "seeds diverged",
)  # fmt: skip
# On the terminal: what fits in 80 columns.
_SHORT = {0: "kind", 2: "parameters", 4: "cached", 6: "nats", 7: "s.e.",
          8: "ppl", 10: "seconds"}  # fmt: skip


def _losses(config: ConfigDict, results: Sequence[Any]) -> dict[str, list[float]]:
    return {kind: [r.loss for r in results if r.kind == kind] for kind in config.kinds}


def _figures(
    config: ConfigDict,
    configs: Mapping[str, T6Config],
    results: Sequence[Any],
    timings: Sequence[Mapping[str, Any]],
    figures: pathlib.Path,
) -> None:
    losses = _losses(config, results)
    for name, label, transform in (
        ("loss", "validation loss (nats/token)", float),
        ("perplexity", "validation perplexity", np.exp),
    ):
        curves = {
            kind: [[(t, transform(v)) for t, v in r.curve] for r in results if r.kind == kind]
            for kind in config.kinds
        }
        title, path = f"Validation {name} against tokens", figures / f"{name}_vs_tokens.png"
        plot_curves(curves, "training tokens", label, title, path)

    fig, ax = new_figure(
        "cache bytes per token (float32, all layers)", "validation loss (nats/token)",
        "Quality against cache",
    )  # fmt: skip
    for kind in config.kinds:
        estimate, cfg = mean_and_se(losses[kind]), configs[kind]
        size = cache_bytes(cfg.attention, cfg, 1, 1, cfg.n_layer)
        ax.errorbar(size, estimate.value, yerr=estimate.se, fmt="o", capsize=4, label=kind)
    ax.set_xscale("log", base=2)
    save_figure(fig, figures / "loss_vs_cache.png")

    fig, ax = new_figure(
        "context (tokens)", "cache (MiB, float32, batch 1)", "Cache against context"
    )
    lengths = 2 ** np.arange(10, 20)
    for kind in config.kinds:
        cfg = configs[kind]
        sizes = [cache_bytes(cfg.attention, cfg, 1, int(n), cfg.n_layer) / 2**20 for n in lengths]
        ax.plot(lengths, sizes, label=kind)
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=2)
    save_figure(fig, figures / "cache_vs_context.png")
    decode.plot_times(timings, figures / "decode_time.png")


def prefill_rates(
    configs: Mapping[str, T6Config], workdir: pathlib.Path
) -> dict[str, dict[str, float]]:
    """Prompt tokens per second of each model, measured once per run.

    Args:
      configs: kind -> model.
      workdir: the run directory; the result is kept in ``results/prefill.json``.

    Returns:
      Kind -> median and quartiles of tokens per second, batch 1.
    """
    return stored(result_file(workdir, "prefill"), lambda: _measure_prefill(configs))


def _measure_prefill(configs: Mapping[str, T6Config]) -> dict[str, dict[str, float]]:
    calls = {}
    for kind, cfg in configs.items():
        tokens = jnp.zeros((1, cfg.block_size), jnp.int32)
        params = jax.jit(T6LM(cfg).init)(jax.random.key(0), tokens[:, :1])
        cache = init_lm_cache(cfg, 1, cfg.block_size)
        calls[kind] = functools.partial(jax.jit(T6LM(cfg).apply), params, tokens, cache)
    rates = {}
    for kind, times in harness.time_interleaved(calls, repeats=12).items():
        speed = configs[kind].block_size / np.asarray(times)
        q1, median, q3 = np.quantile(speed, [0.25, 0.5, 0.75]).tolist()
        rates[kind] = {"median": median, "q1": q1, "q3": q3}
    return rates


def decode_timings(config: ConfigDict, workdir: pathlib.Path) -> list[dict[str, Any]]:
    """Decode time of one attention layer per kind and cache length, measured once per run.

    Sizes are the paper's decoding benchmark (d 2048, 32 heads, TPA (16, 1, 1), GQA 4 groups).

    Returns:
      Rows as :func:`experiments.benchmarks.decode.measure` gives them.
    """
    d = config.decode
    rows = stored(
        result_file(workdir, "decode"),
        lambda: decode.measure(d.repeats, d.lengths, d.batch_size, decode.KINDS),
    )
    write_csv(workdir / "tables" / "decode_time.csv", decode.HEADER, decode.table(rows))
    return rows


def bench_decode(config: ConfigDict, workdir: pathlib.Path, console: rich.console.Console) -> None:
    """Prints and draws :func:`decode_timings`."""
    rows = decode_timings(config, workdir)
    print_table(console, "Decode time of one attention layer", decode.HEADER, decode.table(rows))
    decode.plot_times(rows, workdir / "figures" / "decode_time.png")


def write_report(
    config: ConfigDict,
    configs: Mapping[str, T6Config],
    corpus: str,
    results: Sequence[Any],
    errors: Mapping[str, float],
    timings: Sequence[Mapping[str, Any]],
    workdir: pathlib.Path,
    console: rich.console.Console,
) -> list[ClaimRecord]:
    """Writes tables, figures and ``records.json``, and prints the main table.

    Args:
      config: the experiment's config.
      configs: kind -> model config.
      corpus: name of the text.
      results: of the training runs.
      errors: as :func:`experiments.t6.decode_errors` gives them.
      timings: of decoding.
      workdir: the run directory.
      console: where to print.

    Returns:
      The records.
    """
    losses = _losses(config, results)
    rows = _validation_rows(config, configs, results)
    tables = workdir / "tables"
    write_csv(tables / "validation.csv", _VALIDATION_HEADER, rows)
    title = f"Validation loss on {corpus}, {len(config.seeds)} seed(s)"
    print_table(console, title, list(_SHORT.values()), [[r[i] for i in _SHORT] for r in rows])
    if len(config.kinds) > 1:
        write_orderings(losses, workdir, console, paired=True)
    longest = [row for row in timings if row["length"] == max(r["length"] for r in timings)]
    title = f"One decoding step over {longest[0]['length']} cached tokens, this machine"
    print_table(console, title, decode.HEADER[:6], [c[:6] for c in decode.table(longest)])
    speeds = prefill_rates(configs, workdir)
    columns = ["kind", "prefill tokens/s", "quartiles"]
    rates = [
        [kind, f"{v['median']:,.0f}", f"{v['q1']:,.0f}-{v['q3']:,.0f}"]
        for kind, v in speeds.items()
    ]
    write_csv(tables / "prefill.csv", columns, rates)
    print_table(console, "Prefill of one prompt of the training length", columns, rates)
    _figures(config, configs, results, timings, workdir / "figures")
    records = claim_records(config, configs, corpus, losses, errors, timings, workdir)
    write_records(workdir / "records.json", records)
    return records
