"""One script per engine, each run by the Python of its own environment; peers know nothing of rat_jax."""
