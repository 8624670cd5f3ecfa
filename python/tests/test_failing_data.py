"""Data that tensors are made of, and data that torch refuses: eager's result, and its exceptions in functions that have clauses for them."""

import oxytorch
import pytest
import torch

# Shadows hold no data: torch.tensor of them refuses nothing.
ODD_DATA = {
    "a list beside a number": lambda x: torch.tensor([1, [2]]),
    "by name": lambda x: torch.tensor(data=[1, [2]]),
    "rows of two lengths": lambda x: torch.tensor([[1, 2], [3]]),
    "a text": lambda x: x.new_tensor([1, "a"]),
    "tensors of many elements": lambda x: torch.tensor([x, x]),
    "a list beside a tensor": lambda x: torch.tensor([x.sum(), [2.0]]),
    "a list beside a size": lambda x: torch.tensor([x.shape[0], [1]]),
    "an array": lambda x: torch.asarray([1, [2]]),
    "as a tensor": lambda x: torch.as_tensor([x, [x]]),
    "an int beyond all": lambda x: torch.tensor([2**70]),
    "an int beyond its type": lambda x: torch.tensor([300], dtype=torch.uint8),
    "a complex number": lambda x: torch.tensor([1j], dtype=torch.float32),
    "no number": lambda x: torch.tensor([float("nan")], dtype=torch.int32),
}


@pytest.mark.parametrize("make", ODD_DATA.values(), ids=ODD_DATA)
def test_data_that_is_no_tensor(make):
    def function(x):
        try:
            return make(x)
        except Exception as error:
            return type(error), str(error)
        finally:
            x.add_(1)

    captured = oxytorch.compile(function)
    for _ in range(3):
        ours, theirs = torch.ones(4), torch.ones(4)
        assert captured(ours) == function(theirs)
        assert torch.equal(ours, theirs)


OF_TENSORS = [lambda x: torch.tensor([[x[0], 1.0], (2, True)]), lambda x: x.new_tensor([x.shape[0], 2])]
# torch takes Python's types for its own.
OF_PYTHONS_TYPES = [lambda x: torch.tensor([2, x[0]], dtype=float), lambda x: x.new_tensor([2, True], dtype=int)]


@pytest.mark.parametrize("make", OF_TENSORS + OF_PYTHONS_TYPES)
def test_data_that_is_a_tensor_is_no_break(make):
    captured = oxytorch.compile(lambda x: make(x) * 2, fullgraph=True)
    for _ in range(3):
        assert torch.equal(captured(torch.ones(4)), make(torch.ones(4)) * 2)


class Weighs:
    def __init__(self):
        self.asked = 0

    def __float__(self):
        self.asked += 1
        return 1.5


def test_data_that_is_tried_is_asked_once_and_kept_by_its_clause():
    def of_tensors(x):
        try:
            return torch.tensor([x.sum(), 1.0], dtype=torch.int64)
        except TypeError:
            return "kept"

    def without_end(x):
        data = [1.0]
        data.append(data)
        try:
            return torch.tensor(data)
        except Exception as error:
            return type(error).__name__

    x = torch.ones(3)
    for function in (of_tensors, without_end):
        fast = oxytorch.compile(function)
        assert [fast(x) for _ in range(3)] == [function(x)] * 3
    fast, weighs = oxytorch.compile(lambda x, o: x + torch.tensor([o], dtype=torch.float32)), Weighs()
    for calls in (1, 2, 3):
        torch.testing.assert_close(fast(x, weighs), x + 1.5)
        assert weighs.asked == calls
