"""Every recompile is one line: which function, what was relied on and what came instead, which line relies on it, and what to do about it."""

import os
import subprocess
import sys

import oxytorch
import pytest
import torch
from compare import assert_same
from oxytorch import _oxytorch


def line_of(function, ahead=1):
    code = getattr(function, "__code__", None) or function.forward.__code__
    return f"{os.path.basename(code.co_filename)}:{code.co_firstlineno + ahead}"


def doubles(x):
    return x * 2


def branches(x):
    return x.sum(1) if x.shape[1] > 8 else x.mean(1)


def joins(x, y):
    return x + y


def scales(x, factor):
    return x * factor if factor > 1 else x


def named(x, kind):
    return x.sum() if kind == "sum" else x.mean()


def all_of(tensors):
    return sum(tensors)


def keys(tensors):
    return sum(tensors.values())


def doubles_nonzero(x):
    return x.nonzero() * 2


def rand(*shape, dtype=torch.float32):
    return torch.randn(*shape).to(dtype)


class Flagged:
    def __init__(self, flag):
        self.flag, self.real = flag, torch.ones(3)


CASES = {
    "a size": (doubles, (rand(3, 4),), (rand(5, 4),), {}, "arg0.shape[0] was 3 and is 5", "mark_dynamic"),
    "two sizes": (doubles, (rand(3, 4),), (rand(5, 6),), {}, "arg0.shape[0] was 3 and is 5 and arg0.shape[1] was 4 and is 6", "dynamic=True"),
    "never": (doubles, (rand(3, 4),), (rand(5, 4),), {"dynamic": False}, "arg0.shape[0] was 3 and is 5", "leave it out"),
    "one": (doubles, (rand(1, 4),), (rand(5, 4),), {"dynamic": True}, "arg0.shape[0] was 1 and is 5", "0 or 1"),
    "a branch": (branches, (rand(3, 4),), (rand(3, 12),), {"dynamic": True}, "arg0.shape[1] is 12", "pad"),
    "equal sizes": (joins, (rand(3, 4), rand(3, 4)), (rand(5, 4), rand(1, 4)), {"dynamic": True}, "arg1.shape[0] was arg0.shape[0], which is 5, and is 1", "told apart"),
    "a type": (doubles, (rand(3),), (rand(3, dtype=torch.float64),), {}, "the type of arg0 was f32 and is f64", "convert"),
    "strides": (doubles, (rand(3, 4),), (rand(4, 3).t(),), {}, "arg0.stride() was [4, 1] and is [1, 3]", "contiguous"),
    "dimensions": (doubles, (rand(3),), (rand(3, 1),), {}, "arg0.shape was [3] and is [3, 1]", "kind"),
    "a number": (scales, (rand(3), 2), (rand(3), 3), {}, "arg1 was 2 and is 3", "a tensor is one at once"),
    "a text": (named, (rand(3), "sum"), (rand(3), "mean"), {}, "arg1 was 'sum' and is 'mean'", "each value"),
    "names": (keys, ({"a": rand(3)},), ({"a": rand(3), "b": rand(3)},), {}, "list(arg0) was ['a'] and is ['a', 'b']", "same kind"),
    "a count": (doubles_nonzero, (torch.tensor([0, 1]),), (torch.tensor([1, 1]),), {}, "nonzero(...).shape[0] was 1 and is 2", "0 or 1"),
    "a key": (lambda x: x["a"] * 2 if "b" in x else x["a"], ({"a": rand(3)},), ({"a": rand(3), "b": rand(3)},), {}, "'b' in arg0 was False and is True", "each value"),
    "an attribute": (lambda x: x.real * 2 if x.flag > 1 else x.real, (Flagged(2),), (Flagged(0),), {}, "arg0.flag > 1 was True and is False: arg0.flag is 0", "each value"),
    "a bound": (lambda x: x * 2 if x.shape[0] > 8 else x, (rand(3),), (rand(12),), {"dynamic": True}, "arg0.shape[0] <= 8 does not hold: arg0.shape[0] is 12", "pad"),
    "code": (lambda x, f: f(x), (rand(3), lambda x: x + 1), (rand(3), lambda x: x + 2), {}, "arg1.__code__ was the code of <lambda> at line", "each value"),
    "a length": (all_of, ([rand(3)],), ([rand(3), rand(3)],), {}, "len(arg0) was 1 and is 2", "same kind"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_recompile_is_explained(name):
    function, first, second, settings, what, advice = CASES[name]
    explained = oxytorch.explain(function, **settings)
    with torch.no_grad():
        assert explained(*first).recompiles == []
        (line,) = explained(*second).recompiles
    assert f"{function.__name__} is traced again: " in line and what in line and advice in line, line
    # A text is relied on as it comes in.
    place = line_of(function, ahead=0 if name == "a text" or function.__name__ == "<lambda>" else 1)
    assert f"relied on at {os.path.dirname(__file__)}/{place}" in line, line
    assert "\n" not in line


def test_a_mode():
    explained = oxytorch.explain(doubles)
    x = rand(3)
    with torch.no_grad():
        explained(x)
    (line,) = explained(x).recompiles
    assert "grad mode off" in line and "grad mode on" in line and "same mode" in line


class Linear(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x) * 2


def test_the_line_is_the_users_not_torchs():
    model = Linear()
    explained = oxytorch.explain(model)
    with torch.no_grad():
        explained(rand(2, 3))
        model.inner.bias = None
        (line,) = explained(rand(2, 3)).recompiles
    assert f"relied on at {os.path.dirname(__file__)}/{line_of(model)}" in line and "'bias'" in line, line


def explained_by(function, *calls, **settings):
    explained = oxytorch.explain(function, **settings)
    for args, kwargs in calls:
        found = explained(*args, **kwargs)
    return found.recompiles[-1]


def test_the_arguments_that_were_given():
    line = explained_by(joins, ((rand(3), rand(3)), {}), ((rand(3),), {"y": rand(3)}))
    assert "the call was with 2 arguments and is with 1 argument and ['y'] by name" in line


def test_the_default_type():
    try:
        explained = oxytorch.explain(lambda x: x + torch.zeros(3))
        explained(rand(3))
        torch.set_default_dtype(torch.float64)
        (line,) = explained(rand(3)).recompiles
    finally:
        torch.set_default_dtype(torch.float32)
    assert "default type torch.float64" in line


SCALE = 2


def scaled_by_a_global(x):
    return x * SCALE


def test_a_global(monkeypatch):
    explained = oxytorch.explain(scaled_by_a_global)
    explained(rand(3))
    monkeypatch.setitem(globals(), "SCALE", 3)
    (line,) = explained(rand(3)).recompiles
    assert f"<the globals of {__name__}>['SCALE'] was 2 and is 3" in line


def test_what_is_made_of_sizes_is_told_by_their_names():
    named = lambda x: {f"{x.shape[0]}": x}
    line = explained_by(named, *[((rand(n),), {}) for n in (3, 4, 5)])
    assert "format(arg0.shape[0]) was '4' and is '5'" in line
    rooted = lambda x: x * 2 if int(x.shape[0] ** 0.5) > 2 else x
    line = explained_by(rooted, *[((rand(n),), {}) for n in (5, 6, 20)])
    assert "int(arg0.shape[0] ** 0.5) is 4" in line


def test_what_comes_behind_a_break_is_told_by_what_was_called():
    opaque = torch.compiler.disable(lambda x: x[:, : len(x)])

    def function(x):
        y = opaque(x)
        return y * 2 if y.shape[1] > 4 else y

    line = explained_by(function, *[((rand(n, 9),), {}) for n in (3, 6, 2)])
    assert "(...).shape[" in line and "s0" not in line and "s1" not in line, line


def test_the_line_is_that_of_the_code_inside():
    class Inner(torch.nn.Module):
        def forward(self, x):
            y = x + 1
            return y if x.shape[0] < 4 else y * 2

    explained = oxytorch.explain(torch.nn.Sequential(Inner()), dynamic=True)
    explained(rand(3))
    (line,) = explained(rand(5)).recompiles
    assert line_of(Inner(), 2) in line, line


def test_the_log_and_the_explanation_agree(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        "import torch, oxytorch\n"
        "def f(x):\n"
        "    return x.sum() if len(x) > 3 else x\n"
        "explained = oxytorch.explain(f)\n"
        "for n in (2, 3, 5):\n"
        "    found = explained(torch.ones(n))\n"
        "print('\\n'.join(found.recompiles))\n"
    )
    environment = {**os.environ, "OXYTORCH_LOGS": "recompiles"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment)
    logged = [line.removeprefix("oxytorch recompiles: ") for line in done.stderr.splitlines() if line.startswith("oxytorch ")]
    assert logged == done.stdout.splitlines() and len(logged) == 2, done.stderr
    assert f"{script}:2: f is traced again: arg0.shape[0] was 2 and is 3, relied on at {script}:3; " in logged[0]


def test_deterministic_algorithms_are_a_trace_of_their_own():
    """On a GPU their kernels are others."""
    fast, x = oxytorch.compile(doubles), rand(3, 4)
    try:
        for deterministic, traced in ((False, 1), (True, 2), (False, 2), (True, 2)):
            torch.use_deterministic_algorithms(deterministic)
            assert torch.equal(fast(x), doubles(x))
            assert fast.stats()["traced"] == traced
    finally:
        torch.use_deterministic_algorithms(False)


class Counted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.calls, self.scale = torch.nn.Linear(3, 3), 0, 1.0

    def forward(self, t):
        self.calls += 1
        self.scale *= 0.5
        return self.linear(t)


def walked(module, t, read):
    y = module(t)
    norm = sum(p.square().sum() for p in module.parameters())
    seen = {module}, {module: 1}, {m for m in [module, module.linear]}
    if read == "attribute":
        return y + norm, module.calls, module.scale
    if read == "dict":
        return y + norm, vars(module)["calls"], dict(vars(module))["scale"]
    if read == "members":
        return y + norm, [m.calls for m in seen[0]], next(iter(seen[1])).scale
    if read == "text":
        return y + norm, f"{module.calls} {module.scale}", "%s" % module.calls
    return y + norm, module in seen[0], module in seen[1], len(seen[2]), [name for name, _ in module.named_modules()]


def test_a_module_that_counts_its_calls_is_looked_for():
    plain, module = Counted(), Counted()
    module.load_state_dict(plain.state_dict())
    captured = _oxytorch.capture(walked, settings=[("recompile_limit", 100)])
    with torch.no_grad():
        for n in range(6):
            t = torch.randn(2, 3)
            assert_same(captured(module, t, ""), walked(plain, t, ""))
            assert module.calls == plain.calls == n + 1 and module.scale == plain.scale
        assert captured.stats()["traced"] <= 3
        for read in ("attribute", "dict", "members", "text") * 3:
            t = torch.randn(2, 3)
            assert_same(captured(module, t, read), walked(plain, t, read))
            assert module.calls == plain.calls and module.scale == plain.scale
