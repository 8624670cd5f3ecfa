"""Optimizers of torch.optim, captured and compiled: against eager, and in precision against a run in f64."""

import copy
import warnings

import oxytorch
import pytest
import torch
from torch import nn

STEPS = 20
SHAPES = ((4, 8), (8,), (3, 5))

CASES = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, weight_decay=0.01)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, nesterov=True, maximize=True)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam_l2_amsgrad": (torch.optim.Adam, dict(lr=0.01, weight_decay=0.1, amsgrad=True)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01, weight_decay=0.1)),
    "adamw_maximize": (torch.optim.AdamW, dict(lr=0.01, amsgrad=True, maximize=True)),
    "adagrad": (torch.optim.Adagrad, dict(lr=0.1, lr_decay=0.01, weight_decay=0.01)),
    "rmsprop": (torch.optim.RMSprop, dict(lr=0.01)),
    "rmsprop_centered": (torch.optim.RMSprop, dict(lr=0.01, momentum=0.9, centered=True, weight_decay=0.01)),
}


def parameters(dtype=torch.float32):
    generator = torch.Generator().manual_seed(1)
    made = [nn.Parameter(torch.randn(shape, generator=generator).to(dtype)) for shape in SHAPES]
    # A parameter that never gets a gradient.
    return [*made, nn.Parameter(torch.ones(2, dtype=dtype))]


def set_gradients(optimizer, step):
    generator = torch.Generator().manual_seed(step)
    for parameter in optimizer.param_groups[0]["params"][:-1]:
        parameter.grad = torch.randn(parameter.shape, generator=generator).to(parameter.dtype)


def train(kind, options, compiler=None, dtype=torch.float32, foreach=False):
    """The optimizer after some steps of a schedule, and its compiled step."""
    optimizer = kind(parameters(dtype), foreach=foreach, **options)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    step = compiler(optimizer.step) if compiler else optimizer.step
    for n in range(STEPS):
        set_gradients(optimizer, n)
        step()
        schedule.step()
    return optimizer, step


def tensors(optimizer):
    for parameter in optimizer.param_groups[0]["params"]:
        yield parameter
        yield from (value for _, value in sorted(optimizer.state[parameter].items()) if isinstance(value, torch.Tensor))


def assert_as_exact_as_eager(got, eager, exact):
    """Our error against f64 is at most twice eager's, by the largest of each tensor, and a rounding or two of its size."""
    for ours, theirs, truth in zip(tensors(got), tensors(eager), tensors(exact), strict=True):
        assert ours.dtype == theirs.dtype and ours.stride() == theirs.stride()
        error = (ours.double() - truth.double()).abs().max().item()
        allowed = 2 * (theirs.double() - truth.double()).abs().max().item()
        allowed += 2 * torch.finfo(ours.dtype).eps * max(truth.double().abs().max().item(), 1e-30)
        assert error <= allowed, f"{error} > {allowed}"


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("name", CASES)
def test_follows_eager(name, foreach):
    kind, options = CASES[name]
    eager, _ = train(kind, options, foreach=foreach)
    exact, _ = train(kind, options, dtype=torch.float64, foreach=foreach)
    got, step = train(kind, options, oxytorch.compile, foreach=foreach)
    assert_as_exact_as_eager(got, eager, exact)
    stats = step.stats()
    assert stats["breaks"] == []
    # Once while state is made, once when it is there; the schedule compiles nothing.
    assert stats["traced"] <= 2


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.Adagrad])
def test_fused_steps_are_torchs_own(kind):
    options = dict(lr=0.01, fused=True)
    run = lambda compiler: train_fused(kind, options, compiler)
    for ours, theirs in zip(tensors(run(oxytorch.compile)), tensors(run(None)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_marks_of_dynamo_do_not_keep_optimizers_out():
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    assert hasattr(torch.optim.SGD._init_group, "_torchdynamo_disable")
    _, step = train(torch.optim.SGD, dict(lr=0.1), oxytorch.compile)
    assert not step.report()["breaks"]


def train_fused(kind, options, compiler):
    optimizer = kind(parameters()[:-1], **options)
    step = compiler(optimizer.step) if compiler else optimizer.step
    for n in range(4):
        generator = torch.Generator().manual_seed(n)
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.param_groups[0]["lr"] *= 0.9
        step()
    return optimizer


def test_learning_rate_in_a_tensor():
    def run(compiler):
        optimizer = torch.optim.AdamW(parameters()[:-1], lr=torch.tensor(0.01), foreach=False)
        step = compiler(optimizer.step) if compiler else optimizer.step
        for n in range(5):
            for parameter in optimizer.param_groups[0]["params"]:
                parameter.grad = torch.full_like(parameter, 0.1 * (n + 1))
            step()
            optimizer.param_groups[0]["lr"].mul_(0.9)
        return optimizer, step

    (got, step), (eager, _) = run(oxytorch.compile), run(None)
    for ours, theirs in zip(tensors(got), tensors(eager), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert step.stats()["traced"] <= 2


def test_versions_count_up():
    """Autograd must notice that a parameter which it saved was changed in place."""
    weight = nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    step = oxytorch.compile(optimizer.step)
    weight.grad = torch.ones(4)
    for _ in range(3):
        product = (weight * weight).sum()
        before = weight._version
        step()
        assert weight._version > before
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_two_groups_and_a_changed_list():
    def run(compiler):
        made = parameters()[:-1]
        optimizer = torch.optim.SGD([{"params": made[:2]}, {"params": made[2:], "lr": 0.5}], lr=0.1, momentum=0.9)
        step = compiler(optimizer.step) if compiler else optimizer.step
        for n in range(6):
            for parameter in made:
                parameter.grad = torch.full_like(parameter, float(n))
            if n == 3:
                made[1].requires_grad_(False)
                made[1].grad = None
            step()
        return made

    for ours, theirs in zip(run(oxytorch.compile), run(None), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_numbers_that_change_become_inputs():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale, self.shift = 2.0, 3

        def forward(self, x):
            return torch.add(x * self.scale, x, alpha=self.scale + 1) - self.shift

    plain = Scaled()
    got = oxytorch.compile(plain.forward)
    x = torch.randn(5)
    half = torch.randn(64).to(torch.bfloat16)
    with torch.no_grad():
        for n in range(6):
            plain.scale, plain.shift = 2.0 + n, 3 + n
            torch.testing.assert_close(got(x), plain(x), rtol=0, atol=0)
        assert got.stats()["traced"] <= 3
        for n in range(4):
            plain.scale, plain.shift = 0.3 * n, n
            result = got(half)
            assert result.dtype == torch.bfloat16
            torch.testing.assert_close(result, plain(half), rtol=0, atol=0)
        whole = torch.arange(5)
        plain.shift = 2
        torch.testing.assert_close(oxytorch.compile(lambda: whole * plain.shift + plain.shift)(), whole * 2 + 2)


def test_a_number_of_another_kind_is_noticed():
    settings = {"scale": 2}
    got = oxytorch.compile(lambda x: x * settings["scale"])
    for scale in (2, 3, 4, 0.5, 0.25, True, 5):
        settings["scale"] = scale
        x = torch.arange(4)
        result = got(x)
        assert result.dtype == (x * scale).dtype
        torch.testing.assert_close(result, x * scale)


def test_numbers_in_keyword_arguments_stay_what_they_are():
    def inner(x, *rest, **named):
        kept = dict(named)
        return x * named["a"] + rest[0], kept, named.get("b"), rest

    settings = {"a": 1.5, "b": 2.5, "c": 3.5}

    def outer(x):
        return inner(x, settings["c"], a=settings["a"], b=settings["b"])

    got = oxytorch.compile(outer)
    x = torch.ones(3)
    for n in range(5):
        settings.update(a=1.5 + n, b=2.5 * n, c=3.5 - n)
        ours, theirs = got(x), outer(x)
        torch.testing.assert_close(ours[0], theirs[0])
        assert ours[1:] == theirs[1:]


def test_foreach_functions():
    lists = lambda: [torch.randn(3, generator=torch.Generator().manual_seed(n)) for n in range(3)]

    def run(xs, ys):
        zs = torch._foreach_add(xs, ys, alpha=2)
        torch._foreach_mul_(zs, [1.0, 2.0, 3.0])
        torch._foreach_addcdiv_(zs, xs, torch._foreach_exp(ys), torch.tensor([0.5, 1.0, 2.0]))
        torch._foreach_addcmul_(zs, xs, ys, [0.5, 1.0, 2.0])
        zs = torch._foreach_maximum(zs, -0.5)
        torch._foreach_lerp_(zs, ys, 0.25)
        norms = torch._foreach_norm(zs, 2)
        return [*zs, *norms, *torch._foreach_pow(2.0, xs), *torch._foreach_sqrt(torch._foreach_abs(xs))]

    got = oxytorch.compile(run, fullgraph=True)
    with torch.no_grad():
        for ours, theirs in zip(got(lists(), lists()), run(lists(), lists()), strict=True):
            torch.testing.assert_close(ours, theirs)


def test_a_whole_step():
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        return model, torch.optim.AdamW(model.parameters(), lr=0.01), copy.deepcopy(model)

    def step_of(model, optimizer, average):
        def train_step(batches):
            optimizer.zero_grad()
            total = 0.0
            for x, y in batches:
                loss = ((model(x) - y) ** 2).mean() / len(batches)
                total = total + loss.detach()
                loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters()):
                    slow.lerp_(fast, 0.1)
            return total, norm

        return train_step

    ours, theirs = make(), make()
    got, plain = oxytorch.compile(step_of(*ours)), step_of(*theirs)
    schedules = [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9) for optimizer in (ours[1], theirs[1])]
    for n in range(5):
        generator = torch.Generator().manual_seed(n)
        batches = [(torch.randn(4, 6, generator=generator), torch.randn(4, 1, generator=generator)) for _ in range(2)]
        for a, b in zip(got(batches), plain(batches), strict=True):
            torch.testing.assert_close(a, b)
        [schedule.step() for schedule in schedules]
    for a, b in zip([*ours[0].parameters(), *ours[2].parameters()], [*theirs[0].parameters(), *theirs[2].parameters()]):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("foreach", [False, True], ids=["single", "foreach"])
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("name", CASES)
def test_what_comes_behind_a_step(name, steps, foreach):
    """In the same function, with grad again: the loss is detached, or the next loss is computed."""
    kind, options = CASES[name]

    def trained(compiler):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3)).double()
        optimizer = kind(model.parameters(), foreach=foreach, **options)

        def step(x):
            losses = []
            for _ in range(steps):
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
            return losses

        step = compiler(step)
        losses = [loss for n in range(4) for loss in step(torch.full((5, 6), 1.0 + n, dtype=torch.float64))]
        return [*losses, *model.parameters()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if steps > 1 else "error")
        got = trained(oxytorch.compile)
    torch.testing.assert_close(got, trained(lambda step: step))


@pytest.mark.parametrize("name", ["_foreach_addcmul", "_foreach_addcdiv"])
def test_numbers_of_sizes_are_no_tensors(name):
    """A number for each tensor, of its size: what is left to eager takes a list of them, for the first sizes and for others."""

    def f(tensors, others, divisors):
        return getattr(torch, name)(tensors, others, divisors, [tensor.shape[0] for tensor in tensors])

    compiled = oxytorch.compile(f)
    for n in (3, 4, 5):
        tensors = [torch.linspace(1, 2, n).double().requires_grad_(), torch.linspace(2, 3, n).double()]
        others, divisors = ([tensor.detach() + k for tensor in tensors] for k in (1, 2))
        torch.testing.assert_close(compiled(tensors, others, divisors), f(tensors, others, divisors))


lr = torch.optim.lr_scheduler
SCHEDULES = {
    "step": lambda o: lr.StepLR(o, 3),
    "multi_step": lambda o: lr.MultiStepLR(o, [2, 5]),
    "exponential": lambda o: lr.ExponentialLR(o, 0.9),
    "cosine": lambda o: lr.CosineAnnealingLR(o, 30),
    "restarts": lambda o: lr.CosineAnnealingWarmRestarts(o, 4),
    "lambda": lambda o: lr.LambdaLR(o, lambda n: min(1.0, (n + 1) / 5)),
    "multiplicative": lambda o: lr.MultiplicativeLR(o, lambda n: 0.95),
    "linear": lambda o: lr.LinearLR(o, total_iters=5),
    "polynomial": lambda o: lr.PolynomialLR(o, 40, 2.0),
    "one_cycle": lambda o: lr.OneCycleLR(o, 0.1, total_steps=40),
    "cyclic": lambda o: lr.CyclicLR(o, 0.001, 0.1, step_size_up=3),
    "sequence": lambda o: lr.SequentialLR(o, [lr.ConstantLR(o, 0.1, 3), lr.ExponentialLR(o, 0.9)], [4]),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_inside_of_a_step(name):
    """Its numbers stay numbers in the lists and tuples that it makes of them: it ceases to be traced when it has been everywhere."""

    def trained(compiler):
        torch.manual_seed(0)
        model = nn.Linear(4, 2).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = SCHEDULES[name](optimizer)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            return loss

        step, found, traced = compiler(step), [], []
        for n in range(36):
            found.append(step(torch.full((3, 4), 0.1 + n % 3, dtype=torch.float64)).detach())
            found.append(torch.tensor([*schedule.get_last_lr(), optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]]))
            traced.append(len(step.report()["recompiles"]) if compiler is oxytorch.compile else 0)
        return [*found, *model.parameters()], traced

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "oxytorch: .* is traced again and again|The epoch parameter", UserWarning)
        got, traced = trained(oxytorch.compile)
    torch.testing.assert_close(got, trained(lambda step: step)[0])
    # The cosine has come to its end then.
    assert traced[15] == traced[30 if name != "cosine" else 29] and traced[-1] <= 5, traced


@pytest.mark.parametrize("name", CASES)
def test_a_schedule_beside_a_whole_step_is_no_reason_to_trace_again(name):
    """Nor in the trace that begins where the optimizer has got its state: behind the backward pass."""
    kind, options = CASES[name]
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = kind(model.parameters(), **options)
    schedule = lr.ExponentialLR(optimizer, 0.9)

    def step(x):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled, traced = oxytorch.compile(step), []
    for _ in range(6):
        compiled(torch.ones(3, 4))
        schedule.step()
        traced.append(len(compiled.report()["recompiles"]))
    assert traced[1] == traced[-1], compiled.report()["recompiles"]


def test_clearing_gradients_is_no_reason_to_trace_again():
    """torch keeps what it loads for that in the function: a trace does not look there."""
    parameter = nn.Parameter(torch.ones(3))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    wrapped = torch.optim.Optimizer.zero_grad.__wrapped__
    vars(wrapped).pop("__dynamo_disable", None)

    def step(x):
        optimizer.zero_grad()
        loss = (parameter * x).sum()
        loss.backward()
        return loss

    compiled = oxytorch.compile(step, options={"error_on_recompile": True})
    for _ in range(3):
        compiled(torch.ones(3))
        torch.testing.assert_close(parameter.grad, torch.ones(3))
