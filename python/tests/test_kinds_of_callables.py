"""What `oxytorch.compile` is given besides functions and plain modules: it stays what it is for the program around it."""

import asyncio
import copy
import functools
import inspect
import pickle
import sys

import oxytorch
import pytest
import torch
import torch.nn as nn


@oxytorch.compile
class Scaled(nn.Module):
    """Its name stands in its own body: that must be the class."""

    factor = 2.0

    def __init__(self, size=4):
        super(Scaled, self).__init__()
        self.inner = nn.Linear(size, size)

    def forward(self, x):
        return self.inner(x) * self.factor

    @staticmethod
    def doubled(x):
        return x * 2


class Shifted(Scaled):
    def forward(self, x):
        return super().forward(x) + 1


def stats(cls):
    return cls.__call__.stats()


def test_a_decorated_class_is_a_class():
    x, module = torch.randn(3, 4), Scaled()
    assert isinstance(Scaled, type) and isinstance(module, Scaled) and Scaled.doubled(2) == 4
    oxytorch.reset()
    for _ in range(3):
        torch.testing.assert_close(module(x), module.inner(x) * 2)
        torch.testing.assert_close(Shifted()(x).shape, x.shape)
    assert stats(Scaled)["ops"] > 0 and not stats(Scaled)["breaks"]
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        torch.testing.assert_close(twin(x), module(x))


def test_objects_of_a_decorated_class_share_traces():
    x = torch.randn(3, 4)
    oxytorch.reset()
    for _ in range(20):
        module = Scaled()
        torch.testing.assert_close(module(x), module.inner(x) * 2)
    assert stats(Scaled)["traced"] <= 2
    module.factor = 5.0
    torch.testing.assert_close(module(x), module.inner(x) * 5)
    handle = module.register_forward_hook(lambda *_: torch.zeros(1))
    assert module(x).tolist() == [0]
    handle.remove()
    torch.testing.assert_close(module(x), module.inner(x) * 5)


def test_a_decorated_class_that_is_no_module():
    @oxytorch.compile
    class Adder:
        def __init__(self, amount):
            self.amount = amount

        def __call__(self, x):
            return x + self.amount

    x = torch.randn(3)
    for amount in (1.0, 2.0):
        torch.testing.assert_close(Adder(amount)(x), x + amount)
    assert isinstance(Adder(1.0), Adder) and stats(Adder)["traced"] >= 1
    assert oxytorch.compile(Adder) is Adder
    with pytest.raises(TypeError, match="an object of .*Adder, not the class"):
        oxytorch.explain(Adder)
    assert oxytorch.explain(Adder(3.0))(x).ops > 0


def test_an_object_of_a_decorated_class_can_be_compiled():
    module, x = Shifted(), torch.randn(3, 4)
    compiled = oxytorch.compile(module)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), module.inner(x) * 2 + 1)
    assert isinstance(compiled, Shifted) and not compiled._oxytorch.call.stats()["breaks"]


@pytest.mark.parametrize("made", ("script", "trace"))
def test_a_module_of_torchscript(made):
    plain, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(3, 4)
    module = torch.jit.script(plain) if made == "script" else torch.jit.trace(plain, x)
    compiled = oxytorch.compile(module)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), plain(x))
        torch.testing.assert_close(compiled.forward(x), plain(x))
    assert isinstance(compiled, torch.jit.ScriptModule) and list(compiled.state_dict()) == list(plain.state_dict())


def test_forward_of_a_class_that_is_given_another():
    class Net(nn.Module):
        def forward(self, x):
            return x + 1

    x, compiled = torch.randn(3), oxytorch.compile(Net())
    assert torch.equal(compiled.forward(x), x + 1)
    Net.forward = lambda self, x: x * 7
    assert torch.equal(compiled.forward(x), x * 7) and torch.equal(compiled(x), x * 7)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="callables cannot be marked")
def test_a_coroutine_function_is_known_as_one():
    """Servers and test runners ask, and await what it returns."""

    @oxytorch.compile
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    assert inspect.iscoroutinefunction(later) and not inspect.iscoroutinefunction(oxytorch.compile(lambda x: x))
    assert asyncio.run(later(torch.ones(2))).tolist() == [2, 2]


def test_a_call_of_an_object_whose_call_is_compiled():
    class Adder:
        @oxytorch.compile
        def __call__(self, a):
            return a + 1

    adder = Adder()
    compiled, x = oxytorch.compile(lambda a: adder(a * 2) * 3), torch.randn(3)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), (x * 2 + 1) * 3)
    assert not compiled.stats()["breaks"]


@pytest.mark.parametrize("backend", ("eager", "oxytorch"))
def test_what_torch_compile_has_wrapped_is_inlined(backend):
    """As TorchDynamo does it: its wrapper's own doings were breaks."""
    inner = torch.compile(lambda x, *, scale: x.sin() * scale, backend=backend)
    module, x = nn.Linear(4, 4), torch.randn(3, 4)
    module.compile(backend=backend)
    hidden = torch.compiler.disable(inner)
    compiled = oxytorch.compile(lambda x: module(inner(x + 1, scale=3)) - 1)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), module._call_impl((x + 1).sin() * 3) - 1)
    assert not compiled.stats()["breaks"] and compiled.stats()["traced"] == 1
    assert len(oxytorch.explain(lambda x: hidden(x, scale=2) + 1)(x).breaks) == 1


COMPILERS = {"ours": oxytorch.compile, "torch's": lambda function: torch.compile(function, backend="eager")}


def made_by(compiler):
    """What a function may be given, with a call of it: compiled for itself, by one or the other."""

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = compiler(nn.Linear(4, 4))

        def forward(self, x, *, scale=1.0):
            return self.inner(x) * scale

    class Tool:
        offset = 3

        @compiler
        def method(self, x, *, scale=1):
            return x * scale + self.offset

        @classmethod
        @compiler
        def of_class(cls, x, scale=2):
            return x * scale + cls.offset

        @staticmethod
        @compiler
        def alone(x, scale=2):
            return x * scale

        partly = functools.partialmethod(method, scale=3)

    class Other(Tool):
        def method(self, x, *, scale=1):
            return super().method(x, scale=scale) + 1

    class Forward(nn.Linear):
        @compiler
        def forward(self, x, *, scale=1):
            return super().forward(x) * scale

    function = compiler(lambda x, y=2, *, scale=3: x * y + scale)
    module = compiler(Net())
    return {
        "module": (module, lambda m, x: m(x, scale=2.0) + 1),
        "fields": (module, lambda m, x: (isinstance(m, nn.Module), m.training, m.inner(x) + m.inner.weight.shape[0])),
        "partial of a module": (functools.partial(module, scale=3.0), lambda m, x: m(x) + m(x, scale=1.0)),
        "modules": (nn.Sequential(module, compiler(nn.ReLU())), lambda m, x: m(x) * 2),
        "forward": (Forward(4, 4), lambda m, x: m(x, scale=2)),
        "function": (function, lambda f, x: f(x, scale=5) + f(x, y=7) + f(*(x,), **{"scale": 1})),
        "partial": (functools.partial(function, scale=9), lambda f, x: f(x) + f(x, y=3) + f(x, scale=1)),
        "of a partial": (compiler(functools.partial(function, scale=9)), lambda f, x: f(x, y=3)),
        "methods": (Tool(), lambda o, x: o.method(x, scale=2) + o.of_class(x, scale=3) + o.alone(x, scale=4) + o.partly(x)),
        "by class": (Tool(), lambda o, x: type(o).method(o, x) + type(o).of_class(x) + type(o).alone(x)),
        "bound": (Tool().method, lambda f, x: f(x, scale=5)),
        "inherited": (Other(), lambda o, x: o.method(x, scale=2)),
    }


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("name", made_by(lambda function: function))
def test_what_is_compiled_for_itself_is_inlined_as_an_argument(compiler, name):
    given, call = made_by(COMPILERS[compiler])[name]
    compiled, x = oxytorch.compile(call, fullgraph=True), torch.randn(3, 4)
    with torch.no_grad():
        # Dynamo changes nn.Module when it compiles for the first time.
        want = call(given, x)
        for _ in range(3):
            torch.testing.assert_close(compiled(given, x), want)
    assert compiled.stats()["traced"] == 1 and compiled.stats()["ops"] > 0


def test_a_metaclass_that_is_called_is_not_what_its_objects_do():
    class Meta(type):
        def __call__(cls, *args):
            return super().__call__(*args)

    class Point(metaclass=Meta):
        def __init__(self, x):
            self.x = x

    compiled = oxytorch.compile(Point)
    assert torch.equal(compiled(torch.ones(2)).x, torch.ones(2)) and not callable(Point(1))


def test_a_class_has_the_options_of_its_own_decorator():
    @oxytorch.compile(fullgraph=True)
    class Strict(Scaled):
        pass

    class Breaks(Strict):
        def forward(self, x):
            print(end="")
            return super().forward(x)

    with pytest.raises(RuntimeError, match="fullgraph"):
        Breaks()(torch.ones(1, 4))
