"""Curvature: the largest eigenvalue of the Hessian and of the Gauss-Newton matrix, from their products with vectors.

Products are taken in reverse mode twice, since the layers' own derivative rules know no forward mode.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float

ITERATIONS = 20
BREAKDOWN = 1e-6  # of a product's norm: what is left of it in float32 once nothing new is in it

Product = Callable[[Float[Array, "P"]], Float[Array, "P"]]


class Top(NamedTuple):
    """A Ritz value, never above the largest eigenvalue; some eigenvalue lies within `residual` of it."""

    value: Float[Array, ""]
    residual: Float[Array, ""]


def hessian_product(loss: Callable[[Any], Float[Array, ""]], params: Any) -> Product:
    """v -> H v with H the second derivative of `loss` at `params`, over parameters laid out flat."""
    flat_P, unravel = ravel_pytree(params)
    gradient = jax.grad(lambda flat_P: loss(unravel(flat_P)))
    return lambda v_P: jax.grad(lambda flat_P: gradient(flat_P) @ v_P)(flat_P)


def gauss_newton_product(
    outputs: Callable[[Any], Float[Array, "*S"]], loss: Callable[[Float[Array, "*S"]], Float[Array, ""]], params: Any
) -> Product:
    """v -> J^T H_L J v with J the derivative of `outputs` at `params`, H_L that of `loss` at the outputs, twice.

    Schraudolph 2002, Fast curvature matrix-vector products for second-order gradient descent. It is what is left of
    the Hessian of loss(outputs(params)) if the outputs were linear; positive semidefinite for cross-entropy.
    """
    flat_P, unravel = ravel_pytree(params)
    out, pull = jax.vjp(lambda flat_P: outputs(unravel(flat_P)), flat_P)
    _, push = jax.vjp(lambda tangent: pull(tangent)[0], jnp.zeros_like(out))

    def product(v_P: Array) -> Array:
        (moved,) = push(v_P)
        bent = jax.grad(lambda out: jnp.vdot(jax.grad(loss)(out), moved))(out)
        return pull(bent)[0]

    return product


def top_eigenvalue(product: Product, size: int, n_iterations: int = ITERATIONS) -> Top:
    """The largest eigenvalue, in the algebraic sense, of a symmetric matrix that is given by its products.

    Lanczos 1950 from a fixed random vector, in float32, each new vector made orthogonal to all before it, twice
    (Parlett 1998, The symmetric eigenvalue problem, section 6.9). Keeps n_iterations + 1 vectors of `size` numbers.
    """
    alpha_M, beta_M = lanczos(product, jax.random.normal(jax.random.key(0), (size,)), n_iterations)
    off = beta_M[:-1]
    values_M, vectors_MM = jnp.linalg.eigh(jnp.diag(alpha_M) + jnp.diag(off, 1) + jnp.diag(off, -1))
    return Top(values_M[-1], beta_M[-1] * jnp.abs(vectors_MM[-1, -1]))


def lanczos(
    product: Product, start_P: Float[Array, "P"], n_iterations: int
) -> tuple[Float[Array, "M"], Float[Array, "M"]]:
    """Diagonal and off-diagonal of the tridiagonal matrix; its last off-diagonal number leads out of it.

    Where the space is exhausted, the rest of the diagonal repeats the first number, a mean of eigenvalues: it adds
    none that is larger.
    """

    def extend(index: Array, carry: Any) -> Any:
        basis_MP, alpha_M, beta_M = carry
        product_P = product(basis_MP[index])
        rest_P = product_P
        for _ in range(2):
            rest_P = rest_P - _exactly(_exactly(basis_MP, rest_P), basis_MP)
        length = jnp.linalg.norm(rest_P)
        goes_on = length > BREAKDOWN * jnp.linalg.norm(product_P)
        is_there = jnp.linalg.norm(basis_MP[index]) > 0
        alpha = jnp.where(is_there, _exactly(basis_MP[index], product_P), alpha_M[0])
        following_P = jnp.where(goes_on, rest_P / jnp.where(goes_on, length, 1), 0)
        beta_M = beta_M.at[index].set(jnp.where(goes_on, length, 0))
        return basis_MP.at[index + 1].set(following_P), alpha_M.at[index].set(alpha), beta_M

    basis_MP = jnp.zeros((n_iterations + 1, len(start_P))).at[0].set(start_P / jnp.linalg.norm(start_P))
    zeros_M = jnp.zeros(n_iterations)
    return jax.lax.fori_loop(0, n_iterations, extend, (basis_MP, zeros_M, zeros_M))[1:]


def _exactly(a: Array, b: Array) -> Array:
    """a @ b in float32, however coarse the model's own products are: what is orthogonal must stay so."""
    return jnp.matmul(a, b, precision="float32")
