"""Compiled functions are copied and pickled as functions are: by name, and with their object where they are methods."""

import copy
import pickle

import oxytorch
import pytest
import torch
from torch import nn


@oxytorch.compile
def decorated(a):
    return a + 1


def plain(a):
    return a * 2


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.scale = oxytorch.compile(self.scaled, fullgraph=True)
        self.activation = oxytorch.compile(plain)

    def scaled(self, a):
        return a * self.weight

    def forward(self, a):
        return self.activation(self.scale(a))


def pickled(object):
    return pickle.loads(pickle.dumps(object))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_decorated_function_is_itself(copied):
    assert copied(decorated) is decorated


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled])
def test_a_compiled_function(copied):
    compiled = copied(oxytorch.compile(plain, fullgraph=True))
    assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert compiled.__wrapped__ is plain


@pytest.mark.parametrize("copied", [copy.deepcopy, pickled])
def test_a_module_that_holds_a_compiled_method_of_its_own(copied):
    first = Scaled()
    with torch.no_grad():
        first(torch.ones(3))
        second = copied(first)
        second.weight.mul_(5)
        assert torch.equal(first(torch.ones(3)), torch.full((3,), 2.0))
        assert torch.equal(second(torch.ones(3)), torch.full((3,), 10.0))


def test_how_it_was_compiled_is_kept():
    def breaks(a):
        print(a.shape)
        return a

    breaks.__qualname__ = "nowhere"
    compiled = oxytorch.compile(breaks, fullgraph=True)
    make, arguments = compiled.__reduce__()
    with pytest.raises(RuntimeError, match="fullgraph=True"):
        make(*arguments)(torch.ones(2))


def test_dynamic_is_no_word():
    with pytest.raises(TypeError, match="dynamic is True, False or None, not 'yes'"):
        oxytorch.compile(plain, dynamic="yes")
