"""`python -m rat_jax` is the command line."""

import sys

from rat_jax.cli import main

sys.exit(main())
