"""The process of the `workbench` command: `workbench`, `python -m workbench`, or by torchrun.

Costs: the command.
"""

from workbench.core.ending import run_process


def command() -> None:
    """Run the command line, and end this process without the interpreter's teardown."""
    run_process(_main)


def _main() -> None:
    from workbench.cli.main import main

    main()


if __name__ == "__main__":
    command()
