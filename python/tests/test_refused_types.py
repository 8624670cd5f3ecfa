"""Types that eager has no kernel for: every operation of torch's OpInfo database with a type that it does not support on the CPU must
raise as eager raises, from our own capture. What eager answers all the same is not looked at here.

ANSWERED names what we still answer. It can only shrink: a row that raises now is a failure of this test, too.
"""

import itertools

import compare
import fxcase
import oxytorch
import pytest
import torch
from torch.testing._internal.common_methods_invocations import op_db

DTYPES = {"f32": torch.float32, "i64": torch.int64, "bool": torch.bool, "bf16": torch.bfloat16, "f16": torch.float16}

# What is answered where eager raises.
ANSWERED: set[str] = set()


def cases():
    seen = set()
    for info in op_db:
        name = info.name + (f".{info.variant_test_name}" if info.variant_test_name else "")
        refused = [label for label, dtype in DTYPES.items() if not info.supports_dtype(dtype, "cpu")]
        if refused and name not in seen and not info.name.startswith("jiterator"):
            seen.add(name)
            yield pytest.param(info, name, refused, id=name)


def sample_of(info, dtype):
    """One that is made of plain tensors, or None: some samples cannot even be made of this type."""
    try:
        for sample in itertools.islice(info.sample_inputs("cpu", dtype, requires_grad=False), 3):
            arguments = fxcase.detached(((sample.input, *sample.args), dict(sample.kwargs)))
            if fxcase.tensors_of(arguments) and fxcase.is_plain(arguments):
                return arguments
    except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError):
        pass
    return None


def raised(function, arguments):
    args, kwargs = compare.copies(arguments)
    try:
        function(*args, **kwargs)
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("info,name,labels", cases())
def test_types_that_eager_refuses(info, name, labels):
    looked_at = 0
    for label in labels:
        arguments = sample_of(info, DTYPES[label])
        with torch.no_grad():
            want = arguments and raised(info.op, arguments)
            if not want:
                continue
            got = raised(oxytorch.compile(info.op), arguments)
        looked_at += 1
        if f"{name}-{label}" in ANSWERED:
            assert got is None, f"{name} of {label} raises now: take it out of ANSWERED"
        else:
            assert isinstance(got, type(want)), f"{name} of {label}: {got!r} instead of {want!r}"
    if not looked_at:
        pytest.skip("eager refuses none of them")


UNUSED = {
    "median": lambda x: x.median(),
    "median of rows": lambda x: x.median(1),
    "nanmedian": lambda x: x.nanmedian(1),
    "kthvalue": lambda x: x.kthvalue(1),
    "topk": lambda x: x.topk(1),
    "searchsorted": lambda x: torch.searchsorted(x[0], x[0]),
    "bucketize": lambda x: torch.bucketize(x, x[0]),
    "logcumsumexp": lambda x: x.logcumsumexp(0),
}


@pytest.mark.parametrize("name", UNUSED)
def test_what_nobody_uses_is_refused_all_the_same(name):
    def function(x):
        UNUSED[name](x > 0)
        return x * 2

    want = raised(function, ((torch.randn(3, 4),), {}))
    ours = raised(oxytorch.compile(function), ((torch.randn(3, 4),), {}))
    assert want is not None and type(ours) is type(want) and str(ours) == str(want), ours
