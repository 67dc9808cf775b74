"""The commands, one file per group: parse options, call one function, print the result.

Heavy modules are imported inside the command that needs them, so that `--help` is fast. Costs: the
import of typer.
"""
