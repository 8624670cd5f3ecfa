"""Functions and models trained beside eager: outputs, gradients, and what was done to state."""

import copy
import warnings

import compare
import oxytorch
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._pytree import tree_flatten, tree_map

DOORS = {
    "capture": lambda function, **options: oxytorch.compile(function, **options),
    "dynamo": lambda function, **options: torch.compile(function, backend="oxytorch", **options),
}


def leaves(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def fresh(args):
    """Copies; those of tensors that require grad are leaves that require grad."""

    def copied(value):
        return compare.copies(value.detach()).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value

    return tree_map(copied, args)


def weights_like(outputs, seed=3):
    """For each output that requires grad a fixed random gradient."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda out: torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype)
    return [draw(out) for out in outputs]


def backward(outputs):
    wanted = [out for out in leaves(outputs) if out.requires_grad]
    torch.autograd.backward(wanted, weights_like(wanted))


def state_of(function, args):
    """Gradients and buffers, by name."""
    found = {f"argument {n}": leaf.grad for n, leaf in enumerate(leaves(args)) if leaf.requires_grad}
    if isinstance(function, nn.Module):
        found |= {f"grad of {name}": p.grad for name, p in function.named_parameters()}
        found |= {f"buffer {name}": b for name, b in function.named_buffers()}
    return found


def run(called, function, args, seed=0):
    torch.manual_seed(seed)
    outputs = called(*args)
    backward(outputs)
    flags = tree_map(lambda out: (out.requires_grad, out.is_leaf) if isinstance(out, torch.Tensor) else None, outputs)
    detached = tree_map(lambda out: out.detach() if isinstance(out, torch.Tensor) else out, outputs)
    return detached, flags, state_of(function, args)


def widened(function, args):
    """The same computation in float64, for where rounding differs."""
    wide = copy.deepcopy(function).double() if isinstance(function, nn.Module) else function
    args = tree_map(lambda a: compare.to_double(a.detach()).requires_grad_(a.requires_grad) if isinstance(a, torch.Tensor) else a, args)
    return run(wide, wide, args)


def check(function, *args, door="capture", calls=3, quiet=True, **options):
    """One and the same step several times, beside eager on copies; returns the compiled function."""
    theirs = copy.deepcopy(function) if isinstance(function, nn.Module) else function
    plain = copy.deepcopy(function) if isinstance(function, nn.Module) else function
    called = DOORS[door](function, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if quiet else "error")
        for call in range(calls):
            ours_args, theirs_args = fresh(args), fresh(args)
            got, want = run(called, function, ours_args, call), run(theirs, theirs, theirs_args, call)
            assert got[1] == want[1], f"requires grad, is leaf: {got[1]} instead of {want[1]}"
            exact = lambda: widened(plain, args)
            compare.assert_same(got[0], want[0], lambda: exact()[0], label="output")
            assert_same_state(got[2], want[2], lambda: exact()[2])
            compare.assert_same(
                [leaf.detach() for leaf in leaves(ours_args)], [leaf.detach() for leaf in leaves(theirs_args)], label="argument"
            )
            for model in (function, theirs):
                if isinstance(model, nn.Module):
                    model.zero_grad()
    return called


def assert_same_state(got, want, reference):
    assert got.keys() == want.keys()
    exact = None
    for name in want:
        assert (got[name] is None) == (want[name] is None), f"{name}: {got[name]} instead of {want[name]}"
        if want[name] is None:
            continue
        if compare.closeness(got[name], want[name]) is not None and exact is None:
            exact = reference()
        compare.assert_same(got[name], want[name], (lambda: exact[name]) if exact else None, strides=False, label=name)


class Doubled(torch.autograd.Function):
    """Its backward is not the derivative of its forward: who replaces it by that is found out."""

    @staticmethod
    def forward(ctx, t):
        ctx.save_for_backward(t)
        return t * 2

    @staticmethod
    def backward(ctx, grad):
        (t,) = ctx.saved_tensors
        return grad * 7 + t


def x(*shape):
    return torch.randn(*(shape or (4, 8)), requires_grad=True)


def x_of(seed):
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(seed)).requires_grad_()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.second = nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 3)
        self.unused = nn.Linear(2, 2)

    def forward(self, t):
        return self.second(self.norm(F.gelu(self.first(t))))


class Norms(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.linear = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.Linear(8, 5)

    def forward(self, t):
        return self.linear(self.norm(self.conv(t)).relu().mean((2, 3)))


def outcome(call):
    try:
        return call()
    except RuntimeError as error:
        return str(error)


# What stands between leaves and the call: nodes of eager's that save something, which are gone behind a pass that comes to them.
BEFORE = {"leaves": lambda t: t, "computed": torch.exp}
