"""The values that cases calculate with: tensors where there is torch, floats where there is not."""

import itertools

try:
    import torch
except ImportError:
    torch = None

_count = itertools.count()


def restart():
    """Both sides of a comparison begin with the same values, and torch numbers their hooks alike."""
    global _count
    _count = itertools.count()
    if torch is not None:
        torch.utils.hooks.RemovableHandle.next_id = 0


def x(*shape):
    """A fresh value: small whole numbers, so that sums and products are exact in any order."""
    start = next(_count)
    if torch is None:
        return float(start % 7 - 3)
    shape = shape or (2, 3)
    whole = (torch.arange(torch.Size(shape).numel()) * 5 + start * 3) % 9 - 4
    return whole.to(torch.float32).reshape(shape)


def positive(*shape):
    """A fresh value whose elements are all above zero."""
    value = x(*shape)
    return value * value + 1
