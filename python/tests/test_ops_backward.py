"""Every operation of torch's own OpInfo database that autograd supports, backward, against eager.

Counted apart: compiled (the gradients come from a program of ours), cut (torch differentiates the operation, our programs what is
around it), eager (the whole graph was left to eager). None may be wrong. OXYTORCH_SAMPLES sets how many samples of each operation and
type are taken (default 2; 0 is all).
"""

import collections
import itertools
import os
import warnings

import compare
import fxcase
import oxytorch
import pytest
import torch
from test_ops import AMBIGUOUS, UNINITIALISED, describe
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_map

SAMPLES = int(os.environ.get("OXYTORCH_SAMPLES", "2")) or None
DTYPES = {"f32": torch.float32, "f64": torch.float64}

COUNTS = collections.Counter()
# Which operations torch differentiates: printed with -v.
NOT_OURS = collections.Counter()


def cases():
    seen = set()
    for info in op_db:
        if info.name.startswith("jiterator") or not info.supports_autograd:
            continue
        for label, dtype in DTYPES.items():
            name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
            if dtype in info.supported_backward_dtypes("cpu") and (name, label) not in seen:
                seen.add((name, label))
                yield pytest.param(info, dtype, id=f"{name}-{label}")


@pytest.mark.parametrize("info,dtype", cases())
def test_gradients(info, dtype):
    if info.name in UNINITIALISED or info.name in AMBIGUOUS:
        pytest.skip("its result is not determined")
    samples = itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=True), SAMPLES)
    ran = sum(check(info, ((sample.input, *sample.args), dict(sample.kwargs))) for sample in samples)
    if not ran:
        pytest.skip("no sample is a graph with a gradient")


def leaves_of(tree, widen=False):
    """Copies; what requires grad is a leaf that does."""

    def copied(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        copy = compare.copies(leaf.detach())
        return (compare.to_double(copy) if widen else copy).requires_grad_(leaf.requires_grad)

    return tree_map(copied, tree)


def gradients(function, args):
    """The outputs' gradients are random, but always the same ones."""
    torch.manual_seed(42 if fxcase.is_wrapper(function) else 0)
    outputs = [out for out in fxcase.tensors_of(function(*args[0], **args[1])) if out.requires_grad]
    inputs = [leaf for leaf in fxcase.tensors_of(args) if leaf.requires_grad]
    if not outputs or not inputs:
        return None, []
    generator = torch.Generator().manual_seed(1)
    weights = [torch.randn(out.shape, generator=generator, dtype=torch.float64).to(out.dtype) for out in outputs]
    return torch.autograd.grad(outputs, inputs, weights, allow_unused=True), outputs


def check(info, sample):
    """Runs one sample; whether it counted."""
    if not fxcase.is_plain(fxcase.detached(sample)) or any(leaf.is_complex() for leaf in fxcase.tensors_of(sample)):
        return False
    function = info.op
    try:
        expected, outputs = gradients(function, leaves_of(sample))
        if expected is None or any(out.is_complex() for out in outputs):
            return False
        module = fxcase.graph_of(function, *leaves_of(sample))
        module(*fxcase.tensors_of(fxcase.detached(leaves_of(sample))))
    except (fxcase.NotAGraph, RuntimeError, ValueError, NotImplementedError, IndexError, TypeError, NameError):
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = oxytorch._oxytorch.compile_fx(module, [], None, {"fallback_random": True})
        reason = oxytorch.last_compile()["outcome"]
        flat = lambda *args, **kwargs: compiled(*fxcase.tensors_of((args, kwargs)))
        flat.__module__ = getattr(function, "__module__", "") or ""
        actual, outputs = gradients(flat, leaves_of(sample))
    label = describe(info, sample)
    assert [grad is None for grad in actual] == [grad is None for grad in expected], f"{label}: which gradients there are"
    exact = lambda: [grad for grad in gradients(function, leaves_of(sample, widen=True))[0] if grad is not None]
    present = lambda grads: [grad for grad in grads if grad is not None]
    compare.assert_same(present(actual), present(expected), exact, strides=False, label=label)
    count(info, reason, outputs)
    return True


def count(info, reason, outputs):
    kind = "eager" if reason == "eager" else "cut" if has_others(outputs) else "compiled"
    COUNTS[kind] += 1
    if kind != "compiled":
        NOT_OURS[info.name] += 1


def has_others(outputs):
    """Whether anything but our programs, and views of their results, is differentiated."""
    stack, seen = [out.grad_fn for out in outputs], set()
    while stack:
        function = stack.pop()
        if function is None or function in seen:
            continue
        seen.add(function)
        name = type(function).__name__
        if not name.startswith(("CompiledFunction", "AccumulateGrad", "AsStrided", "Alias", "View")):
            return True
        stack += [following for following, _ in function.next_functions]
    return False


def summary(verbose):
    """Printed at the end of the run by conftest."""
    by_kind = ", ".join(f"{COUNTS[kind]} {kind}" for kind in ("compiled", "cut", "eager"))
    yield f"OpInfo backward: {sum(COUNTS.values())} samples with eager's gradients: {by_kind}"
    if verbose:
        for name, count in NOT_OURS.most_common():
            yield f"  by torch: {count:4} {name}"
