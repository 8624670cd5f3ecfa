"""Transformations of torch.func inside of compiled functions: the same result in every call, and nothing of them left behind."""

import oxytorch
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:oxytorch")


def square(x):
    return (x * x).sum()


def failing(x):
    raise KeyError("inside")


def gradient(x):
    return torch.func.grad(square)(x), x + 1


def gradient_of_a_gradient(x):
    return torch.func.grad(lambda v: torch.func.grad(square)(v).pow(2).sum())(x)


def mapped(x):
    return torch.func.vmap(square)(x.reshape(2, 2)) * 2


def along_a_direction(x):
    return torch.func.jvp(torch.sin, (x,), (torch.ones_like(x),))


def back_along(x):
    value, back = torch.func.vjp(torch.sin, x * 2)
    return back(torch.ones_like(value))[0] + 1


def jacobian(x):
    return torch.func.jacrev(torch.sin)(x * 2) + 1


def second_derivatives(x):
    return torch.func.hessian(square)(x * 2) + 1


def gradient_and_number(x):
    return torch.func.grad(square)(x) * x.sum().item()


def level():
    return torch._C._functorch.peek_interpreter_stack()


FUNCTIONS = [
    gradient,
    gradient_of_a_gradient,
    mapped,
    along_a_direction,
    back_along,
    jacobian,
    second_derivatives,
    gradient_and_number,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_every_call_gives_the_result_of_eager(function):
    compiled = oxytorch.compile(function)
    for n in range(4):
        x = torch.arange(4.0) + n
        torch.testing.assert_close(compiled(x), function(x))
        assert level() is None


@pytest.mark.parametrize("function", [f for f in FUNCTIONS if f is not gradient_and_number], ids=lambda f: f.__name__)
def test_a_transformation_is_a_break_that_says_so(function):
    explanation = oxytorch.explain(function)(torch.arange(4.0))
    assert explanation.left_to_python == []
    assert 1 <= len(explanation.breaks) <= 2
    assert all("of torch.func" in cut.reason and "torch.func" in cut.explanation for cut in explanation.breaks)


@pytest.mark.parametrize("transform", [torch.func.grad, torch.func.vmap], ids=lambda f: f.__name__)
def test_a_failure_inside_leaves_no_level_behind(transform):
    compiled = oxytorch.compile(lambda x: transform(failing)(x))
    for n in range(3):
        with pytest.raises(KeyError, match="inside"):
            compiled(torch.ones(2) + n)
        assert level() is None


def test_stacked_states_leave_the_function_compiled():
    """Their parameters are detached and made leaves under the name of what they were stacked from."""
    modules = [torch.nn.Linear(3, 3) for _ in range(2)]
    base = torch.nn.Linear(3, 3)

    def ensemble(x):
        parameters, buffers = torch.func.stack_module_state(modules)
        call = lambda p, b, x: torch.func.functional_call(base, (p, b), (x,), {})
        return torch.func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x * 2) + 1, parameters

    compiled, x = oxytorch.compile(ensemble), torch.randn(4, 3)
    for _ in range(3):
        (got, ours), (want, theirs) = compiled(x), ensemble(x)
        torch.testing.assert_close(got, want)
        for name, parameter in theirs.items():
            assert torch.equal(ours[name], parameter) and ours[name].is_leaf and ours[name].requires_grad
        got.sum().backward()
        want.sum().backward()
        torch.testing.assert_close(ours["weight"].grad, theirs["weight"].grad)
    assert compiled.stats()["traced"] == 1 and compiled.stats()["ops"] > 2
    assert modules[0].weight.grad is None


def test_a_view_that_is_kept_beside_a_new_leaf():
    def function(x):
        whole = x * 2
        part = whole.detach().requires_grad_()
        return whole, part

    compiled, x = oxytorch.compile(function), torch.ones(3, requires_grad=True)
    for _ in range(2):
        for whole, part in (compiled(x), function(x)):
            assert part.is_leaf and part.requires_grad and not whole.is_leaf
            assert part.data_ptr() == whole.data_ptr()
