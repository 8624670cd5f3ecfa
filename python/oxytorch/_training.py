"""The autograd function behind compiled graphs: what only Python can say to torch.autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _autograd


class CompiledFunction(torch.autograd.Function):
    """One compiled graph: two programs, joined to what is around them by torch."""

    @staticmethod
    def forward(
        ctx: Any, graph: Any, sizes: tuple[int, ...], others: tuple[Any, ...], _: torch.Tensor | None, *inputs: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        # For a second derivative, which computes everything again.
        ctx.random = torch.get_rng_state() if graph.draws else None
        ctx.autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
        results, saved, plain = graph.forward(sizes, inputs)
        ctx.save_for_backward(*saved)
        ctx.mark_non_differentiable(*plain)
        ctx.set_materialize_grads(False)
        ctx.graph, ctx.sizes = graph, sizes
        # What backward passes have used up: the graph writes it down.
        ctx.spent = None
        # For a second derivative, too. Hooks that save memory would be thwarted by them.
        kept = graph.repeatable and _autograd._top_saved_tensors_default_hooks(True) is None
        ctx.inputs, ctx.seen, ctx.versions = graph.keep(inputs) if kept else (None, None, None)
        ctx.others = others if kept else None
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        return None, None, None, None, *_gradients(ctx, grads, ctx.next_functions)


class Part(torch.autograd.Function):
    """Some results of a call that have nothing on their way in common with the others."""

    @staticmethod
    def forward(ctx: Any, edge: Any, places: tuple[int, ...], results: tuple[torch.Tensor, ...], *_: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.edge, ctx.places = edge, places
        ctx.set_materialize_grads(False)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        call = ctx.edge.node
        everywhere = [None] * call.graph.results
        for place, grad in zip(ctx.places, grads):
            everywhere[place] = grad
        return None, None, None, *_gradients(call, tuple(everywhere), ctx.next_functions)


def anchor() -> torch.Tensor:
    """What a call requires grad of where autograd goes by its parts."""
    return torch.empty(0, requires_grad=True)


def edge(result: torch.Tensor, inputs: tuple[torch.Tensor, ...]) -> Any:
    """The node of a call, which lives as long as this. It was made of detached inputs: a second derivative needs those that there are."""
    found = torch.autograd.graph.get_gradient_edge(result)
    if found.node.inputs is not None:
        found.node.inputs, found.node.seen, found.node.versions = found.node.graph.keep(inputs)
    return found


def _gradients(call: Any, grads: tuple[torch.Tensor | None, ...], following: tuple[Any, ...]) -> tuple[Any, ...]:
    graph = call.graph
    return graph.again(call, grads, following) if torch.is_grad_enabled() else graph.backward(call, grads, following)
