"""The autograd function behind compiled graphs: what only Python can say to torch.autograd."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable

import torch
from torch._C import _autograd
from torch._C._dynamo import eval_frame


_SKIP = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def _untraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """A call or a pass that begins inside of what Dynamo compiles would have it compile this, too, and what this calls: for every node of autograd's anew, and
    with `fullgraph` it raises."""
    eval_frame.set_code_exec_strategy(function.__code__, _SKIP)
    return function


# The first training call may itself be inside of what Dynamo compiles.
eval_frame.set_code_exec_strategy(_untraced.__code__, _SKIP)


class CompiledFunction(torch.autograd.Function):
    """One compiled graph: two programs, joined to what is around them by torch."""

    @staticmethod
    @_untraced
    def forward(
        ctx: Any,
        graph: Any,
        sizes: tuple[int, ...],
        others: tuple[Any, ...],
        given: tuple[torch.Tensor, ...] | None,
        _: torch.Tensor | None,
        *inputs: torch.Tensor,
    ) -> tuple[torch.Tensor, ...]:
        # For a second derivative, which computes everything again.
        ctx.random = torch.get_rng_state() if graph.draws else None
        ctx.autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in ("cpu", "cuda")]
        # Hooks that save memory would be thwarted by what is kept. A call whose results are nodes by themselves is made of detached inputs: a second
        # derivative needs those that there are, and those that the graph writes as they are now.
        kept = graph.repeatable and _autograd._top_saved_tensors_default_hooks(True) is None
        ctx.inputs, ctx.seen = (graph.keep(given or inputs) if kept else None) or (None, None)
        ctx.others = others if kept else None
        results, saved, plain = graph.forward(sizes, inputs)
        # An input may be a part of the memory of one that the graph has written.
        ctx.versions, ctx.moment = None if ctx.seen is None else graph.versions(ctx.seen), graph.moment
        ctx.save_for_backward(*saved)
        ctx.counters = graph.count(results)
        ctx.mark_non_differentiable(*plain)
        ctx.set_materialize_grads(False)
        ctx.graph, ctx.sizes = graph, sizes
        # What backward passes have used up: the graph writes it down.
        ctx.spent = None
        return results

    @staticmethod
    @_untraced
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[Any, ...]:
        graph, following = ctx.graph, ctx.next_functions
        gradients = graph.again if torch.is_grad_enabled() else graph.backward
        found = gradients(ctx, grads, following)
        if graph.shares and any(grad is None for grad in grads):
            for (node, _), gradient in zip(following[-len(found) :], found):
                if gradient is None and hasattr(node, "variable"):
                    _pass_over(node.variable)
        return None, None, None, None, None, *found


def _counts(hook: Any) -> bool:
    """Whether it is one of torch's own, which counts the tensors of all nodes that a pass comes to."""
    return getattr(hook, "__qualname__", "").startswith("register_multi_grad_hook.")


def _pass_over(leaf: torch.Tensor) -> None:
    """A pass that does not come to a leaf in eager is about to: hooks that were put on it behind the call do not hear of that."""
    for hooks in (leaf._backward_hooks, leaf._post_accumulate_grad_hooks):
        for key, hook in (hooks or {}).items():
            if not _counts(hook):
                hooks[key] = hook if isinstance(hook, _LeafHook) else _LeafHook(hook)
                hooks[key].passed_over = _LeafHook.now(leaf)


class _LeafHook:
    """Is called with a gradient, or with the leaf when that has got one."""

    def __init__(self, hook: Any):
        self.hook, self.passed_over = hook, (None,)

    @_untraced
    def __call__(self, given: torch.Tensor | None) -> Any:
        if given is None:
            # No other call has brought a gradient, either.
            is_passed_over = self.passed_over[0] == torch._C._current_graph_task_id()
        else:
            is_passed_over = self.passed_over == _LeafHook.now(given)
        return None if is_passed_over else self.hook(given)

    @staticmethod
    def now(leaf: torch.Tensor) -> tuple[Any, ...]:
        grad = leaf.grad if leaf.is_leaf else None
        return torch._C._current_graph_task_id(), id(leaf), id(grad), None if grad is None else grad._version


class Hooks(OrderedDict):
    """Of a result that shares its node with others. A pass that brings it no gradient would not come to it in eager: nor do they hear of it."""

    @_untraced
    def __setitem__(self, key: int, hook: Any) -> None:
        super().__setitem__(key, hook if _counts(hook) else lambda grad: None if grad is None else hook(grad))


def _register_hooks(node: Any, result: torch.Tensor) -> None:
    if node.graph.shares:
        result._backward_hooks = Hooks()
    torch._C._FunctionBase._register_hook_dict(node, result)


CompiledFunction._backward_cls._register_hook_dict = _register_hooks


class End(torch.autograd.Function):
    """A result of a call, which is a node by itself."""

    @staticmethod
    @_untraced
    def forward(ctx: Any, edge: Any, place: int, result: tuple[torch.Tensor], *_: torch.Tensor) -> torch.Tensor:
        ctx.edge, ctx.place = edge, place
        ctx.set_materialize_grads(False)
        return result[0]

    @staticmethod
    @_untraced
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[None, ...]:
        call = ctx.edge.node
        call.graph.arrive(call, ctx.place, grad)
        return (None,) * len(ctx.needs_input_grad)


class Gate(torch.autograd.Function):
    """Inputs of a call that the same results depend on: those results lead to it."""

    @staticmethod
    @_untraced
    def forward(ctx: Any, edge: Any, number: int, device: torch.device, *_: torch.Tensor) -> torch.Tensor:
        ctx.edge, ctx.number = edge, number
        ctx.set_materialize_grads(False)
        # autograd goes on in the stream in which this was made.
        return torch.empty(0, device=device)

    @staticmethod
    @_untraced
    def backward(ctx: Any, _: None) -> tuple[Any, ...]:
        call = ctx.edge.node
        return None, None, None, *call.graph.leave(call, ctx.number)


@_untraced
def anchor() -> torch.Tensor:
    """What a call requires grad of where autograd goes by its results and inputs."""
    return torch.empty(0, requires_grad=True, device="cpu")


@_untraced
def edge(result: torch.Tensor) -> Any:
    """The node of a call, which lives as long as this."""
    return torch.autograd.graph.get_gradient_edge(result)
