"""Every operation of torch's own OpInfo database, forward, against eager.

Counted apart: native (kernels of ours), library (torch's kernels called without Python), python (done by Python at run time),
eager (the whole graph was left to eager). None may be wrong. OXYTORCH_SAMPLES sets how many samples of each operation and type are
taken (default 3; 0 is all).
"""

import collections
import itertools
import os

import compare
import fxcase
import oxytorch
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

SAMPLES = int(os.environ.get("OXYTORCH_SAMPLES", "3")) or None
DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool, "bf16": torch.bfloat16, "c64": torch.complex64}

# What these return is not determined.
UNINITIALISED = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
# These give the same result only up to signs, order or rotation, or with a random algorithm whose calls differ.
AMBIGUOUS = {"linalg.svd", "svd", "linalg.eig", "linalg.eigh", "svd_lowrank", "pca_lowrank", "geqrf", "linalg.qr", "qr"}

# torch's own fake kernels give these other strides than its real ones do.
FAKE_STRIDES_DIFFER = ("fft.",)

COUNTS = collections.Counter()
# Which operations Python does, and why: printed with -v.
BY_PYTHON = collections.Counter()


def cases():
    seen = set()
    for info in op_db:
        if info.name.startswith("jiterator"):
            continue  # CUDA only
        for label, dtype in DTYPES.items():
            name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
            if info.supports_dtype(dtype, "cpu") and (name, label) not in seen:
                seen.add((name, label))
                yield pytest.param(info, dtype, id=f"{name}-{label}")


@pytest.mark.parametrize("info,dtype", cases())
def test_op(info, dtype):
    if info.name in UNINITIALISED or info.name in AMBIGUOUS:
        pytest.skip("its result is not determined")
    samples = itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), SAMPLES)
    ran = 0
    with torch.no_grad():
        for sample in samples:
            arguments = fxcase.detached(((sample.input, *sample.args), dict(sample.kwargs)))
            ran += check(info, arguments)
    if not ran:
        pytest.skip("no sample is a graph with tensors in and out")


def check(info, arguments):
    """Runs one sample; whether it counted."""
    if not fxcase.is_plain(arguments):
        return False
    function = info.op
    try:
        expected = run(function, compare.copies(arguments))
        module = fxcase.graph_of(function, *compare.copies(arguments))
    except (fxcase.NotAGraph, RuntimeError, ValueError, NotImplementedError, IndexError, TypeError):
        return False
    expected = fxcase.tensors_of(expected)
    compiled = oxytorch._oxytorch.compile_fx(module, [], None, {"fallback_random": True})
    report = oxytorch.last_compile()
    if report["outcome"] == "eager":
        COUNTS["eager"] += 1
        return True
    ours = compare.copies(arguments)
    # OpInfo's wrappers around random functions set this seed themselves.
    torch.manual_seed(42 if fxcase.is_wrapper(function) else 0)
    actual = compiled(*fxcase.tensors_of(ours))

    def reference():
        return fxcase.tensors_of(run(function, compare.to_double(compare.copies(arguments))))

    strides = not info.name.startswith(FAKE_STRIDES_DIFFER)
    compare.assert_same(list(actual), expected, reference, strides=strides, label=describe(info, arguments))
    COUNTS[outcome(report)] += 1
    BY_PYTHON.update((name, reason) for name, _, reason in report["python_calls"])
    return True


def run(function, arguments):
    args, kwargs = arguments
    torch.manual_seed(0)
    return function(*args, **kwargs)


def outcome(report):
    if report["python_calls"]:
        return "python"
    return "library" if report["library_calls"] else "native"


def describe(info, arguments):
    def short(leaf):
        if isinstance(leaf, torch.Tensor):
            return f"{str(leaf.dtype)[6:]}{list(leaf.shape)}"
        return repr(leaf)

    args, kwargs = arguments
    given = [short(a) for a in args] + [f"{k}={short(v)}" for k, v in kwargs.items()]
    return f"{info.name}({', '.join(given)})"


def summary(verbose):
    """Printed at the end of the run by conftest."""
    by_kind = ", ".join(f"{COUNTS[kind]} {kind}" for kind in ("native", "library", "python", "eager"))
    yield f"OpInfo: {sum(COUNTS.values())} samples equal to eager: {by_kind}"
    if verbose:
        for (name, reason), count in BY_PYTHON.most_common():
            yield f"  by Python: {count:4} {name}: {reason}"
