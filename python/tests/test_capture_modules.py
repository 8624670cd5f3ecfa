"""Modules, and what a later call relies on."""

import oxytorch
import pytest
import torch
import torch.nn as nn
from capturing import check, outcome, x
from compare import assert_same
from oxytorch import _oxytorch


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(2)])
        self.act = nn.Sequential(nn.GELU(), nn.Dropout(0.5))
        self.register_buffer("scale", torch.full((width,), 2.0))
        self.flag = True

    def forward(self, t, mask=None):
        h = self.norm(t)
        for layer in self.layers:
            h = self.act(layer(h))
        if mask is not None:
            h = h * mask
        return t + h * self.scale if self.flag else h


class Net(nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(depth)))
        self.heads = nn.ModuleDict({"a": nn.Linear(width, 3), "b": nn.Linear(width, 2)})

    def forward(self, t):
        h = self.blocks(t)
        return {name: head(h) for name, head in self.heads.items()}


def test_module_in_one_graph():
    check(Net().eval(), (x(5, 8),))


def test_module_changes_are_noticed():
    net = Net().eval()
    captured = _oxytorch.capture(net)
    t = x(5, 8)

    def same():
        with torch.no_grad():
            assert_same(captured(t), net(t))

    same()
    net.blocks[0].flag = False
    same()
    net.blocks[0].flag = True
    same()
    assert captured.stats()["traced"] == 2
    net.heads["a"].weight.data.mul_(3)
    same()
    net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})
    same()
    assert captured.stats()["traced"] == 2
    net.blocks[1].act[0] = nn.ReLU()
    same()
    seen = []
    hook = net.blocks.register_forward_hook(lambda *_: seen.append(1))
    same()
    assert len(seen) == 2
    hook.remove()
    same()
    net.train()
    net.blocks[0].act[1].p = net.blocks[1].act[1].p = 0.0
    same()


FACTOR = 2.0


def uses_global(t):
    return t * FACTOR + helper(t)


def helper(t, k=1):
    return t - k


def test_globals_defaults_closures_are_guarded(monkeypatch):
    captured = _oxytorch.capture(uses_global)
    t = x()
    same = lambda: assert_same(captured(t), uses_global(t))  # noqa: E731
    same()
    monkeypatch.setitem(globals(), "FACTOR", 5.0)
    same()
    monkeypatch.setattr(helper, "__defaults__", (7,))
    same()
    monkeypatch.setitem(globals(), "helper", lambda t: t * 0)
    same()
    value = 1

    def inner(t):
        return t + value

    captured = _oxytorch.capture(inner)
    assert_same(captured(t), t + 1)
    value = 2
    assert_same(captured(t), t + 2)


def test_shapes_dtypes_and_numbers_are_guarded():
    def f(t, n):
        return t.sum(0) * n + t.shape[0]

    check(f, (x(3, 4), 2), (x(5, 4), 2), (x(3, 4).double(), 2), (x(3, 4), 3), (x(3, 4), 2.5))


def test_later_calls_run_no_python():
    count = 0

    class Counting(nn.Module):
        def forward(self, t):
            return t * 2

    module = Counting()

    def f(t):
        return module(t) + 1

    captured = _oxytorch.capture(f)
    t = x()
    captured(t)
    import sys

    def trace(frame, event, arg):
        nonlocal count
        count += frame.f_code.co_filename == __file__
        return None

    sys.setprofile(lambda *a: trace(*a))
    captured(t)
    sys.setprofile(None)
    assert count <= 1  # setprofile's own line


def test_identity_is_guarded():
    def f(a, b):
        return a + 1 if a is b else a * b

    captured = _oxytorch.capture(f)
    a, b = x(), x()
    for args in ((a, a), (a, b), (b, a), (b, b)):
        assert_same(captured(*args), f(*args))


def test_a_module_that_asks_another_for_its_attributes():
    def f(t):
        cudnn = torch.backends.cudnn
        return t + 1 if cudnn.is_available() else t - 1, cudnn.CUDNN_TENSOR_DTYPES is torch.backends.cudnn.CUDNN_TENSOR_DTYPES

    check(f, (x(),))


@pytest.mark.parametrize("of", ["one module", "all modules"])
def test_hooks_that_are_always_called_hear_of_exceptions(of):
    """torch's own modules leave them out where `is_compiling` says so."""

    def heard(compiled):
        seen = []
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        hook = lambda module, args, output: seen.append((type(module).__name__, output is None))
        register = model[0].register_forward_hook if of == "one module" else nn.modules.module.register_module_forward_hook
        handle = register(hook, always_call=True)
        called = oxytorch.compile(model) if compiled else model
        try:
            for width in (4, 5, 4, 5):
                seen.append(outcome(called, torch.ones(2, width))[1])
        finally:
            handle.remove()
        return seen

    assert heard(True) == heard(False)


@pytest.mark.parametrize("of", ["one module", "all modules"])
def test_hooks_that_are_always_called_may_come_later(of):
    def heard(compiled):
        seen = []
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        model[0].register_forward_hook(lambda *given: None)
        called = oxytorch.compile(model) if compiled else model
        wrong = lambda: seen.append(outcome(called, torch.ones(2, 5))[1])
        wrong()
        register = model[0].register_forward_hook if of == "one module" else nn.modules.module.register_module_forward_hook
        handle = register(lambda module, args, output: seen.append(output is None), always_call=True)
        try:
            wrong(), wrong()
        finally:
            handle.remove()
        wrong()
        return seen

    assert heard(True) == heard(False)


class Tempered(nn.Module):
    """What is set goes through a property, or through a descriptor."""

    class Clamped:
        def __get__(self, module, owner=None):
            return module._bound

        def __set__(self, module, value):
            module._bound = min(value, 5.0)

    bound = Clamped()

    def __init__(self):
        super().__init__()
        self._temperature, self._bound, self.seen = 1.0, 1.0, []

    @property
    def temperature(self):
        return self._temperature

    @temperature.setter
    def temperature(self, value):
        if value <= 0:
            raise ValueError(f"a temperature of {value}")
        self.seen.append(value)
        self._temperature = value

    def forward(self, x, value=None):
        if value is not None:
            self.bound = value
            self.temperature = value
        return x / self.temperature + self.bound


def test_setters_of_modules_are_called():
    def done(compiled):
        model = Tempered()
        called = oxytorch.compile(model) if compiled else model
        given = (None, 2.0, None, 3.0, -1.0, 4.0, 6.0, None, 7.0)
        results = [outcome(called, torch.ones(2), value) for value in given]
        return [(result, str(error)) for result, error in results], model._temperature, model._bound, model.seen

    assert_same(done(True), done(False))


class Reading(nn.Module):
    """What reads parameters and modules is the program's own."""

    def __init__(self):
        super().__init__()
        self.weight, self.first, self.second = nn.Parameter(torch.ones(2)), nn.Linear(2, 2), nn.Linear(2, 2)
        self.read, self.is_swapped = [], False

    def __getattr__(self, name):
        if name == "first" and self.is_swapped:
            return super().__getattr__("second")
        found = super().__getattr__(name)
        if name == "weight":
            self.read.append(name)
            return found * 2
        return found

    def forward(self, x):
        return self.first(x) * self.weight


def test_a_module_may_have_its_own_getattr():
    def done(compiled):
        torch.manual_seed(0)
        model, results = Reading(), []
        called = oxytorch.compile(model) if compiled else model
        for is_swapped in (False, True, False, True):
            model.is_swapped = is_swapped
            results.append(called(torch.ones(2)).detach())
        return results, model.read, list(model.state_dict())

    assert_same(done(True), done(False))


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.arange(4.0))
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, t):
        return t * self.weight + self.scale


MOVES = {
    "to a tensor": lambda module, t: module.to(t),
    "to a tensor of the function's": lambda module, t: module.to(t * 2),
    "to a device": lambda module, t: module.to(t.device),
    "to a device by name": lambda module, t: module.to(device=t.device, non_blocking=True),
    "to a type": lambda module, t: module.to(torch.float64),
    "to the type of a tensor": lambda module, t: module.to(t.double()),
    "to device and type": lambda module, t: module.to(t.device, torch.float64),
}


@pytest.mark.parametrize("how", MOVES)
@pytest.mark.parametrize("is_new", [True, False])
def test_a_module_is_moved_where_the_program_says(how, is_new):
    """Not to where the shadows of capture lie."""

    def done(compiled):
        torch.manual_seed(0)
        given = Scaled()

        def moved(t):
            return MOVES[how](Scaled() if is_new else given, t)(t)

        called = oxytorch.compile(moved) if compiled else moved
        results = [outcome(called, x(3, 4)) for _ in range(3)]
        return results, [(name, t, t.device) for name, t in given.state_dict().items()]

    assert_same(done(True), done(False))
