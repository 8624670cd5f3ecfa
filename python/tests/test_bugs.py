"""A bug of the compiler, injected into each of its stages: one line that says where the details lie, and eager serves the call."""

import re
import warnings

import compare
import oxytorch
import pytest
import torch

STAGES = ["import", "optimise", "schedule", "codegen", "kernel", "load", "run"]
inject = oxytorch._oxytorch.inject_fault


@pytest.fixture
def patient(monkeypatch):
    """As users have it."""
    monkeypatch.delenv("OXYTORCH_BUG")
    yield
    inject(None)


def bug_of(stage, call):
    """The result of a call with a fault in a stage, and the file that the one warning names."""
    inject(stage)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    inject(None)
    (text,) = [str(warning.message) for warning in caught if "oxytorch" in str(warning.message)]
    assert "\n" not in text and f"injected into {stage}" in text
    with open(re.search("details in (.*)", text).group(1)) as file:
        return result, file.read()


@pytest.mark.parametrize("stage", STAGES)
def test_a_bug_is_served_by_eager(patient, entry, stage, capfd):
    # A kernel that no other test has: what is known already is not compiled again.
    number = 3.0 + STAGES.index(stage) / 64

    def f(x, y):
        x.add_(1)
        return (x * number).softmax(-1) + y

    wrapped, args = entry(f), (torch.randn(3, 5), torch.randn(5))
    ours, theirs = compare.copies(args), compare.copies(args)
    want = f(*theirs)
    got, details = bug_of(stage, lambda: wrapped(*ours))
    compare.assert_same(got, want)
    compare.assert_same(ours, theirs, label="argument")
    assert "== graph" in details if stage == "run" else "softmax" in details
    assert capfd.readouterr().err == ""
    # Later calls need no warning, and are right.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            compare.assert_same(wrapped(*compare.copies(args)), want)


@pytest.mark.parametrize("stage", ["autodiff", *STAGES])
def test_a_bug_in_training_is_served_by_eager(patient, stage):
    number = 5.0 + len(stage) / 64
    x = torch.randn(3, 5, requires_grad=True)
    wrapped = oxytorch.compile(lambda x: (x * number).softmax(-1).square().sum())
    (got,), _ = bug_of(stage, lambda: torch.autograd.grad(wrapped(x), x))
    compare.assert_same(got, torch.autograd.grad((x * number).softmax(-1).square().sum(), x)[0])


@pytest.mark.parametrize("stage", STAGES)
def test_a_bug_is_raised_where_that_is_asked_for(entry, stage):
    number = 7.0 + STAGES.index(stage) / 64
    inject(stage)
    try:
        with pytest.raises(Exception, match=f"injected into {stage}.*details in"):
            entry(lambda x: (x * number).softmax(-1))(torch.randn(3, 5))
    finally:
        inject(None)


@pytest.mark.parametrize("broken", (False, True))
def test_a_fake_kernel_that_is_wrong_is_named(patient, entry, broken, capfd):
    """It is the program's mistake. The operator has run and must not run twice, so the call raises; later ones are eager's."""

    @torch.library.custom_op(f"oxytest::widens_{id(entry)}_{broken}", mutates_args=())
    def widens(x: torch.Tensor) -> torch.Tensor:
        return x.double()

    def f(x):
        y = x + 1
        if broken:
            print("a break")
        return widens(y) * 2

    widens.register_fake(torch.empty_like)
    x, compiled = torch.randn(3), entry(f)
    with pytest.warns(UserWarning, match="oxytest.widens.*register_fake.* f32 .*returned f64"), pytest.raises(RuntimeError, match="fake kernel"):
        compiled(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(3):
            compare.assert_same(compiled(x), f(x))
    assert capfd.readouterr().out.count("break") == 7 * broken
