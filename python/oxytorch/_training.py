"""The autograd function behind compiled graphs: what only Python can say to torch.autograd."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch._C import _autograd


class CompiledFunction(torch.autograd.Function):
    """One compiled graph: two programs, joined to what is around them by torch."""

    @staticmethod
    def forward(ctx: Any, graph: Any, sizes: tuple[int, ...], *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        # For a second derivative, which computes everything again.
        ctx.random = torch.get_rng_state() if graph.draws else None
        ctx.autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        results, saved, plain = graph.forward(sizes, inputs)
        ctx.save_for_backward(*saved)
        ctx.mark_non_differentiable(*plain)
        ctx.set_materialize_grads(False)
        ctx.graph, ctx.sizes = graph, sizes
        # Likewise. Hooks that save memory would be thwarted by them.
        hooked = _autograd._top_saved_tensors_default_hooks(True) is not None
        ctx.inputs = None if hooked else inputs
        ctx.versions = None if hooked else [_version(tensor) for tensor in inputs]
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            return None, None, *_again(ctx, grads)
        gradients = ctx.graph.backward(ctx.sizes, ctx.saved_tensors, grads)
        if not _autograd._get_current_graph_task_keep_graph():
            ctx.inputs = None
        return None, None, *gradients


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version


def _again(ctx: Any, grads: tuple[torch.Tensor | None, ...]) -> list[torch.Tensor | None]:
    """The gradients as functions of inputs and gradients, for a second derivative: by eager, which computes everything again."""
    graph = ctx.graph
    # Whoever has let go of the graph gets torch's own words for it.
    ctx.saved_tensors
    if not graph.repeatable or ctx.inputs is None:
        raise RuntimeError(
            "oxytorch: a second derivative (create_graph=True) needs the graph to be computed again, and this one changes what it reads, "
            "holds parameters as constants or was checkpointed; compile the function without that part, or run it in eager"
        )
    warnings.warn("oxytorch: create_graph=True: this backward pass is computed by eager", stacklevel=2)
    written = set(graph.written)
    inputs = []
    for place, (tensor, version, wanted) in enumerate(zip(ctx.inputs, ctx.versions, graph.wanted)):
        if place in written:
            inputs.append(tensor.detach().clone())
            continue
        if _version(tensor) != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: "
                f"an input of a compiled graph is at version {tensor._version}; expected version {version} instead"
            )
        # A tensor of its own: what other inputs were computed of must not be differentiated a second time.
        inputs.append(tensor.view_as(tensor) if wanted else tensor)
    with torch.random.fork_rng(devices=[]):
        if ctx.random is not None:
            torch.set_rng_state(ctx.random)
        autocast = torch.autocast("cpu", ctx.autocast, ctx.autocast is not None, cache_enabled=False)
        with torch.set_grad_enabled(graph.grad_mode), autocast:
            results = graph.roots(graph.eager(*graph.arguments(ctx.sizes, tuple(inputs))))
    pairs = [(result, grad) for result, grad in zip(results, grads) if grad is not None]
    wanted = [tensor for tensor, wanted in zip(inputs, graph.wanted) if wanted]
    found = iter(
        torch.autograd.grad(
            [result for result, _ in pairs], wanted, [grad for _, grad in pairs], create_graph=True, allow_unused=True
        )
    )
    return [next(found) if wanted else None for wanted in graph.wanted]
