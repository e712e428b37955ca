import jax
import jax.numpy as jnp

from neurips25.training import count_flops


def test_matmul_conv_and_gradient():
    x, w = jnp.zeros((3, 4)), jnp.zeros((4, 5))
    assert count_flops(lambda x, w: x @ w, x, w) == 2 * 3 * 4 * 5
    grads = jax.grad(lambda x, w: (x @ w).sum(), argnums=(0, 1))
    assert count_flops(grads, x, w) == 3 * 2 * 3 * 4 * 5
    image, kernel = jnp.zeros((2, 3, 8, 8)), jnp.zeros((6, 3, 3, 3))
    conv = lambda i, k: jax.lax.conv(i, k, (1, 1), "SAME")
    assert count_flops(conv, image, kernel) == 2 * (2 * 6 * 8 * 8) * (3 * 3 * 3)


def test_loops_branches_and_nested_calls():
    x = jnp.zeros((4, 4))
    one = 2 * 4**3

    @jax.jit
    def square(a):
        return a @ a

    scan = lambda a: jax.lax.scan(lambda c, _: (square(c), None), a, None, 7)[0]
    assert count_flops(scan, x) == 7 * one
    cond = lambda a: jax.lax.cond(True, lambda b: b @ b @ b, lambda b: b @ b, a)
    assert count_flops(cond, x) == 2 * one
    assert count_flops(jax.checkpoint(square), x) == one


def test_agrees_with_the_compiler_where_it_can_count():
    x, w = jnp.zeros((16, 32)), jnp.zeros((32, 64))
    fn = lambda x, w: (x @ w) @ w.T
    measured = jax.jit(fn).lower(x, w).compile().cost_analysis()["flops"]
    assert abs(count_flops(fn, x, w) / measured - 1) < 0.01
