"""The commands, a file each group: read a choice, call one function, show the answer.

Everything heavy is imported inside the command that needs it, so that `--help` is quick.
"""
