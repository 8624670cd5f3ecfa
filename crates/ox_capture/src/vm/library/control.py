"""Control flow that torch offers as functions: eager compiles the branches by TorchDynamo each time. The machine asks the data between two graphs, as for
any `if`, and runs the branch that is taken."""

import types

import torch
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder


def cond(pred, true_fn, false_fn, operands=()):
    if not isinstance(pred, (bool, int, float, torch.Tensor)):
        raise RuntimeError(f"Expected pred to be bool or tensor, but got {pred}.")
    if isinstance(pred, torch.Tensor):
        if pred.numel() != 1:
            raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
        if not callable(true_fn) or not callable(false_fn):
            raise RuntimeError("Expect both branches to be callable.")
        if not isinstance(operands, (list, tuple)) or not only_tensors(operands):
            return by_torch(torch.cond, pred, true_fn, false_fn, operands)
        pred = pred.item()
    return true_fn(*operands) if pred else false_fn(*operands)


def only_tensors(tree):
    if isinstance(tree, (list, tuple)):
        return all(only_tensors(part) for part in tree)
    if isinstance(tree, dict):
        return all(only_tensors(part) for part in tree.values())
    return isinstance(tree, torch.Tensor)


# Torch traces the body whether or not a round is made, and returns what the body does: a tuple, a list, or a tensor alone.


def while_loop(cond_fn, body_fn, carried_inputs):
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable.")
    if not isinstance(carried_inputs, (list, tuple)) or not all(isinstance(part, torch.Tensor) for part in carried_inputs):
        return by_torch(torch._higher_order_ops.while_loop, cond_fn, body_fn, carried_inputs)
    carried = tuple(carried_inputs)
    going = cond_fn(*carried)
    result = body_fn(*carried)
    if not is_flag(going) or not is_round(carried, result):
        return by_torch(torch._higher_order_ops.while_loop, cond_fn, body_fn, carried_inputs)
    if not goes_on(going):
        copies = [part.clone() for part in carried]
        return copies[0] if isinstance(result, torch.Tensor) else type(result)(copies)
    while goes_on(cond_fn(*parts_of(result))):
        result = body_fn(*parts_of(result))
    return result


def parts_of(result):
    return (result,) if isinstance(result, torch.Tensor) else result


def is_flag(answer):
    return isinstance(answer, bool) or (isinstance(answer, torch.Tensor) and answer.dim() == 0 and answer.dtype == torch.bool)


# All else torch refuses.


def is_round(carried, result):
    if type(result) not in (list, tuple) and not isinstance(result, torch.Tensor):
        return False
    parts = parts_of(result)
    return len(parts) == len(carried) and all(is_next(before, after) for before, after in zip(carried, parts))


def is_next(before, after):
    return (
        isinstance(after, torch.Tensor) and after is not before and after.dtype == before.dtype and after.shape == before.shape
    )


def goes_on(answer):
    return answer.item() if isinstance(answer, torch.Tensor) else answer


# A region that TorchDynamo is to compile once: eager calls the function, and equal layers are one artifact anyhow.


def nested_region(function, *args, **kwargs):
    return function(*args, **kwargs)


# A function that is to be compiled is, with what calls it.


def compiled(model=None, **options):
    if model is None:
        return lambda model: compiled(model, **options)
    return model if isinstance(model, COMPILED_WITH_CALLERS) else as_a_whole(torch.compile, model, **options)


COMPILED_WITH_CALLERS = types.FunctionType, types.BuiltinFunctionType


# What is left to torch, behind a break.


def by_torch(function, *args):
    return function(*args)


STANDS_FOR[torch.cond] = cond
STANDS_FOR[torch._higher_order_ops.while_loop] = while_loop
STANDS_FOR[invoke_subgraph_placeholder] = nested_region
STANDS_FOR[torch.compile] = compiled
