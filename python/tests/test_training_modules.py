"""Every layer of torch's own ModuleInfo database, forward and backward, in train and eval mode, against eager."""

import copy
import warnings

import compare
import oxytorch
import pytest
import torch
import training
from test_modules import cases, name_of

# How many samples of each layer are tried.
SAMPLES = 2


def step(called, model, args, kwargs):
    torch.manual_seed(0)
    args, kwargs = training.fresh(args), training.fresh(kwargs)
    out = called(*args, **kwargs)
    wanted = [leaf for leaf in training.leaves(out) if leaf.requires_grad]
    if wanted:
        torch.autograd.backward(wanted, training.weights_like(wanted))
    outputs = [leaf.detach() for leaf in training.leaves(out)]
    grads = [leaf.grad for leaf in training.leaves((args, kwargs))] + [p.grad for p in model.parameters()]
    return outputs, grads, [buffer.clone() for buffer in model.buffers()]


@pytest.mark.parametrize("training_mode", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("info", cases())
def test_module(info, training_mode):
    ran = 0
    for sample in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training_mode):
        if sample.forward_input is None or ran == SAMPLES:
            continue
        plain = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).train(training_mode)
        args, kwargs = sample.forward_input.args, sample.forward_input.kwargs
        if not all(type(a) is torch.Tensor and a.layout == torch.strided for a in args if isinstance(a, torch.Tensor)):
            continue
        ours, wide = copy.deepcopy(plain), copy.deepcopy(plain).double()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                want = step(plain, plain, args, kwargs)
            except (RuntimeError, NotImplementedError):
                continue  # a sample that eager does not take, or cannot differentiate
            got = step(oxytorch.compile(ours, options={"fallback_random": True}), ours, args, kwargs)
        exact = None

        def reference():
            nonlocal exact
            if exact is None:
                exact = step(wide, wide, widened(args), widened(kwargs))
            return exact

        for part in range(3):
            assert [g is None for g in got[part]] == [w is None for w in want[part]], name_of(info)
            present = [n for n, w in enumerate(want[part]) if w is not None]
            compare.assert_same(
                [got[part][n] for n in present],
                [want[part][n] for n in present],
                lambda: [reference()[part][n] for n in present],
                strides=part == 0,
                label=f"{name_of(info)} {('output', 'gradient', 'buffer')[part]}",
            )
        ran += 1
    if not ran:
        pytest.skip("no sample with dense tensors")


def widened(tree):
    def wide(value):
        if not isinstance(value, torch.Tensor):
            return value
        return compare.to_double(value.detach()).requires_grad_(value.requires_grad)

    return torch.utils._pytree.tree_map(wide, tree)


@pytest.mark.parametrize("shape, dtype", [((5, 4), torch.float32), ((5, 4, 3, 3), torch.float32), ((5, 4, 3, 3), torch.float64)])
def test_an_average_over_all_batches(shape, dtype):
    """With `momentum=None` every step has a factor of its own, which the graph is given."""
    norm = torch.nn.BatchNorm1d if len(shape) == 2 else torch.nn.BatchNorm2d
    ours, eagers = (norm(4, momentum=None, dtype=dtype) for _ in range(2))
    captured = oxytorch._oxytorch.capture(ours)
    for _ in range(6):
        x = torch.randn(shape, dtype=dtype) * 2 + 1
        inputs = [x.clone().requires_grad_() for _ in range(2)]
        results = [module(given) for module, given in zip((captured, eagers), inputs)]
        for result in results:
            result.sin().sum().backward()
        compare.assert_same(results[0], results[1])
        compare.assert_same(inputs[0].grad, inputs[1].grad)
        for own, eager in zip(ours.buffers(), eagers.buffers()):
            compare.assert_same(own, eager)
    assert captured.stats()["traced"] == 1, captured.show()
