"""`workbench models`: what models can be opened, and the facts of one."""

from typing import Annotated

import typer

from workbench.commands.options import Json, Pickled, Precision, Seed, has_command

app = typer.Typer(help="List what models can be opened, and open one.", invoke_without_command=True)


@app.callback()
def list_models(context: typer.Context, json: Json = False) -> None:
    """List the families of models, how to name one, and what cannot be asked of some."""
    if has_command(context, json):
        return
    from workbench import terminal
    from workbench.models.catalogue import catalogue

    terminal.print_json(catalogue()) if json else terminal.print_models(catalogue())


@app.command()
def show(
    ref: Annotated[str, typer.Argument(help="A folder, a hub id, elmo:… or vectors:…")],
    device: Annotated[
        str | None,
        typer.Option(help="cpu, cuda, or cuda:0,cuda:1 for both; by itself the GPU."),
    ] = None,
    precision: Precision = "auto",
    seed: Seed = 0,
    pickled: Pickled = False,
    json: Json = False,
) -> None:
    """Open a model and tell its stacks, sites, size, memory and limits."""
    from workbench import terminal

    with terminal.progress("opening"):
        from workbench.models.budget import memory
        from workbench.models.catalogue import facts
        from workbench.models.huggingface import HuggingFace
        from workbench.models.loading import load

        model = load(ref, device, precision, seed=seed, pickled=pickled)
        found = facts(model)
        if isinstance(model, HuggingFace):
            found["memory"] = memory(model)
    terminal.print_json(found) if json else terminal.print_model(found)
