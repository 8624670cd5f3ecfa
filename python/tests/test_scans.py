"""Associative scans: linear recurrences are kernels of ours, every other function is torch's."""

import oxytorch
import pytest
import torch
from compare import assert_same
from torch._higher_order_ops.associative_scan import associative_scan


def of_pairs(left, right):
    decay, x = left
    next_decay, next_x = right
    return decay * next_decay, next_decay * x + next_x


def the_other_way_round(left, right):
    return [right[0] + left[0] * right[1], left[1] * right[1]]


def scan(decay, x, dim=1, reverse=False):
    return associative_scan(of_pairs, (decay, x), dim, reverse, combine_mode="generic")


def one_by_one(decay, x, dim):
    state, states = torch.zeros_like(x.select(dim, 0)), []
    for t in range(x.shape[dim]):
        state = decay.select(dim, t) * state + x.select(dim, t)
        states.append(state)
    return torch.stack(states, dim)


def given(*shape, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    return torch.rand(shape, dtype=dtype), torch.randn(shape, dtype=dtype)


def assert_kernels_alone():
    told = oxytorch.last_compile()
    assert told["python_calls"] == [] and not told["library_calls"], told


SHAPES = [((2, 5, 3), 1), ((2, 5, 3), 0), ((3, 70), -1), ((7,), 0), ((2, 130, 4, 6), 1), ((1, 2), 1)]


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_linear_recurrence_is_one_kernel_loop(shape, dim, reverse, dtype):
    decay, x = given(*shape, dtype=dtype)
    captured = oxytorch.compile(scan, fullgraph=True)
    made, eager = captured(decay, x, dim, reverse), scan(decay, x, dim, reverse)
    exact = scan(decay.double(), x.double(), dim, reverse)
    assert_same(made, eager, lambda: exact)
    assert_kernels_alone()


@pytest.mark.parametrize("shape, dim", SHAPES)
def test_states_are_those_of_a_loop(shape, dim):
    decay, x = given(*shape)
    captured = oxytorch.compile(lambda decay, x: scan(decay, x, dim)[1], fullgraph=True)
    assert torch.equal(captured(decay, x), one_by_one(decay, x, dim))


@pytest.mark.parametrize("shape, dim", SHAPES)
@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_are_eager_s(shape, dim, reverse):
    captured = oxytorch.compile(lambda decay, x: scan(decay * 0.9, x.sin(), dim, reverse)[1].cos(), fullgraph=True)
    double = [part.double() for part in given(*shape)]
    weight = torch.randn(shape)

    def gradients(function, tensors):
        leaves = [part.clone().requires_grad_() for part in tensors]
        (function(*leaves) * weight).sum().backward()
        return [leaf.grad for leaf in leaves]

    eager = lambda decay, x: scan(decay * 0.9, x.sin(), dim, reverse)[1].cos()
    assert_same(gradients(captured, given(*shape)), gradients(eager, given(*shape)), lambda: gradients(eager, double))


def test_pairs_in_the_other_order():
    decay, x = given(2, 9, 3)
    scanned = lambda decay, x: associative_scan(the_other_way_round, [x, decay], 1, combine_mode="generic")
    made = oxytorch.compile(scanned, fullgraph=True)(decay, x)
    assert_same(made, scanned(decay, x))
    assert_kernels_alone()


def test_the_first_decay_has_nothing_to_multiply():
    decay, x = given(2, 4, 3)
    decay[:, 0] = torch.tensor([float("inf"), float("nan"), 2.0])
    captured = oxytorch.compile(lambda decay, x: scan(decay, x)[1], fullgraph=True)
    assert_same(captured(decay, x), scan(decay, x)[1])


def test_lengths_vary():
    captured = oxytorch.compile(lambda decay, x: scan(decay.exp(), x)[1] + x, dynamic=True, fullgraph=True)
    for length in (5, 8, 31, 2):
        decay, x = given(2, length, 3)
        assert_same(captured(-decay, x), scan((-decay).exp(), x)[1] + x)


def by_names(left, right):
    return torch.mul(left[0], right[0]), right[0] * left[1] + right[1]


def another(left, right):
    return left[0] * right[0], right[0] * left[1] + right[1] + right[1]


def of_numbers(left, right):
    return left[0] * right[0] * 1, right[0] * left[1] + right[1]


@pytest.mark.parametrize("combine", [by_names, of_numbers, another])
def test_any_other_function_is_torch_s(combine):
    scanned = lambda decay, x: associative_scan(combine, (decay, x), 1, combine_mode="generic")[1] * 2
    captured = oxytorch.compile(scanned)
    for _ in range(2):
        assert_same(captured(*given(2, 4, 3)), scanned(*given(2, 4, 3)))


def test_of_one_tensor():
    scanned = lambda x: associative_scan(lambda left, right: left + right, x, 1, combine_mode="generic")
    assert_same(oxytorch.compile(scanned)(given(2, 6, 3)[1]), scanned(given(2, 6, 3)[1]))


def test_of_one_element_along_the_dimension():
    decay, x = given(2, 1, 3)
    assert_same(oxytorch.compile(scan)(decay, x), scan(decay, x))


def test_of_no_elements():
    captured = oxytorch.compile(lambda decay, x: scan(decay, x, 2)[1] * 2)
    for rows in (3, 4, 0, 5):
        decay, x = given(2, rows, 3)
        assert_same(captured(decay, x), scan(decay, x, 2)[1] * 2)


@pytest.mark.parametrize("wrong", [dict(dim=5), dict(dim=1, combine_mode="pointwise"), dict(dim=1, combine_mode="nothing"), dict(dim=1.0)])
def test_refused_in_torch_s_words(wrong):
    scanned = lambda decay, x: associative_scan(of_pairs, (decay, x), **{"combine_mode": "generic"} | wrong)
    raised = []
    for function in (scanned, oxytorch.compile(scanned)):
        with pytest.raises(Exception) as told:
            function(*given(2, 4, 3))
        raised.append((type(told.value), str(told.value)))
    assert raised[0] == raised[1]


def test_gradients_of_any_other_function_are_torch_s():
    def loss(x, weight):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1] + right[1]

        x = x * weight
        return associative_scan(combine, (x.sigmoid(), x), dim=1, combine_mode="generic")[1].sum()

    captured = oxytorch.compile(loss)
    for _ in range(2):
        ours, theirs = (given(2, 5, 3)[1].requires_grad_() for _ in range(2))
        captured(ours, torch.arange(3.0)).backward()
        loss(theirs, torch.arange(3.0)).backward()
        assert_same(ours.grad, theirs.grad)
