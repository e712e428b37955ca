"""Matrix-multiply FLOPs of a traced function, loops counted by their length.

XLA's own count sees a loop body once however often it runs, which hides nearly all the work
of a model that scans over layers or micro-batches; the jaxpr knows each scan's length.
"""

import math
from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core


def _shape(var: Any) -> tuple[int, ...]:
    return var.aval.shape


def _dot_flops(eqn: core.JaxprEqn) -> float:
    (contract, _), _ = eqn.params["dimension_numbers"]
    lhs = _shape(eqn.invars[0])
    return 2.0 * math.prod(_shape(eqn.outvars[0])) * math.prod(lhs[d] for d in contract)


def _conv_flops(eqn: core.JaxprEqn) -> float:
    kernel = _shape(eqn.invars[1])
    out_channels = kernel[eqn.params["dimension_numbers"].rhs_spec[0]]
    return 2.0 * math.prod(_shape(eqn.outvars[0])) * math.prod(kernel) / out_channels


def _jaxpr_flops(jaxpr: core.Jaxpr) -> float:
    total = 0.0
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "dot_general":
            total += _dot_flops(eqn)
        elif eqn.primitive.name == "conv_general_dilated":
            total += _conv_flops(eqn)
        elif eqn.primitive.name == "cond":
            total += max(_jaxpr_flops(branch.jaxpr) for branch in eqn.params["branches"])
        else:
            times = eqn.params["length"] if eqn.primitive.name == "scan" else 1
            total += times * sum(_jaxpr_flops(inner) for inner in _inner_jaxprs(eqn))
    return total


def _inner_jaxprs(eqn: core.JaxprEqn) -> list[core.Jaxpr]:
    leaves = jax.tree.leaves(
        list(eqn.params.values()),
        is_leaf=lambda x: isinstance(x, (core.Jaxpr, core.ClosedJaxpr)),
    )
    return [
        leaf.jaxpr if isinstance(leaf, core.ClosedJaxpr) else leaf
        for leaf in leaves
        if isinstance(leaf, (core.Jaxpr, core.ClosedJaxpr))
    ]


def count_flops(fn: Callable[..., Any], *args: Any) -> float:
    """FLOPs of the matrix multiplications and convolutions in ``fn(*args)``.

    A multiply-add counts as two. The longer branch of a ``cond`` counts; a ``while`` loop,
    whose length is not known, counts once.

    Args:
      fn: a function that jax can trace.
      *args: arrays or ``jax.ShapeDtypeStruct``s; nothing is computed or allocated.

    Returns:
      The number of floating-point operations, over all devices together.

    >>> import jax.numpy as jnp
    >>> x = jax.ShapeDtypeStruct((4, 8), jnp.float32)
    >>> count_flops(lambda a: jax.lax.scan(lambda c, _: (a @ a.T @ c, None), a, None, 10)[0], x)
    5120.0
    """
    return _jaxpr_flops(jax.make_jaxpr(fn)(*args).jaxpr)
