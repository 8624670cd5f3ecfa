"""Tracing does not import sympy, which torch's kernels for shapes would: a module of ours answers for plain sizes meanwhile, and the real one for all else."""

import os
import subprocess
import sys

import oxytorch
import pytest

BEGIN = """
import sys
sys.path.insert(0, sys.argv[1])
import oxytorch, torch
import torch.nn.functional as F
SHAPES = "torch.fx.experimental.symbolic_shapes"
"""


def run(program: str) -> None:
    folder = os.path.dirname(os.path.dirname(oxytorch.__file__))
    subprocess.run([sys.executable, "-c", BEGIN + program, folder], check=True)


# Each of them reaches a kernel of torch's that is written in Python.
CALLS = [
    "F.linear(torch.randn(2, 8, 3).transpose(1, 2), w)",
    "w[:, :, None, None] + torch.randn(8, 1, 5, 5)",
    "torch.arange(3)[:, None].float() * torch.exp(torch.arange(4) * 0.5)[None]",
    "F.pad(torch.randn(2, 3, 8, 8), (1, 1, 1, 1), mode='reflect')",
    "torch.cdist(torch.randn(4, 8) @ w, torch.randn(3, 8))",
    "torch.logsumexp(torch.randn(4, 8) @ w, 1)",
    "torch.where(torch.randn(4, 8) > 0, torch.randn(4, 8) @ w, 0.0)",
    "torch.baddbmm(torch.randn(2, 4, 8), torch.randn(2, 4, 8), torch.randn(2, 8, 8) @ w)",
    "F.interpolate(torch.randn(2, 3, 8, 8), size=(5, 5), mode='bicubic')",
]

NOT_IMPORTED = """
w = torch.randn(8, 8, requires_grad=True)
calls = {calls}
for call in calls:
    function = oxytorch.compile(eval("lambda: " + call))
    with torch.no_grad():
        function()
    result = function()
    if result.requires_grad:
        result.sum().backward()
    assert "sympy" not in sys.modules and SHAPES not in sys.modules, call
"""


def test_plain_sizes_need_no_symbolic_algebra():
    run(NOT_IMPORTED.replace("{calls}", repr(CALLS)))


# A kernel of the program's own for the meta device sees what stands there while it runs.
SEEN = """
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND, elementwise_dtypes
code = elementwise_dtypes.__code__
seen = {}
library = torch.library.Library("oxytorch_plain_sizes", "DEF")
library.define("twice(Tensor x) -> Tensor")

def meta(x):
    seen.update(shapes=sys.modules[SHAPES], code=elementwise_dtypes.__code__)
    kernel(x)
    return torch.empty_like(x)

library.impl("twice", lambda x: x * 2, "CPU")
library.impl("twice", meta, "Meta")

def traced():
    t = torch.ones(3)
    assert torch.equal(oxytorch.compile(lambda t: torch.ops.oxytorch_plain_sizes.twice(t) + 1, fullgraph=True)(t), t * 2 + 1)
    assert elementwise_dtypes.__code__ is code
    return seen["shapes"]
"""

ANSWERS = """
kernel = lambda x: None
ours = traced()
assert "sympy" not in sys.modules and SHAPES not in sys.modules and seen["code"] is not code
kind = {"type_promotion_kind": KIND.DEFAULT}
elementwise_dtypes.__code__ = seen["code"]
assert elementwise_dtypes(torch.ones(2, dtype=torch.int8), 2.5, **kind) == (torch.float32, torch.float32)
assert "sympy" not in sys.modules

import sympy
import torch.fx.experimental.symbolic_shapes as real
assert real is not ours
assert elementwise_dtypes(sympy.Symbol("n", integer=True), torch.ones(2), **kind) == (torch.float32, torch.float32)
flags = [(True,), (False,)]
sizes = torch.Size([2, 3])
arguments = {
    "expect_true": flags, "guard_bool": flags, "guard_or_false": flags, "guard_or_true": flags, "guard_size_oblivious": flags,
    "statically_known_true": flags, "guard_int": [(3,)], "size_hint": [(3,)], "has_hint": [(3,), (True,), (2.5,)],
    "is_symbolic": [(3,), (True,), (2.5,)], "is_nested_int": [(3,), (2.5,)], "sym_and": flags + [(True, True), (True, False, True)],
    "sym_or": flags + [(False, False), (False, False, True)],
    "sym_eq": [(2, 2), (2, 3), (sizes, (2, 3)), ([2, 3], (2,)), ((2, (3, 4)), [2, [3, 4]]), (True, 1), ((), [])],
}
for name, calls in arguments.items():
    for call in calls:
        said, meant = getattr(ours, name)(*call), getattr(real, name)(*call)
        assert said == meant and type(said) is type(meant), (name, call, said, meant)
for name, call in [("expect_true", (1,)), ("guard_int", (2.5,)), ("sym_eq", (2, "2"))]:
    try:
        getattr(ours, name)(*call)
    except AssertionError:
        continue
    raise SystemExit(f"{name}{call} was answered")

from torch._dynamo.source import ConstantSource
env = real.ShapeEnv()
size = env.create_symintnode(env.create_symbol(5, ConstantSource("n")), hint=5)
assert ours.guard_or_false(size == 5) is True and ours.guard_int(size) == 5 and ours.sym_eq((size,), (5,))
assert ours.ShapeEnv is real.ShapeEnv and ours.size_hint(size, fallback=1) == 5
"""

# What a kernel itself needs of them it gets, and it stays.
NEEDED = """
def kernel(x):
    import sympy.core.symbol
    from torch.fx.experimental.symbolic_shapes import ShapeEnv, expect_true
    assert expect_true(x.dim() == 1) and ShapeEnv().create_unbacked_symint() is not None

traced()
import sympy
from torch.fx.experimental import symbolic_shapes
assert sympy is sys.modules["sympy"] and sympy.core.symbol.Symbol is sympy.Symbol
assert symbolic_shapes is sys.modules[SHAPES] and symbolic_shapes is not seen["shapes"]
assert symbolic_shapes.sympy is sympy
"""


# A name that is spelt out finds the module by way of its package.
SPELT_OUT = """
def kernel(x):
    import torch.fx.experimental.symbolic_shapes
    assert torch.fx.experimental.symbolic_shapes.guard_int(3) == 3
    seen["package"] = torch.fx.experimental

traced()
assert SHAPES not in sys.modules and not hasattr(seen["package"], "symbolic_shapes")
import torch.fx.experimental.symbolic_shapes
assert torch.fx.experimental.symbolic_shapes is sys.modules[SHAPES] and torch.fx.experimental.symbolic_shapes is not seen["shapes"]
"""

# Whoever asks all modules for something imports nothing.
ASKED = """
kernel = lambda x: None
traced()
for module in list(sys.modules.values()):
    hasattr(module, "__file__"), hasattr(module, "__warningregistry__"), hasattr(module, "Symbol")
assert "sympy" not in sys.modules and SHAPES not in sys.modules
"""

# A function of torch's that somebody has wrapped is left alone.
WRAPPED = """
import functools
torch.sym_not = functools.partial(torch.sym_not)
kernel = lambda x: None
traced()
assert SHAPES not in sys.modules
"""

PARTS = {"answers": ANSWERS, "needed": NEEDED, "spelt out": SPELT_OUT, "asked": ASKED, "wrapped": WRAPPED}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_all_else_is_asked_of_the_real_modules(part):
    run(SEEN + part)
