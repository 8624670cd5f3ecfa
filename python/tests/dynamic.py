"""Functions called with sizes in any order, compared with eager at each."""

import oxytorch
import torch
from compare import assert_same


def check(function, calls, dynamic=True, compiles=1):
    """Each call is made twice."""
    captured = oxytorch._oxytorch.capture(function, dynamic=dynamic)
    with torch.no_grad():
        for args in calls:
            for _ in range(2):
                assert_same(captured(*args), function(*args))
    assert captured.stats()["traced"] == compiles, captured.show()
    assert captured.stats()["breaks"] == []
    return captured


def rand(*shape):
    return torch.randn(*shape)
