"""The exact posterior of the RAT model: independent draws, exact moments, distribution functions, no JAX.

Missing labels of the ambiguous patterns are split over the states they allow; every split has a
closed-form weight and leaves a product of Betas.
"""

from rat_jax.inference.exact.engine import ExactPosterior, exact_draws, exact_posterior
from rat_jax.inference.exact.marginals import BetaMixture, theta_mixtures, theta_quantiles
from rat_jax.inference.exact.size import is_applicable, required_bytes
from rat_jax.inference.exact.splits import LIMIT_BYTES, ExactTooLarge

__all__ = [
    "LIMIT_BYTES",
    "BetaMixture",
    "ExactPosterior",
    "ExactTooLarge",
    "exact_draws",
    "exact_posterior",
    "is_applicable",
    "required_bytes",
    "theta_mixtures",
    "theta_quantiles",
]
