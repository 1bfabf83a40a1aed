"""One compilation cache for a whole test run, so that workers and files compile each program once."""

import os
import shutil
import tempfile


def pytest_configure(config):
    if hasattr(config, "workerinput") or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    config.compiled = tempfile.mkdtemp(prefix="rat-jax-compiled-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = config.compiled  # read when JAX is imported, here and in the workers
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.5"


def pytest_unconfigure(config):
    if compiled := getattr(config, "compiled", None):
        shutil.rmtree(compiled, ignore_errors=True)
