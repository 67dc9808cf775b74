"""The commands `workbench` and `lm-workbench`, outside of the package that they start.

Another project is distributed as `workbench` and has a package of that name, too. Where its files
lie in the way of this one's, the commands say so. Costs: the command.
"""

import sys


def command() -> None:
    """Run the command line, or say which other project hides it, and how to get it back."""
    try:
        from workbench import home_of  # noqa: F401 - this project's alone
        from workbench.__main__ import command as run
    except ImportError as error:
        sys.exit(
            "Error: `import workbench` finds another project than Workbench for language models "
            f"({error}). [other-project]\n"
            "  Each has a package `workbench`. In an environment of its own, run: "
            "pip install lm-workbench\n"
            "  Or, to keep this one alone, run: pip uninstall -y workbench lm-workbench, and then: "
            "pip install lm-workbench"
        )
    run()
