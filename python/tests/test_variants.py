"""Sizes that recur get kernels of their own, compiled in the background: the same results, and nothing else that shows."""

import gc
import os
import subprocess
import sys
import threading
import weakref

import oxytorch
import pytest
import torch
import torch.nn as nn
from compare import assert_same
from oxytorch._oxytorch import background_variants

RECURS = 32


def across(x):
    """Lanes that lie a size apart, and rows that are short."""
    return (x.transpose(0, 1).contiguous() * 2 + 1).softmax(-1)


def made(call, times=RECURS + 8):
    """What `times` calls have made in the background: variants and kernels."""
    before = background_variants()
    for _ in range(times):
        call()
    after = background_variants()
    return after[0] - before[0], after[1] - before[1]


def test_sizes_that_recur_get_kernels_that_give_the_same_bits():
    compiled = oxytorch.compile(across, dynamic=True)
    x = torch.randn(384, 24)
    with torch.no_grad():
        first = compiled(x)
        variants, kernels = made(lambda: compiled(x))
        assert variants == 1 and kernels >= 1
        last = compiled(x)
        assert torch.equal(first, last) and first.stride() == last.stride()
        assert_same(last, across(x))
        for n in (24, 100, 700):
            other = torch.randn(n, 24)
            assert_same(compiled(other), across(other))


def test_few_calls_and_code_for_one_size_ask_for_nothing():
    x = torch.randn(400, 24)
    with torch.no_grad():
        general, static = oxytorch.compile(across, dynamic=True), oxytorch.compile(across, dynamic=False)
        assert made(lambda: general(x), RECURS - 1) == (0, 0)
        assert made(lambda: static(x)) == (0, 0)


def test_long_loops_are_left_as_they_are():
    compiled = oxytorch.compile(lambda x: (x * 2 + 1).relu(), dynamic=True)
    x = torch.randn(300, 1000)
    with torch.no_grad():
        assert made(lambda: compiled(x)) == (0, 0)


def test_the_setting_and_the_option_turn_it_off():
    x = torch.randn(416, 24)
    with torch.no_grad():
        off = oxytorch.compile(across, dynamic=True, options={"background_variants": False})
        assert made(lambda: off(x)) == (0, 0)
        oxytorch.config.background_variants = False
        try:
            assert made(lambda f=oxytorch.compile(lambda x: across(x) + 1, dynamic=True): f(x)) == (0, 0)
        finally:
            oxytorch.config.background_variants = True


def test_one_function_has_a_few_at_most():
    compiled = oxytorch.compile(lambda x: across(x) - 1, dynamic=True)
    with torch.no_grad():
        inputs = [torch.randn(n, 24) for n in (320, 352, 384, 416, 448, 480)]
        variants = sum(made(lambda x=x: compiled(x))[0] for x in inputs)
        assert variants == 4
        for x in inputs:
            assert_same(compiled(x), across(x) - 1)


def test_it_is_no_recompile():
    compiled = oxytorch.compile(across, dynamic=True, options={"error_on_recompile": True})
    x = torch.randn(352, 24)
    with torch.no_grad():
        assert made(lambda: compiled(x))[0] == 1
        compiled(torch.randn(200, 24))
    assert compiled.stats()["traced"] == 1


def test_gradients_are_the_same_bits():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(24)

        def forward(self, x):
            return (self.norm(x).transpose(0, 1).contiguous().softmax(-1) * 3).sum(0)

    model = Model()
    compiled = oxytorch.compile(model, dynamic=True)
    x = torch.randn(512, 24)

    def step():
        model.zero_grad()
        y = x.clone().requires_grad_()
        out = compiled(y)
        out.pow(2).sum().backward()
        return out.detach(), y.grad, model.norm.weight.grad, model.norm.bias.grad

    first = step()
    assert made(step)[0] >= 1
    assert all(torch.equal(a, b) for a, b in zip(first, step()))


def test_threads_may_call_while_kernels_are_swapped_in():
    compiled = oxytorch.compile(lambda x: across(x) * 2, dynamic=True)
    x = torch.randn(520, 24)
    wrong = []
    before = background_variants()
    with torch.no_grad():
        want = compiled(x)

    def calls():
        with torch.no_grad():
            wrong.extend(n for n in range(200) if not torch.equal(compiled(x), want))

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert background_variants()[0] > before[0]
    assert wrong == []


def test_a_function_that_is_gone_leaves_nothing_behind():
    compiled = oxytorch.compile(lambda x: across(x) * 5, dynamic=True)
    kept = weakref.ref(compiled)
    x = torch.randn(530, 24)
    with torch.no_grad():
        for _ in range(RECURS + 1):
            compiled(x)
    del compiled
    gc.collect()
    assert kept() is None
    oxytorch.reset()
    background_variants()
    assert_same(oxytorch.compile(across, dynamic=True)(x), across(x))


SCRIPT = """
import os, sys, torch, oxytorch
f = oxytorch.compile(lambda x: (x.transpose(0, 1).contiguous() * 2).softmax(-1), dynamic=True)
with torch.no_grad():
    for n in (400, 410, 420):
        x = torch.randn(n, 24)
        for _ in range(40):
            f(x)
"""


def run(ending):
    """With one thread: torch's own pool does not outlive a fork."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", SCRIPT + ending], capture_output=True, text=True, timeout=120, env=environment)
    return done.returncode, done.stdout + done.stderr


def test_the_process_may_end_at_any_time():
    for ending in ("", "sys.exit(0)", "os._exit(0)"):
        code, said = run(ending)
        assert code == 0, said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_goes_on_without_a_worker():
    ending = """
child = os.fork()
with torch.no_grad():
    g = oxytorch.compile(lambda x: x.sin().sum(-1), dynamic=True)
    for _ in range(40):
        y, z = f(x), g(x)
    assert torch.allclose(z, x.sin().sum(-1), atol=1e-4)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""
    code, said = run(ending)
    assert code == 0, said
