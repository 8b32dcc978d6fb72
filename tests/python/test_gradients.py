"""Arrays of pandas, JAX and PyTorch, and gradients of solves in JAX and PyTorch; left out where these are absent."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from conftest import laplacian, unsymmetric

import tacit
import tacit.scipy as drop_in
from tacit._gradients import Entries

N = 12


@pytest.fixture(scope="module")
def jax() -> Any:
    found = pytest.importorskip("jax")
    found.config.update("jax_enable_x64", True)
    return found


@pytest.fixture(scope="module")
def torch() -> Any:
    return pytest.importorskip("torch")


def system(scalar: str = "float64") -> tuple[Any, np.ndarray]:
    a = unsymmetric(N)
    rng = np.random.default_rng(5)
    b = rng.standard_normal(N)
    if scalar.startswith("complex"):
        a = a + 0.2j * a.multiply(sp.random_array((N, N), density=1.0, rng=rng))
        b = b + 1j * rng.standard_normal(N)
    return sp.csr_array(a).astype(scalar), b.astype(scalar)


# -- the common part ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vary", [False, True])
def test_solves_with_the_transpose(vary: bool) -> None:
    a, b = system("complex128")
    task = Entries(a, vary, {"rtol": 1e-12})
    values = a.data if vary else None
    np.testing.assert_allclose(a @ task.solve(False, values, b), b, rtol=1e-9)
    np.testing.assert_allclose(a.T @ task.solve(True, values, b), b, rtol=1e-9)


def test_a_preconditioner_is_transposed_too() -> None:
    a, b = system()
    A = tacit.csr(a)
    inverse = np.linalg.inv(a.toarray())
    task = Entries(A, False, {"rtol": 1e-12, "method": "gmres", "precond": inverse, "max_iterations": 2})
    np.testing.assert_allclose(a.T @ task.solve(True, None, b), b, rtol=1e-9)


def test_what_does_not_fit_is_named() -> None:
    a, b = system()
    with pytest.raises(TypeError, match="x0 is no argument"):
        Entries(a, True, {"x0": b})
    with pytest.raises(TypeError, match="A is a ndarray; with values"):
        Entries(a.toarray(), True, {})
    with pytest.raises(ValueError, match=rf"values have shape \(3,\); A has {a.nnz} entries"):
        Entries(a, True, {}).check(a.data[:3], b)
    with pytest.raises(ValueError, match=rf"b \({N - 1},\)"):
        Entries(a, True, {}).check(a.data, b[1:])
    with pytest.raises(tacit.NotConverged):
        Entries(laplacian(50), False, {"method": "cg", "max_iterations": 2}).solve(False, None, np.ones(50))


# -- arrays in, arrays of the same library out -------------------------------------------------------------------------


def test_series_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    a, b = system()
    right = pandas.Series(b, index=np.arange(100, 100 + N))
    expected = tacit.solve(a, b, b).x
    assert np.array_equal(tacit.solve(a, right, right).x, expected)
    assert np.array_equal(tacit.solve(a, right.to_frame()).x[:, 0], tacit.solve(a, b).x)
    assert np.array_equal(drop_in.gmres(a, right)[0], drop_in.gmres(a, b)[0])


def test_arrays_of_jax(jax: Any) -> None:
    a, b = system()
    right = jax.numpy.asarray(b)
    x, info = tacit.solve(a, right, right)
    assert info == 0
    assert isinstance(x, jax.Array)
    assert np.array_equal(np.asarray(x), tacit.solve(a, b, b).x)
    assert isinstance(tacit.cg(laplacian(N), right).x, jax.Array)
    assert type(drop_in.gmres(a, right)[0]) is np.ndarray  # as SciPy's
    assert np.array_equal(tacit.csr(a) @ right, a @ b) or np.allclose(tacit.csr(a) @ right, a @ b)


def test_arrays_of_torch(torch: Any) -> None:
    a, b = system()
    right = torch.from_numpy(b)
    x, info = tacit.solve(a, right, right)
    assert info == 0
    assert isinstance(x, torch.Tensor)
    assert np.array_equal(x.numpy(), tacit.solve(a, b, b).x)
    assert isinstance(tacit.cg(laplacian(N), right).x, torch.Tensor)
    assert type(drop_in.gmres(a, right)[0]) is np.ndarray
    with pytest.raises(TypeError, match="requires grad"):
        tacit.solve(a, torch.from_numpy(b).requires_grad_())


# -- gradients ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scalar", ["float64", "complex128"])
@pytest.mark.parametrize("columns", [0, 3])
def test_gradients_of_jax(jax: Any, scalar: str, columns: int) -> None:
    a, b = system(scalar)
    if columns:
        b = b[:, None] * np.arange(1, columns + 1)
    from jax.test_util import check_grads

    def x(values: Any, right: Any) -> Any:
        return tacit.jax.solve(a, right, values, rtol=1e-13)

    for f in (x, jax.jit(x)):
        np.testing.assert_allclose(a @ np.asarray(f(a.data, b)), b, atol=1e-10)
        check_grads(f, (a.data, b), order=2, modes=["rev"], atol=1e-4, rtol=1e-4)


def test_gradients_of_jax_without_values(jax: Any) -> None:
    a, b = system()
    from jax.test_util import check_grads

    A = tacit.csr(a)
    check_grads(lambda b: tacit.jax.solve(A, b, rtol=1e-13), (b,), order=2, modes=["rev"], atol=1e-5, rtol=1e-5)
    dense = jax.numpy.asarray(a.toarray())
    check_grads(
        lambda m, b: tacit.jax.solve(m, b, rtol=1e-13), (dense, b), order=1, modes=["rev"], atol=1e-5, rtol=1e-5
    )
    many = jax.vmap(lambda b: tacit.jax.solve(A, b, rtol=1e-13))(jax.numpy.stack([b, 2 * b]))
    np.testing.assert_allclose(many[1], 2 * many[0], rtol=1e-9)
    assert tacit.jax.solve(a.astype(np.float32), b.astype(np.float32)).dtype == np.float32
    with pytest.raises(Exception, match="max_iterations"):
        jax.jit(lambda b: tacit.jax.solve(laplacian(N), b, method="cg", max_iterations=2))(b).block_until_ready()
    with pytest.raises(ValueError, match="square"):
        tacit.jax.solve(jax.numpy.ones((3, 4)), np.ones(3))


@pytest.mark.parametrize("scalar", ["float64", "complex128"])
@pytest.mark.parametrize("columns", [0, 3])
def test_gradients_of_torch(torch: Any, scalar: str, columns: int) -> None:
    a, b = system(scalar)
    if columns:
        b = b[:, None] * np.arange(1, columns + 1)
    values = torch.from_numpy(a.data.copy()).requires_grad_()
    right = torch.from_numpy(b.copy()).requires_grad_()

    def x(values: Any, right: Any) -> Any:
        return tacit.torch.solve(a, right, values, rtol=1e-13)

    np.testing.assert_allclose(a @ x(values, right).detach().numpy(), b, atol=1e-10)
    assert torch.autograd.gradcheck(x, (values, right), atol=1e-5, rtol=1e-4)
    assert torch.autograd.gradgradcheck(x, (values, right), atol=1e-4, rtol=1e-3)


def test_gradients_of_torch_without_values(torch: Any) -> None:
    a, b = system()
    right = torch.from_numpy(b.copy()).requires_grad_()
    A = tacit.csr(a)
    assert torch.autograd.gradcheck(lambda b: tacit.torch.solve(A, b, rtol=1e-13), (right,), atol=1e-5)
    dense = torch.from_numpy(a.toarray()).requires_grad_()
    assert torch.autograd.gradcheck(lambda m, b: tacit.torch.solve(m, b, rtol=1e-13), (dense, right), atol=1e-5)
    assert tacit.torch.solve(a.astype(np.float32), torch.ones(N)).dtype == torch.float32
    with pytest.raises(tacit.NotConverged):
        tacit.torch.solve(laplacian(N), right, method="cg", max_iterations=2)


def test_transforms_of_torch(torch: Any) -> None:
    """What torch.func makes of a solve: the same numbers as one after another."""
    a, b = system()
    values, right = torch.from_numpy(a.data.copy()), torch.from_numpy(b.copy())

    def x(values: Any, right: Any) -> Any:
        return tacit.torch.solve(a, right, values, rtol=1e-12)

    def loss(values: Any, right: Any) -> Any:
        return (x(values, right) ** 2).sum()

    several = right * torch.arange(1.0, 4.0)[:, None]
    blocks = torch.stack([several.T, 2 * several.T], 1)  # (n, 2, 3)
    entries = values * torch.arange(1.0, 4.0)[:, None]
    vmap, grad = torch.func.vmap, torch.func.grad
    for found, expected in [
        (vmap(x, (None, 0))(values, several), [x(values, one) for one in several]),
        (vmap(x, (None, 2))(values, blocks), [x(values, blocks[:, :, k]) for k in range(3)]),
        (vmap(x, (0, None))(entries, right), [x(one, right) for one in entries]),
        (vmap(x, (0, 0))(entries, several), [x(v, one) for v, one in zip(entries, several, strict=True)]),
        (vmap(grad(loss), (0, None))(entries, right), [grad(loss)(one, right) for one in entries]),
        (torch.func.jacrev(x)(values, right), torch.autograd.functional.jacobian(lambda v: x(v, right), values)),
    ]:
        expected = expected if isinstance(expected, torch.Tensor) else torch.stack(expected)
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-8, atol=1e-10)
    assert torch.compile(loss, backend="eager")(values, right) == pytest.approx(float(loss(values, right)))


def test_sparse_tensors_say_what_is_taken(torch: Any) -> None:
    a, b = system()
    with pytest.warns(UserWarning, match="CSR"):
        tensor = torch.sparse_csr_tensor(
            torch.from_numpy(a.indptr),
            torch.from_numpy(a.indices),
            torch.from_numpy(a.data),
            a.shape,
            check_invariants=True,
        )
    with pytest.raises(TypeError, match=r"layout torch\.sparse_csr; a csr_array"):
        tacit.torch.solve(tensor, torch.from_numpy(b))


@pytest.mark.parametrize("library", ["jax", "torch"])
def test_examples_in_the_documentation(library: str) -> None:
    pytest.importorskip(library)
    failed, _ = doctest.testmod(importlib.import_module(f"tacit.{library}"))
    assert not failed
