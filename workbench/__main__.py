"""`python -m workbench`: the `workbench` command, as torchrun starts it."""

from workbench.cli.main import main

main()
