"""Objects that get another class or another dict, and tensors that get another body: nothing looks for that in a call, so whatever does it must tell."""

import functools
import gc
import subprocess
import sys

import compare
import oxytorch
import pytest
import torch
from torch import nn


class Scale(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.weight = nn.Parameter(torch.full((4,), float(factor)))

    def forward(self, x):
        return x * self.weight + self.factor


class Negated(Scale):
    def forward(self, x):
        return -super().forward(x)


class Slotted(nn.Module):
    __slots__ = ("extra",)

    def forward(self, x):
        return x - 1


def other_dict(m):
    return dict(m.__dict__, factor=9)


def forget_dict(m):
    kept = m.__dict__
    del m.__dict__
    m.__dict__.update(kept, factor=7)


def swap_bodies(m):
    """As torch does it, without its function around that. The old body goes."""
    torch._C._swap_tensor_impl(m.weight, nn.Parameter(torch.full((4,), 5.0)))
    gc.collect()


DICT = nn.Module.__dict__["__dict__"]
CHANGES = {
    "class": lambda m: setattr(m, "__class__", Negated),
    "class, by object": lambda m: object.__setattr__(m, "__class__", Negated),
    "class, by its descriptor": lambda m: object.__dict__["__class__"].__set__(m, Negated),
    "dict": lambda m: setattr(m, "__dict__", other_dict(m)),
    "dict, by object": lambda m: object.__setattr__(m, "__dict__", other_dict(m)),
    "dict, by a descriptor that was there before": lambda m: DICT.__set__(m, other_dict(m)),
    "no dict for a while": forget_dict,
    "class of a parameter": lambda m: setattr(m.weight, "__class__", type("Own", (nn.Parameter,), {})),
    "bodies of tensors": swap_bodies,
    "tensors": lambda m: torch.utils.swap_tensors(m.weight, nn.Parameter(torch.full((4,), 6.0))),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("keep", [False, True], ids=["alone", "while others hold what was"])
def test_every_way_is_noticed(change, keep):
    with torch.no_grad():
        ours, theirs = (nn.Sequential(Scale(2), Scale(3)) for _ in range(2))
        compiled = oxytorch.compile(ours)
        x = torch.randn(4)
        for _ in range(5):
            compare.assert_same(compiled(x), theirs(x))
        held = [(m[1].__dict__, m[1].weight, m[1].weight.data) for m in (ours, theirs)] if keep else []
        for m in (ours, theirs):
            CHANGES[change](m[1])
        for _ in range(5):
            compare.assert_same(compiled(x), theirs(x))
        del held


def test_one_change_does_not_hide_the_next():
    with torch.no_grad():
        ours, theirs = Scale(2), Scale(2)
        compiled = oxytorch.compile(ours)
        x = torch.randn(4)
        for n in range(6):
            for m in (ours, theirs):
                m.__dict__ = dict(m.__dict__, factor=n)
                m.__class__ = Negated if n % 2 else Scale
            for _ in range(3):
                compare.assert_same(compiled(x), theirs(x))


class Held(functools.partial):
    """Its dict is that of a class of C's, with a setter of its own."""


class Plain:
    factor = 1


class OnlyWeak:
    __slots__ = ("__weakref__",)


class WithDict(OnlyWeak):
    factor = 1


@pytest.mark.parametrize("make", [Plain, WithDict, lambda: Held(len)], ids=["plain", "dict alone", "of C"])
def test_dicts_of_other_objects(make):
    held = make()
    held.factor = 2
    compiled = oxytorch.compile(lambda x: x * held.factor)
    x = torch.randn(4)
    for n in range(2, 6):
        held.__dict__ = {"factor": n}
        for _ in range(4):
            compare.assert_same(compiled(x), x * n)


def message(function):
    with pytest.raises((TypeError, AttributeError, RuntimeError)) as raised:
        function()
    return type(raised.value), str(raised.value)


REFUSED = {
    "a class of C's": lambda m: setattr(m, "__class__", int),
    "no class": lambda m: setattr(m, "__class__", 3),
    "a class without": lambda m: delattr(m, "__class__"),
    "another layout": lambda m: setattr(m, "__class__", Slotted),
    "no dict": lambda m: setattr(m, "__dict__", 3),
    "bodies of what are no tensors": lambda m: torch._C._swap_tensor_impl(m, 3),
    "one body": lambda m: torch._C._swap_tensor_impl(m),
}
BEFORE = {name: message(functools.partial(refused, Scale(2))) for name, refused in REFUSED.items()}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_as_before(name):
    module = Scale(2)
    compiled = oxytorch.compile(module)
    with torch.no_grad():
        x = torch.randn(4)
        for _ in range(4):
            compiled(x)
        assert message(lambda: REFUSED[name](module)) == BEFORE[name]
        compare.assert_same(compiled(x), module(x))


def test_a_model_can_still_be_converted_by_swapping():
    """torch refuses to swap tensors that somebody else refers to."""
    ours, theirs = Scale(2), Scale(2)
    compiled = oxytorch.compile(ours)
    x = torch.randn(4)
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        with torch.no_grad():
            for dtype in (torch.float32, torch.float64, torch.float32):
                ours.to(dtype), theirs.to(dtype)
                for _ in range(4):
                    compare.assert_same(compiled(x), theirs(x))
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


AT_ONCE = """
import builtins, sys, threading, time
import oxytorch, torch
plain = builtins.__import__

def slow(name, *args, **kwargs):
    if name == sys.argv[1]:
        time.sleep(0.3)
    return plain(name, *args, **kwargs)

@torch.no_grad()
def call(compiled):
    for _ in range(8):
        compiled(torch.ones(2, 4))

builtins.__import__ = slow
threads = [threading.Thread(target=call, args=(oxytorch.compile(torch.nn.Linear(4, 4)),)) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
"""


@pytest.mark.parametrize("module", ["torch._C", "torch._compile"])
def test_threads_that_need_them_for_the_first_time_at_once(module):
    """One of them lets the others run while it looks for what torch has: they must not wait for it and keep it from going on."""
    subprocess.run([sys.executable, "-c", AT_ONCE, module], check=True, timeout=120)


AGAIN = """
import builtins
import oxytorch, torch
plain, asked = builtins.__import__, set()

def asking(name, *args, **kwargs):
    if name not in asked:
        asked.add(name)
        x = torch.ones(2, 4)
        assert torch.equal(oxytorch.compile(lambda x: x * 2 + 1)(x), x * 2 + 1), name
    return plain(name, *args, **kwargs)

builtins.__import__ = asking
layer = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.5))
for _ in range(3):
    oxytorch.compile(layer)(torch.ones(2, 4)).sum().backward()
assert layer[0].weight.grad is not None
"""


def test_code_that_runs_while_something_is_looked_for_may_need_it_too():
    """What is found out once in a process is not locked while the program's hooks run."""
    subprocess.run([sys.executable, "-c", AGAIN], check=True, timeout=120)
