"""Control flow that torch offers as functions: eager compiles the branches by TorchDynamo each time. The machine asks the data between two graphs, as for
any `if`, and runs the branch that is taken."""

import torch


def cond(pred, true_fn, false_fn, operands=()):
    if not isinstance(pred, (bool, int, float, torch.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, torch.Tensor):
        if pred.numel() != 1:
            raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
        if not callable(true_fn) or not callable(false_fn):
            raise RuntimeError("Expect both branches to be callable.")
        pred = pred.item()
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(cond_fn, body_fn, carried_inputs):
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not all(isinstance(part, torch.Tensor) for part in carried_inputs):
        return for_real(torch._higher_order_ops.while_loop, cond_fn, body_fn, carried_inputs)
    carried = tuple(carried_inputs)
    while goes_on(cond_fn(*carried)):
        carried = tuple(body_fn(*carried))
    return carried


def goes_on(answer):
    return answer.item() if isinstance(answer, torch.Tensor) else answer


STANDS_FOR[torch.cond] = cond
STANDS_FOR[torch._higher_order_ops.while_loop] = while_loop
