"""Several threads in one compiled function, and a function that is called again while it is traced or checked."""

import concurrent.futures
import dataclasses
import gc
import sys
import weakref

import pytest
import torch
from capturing import x
from compare import assert_same
from oxytorch import _oxytorch
from test_capture_straight import comprehension
from torch._higher_order_ops.associative_scan import associative_scan

import oxytorch


@pytest.fixture(autouse=True)
def switching_often():
    """Threads take turns after every few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(call, inputs):
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        return list(pool.map(call, inputs))


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    second: list

    def __post_init__(self):
        self.second = [*self.second, len(self.second)]


def builds_objects(t):
    return Pair(t + 1, [t.shape[0], Pair(t * 2, [])])


def breaks(t):
    a = t * 2
    sys.getswitchinterval()
    b = a + t.sum().item()
    sys.getswitchinterval()
    return b - 1


def takes_branches(t):
    if t.sum() > 0:
        return t * 2
    return t - t.shape[0]


@pytest.mark.parametrize("function", [comprehension, builds_objects, breaks, takes_branches], ids=lambda f: f.__name__)
def test_calls_of_one_function(function):
    inputs = [x(n % 5 + 2, 4) * (-1) ** n for n in range(40)]
    for _ in range(5):
        for got, t in zip(in_threads(_oxytorch.capture(function), inputs), inputs):
            want = function(t)
            assert_same(*((dataclasses.asdict(v) if isinstance(v, Pair) else v) for v in (got, want)))


def test_calls_of_one_module_that_changes():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU(), torch.nn.Linear(4, 3)).requires_grad_(False)
    for _ in range(5):
        compiled = oxytorch.compile(model)

        def call(n):
            if n % 9 == 4:
                compiled[0].weight = torch.nn.Parameter(compiled[0].weight.clone(), requires_grad=False)
            return compiled(torch.ones(n % 4 + 1, 4))

        for n, got in enumerate(in_threads(call, range(40))):
            assert_same(got, model(torch.ones(n % 4 + 1, 4)))


def test_training_in_threads():
    def loss(t):
        return (t.sin() * t.shape[0]).sum()

    compiled = oxytorch.compile(loss)

    def gradient(n):
        t = torch.linspace(0, 1, n % 4 + 2).requires_grad_()
        compiled(t).backward()
        return t.grad

    for n, got in enumerate(in_threads(gradient, range(40))):
        t = torch.linspace(0, 1, n % 4 + 2).requires_grad_()
        loss(t).backward()
        assert_same(got, t.grad)


def test_a_reset_while_others_call():
    compiled = oxytorch.compile(comprehension)
    inputs = [x(n % 3 + 2, 4) for n in range(60)]

    def call(n):
        if n % 7 == 3:
            oxytorch.reset()
        return compiled(inputs[n])

    for got, t in zip(in_threads(call, range(60)), inputs):
        assert_same(got, comprehension(t))


def test_a_function_that_calls_itself_compiled():
    """While one call is traced, checked or built, another one adds a trace."""

    class Nosy:
        def __init__(self, t):
            self.inner = compiled(t[1:]) if len(t) > 2 else None
            self.t = t

    def function(t):
        return Nosy(t * 2)

    compiled = _oxytorch.capture(function)

    def sizes(made):
        return [] if made is None else [made.t.sum().item(), *sizes(made.inner)]

    for length in (3, 6, 4, 9, 5):
        t = torch.ones(length)
        assert sizes(compiled(t)) == [2.0 * 2**k * (length - k) for k in range(length - 1)]


def test_a_graph_with_a_function_that_eager_runs():
    """Such a graph is walked node by node, and the values of a call are its own."""

    def combine(left, right):
        return left[0] * right[0], right[0] * left[1] + right[1] + right[1]

    def scanned(t):
        return associative_scan(combine, (t.sigmoid(), t * 2), dim=1, combine_mode="generic")[1] * 1

    compiled = oxytorch.compile(scanned)
    inputs = [x(2, 5, 3).requires_grad_() for _ in range(4)]
    want = [scanned(t) for t in inputs]
    for got, expected in zip(in_threads(compiled, inputs * 25), want * 25):
        assert_same(got, expected)
    kept = x(2, 5, 3).requires_grad_()
    alive = weakref.ref(kept)
    compiled(kept)
    del kept
    gc.collect()
    assert alive() is None
