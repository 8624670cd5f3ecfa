"""`oxytorch.compile` as people use it: decorators, methods, modules and their copies, settings, stances, explanations."""

import copy
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref

import pytest
import torch
import torch.nn as nn

import oxytorch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 2)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return self.second(torch.relu(self.first(x))) * self.scale


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


def compiled_net():
    net = Net()
    return net, oxytorch.compile(net), torch.randn(3, 4)


def traced(compiled):
    captured = compiled._oxytorch.call if isinstance(compiled, nn.Module) else compiled
    return captured.stats()["traced"]


# Functions.


def test_a_function_and_a_decorator():
    @oxytorch.compile
    def double(x):
        """Twice."""
        return x * 2

    @oxytorch.compile(fullgraph=True)
    def triple(x):
        return x * 3

    x = torch.randn(3)
    assert torch.equal(double(x), x * 2) and torch.equal(triple(x), x * 3)
    assert double.__name__ == "double" and double.__doc__ == "Twice."


def test_a_method():
    class Scaler:
        def __init__(self, factor):
            self.factor = factor

        @oxytorch.compile
        def scale(self, x):
            return x * self.factor

    x = torch.randn(3)
    assert torch.equal(Scaler(2.0).scale(x), x * 2.0)
    assert torch.equal(Scaler(3.0).scale(x), x * 3.0)


class Scaler:
    def __init__(self, factor):
        self.factor = factor

    @oxytorch.compile
    def scale(self, x, add=0):
        return x * self.factor + add

    @classmethod
    @oxytorch.compile
    def double(cls, x):
        return x * 2

    def __call__(self, x):
        return self.scale(x)


CALLS = {
    "method": lambda scaler, x: scaler.scale(x),
    "names": lambda scaler, x: scaler.scale(add=1, x=x),
    "bound": lambda scaler, x: [scale(x) for scale in [scaler.scale]][0],
    "of the class": lambda scaler, x: Scaler.scale(scaler, x),
    "classmethod": lambda scaler, x: scaler.double(x),
    "call": lambda scaler, x: scaler(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_method_under_another_backend(name):
    call, is_traced = CALLS[name], name not in ("of the class", "classmethod")
    scaler, x = Scaler(3.0), torch.randn(3)
    want = call(scaler, x)
    torch._dynamo.reset()
    assert torch.equal(torch.compile(call, backend="eager", fullgraph=is_traced)(scaler, x), want)
    with torch.compiler.set_stance(force_backend="eager"):
        assert torch.equal(oxytorch.compile(call)(scaler, x), want)
    assert isinstance(scaler.scale.__func__, oxytorch._oxytorch.Captured)
    assert oxytorch.compile(lambda x: Scaler.scale.__get__(scaler)(x))(x).equal(x * 3)


def test_a_method_of_nothing():
    """What a function refuses, and nothing else."""
    captured = oxytorch.compile(lambda x: x + 1)
    assert captured.__get__(None, int) is captured
    for given in ([None], [None, None]):
        with pytest.raises(TypeError, match="__get__"):
            captured.__get__(*given)


class DecoratedForward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    @oxytorch.compile
    def forward(self, x):
        return self.linear(x).relu()

    @oxytorch.compile
    def doubled(self, x):
        return self.linear(x) * 2


MODULES = {
    "eager": lambda module, x: torch.compile(module, backend="eager")(x),
    "ours": lambda module, x: torch.compile(module, backend="oxytorch")(x),
    "a part": lambda module, x: torch.compile(torch.nn.Sequential(module), backend="eager", fullgraph=True)(x),
    "forced": lambda module, x: forced(lambda: oxytorch.compile(module)(x)),
    "exported": lambda module, x: torch.export.export(module, (x,)).module()(x),
}


def forced(call):
    with torch.compiler.set_stance(force_backend="eager"):
        return call()


@pytest.mark.parametrize("name", MODULES)
def test_a_module_with_a_decorated_forward_under_another_backend(name):
    torch._dynamo.reset()
    module, x = DecoratedForward(), torch.randn(2, 3)
    want = module.linear(x).relu()
    for _ in range(2):
        assert torch.equal(MODULES[name](module, x), want)
    assert isinstance(module.forward.__func__, oxytorch._oxytorch.Captured)
    assert isinstance(torch.compile(module, backend="eager").doubled.__func__, oxytorch._oxytorch.Captured)


def test_disable_returns_the_function(monkeypatch):
    function = lambda x: x + 1
    assert oxytorch.compile(function, disable=True) is function
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert oxytorch.compile(function) is function


@pytest.mark.parametrize("thing", [3, None, "f", torch.ones(2)], ids=repr)
def test_what_cannot_be_called(thing):
    with pytest.raises(TypeError):
        oxytorch.compile(thing)() if thing is None else oxytorch.compile(thing)


def test_another_backend_is_named():
    with pytest.raises(ValueError, match="'inductor'"):
        oxytorch.compile(lambda x: x, backend="inductor")


def test_fullgraph_names_line_reason_and_fix():
    def shows(x):
        print("here")
        return x

    with pytest.raises(RuntimeError, match=r"test_compile.py:\d+.*print.*fullgraph"):
        oxytorch.compile(shows, fullgraph=True)(torch.ones(2))


# Modules.


def test_a_module_stays_what_it_is():
    net, compiled, x = compiled_net()
    assert torch.equal(compiled(x), net(x))
    assert isinstance(compiled, Net) and repr(compiled) == repr(net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert [name for name, _ in compiled.named_parameters()] == [name for name, _ in net.named_parameters()]
    assert compiled.first is net.first
    assert inspect.signature(compiled.forward) == inspect.signature(net.forward)


def test_the_original_stays_plain():
    net, compiled, x = compiled_net()
    compiled(x)
    assert type(net) is Net and traced(compiled) == 1
    net(x)
    assert traced(compiled) == 1


def test_flags_and_attributes_are_shared():
    net, compiled, x = compiled_net()
    compiled.eval()
    assert not net.training and not net.first.training
    compiled.extra = 5
    assert net.extra == 5
    compiled.to(torch.float64)
    assert net.first.weight.dtype == torch.float64
    assert torch.allclose(compiled(x.double()), net(x.double()))


def test_new_weights_are_used():
    net, compiled, x = compiled_net()
    compiled(x)
    compiled.load_state_dict(Net().state_dict())
    assert torch.equal(compiled(x), net(x))
    net.second.weight.zero_()
    assert torch.equal(compiled(x), net(x))
    assert traced(compiled) == 1


def test_hooks_added_later_run():
    net, compiled, x = compiled_net()
    compiled(x)
    handle = compiled.register_forward_hook(lambda module, args, out: out + 100)
    assert (compiled(x) > 50).all() and torch.equal(compiled(x), net(x))
    handle.remove()
    assert (compiled(x) < 50).all()


def test_a_deep_copy_is_compiled_and_separate():
    net, compiled, x = compiled_net()
    compiled(x)
    twin = copy.deepcopy(compiled)
    twin.first.weight.zero_()
    assert not torch.equal(twin(x), net(x)) and torch.equal(compiled(x), net(x))
    assert traced(twin) == 1


def test_a_pickled_module_is_compiled_again():
    net, compiled, x = compiled_net()
    again = pickle.loads(pickle.dumps(compiled))
    assert torch.equal(again(x), net(x)) and traced(again) == 1


def test_compiling_twice_is_compiling_once():
    net, compiled, x = compiled_net()
    twice = oxytorch.compile(compiled)
    assert torch.equal(twice(x), net(x)) and twice._oxytorch.module is net


def test_a_compiled_part_of_a_module():
    net = nn.Sequential(oxytorch.compile(Net()), nn.ReLU())
    x = torch.randn(3, 4)
    assert torch.equal(net(x), torch.relu(net[0](x)))
    assert torch.equal(oxytorch.compile(net)(x), net(x))


# Settings.


def test_settings_are_checked():
    with pytest.raises(AttributeError, match="recompile_limit"):
        oxytorch.config.recompile_limt = 3
    with pytest.raises(ValueError, match="whole number"):
        oxytorch.config.recompile_limit = 0
    with pytest.raises(TypeError, match="True or False"):
        oxytorch.config.error_on_recompile = "yes"
    with pytest.raises(ValueError, match="nearest|did you mean|recompile"):
        oxytorch.compile(lambda x: x, options={"recompile_limt": 3})


def test_an_alias_is_the_same_setting():
    before = oxytorch.config.recompile_limit
    try:
        oxytorch.config.cache_size_limit = 3
        assert oxytorch.config.recompile_limit == 3
    finally:
        oxytorch.config.recompile_limit = before


def test_a_setting_from_the_environment():
    code = "import oxytorch; print(oxytorch.config.recompile_limit, oxytorch.config.error_on_recompile)"
    run = lambda **env: subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**__import__("os").environ, **env})
    assert run(OXYTORCH_RECOMPILE_LIMIT="5", OXYTORCH_ERROR_ON_RECOMPILATION="1").stdout.split() == ["5", "True"]
    assert "OXYTORCH_RECOMPILE_LIMIT" in run(OXYTORCH_RECOMPILE_LIMIT="many").stderr


def test_error_on_recompile_says_what_changed():
    double = oxytorch.compile(lambda x: x * 2, options={"error_on_recompile": True})
    double(torch.ones(3))
    double(torch.zeros(3))
    with pytest.raises(RuntimeError, match=r"shape\[0\] was 3 and is 4"):
        double(torch.ones(4))


def test_past_the_limit_calls_run_as_they_are():
    double = oxytorch.compile(lambda x: x * 2, dynamic=False, options={"recompile_limit": 2})
    with pytest.warns(UserWarning, match="too many"):
        for n in range(1, 5):
            assert torch.equal(double(torch.ones(n)), torch.full((n,), 2.0))
    assert traced(double) == 2


# Stances.


@pytest.fixture
def stance():
    yield torch.compiler.set_stance
    torch.compiler.set_stance("default")


def test_force_eager(stance):
    double = oxytorch.compile(lambda x: x * 2)
    stance("force_eager")
    assert torch.equal(double(torch.ones(3)), torch.full((3,), 2.0)) and traced(double) == 0


def test_fail_and_eager_on_recompile(stance):
    double = oxytorch.compile(lambda x: x * 2)
    double(torch.ones(3))
    stance("fail_on_recompile")
    double(torch.zeros(3))
    with pytest.raises(RuntimeError, match="fail_on_recompile"):
        double(torch.ones(4))
    stance("eager_on_recompile")
    assert torch.equal(double(torch.ones(4)), torch.full((4,), 2.0)) and traced(double) == 1


@pytest.mark.parametrize("name", ["eager_then_compile", "aot_eager_then_compile"])
def test_eager_then_compile(stance, name):
    double = oxytorch.compile(lambda x: x * 2)
    stance(name)
    double(torch.ones(3))
    assert traced(double) == 0
    double(torch.ones(3))
    assert traced(double) == 1


def test_nothing_more_is_compiled_while_dynamo_is_disabled():
    double = oxytorch.compile(lambda x: x * 2)
    double(torch.ones(3))
    with torch._dynamo.config.patch(disable=True):
        for n in (3, 4):
            assert torch.equal(double(torch.ones(n)), torch.full((n,), 2.0))
        assert traced(double) == 1
    double(torch.ones(4))
    assert traced(double) == 2


def test_another_backend_is_forced(stance):
    seen = []

    def backend(module, inputs):
        seen.append(len(inputs))
        return module

    def doubles(x):
        return torch.nn.functional.relu(x) * 2

    double, network = oxytorch.compile(doubles), oxytorch.compile(torch.nn.Linear(3, 3))
    x = torch.randn(3)
    for forced, own in (("oxytorch", 1), (backend, 1), ("eager", 1), (None, 1)):
        stance("default", force_backend=forced)
        assert torch.equal(double(x), doubles(x))
        torch.testing.assert_close(network(x), torch.nn.functional.linear(x, network.weight, network.bias))
        assert traced(double) == own and len(seen) == 2 * (forced in (backend, "eager", None))
    stance("default", force_backend=backend)
    double(torch.randn(4))
    assert traced(double) == 1 and len(seen) > 2


# Explanations.


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
def test_explain_of_what_is_decorated(compiled):
    class Adder:
        def __init__(self):
            self.calls = 0

        def counted(function):
            @functools.wraps(function)
            def call(self, *args):
                self.calls += 1
                return function(self, *args) * 2

            return call

        @counted
        def add(self, x):
            return x + 1

        @torch.no_grad()
        def add_without_grad(self, x):
            return x + 1

    adder, x = Adder(), torch.ones(2, requires_grad=True)
    prepared = oxytorch.compile if compiled else lambda function: function
    found = oxytorch.explain(prepared(adder.add))(x)
    assert found.result.tolist() == [4, 4] and adder.calls == 1 and len(found.graphs) == 1
    assert not oxytorch.explain(prepared(adder.add_without_grad))(x).result.requires_grad


def test_explain():
    def shows(x, n):
        y = x + n
        if y.sum() > 0:
            y = y * 2
        return y * y.sum().item() / 12

    found = oxytorch.explain(shows)(torch.ones(3), 1)
    assert torch.equal(found.result, torch.full((3,), 4.0))
    assert len(found.graphs) == 3 and len(found.breaks) == 1 and found.recompiles == []
    (read,) = found.reads
    assert "item" in read and "test_compile.py" in read and read in str(found)
    assert "truth of a tensor" in found.breaks[0].reason and "test_compile.py" in found.breaks[0].stack[-1]
    assert any("[3]" in guard for guard in found.guards)
    assert "breaks: 1" in str(found) and "test_compile.py" in str(found)


def test_logs_name_the_line(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        "import torch, oxytorch\n"
        "def f(x):\n"
        "    print('hello')\n"
        "    return x + 1\n"
        "f = oxytorch.compile(f)\n"
        "with torch.no_grad():\n"
        "    f(torch.ones(2)); f(torch.ones(3))\n"
    )
    environment = {**__import__("os").environ, "OXYTORCH_LOGS": "graph_breaks,recompiles"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert "user.py:3" in done.stderr and "traced again" in done.stderr and "was 2 and is 3" in done.stderr


# The words of torch.compiler.


def test_disable_keeps_a_function_out_and_the_rest_in():
    ran = []

    @torch.compiler.disable(reason="it writes a log")
    def noted(x):
        ran.append(type(x))
        return x + 1

    def around(x):
        return noted(x * 2) * 3

    x = torch.randn(3)
    compiled = oxytorch.compile(around)
    for _ in range(3):
        assert torch.equal(compiled(x), around(x))
    assert ran == [torch.Tensor] * 6 and traced(compiled) == 1
    found = oxytorch.explain(around)(x)
    assert len(found.graphs) == 2 and "it writes a log" in found.breaks[0].reason


def test_assume_constant_result():
    calls = []

    @torch.compiler.assume_constant_result
    def factor():
        calls.append(1)
        return 3.0

    compiled = oxytorch.compile(lambda x: x * factor())
    x = torch.randn(3)
    assert torch.equal(compiled(x), x * 3.0) and torch.equal(compiled(x), x * 3.0)
    assert len(calls) == 1


def test_allow_in_graph():
    @torch.compiler.allow_in_graph
    def strange(x):
        return torch.sin(x) if x.dim() == 1 else x

    compiled = oxytorch.compile(lambda x: strange(x + 1) * 2)
    x = torch.randn(3)
    assert torch.equal(compiled(x), torch.sin(x + 1) * 2) and torch.equal(compiled(x), torch.sin(x + 1) * 2)
    assert compiled.stats()["breaks"] == []


def test_a_nested_compile_region_is_its_function():
    region = torch.compiler.nested_compile_region(lambda x: x.sin())
    compiled = oxytorch.compile(lambda x: region(region(x)), fullgraph=True)
    assert torch.allclose(compiled(torch.ones(2)), torch.ones(2).sin().sin())


def test_a_function_that_is_compiled_inside_is_part_of_the_graph():
    compiled = oxytorch.compile(lambda x: torch.compile(lambda y: y.sin(), dynamic=True)(x) + torch.compile()(torch.cos)(x), fullgraph=True)
    assert torch.allclose(compiled(torch.ones(2)), torch.ones(2).sin() + torch.ones(2).cos())


def test_is_compiling():
    import torch._dynamo

    for asked in (torch.compiler.is_compiling, torch._dynamo.is_compiling):
        compiled = oxytorch.compile(lambda x: x + 1 if asked() else x, fullgraph=True)
        assert torch.equal(compiled(torch.zeros(2)), torch.ones(2))


# Regions.


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.inner, self.outer = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.outer(torch.relu(self.inner(self.norm(x))))


class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(depth))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def test_regions_share_one_trace():
    model, x = Deep(6), torch.randn(3, 8)
    want = model(x)
    keys = list(model.state_dict())
    assert oxytorch.compile_regions(model) is model
    for _ in range(2):
        assert torch.allclose(model(x), want, atol=1e-6)
    shared = {block._compiled_call_impl.func for block in model.blocks}
    assert len(shared) == 1 and shared.pop().stats()["traced"] == 1
    assert list(model.state_dict()) == keys
    model.blocks[3].inner.weight.zero_()
    twin = Deep(6)
    twin.load_state_dict(model.state_dict())
    assert torch.allclose(model(x), twin(x), atol=1e-6)
    assert torch.allclose(copy.deepcopy(model)(x), twin(x), atol=1e-6)


def test_what_is_compiled_for_a_class_goes_with_it():
    class Local(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x)

    first, second = oxytorch.compile(Local()), oxytorch.compile(Local())
    assert type(first) is type(second)
    for _ in range(3):
        first(torch.ones(2)), second(torch.ones(2))
    references = [weakref.ref(Local), weakref.ref(type(first))]
    del Local, first, second
    gc.collect()
    assert [reference() for reference in references] == [None, None]


def test_logs_without_anybody_to_read_them():
    code = (
        "import os, torch\n"
        "os.close(2)\n"
        "import oxytorch\n"
        "f = oxytorch.compile(lambda x: x + (print('said') is None))\n"
        "print(f(torch.ones(2)).tolist(), f(torch.ones(3)).tolist())\n"
    )
    environment = dict(os.environ, OXYTORCH_LOGS="all", OXYTORCH_BUG="fatal")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.splitlines() == ["said", "said", "[2.0, 2.0] [2.0, 2.0, 2.0]"] and done.returncode == 0


def test_a_mistyped_log_is_named():
    environment = dict(os.environ, OXYTORCH_LOGS="graph_break, recompiles")
    code = "import torch, oxytorch; oxytorch.compile(lambda x: x + 1)(torch.ones(2))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stderr.startswith('oxytorch: OXYTORCH_LOGS knows no "graph_break"; there are all, graph_breaks, ')


def test_regions_need_repeated_blocks():
    with pytest.raises(TypeError, match="takes a module"):
        oxytorch.compile_regions(lambda x: x)
    with pytest.raises(ValueError, match="no repeated blocks"):
        oxytorch.compile_regions(nn.Linear(2, 2))


def test_the_steps_of_a_loop_share_kernels():
    def network(x, weight):
        hidden, hiddens = x.new_zeros(x.shape[0], x.shape[2]), []
        for step in range(x.shape[1]):
            hidden = torch.tanh(x[:, step] + hidden @ weight)
            hiddens.append(hidden)
        return torch.stack(hiddens, 1)

    x, weight = torch.randn(3, 40, 27), torch.randn(27, 27) * 0.1
    with torch.no_grad():
        torch.testing.assert_close(oxytorch.compile(network)(x, weight), network(x, weight))
    report = oxytorch.last_compile()
    # A copy, 39 steps, and the stack of all in shares of 8.
    assert report["kernels"] == 45 and report["kernels_compiled"] <= 8
