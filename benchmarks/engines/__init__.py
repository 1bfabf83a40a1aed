"""Our engines against the peers: the same tables, the same run, the same rules.

One command measures every engine through one worker protocol and writes a table, a figure and results.json:
`python -m benchmarks.engines --out DIR --environments DIR`. This file stays empty of code, because workers that have
nothing but NumPy import it.
"""
