"""The command line `rat-jax`: it reads options, calls the package, and writes what comes back.

Exit codes: 0 done; 1 could not run, with one sentence on stderr; 2 it ran, but its verdict is bad. Everything heavy is
imported inside the functions, so that --help answers at once.
"""

from rat_jax.cli.commands import main

__all__ = ["main"]
