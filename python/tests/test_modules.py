"""Every layer of torch's own ModuleInfo database in eval mode, through Dynamo, against eager."""

import warnings

import compare
import oxytorch
import pytest
import torch
from torch.testing._internal.common_modules import module_db


def name_of(info):
    return info.module_cls.__module__.rsplit(".", 1)[-1] + "." + info.module_cls.__name__


def cases():
    for info in module_db:
        if torch.float32 in info.dtypes:
            yield pytest.param(info, id=name_of(info))


@pytest.mark.parametrize("info", cases())
def test_module(info):
    ran = 0
    for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False):
        if sample.forward_input is None:
            continue
        module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        if not all(type(a) is torch.Tensor and a.layout == torch.strided for a in args if isinstance(a, torch.Tensor)):
            continue
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(0)
            try:
                expected = module(*compare.copies(args), **kwargs)
            except RuntimeError:
                continue  # a sample that eager does not take
            torch._dynamo.reset()
            torch.manual_seed(0)
            actual = torch.compile(module, backend="oxytorch")(*compare.copies(args), **kwargs)

            def reference():
                return module.double()(*compare.to_double(args), **compare.to_double(kwargs))

            compare.assert_same(actual, expected, reference, label=name_of(info))
        report = oxytorch.last_compile()
        assert report["outcome"] == "compiled", report["reason"]
        ran += 1
        if ran == 3:
            break
    if not ran:
        pytest.skip("no sample with dense tensors")
