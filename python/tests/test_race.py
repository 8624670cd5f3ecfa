"""Never slower than eager: a graph whose first calls are slower than eager's is given to eager. Times are made, not measured: the
compiled program is slowed down by far more than eager takes."""

import os
import subprocess
import sys
import warnings

import compare
import oxytorch
import pytest
import torch

inject = oxytorch._oxytorch.inject_fault
ENOUGH = 14


@pytest.fixture(autouse=True)
def racing():
    before = oxytorch.config.race_eager
    oxytorch.config.race_eager = True
    with torch.no_grad():
        yield
    oxytorch.config.race_eager = before
    inject(None)


def slow_calls(wrapped, function, *args, calls=ENOUGH):
    inject("slow run")
    for _ in range(calls):
        compare.assert_same(wrapped(*compare.copies(args)), function(*compare.copies(args)))
    inject(None)


def is_compiled(wrapped, *args):
    """Whether the next call runs our program: a fault in it shows."""
    inject("run")
    try:
        wrapped(*compare.copies(args))
    except RuntimeError:
        return True
    finally:
        inject(None)
    return False


def chain(x):
    return (x.sin() + 1).softmax(-1)


def test_a_bug_that_was_found_in_a_timed_call_is_not_forgotten(entry, monkeypatch):
    monkeypatch.delenv("OXYTORCH_BUG")
    wrapped, x = entry(chain), torch.randn(3, 5)
    inject("run")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2 * ENOUGH):
            compare.assert_same(wrapped(x), chain(x))
    (text,) = [str(warning.message) for warning in caught if "oxytorch" in str(warning.message)]
    assert "injected into run" in text


def test_eager_gets_what_it_does_faster(entry):
    wrapped, x = entry(chain), torch.randn(3, 5)
    slow_calls(wrapped, chain, x, calls=8)
    assert is_compiled(wrapped, x), "a few calls are not enough"
    wrapped = entry(chain)
    torch._dynamo.reset()
    slow_calls(wrapped, chain, x)
    assert not is_compiled(wrapped, x)
    slow_calls(wrapped, chain, x, calls=2)


def test_only_the_slow_graph_is_given_away():
    wrapped, x = oxytorch.compile(chain), torch.randn(3, 5)
    slow_calls(wrapped, chain, x)
    assert not is_compiled(wrapped, x) and is_compiled(wrapped, torch.randn(4, 5))


@pytest.mark.parametrize("way", ["option", "setting"])
def test_the_race_can_be_called_off(way):
    oxytorch.config.race_eager = way != "setting"
    options = {"race_eager": False} if way == "option" else {}
    x = torch.randn(3, 5)
    for wrapped in (oxytorch.compile(chain, options=options), torch.compile(chain, backend="oxytorch", options=options)):
        slow_calls(wrapped, chain, x)
        assert is_compiled(wrapped, x)


def writes(x):
    return x.add_(1).softmax(-1)


def draws(x):
    return torch.nn.functional.dropout(x, 0.5) * 0 + x


@pytest.mark.parametrize("function", [writes, draws])
def test_nothing_is_done_twice_for_a_race(entry, function):
    wrapped, x = entry(function), torch.randn(3, 5)
    slow_calls(wrapped, function, x)
    assert is_compiled(wrapped, x)


def test_sizes_that_vary_are_no_race():
    wrapped = torch.compile(chain, backend="oxytorch", dynamic=True)
    for n in range(3, 3 + ENOUGH):
        slow_calls(wrapped, chain, torch.randn(n, 5), calls=1)
    assert is_compiled(wrapped, torch.randn(3, 5))


def test_the_outcome_is_logged(tmp_path):
    script = tmp_path / "user.py"
    script.write_text(
        "import torch, oxytorch\n"
        "f = oxytorch.compile(lambda x: x.sin() + 1)\n"
        "oxytorch._oxytorch.inject_fault('slow run')\n"
        "with torch.no_grad():\n"
        "    for _ in range(14): f(torch.ones(2))\n"
    )
    env = {**os.environ, "OXYTORCH_LOGS": "races", "OXYTORCH_RACE_EAGER": "1"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=env)
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("oxytorch races:")]
    assert "user.py:2" in line and line.endswith("eager it is"), done.stderr
