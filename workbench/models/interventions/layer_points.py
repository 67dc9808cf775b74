"""Modules to hook at the output of every block, and at the input of every head projection.

Layer methods of a library such as captum hook a module. What a block returns differs between
architectures (a tensor, a tuple, two streams, pieces before texts), and ALBERT runs one block many
times. Here an identity module stands at every layer, whose input and output is one tensor, [batch,
pieces, width], in every architecture. Costs: one function call per layer; for heads a forward pass
over a few pieces to find the projections.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from workbench.core.groups import grouped
from workbench.engine.model import Model, refusal
from workbench.engine.taps import Site, StackName
from workbench.models import projections
from workbench.models.huggingface import require_transformer
from workbench.models.interventions.head_replay import batch_first, stream_of, with_stream, wrapped

_REMEDY = "Choose a method without layers, such as integrated-gradients."


@contextmanager
def layer_points(model: Model) -> Iterator[Mapping[StackName, list[nn.Identity]]]:
    """Identity modules through which the output of every block passes, by stack.

    # input and output of each: [batch, pieces, width]
    """
    net = require_transformer(model, "has no blocks to attribute to", _REMEDY)
    points: dict[StackName, list[nn.Identity]] = {
        stack.name: [nn.Identity() for _ in range(stack.layers)] for stack in net.stacks
    }
    calls = dict.fromkeys(points, 0)

    def passing(stack: StackName) -> Any:
        def wrap(block: nn.Module, run: Callable[..., Any]) -> Callable[..., Any]:
            def forward(*args: Any, **kwargs: Any) -> Any:
                output = run(*args, **kwargs)
                point = points[stack][calls[stack] % len(points[stack])]
                calls[stack] += 1
                passed: Tensor = point(batch_first(net, stream_of(output, 0)))
                return with_stream(output, batch_first(net, passed), 0)

            return forward

        return wrap

    with wrapped(net, passing):
        yield points


@contextmanager
def head_points(model: Model) -> Iterator[Mapping[Site, nn.Identity]]:
    """Identity modules through which the outputs of the heads of every site pass, concatenated.

    # input and output of each: [batch, pieces, heads x width of a head]
    """
    why = "has no attention whose heads can be attributed to"
    net = require_transformer(model, why, _REMEDY)
    modules = projections.output_modules(net)
    missing = [site for site in net.sites if site not in modules]
    if missing or not net.sites:
        raise refusal(
            model,
            "has no linear layer that reads the outputs of its heads alone",
            "Choose layer-conductance, which fits this model.",
        )
    points = {site: nn.Identity() for site in net.sites}
    by_module = grouped((module, site) for site, module in modules.items())

    def hook(sites: list[Site]) -> Callable[[nn.Module, tuple[Any, ...]], tuple[Any, ...]]:
        n_calls = 0

        def pass_through(module: nn.Module, args: tuple[Any, ...]) -> tuple[Any, ...]:
            nonlocal n_calls
            site = sites[n_calls % len(sites)]
            n_calls += 1
            return (points[site](args[0]), *args[1:])

        return pass_through

    with ExitStack() as restore:
        for module, sites in by_module.items():
            restore.callback(module.register_forward_pre_hook(hook(sites)).remove)
        yield points
