"""What the models of the libraries do, as small functions: captured in one graph that later calls use again."""

import copy
import itertools
import subprocess
import sys
import warnings

import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from compare import assert_same
from oxytorch import _oxytorch
from torch.nn.attention import SDPBackend, sdpa_kernel
from capturing import check, x


class Doubling(torch.autograd.Function):
    @staticmethod
    def forward(ctx, t, factor):
        ctx.save_for_backward(t)
        ctx.factor = factor
        return t * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def test_autograd_function_without_gradients():
    check(lambda t: Doubling.apply(t, 2) + 1, (x(),))


BY_CLASS = {int: 1, torch.Tensor: 2}


def keyed_by_classes(t):
    own = {}
    own[type(t)] = BY_CLASS[type(t)]
    return t * own[torch.Tensor] + BY_CLASS[int]


HINT, EITHER = dict[str, int], int | str


def parts_of_hints(t):
    return t + len(HINT.__args__), HINT.__origin__, EITHER.__args__[1]


def test_classes_as_keys_and_hints():
    check(keyed_by_classes, (x(),))
    check(parts_of_hints, (x(),))


class Settings:
    def __init__(self):
        self.names = {"a": 1, "b": [2, 3]}
        self.shared = self.names
        self.width = 4


class CopiesItself:
    def __init__(self, width):
        self.width = width

    def __deepcopy__(self, memo):
        return CopiesItself(self.width + 1)


class Copying(nn.Module):
    """As encoder-decoders do with their configurations."""

    def __init__(self, config):
        super().__init__()
        self.config = config

    def forward(self, t):
        first, second = copy.deepcopy(self.config), copy.deepcopy(self.config)
        first.width += 1
        second.names["b"].append(4)
        table = copy.deepcopy(first.__dict__)
        shallow = copy.copy(first)
        assert first is not second and first.names is first.shared and shallow.names is first.names
        return t * first.width + len(second.names["b"]), second, table


def test_copies_are_objects_of_the_call():
    model = Copying(Settings())
    # The library notes in a class that it has copied one of its instances.
    copy.copy(model.config)
    captured = _oxytorch.capture(model)
    with torch.no_grad():
        for width in (4, 4, 4, 5, 5):
            model.config.width = width
            t = x()
            (got, second, table), (want, plain, expected) = captured(t), model(t)
            assert_same(got, want)
            assert second is not model.config and second.shared is second.names
            assert vars(second) == vars(plain) and table == expected
    assert vars(model.config) == {"names": {"a": 1, "b": [2, 3]}, "shared": {"a": 1, "b": [2, 3]}, "width": 5}
    assert captured.stats()["traced"] == 2, captured.report()["recompiles"]
    assert not captured.stats()["breaks"]


def test_copies_by_the_class_are_made_again():
    own = CopiesItself(1)

    def both(t):
        first, second = copy.deepcopy(own), copy.deepcopy(own)
        first.seen = True
        return t * first.width, first, second

    captured = _oxytorch.capture(both)
    with torch.no_grad():
        kept = [captured(x()) for _ in range(3)]
    assert all(first is not second and first.seen and not hasattr(second, "seen") for _, first, second in kept)
    assert len({id(copied) for _, *pair in kept for copied in pair}) == 6
    assert captured.stats()["traced"] == 1 and not captured.stats()["breaks"]


def test_traces_that_are_never_used_again_are_reported():
    counter = itertools.count()

    class Restless:
        @property
        def number(self):
            return self.numbers[0]

    state = Restless()

    def restless(t):
        return sum((t for _ in range(state.number)), t)

    captured = _oxytorch.capture(restless)
    with torch.no_grad(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(5):
            state.numbers = [next(counter)]
            captured(x())
    messages = [str(w.message) for w in caught if "again and again" in str(w.message)]
    assert len(messages) == 1 and "numbers[0]" in messages[0]


def ranges(t):
    plain = torch.arange(5), torch.arange(1, 7, 2), torch.arange(5, 0, -2), torch.arange(end=4), torch.arange(start=1, end=4)
    floats = torch.arange(0, 1, 0.3), torch.arange(3.0), torch.arange(3, dtype=torch.float32), torch.arange(2, 9.5, 0.5)
    return t + 1, plain, floats, torch.arange(0), torch.arange(4, device=t.device, dtype=torch.int32)


def hinted(t):
    either = int | None
    return t * isinstance(2, either | str), t + isinstance("a", list[int] | None | str if t is None else either)


def test_ranges_and_hints():
    check(ranges, (x(),))
    check(hinted, (x(),))


def test_the_larger_of_two_tensors():
    check(lambda t: t * max(t[0, 0], 0) + min(t.sum(), t.mean()), (x(),), breaks=2)


def test_attention_without_masks_is_one_graph():
    attention = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    check(lambda t: attention(t, t, t, need_weights=False)[0] * 2, (x(2, 5, 16),))


def test_an_associative_scan_is_one_call():
    from torch._higher_order_ops.associative_scan import associative_scan

    def scanned(t):
        def combine(left, right):
            return left[0] * right[0], right[0] * left[1] + right[1]

        return associative_scan(combine, (t, t + 1), dim=1, combine_mode="generic")[1] * 2

    check(scanned, (x(2, 5, 3),))


WITHOUT_DYNAMO = """
import sys, torch, oxytorch
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.GELU())
with torch.no_grad():
    t = torch.randn(3, 4)
    torch.testing.assert_close(oxytorch.compile(model)(t).exp(), model(t).exp())
assert "torch._dynamo" not in sys.modules
import torch._dynamo
with torch.no_grad():
    assert oxytorch.compile(lambda t: t.exp() + t.softmax(-1))(t).shape == t.shape
"""


def test_dynamo_is_not_imported():
    subprocess.run([sys.executable, "-c", WITHOUT_DYNAMO], check=True)


@pytest.mark.parametrize("kernels", [SDPBackend.MATH, [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION]], ids=["one", "several"])
def test_a_choice_among_kernels_of_attention_is_no_break(kernels):
    chosen = []

    def attend(q, kernels):
        with sdpa_kernel(kernels):
            chosen.append(torch.backends.cuda.flash_sdp_enabled())
            attended = F.scaled_dot_product_attention(q * 2, q, q, is_causal=True)
        chosen.append(torch.backends.cuda.flash_sdp_enabled())
        return attended + 1

    compiled = oxytorch.compile(attend, fullgraph=True)
    for _ in range(3):
        q = torch.randn(1, 2, 5, 8)
        assert_same(compiled(q, kernels), attend(q, kernels))
    assert chosen == [isinstance(kernels, list), True] * 6
    assert compiled.stats()["traced"] == 1


@pytest.mark.parametrize("library", ["cudnn", "mkldnn"])
def test_flags_of_a_library_are_no_break(library):
    """They hold for what runs under them, and are what they were behind it."""
    flags, seen = getattr(torch.backends, library).flags, []

    def function(x):
        with flags(enabled=False):
            seen.append(getattr(torch._C, f"_get_{library}_enabled")())
            y = x * 2
        seen.append(getattr(torch._C, f"_get_{library}_enabled")())
        return y + 1

    compiled = oxytorch.compile(function, fullgraph=True)
    for _ in range(3):
        assert_same(compiled(torch.ones(3)), torch.full((3,), 3.0))
    assert seen == [False, True] * 3
    assert compiled.stats()["traced"] == 1


def test_a_registry_by_classes_is_no_break():
    registry = {(int, str): 2.0}

    def scaled(x, a, b):
        if (type(a), type(b)) not in registry:
            registry[type(a), type(b)] = len(registry) + 3.0
        return x * registry[type(a), type(b)]

    compiled = oxytorch.compile(scaled, fullgraph=True)
    found = [compiled(torch.ones(1), a, "s").item() for a in (1, 2.0, "a", 1, 2.0)]
    assert found == [2.0, 4.0, 5.0, 2.0, 4.0]
