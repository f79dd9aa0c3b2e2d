"""Special functions at points that the samples of the grid do not cover."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oplib
import oplib.linalg
from oplib.errors import MissingRuleError

pytestmark = pytest.mark.usefixtures("with_64_bits")


def test_the_inverse_of_the_normal_distribution_leads_back_far_out_in_its_tails():
    p = np.array([1e-300, 1e-17, 1e-3, 0.135, 0.136, 0.5, 0.86, 0.87])
    back = np.asarray(oplib.special.ndtr(oplib.special.ndtri(jnp.asarray(p))))
    np.testing.assert_allclose(back, p, rtol=1e-12)


def test_the_logarithm_of_a_probability_has_a_gradient_where_the_probability_vanishes():
    x = oplib.tensor([-1e4, -50.0, 40.0], dtype=oplib.float64, requires_grad=True)
    oplib.special.log_ndtr(x).sum().backward()
    np.testing.assert_allclose(x.grad[:2].numpy(), [1e4, 50.0], rtol=1e-3)  # the hazard is about -x
    assert x.grad[2].item() == 0.0


def test_zeta_has_no_derivative_by_its_first_argument():
    s = oplib.tensor([2.0, 3.0], dtype=oplib.float64, requires_grad=True)
    with pytest.raises(MissingRuleError, match=r"special.zeta: it has no derivative by its first argument"):
        oplib.special.zeta(s, oplib.ones(2, dtype=oplib.float64)).sum().backward()


def test_the_incomplete_gamma_function_has_a_gradient_by_its_first_argument():
    a, x, step = 1.7, 2.3, 1e-6
    leaf = oplib.tensor(a, dtype=oplib.float64, requires_grad=True)
    oplib.special.gammainc(leaf, oplib.tensor(x, dtype=oplib.float64)).backward()
    near = [float(oplib.igamma(*map(jnp.asarray, np.array([one, x])))) for one in (a - step, a + step)]
    assert leaf.grad.item() == pytest.approx((near[1] - near[0]) / (2 * step), rel=1e-6)


def test_a_product_of_many_reflections_is_no_longer_a_program_than_one_of_few():
    lengths = [
        len(str(jax.make_jaxpr(oplib.linalg.householder_product)(jnp.eye(count), jnp.ones(count))))
        for count in (10, 99)
    ]
    assert lengths[0] == lengths[1]


def test_the_names_at_the_root_take_the_count_first_and_the_methods_the_tensor():
    x = oplib.tensor([0.5, 2.0], dtype=oplib.float64)
    assert oplib.equal(oplib.polygamma(2, x), x.polygamma(2))
    assert oplib.equal(oplib.polygamma(n=2, input=x), x.clone().polygamma_(n=2))
