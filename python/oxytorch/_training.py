"""The autograd function behind compiled graphs: what only Python can say to torch.autograd."""

from __future__ import annotations

from typing import Any

import torch
from torch._C import _autograd


class CompiledFunction(torch.autograd.Function):
    """One compiled graph: two programs, joined to what is around them by torch."""

    @staticmethod
    def forward(
        ctx: Any, graph: Any, sizes: tuple[int, ...], others: tuple[Any, ...], *inputs: torch.Tensor
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
        ctx.inputs = inputs if kept else None
        ctx.others = others if kept else None
        ctx.versions = [_version(tensor) for tensor in inputs] if kept else None
        return results

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            return None, None, None, *ctx.graph.again(ctx, grads)
        return None, None, None, *ctx.graph.backward(ctx, grads)


def _version(tensor: torch.Tensor) -> int | None:
    return None if tensor.is_inference() else tensor._version
