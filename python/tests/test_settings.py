"""Knobs and tools: settings by three ways, resets, marks of sizes, breaks that are errors, logs, explanations, depth."""

import os
import subprocess
import sys
import warnings

import oxytorch
import pytest
import torch
from torch import nn
from test_compile import Deep, traced


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


@pytest.fixture
def config():
    names = dir(oxytorch.config)
    before = {name: getattr(oxytorch.config, name) for name in names}
    yield oxytorch.config
    for name, value in before.items():
        setattr(oxytorch.config, name, value)


def shows(x):
    print("here")
    return x + 1


def inner(x):
    return shows(x * 2)


def run(code, **environment):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


# Three ways to set.


def test_every_setting_is_known_by_three_ways(config):
    for name in dir(config):
        value = getattr(config, name)
        setattr(config, name, value)
        oxytorch.compile(lambda x: x, options={name: value})
    code = "import oxytorch; print(*(getattr(oxytorch.config, name) for name in sorted(dir(oxytorch.config))))"
    values = {"VERBOSE": "1", "SUPPRESS_ERRORS": "0", "ASSUME_STATIC_BY_DEFAULT": "false", "RECOMPILE_LIMIT": "3", "RACE_EAGER": "", "CACHE_SIZE_LIMIT": ""}
    done = run(code, **{f"OXYTORCH_{name}": value for name, value in values.items()})
    assert done.stdout.split() == ["256", "False", "True", "False", "False", "False", "3", "False", "True"], done.stderr


def test_a_mistyped_setting_names_the_nearest(config):
    with pytest.raises(AttributeError, match="suppress_errors"):
        config.supress_errors = True
    with pytest.raises(ValueError, match='did you mean "verbose"'):
        oxytorch.compile(lambda x: x, options={"verbos": True})
    assert "suppress_errors" in config.__doc__


def test_verbose_shows_the_whole_stack():
    with pytest.raises(RuntimeError) as short:
        oxytorch.compile(inner, fullgraph=True)(torch.ones(2))
    with pytest.raises(RuntimeError) as long:
        oxytorch.compile(inner, fullgraph=True, options={"verbose": True})(torch.ones(2))
    assert str(short.value).count("test_settings.py") == 1 and str(long.value).count("test_settings.py") == 3
    assert "move it out" in str(short.value) and "drop fullgraph" in str(short.value)


def test_sizes_vary_from_the_first_call_on(config):
    config.assume_static_by_default = False
    double = oxytorch.compile(lambda x: x * x.shape[0])
    config.assume_static_by_default = True
    for n in (3, 4, 5):
        assert torch.equal(double(torch.ones(n)), torch.full((n,), float(n)))
    assert traced(double) == 1


# Forgetting.


def test_reset():
    double, other = oxytorch.compile(lambda x: x * 2), oxytorch.compile(nn.Linear(2, 2))
    for forget in (oxytorch.reset, torch.compiler.reset):
        double(torch.ones(3)), double(torch.ones(3)), other(torch.ones(2))
        assert traced(double) == traced(other) == 1
        forget()
        assert traced(double) == traced(other) == double.stats()["segments"] == 0


def test_the_reset_of_a_compiler_that_nobody_loaded():
    code = (
        "import sys, torch, oxytorch\n"
        "print('torch._dynamo.eval_frame' in sys.modules)\n"
        "f = oxytorch.compile(lambda x: x + 1)\n"
        "with torch.no_grad():\n"
        "    f(torch.ones(2)); f(torch.ones(2))\n"
        "    print(f.stats()['traced'])\n"
        "    for _ in range(2):\n"
        "        torch.compiler.reset(); print(f.stats()['traced']); f(torch.ones(2)); print(f.stats()['traced'])\n"
    )
    done = run(code)
    assert done.stdout.split() == ["False", "1", "0", "1", "0", "1"], done.stderr


def test_a_reset_forgets_the_limit():
    double = oxytorch.compile(lambda x: x * 2, options={"recompile_limit": 2})
    for _ in range(3):
        for n in (1, 2):
            double(torch.ones(n))
        assert traced(double) == 2
        oxytorch.reset()


def test_the_limit_of_all_traces_holds_behind_breaks_too():
    def step(x):
        return x * print_nothing(x).shape[0]

    @torch.compiler.disable
    def print_nothing(x):
        return torch.ones(sizes.pop())

    sizes = [1, 2, 3, 4, 5, 6, 7, 7]
    limits = {"accumulated_recompile_limit": 3, "recompile_limit": 100}
    compiled = oxytorch.compile(step, dynamic=False, options=limits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for n in (7, 7, 6, 5, 4, 3, 2, 1):
            assert torch.equal(compiled(torch.ones(2)), torch.full((2,), float(n)))
    assert compiled.stats()["segments"] == 1 + 3


# Sizes that vary.


def test_marks_of_sizes():
    compiled = oxytorch.compile(lambda x: x * x.shape[0])
    for n in (4, 5, 6, 7):
        x = torch.ones(n, 2)
        torch._dynamo.mark_dynamic(x, 0)
        assert torch.equal(compiled(x), torch.full((n, 2), float(n)))
    assert traced(compiled) == 1
    compiled = oxytorch.compile(lambda x: x * x.shape[0])
    for n in (4, 5):
        x = torch.ones(n, 2)
        torch._dynamo.mark_static(x, 0)
        assert torch.equal(compiled(x), torch.full((n, 2), float(n)))
    assert traced(compiled) == 2
    x = torch.ones(9, 2)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    assert torch.equal(oxytorch.compile(lambda a: a["x"] + 1)({"x": x}), x + 1)


# Breaks that are errors.


def test_error_on_graph_break():
    compiled = oxytorch.compile(inner)
    for guard in (torch._dynamo.error_on_graph_break, oxytorch.error_on_graph_break):
        oxytorch.reset()
        with guard(True), pytest.raises(RuntimeError, match=r"error_on_graph_break.*test_settings.py:\d+"):
            compiled(torch.ones(2))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 3.0))


def test_error_on_graph_break_in_a_part():
    def parts(x, strict):
        x = shows(x)
        with torch._dynamo.error_on_graph_break(strict):
            x = x * 2
            return shows(x)

    compiled = oxytorch.compile(parts)
    assert torch.equal(compiled(torch.ones(2), False), torch.full((2,), 5.0))
    with pytest.raises(RuntimeError, match="error_on_graph_break"):
        compiled(torch.ones(2), True)
    assert not torch._dynamo.utils._get_error_on_graph_break()


def test_error_on_graph_break_of_a_function():
    of = torch._dynamo.error_on_graph_break
    whole, strict, may = of(True)(lambda x: x * 2), of(True)(shows), of(False)(shows)
    around = oxytorch.compile(lambda x: shows(whole(shows(x))))
    assert torch.equal(around(torch.ones(2)), torch.full((2,), 5.0))
    assert len(around.stats()["breaks"]) == 2
    with pytest.raises(RuntimeError, match="error_on_graph_break"):
        oxytorch.compile(lambda x: strict(x) * 2)(torch.ones(2))
    assert not torch._dynamo.utils._get_error_on_graph_break()
    with of(True):
        assert torch.equal(oxytorch.compile(lambda x: may(x) * 2)(torch.ones(2)), torch.full((2,), 4.0))


def test_marks_of_nested_tensors_are_torch_s():
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)], layout=torch.jagged)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        got = oxytorch.compile(lambda n: n * 2)(nested)
    assert torch.equal(got.values(), torch.full((5, 4), 2.0))


def test_nothing_is_compiled_where_the_environment_says_so(monkeypatch):
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    model = Deep(3)
    assert oxytorch.compile(model) is model and oxytorch.compile_regions(model) is model
    assert all(block._compiled_call_impl is None for block in model.blocks)


# Seeing.


@pytest.mark.parametrize("variable", [{"OXYTORCH_LOGS": "graph_breaks,recompiles,guards,graph,kernels"}, {"TORCH_LOGS": "+oxytorch"}])
def test_every_line_of_a_log_names_the_user_s(tmp_path, variable):
    script = tmp_path / "user.py"
    script.write_text(
        "import torch, oxytorch\n"
        "def f(x):\n"
        "    y = torch.sin(x) * 2\n"
        "    print('hello')\n"
        "    return y + 1\n"
        "f = oxytorch.compile(f)\n"
        "with torch.no_grad():\n"
        "    f(torch.ones(2)); f(torch.ones(3))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env={**os.environ, **variable})
    lines = [line for line in done.stderr.splitlines() if line.startswith("oxytorch ")]
    for topic, place in (("graph_breaks", 4), ("recompiles", 2), ("guards", 2), ("graph", 3), ("kernels", 3)):
        found = [line for line in lines if line.startswith(f"oxytorch {topic}:")]
        assert any(f"user.py:{place}" in line for line in found), (topic, done.stderr)
        assert all("user.py:" in line for line in found), found


def test_an_explanation_has_all_parts():
    def choosing(x):
        y = torch.sin(x)
        if y.sum() > 0:
            y = y * 2
        return y

    found = oxytorch.explain(choosing)(torch.ones(3))
    assert found.ops >= 3 and len(found.graphs) == 2
    (cut,) = found.breaks
    assert "truth" in cut.reason and "values" in cut.explanation and "torch.where" in cut.hint and "test_settings.py" in cut.stack[-1]
    assert {"trace", "import", "optimise", "schedule", "first run"} <= set(found.seconds) and min(found.seconds.values()) >= 0
    assert "torch.where" in str(found) and "guards:" in str(found)


def test_an_explanation_of_what_was_traced_again():
    explained = oxytorch.explain(lambda x: x + 1)
    explained(torch.ones(3))
    (why,) = explained(torch.ones(4)).recompiles
    assert "was 3 and is 4" in why


# Depth.


def test_each_distinct_layer_is_compiled_once():
    x = torch.randn(3, 8)
    counts = []
    for depth in (2, 12):
        oxytorch.compile(Deep(depth))(x)
        counts.append(oxytorch.last_compile())
    assert counts[1]["kernels_compiled"] <= 1 and counts[1]["kernels"] <= counts[0]["kernels"] + 1
    assert counts[1]["launches"] > counts[0]["launches"]


def test_behind_a_break_too_the_limit_ends_the_recompiles():
    numbers = iter(range(100))
    number = torch.compiler.disable(lambda: next(numbers))
    compiled = oxytorch.compile(lambda x: x.repeat(len("a" * number())), options={"recompile_limit": 3})
    x = torch.ones(3)
    for n in range(20):
        assert torch.equal(compiled(x), x.repeat(n))
    assert len(compiled.report()["recompiles"]) == 3


@pytest.mark.parametrize("option", ({"verbose": True}, {"cache_size_limit": 3}, {"pad_to": {"x": {0: 8}}}))
def test_what_is_about_capture_has_no_place_behind_dynamo(option):
    with pytest.raises(Exception, match=f'"{next(iter(option))}" is about capture.*torch._dynamo.config'):
        torch.compile(lambda x: x + 1, backend="oxytorch", options=option)(torch.ones(2))
    assert oxytorch.compile(lambda x: x + 1, options=option)(torch.ones(2)).tolist() == [2, 2]
