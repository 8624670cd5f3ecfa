"""Tensors that are written between a call and its backward pass: torch refuses what eager's graph has saved of them, and nothing else."""

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from training import DOORS, check

both = pytest.mark.parametrize("door", DOORS)

FUNCTIONS = {
    "exp sin": lambda a, b: a.exp().sin(),
    "exp": lambda a, b: a.exp(),
    "sin": lambda a, b: a.sin(),
    "relu of a sum": lambda a, b: (a + b).relu(),
    "product": lambda a, b: a * b,
    "sigmoid product": lambda a, b: a.sigmoid() * b.tanh(),
    "softmax": lambda a, b: (a + b).softmax(-1),
    "log_softmax": lambda a, b: F.log_softmax(a * 2, -1),
    "layer_norm": lambda a, b: F.layer_norm(a, (4,), b[0], b[1]),
    "normalised": lambda a, b: (a - a.mean(-1, keepdim=True)) / a.std(-1, keepdim=True),
    "gelu": lambda a, b: F.gelu(a + b),
    "silu": lambda a, b: F.silu(a),
    "linear": lambda a, b: F.linear(a, b).tanh(),
    "where": lambda a, b: torch.where(b > 0, a.exp(), a),
    "clamp": lambda a, b: (a * 3).clamp(-1, 1),
    "square root": lambda a, b: (a * a + 1).sqrt(),
    "power": lambda a, b: (a + 1) ** 2,
    "quotient": lambda a, b: a / (b.exp() + 1),
    "norm": lambda a, b: a.norm(dim=-1) + b[:, 0],
    "maximum": lambda a, b: torch.maximum(a + 1, b),
    "gathered": lambda a, b: (a + 1)[:, [2, 0]].exp(),
    "loss": lambda a, b: F.mse_loss(a.sigmoid(), b, reduction="none"),
    "in place": lambda a, b: (a + 1).sigmoid_().mul(b),
    "without a gradient": lambda a, b: (a + 1).sin() * a.cos().detach(),
}
WRITES = {
    "argument": lambda a, b, out: a,
    "constant": lambda a, b, out: b,
    "result": lambda a, b, out: out,
}


def outcome(function, written):
    """The gradients, or whether torch refused the write."""
    torch.manual_seed(0)
    leaf, b = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
    a = leaf * 1
    out = function(a, b)
    if written is not None:
        with torch.no_grad():
            WRITES[written](a, b, out).detach().mul_(3).add_(2)
    try:
        out.backward(torch.linspace(1, 2, out.numel()).reshape(out.shape))
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
        return None
    return leaf.grad


@both
@pytest.mark.parametrize("written", WRITES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_eager_has_not_saved_may_be_written(door, name, written):
    plain, compiled = FUNCTIONS[name], DOORS[door](FUNCTIONS[name])
    untouched = outcome(plain, None)
    for _ in range(2):
        expected, found = outcome(plain, written), outcome(compiled, written)
        if expected is None and found is not None:
            # What we have not saved is nothing to us.
            expected = untouched
        compare.assert_same(found, expected)


@both
@pytest.mark.parametrize("name", ["exp", "relu of a sum", "softmax", "square root"])
def test_a_result_that_eager_has_saved_may_not(door, name):
    assert outcome(FUNCTIONS[name], "result") is None
    assert outcome(DOORS[door](FUNCTIONS[name]), "result") is None


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.log_scale = nn.Linear(4, 4), nn.Parameter(torch.zeros(4))

    def forward(self, t):
        return F.gelu(self.linear(t)) * self.log_scale.exp()


@both
def test_parameters_that_eager_has_not_saved_may_be_written(door):
    grads = []
    for wrap in (lambda model: model, DOORS[door]):
        torch.manual_seed(0)
        model = Scaled()
        out = wrap(model)(torch.randn(3, 4))
        with torch.no_grad():
            model.linear.bias.add_(1)
            model.log_scale.add_(1)
        out.sum().backward()
        grads.append([p.grad for p in model.parameters()])
    compare.assert_same(grads[1], grads[0])


def written_through_a_view(t, c):
    with torch.no_grad():
        v = t[0]
        v.copy_(c)
    return v, t * 2


def written_in_front_of_a_view(t, c):
    with torch.no_grad():
        t[0].copy_(c)
        v = t[0]
    return v, t * 2


def written_through_a_view_that_has_grad(t, c):
    v = t[0]
    with torch.no_grad():
        v.copy_(c)
    return v, t * 2


def what_is_known_of(tensor):
    try:
        return tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is None, tensor._version, tensor._is_view()
    except RuntimeError as error:
        return str(error)


@both
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    "function",
    [written_through_a_view, written_in_front_of_a_view, written_through_a_view_that_has_grad],
    ids=lambda function: function.__name__,
)
def test_an_argument_that_is_written_through_a_view_without_grad(door, function, computed):
    """torch will not compute with a view that was made without grad, and written since."""
    found = []
    for called in (DOORS[door](function), function):
        for _ in range(2):
            leaf = torch.ones(2, 3).requires_grad_()
            t = leaf * 1 if computed else leaf
            v, doubled = called(t, torch.ones(3))
            doubled.sum().backward()
            found.append(([what_is_known_of(tensor) for tensor in (v, t)], v._base is t, t.detach().clone(), leaf.grad))
    compare.assert_same(found[:2], found[2:])


@both
def test_an_argument_that_is_written_through_a_view_without_grad_that_nobody_sees(door):
    def function(t, c):
        with torch.no_grad():
            v = t[0]
            v.copy_(c)
        return t.sin()

    found = []
    for called in (DOORS[door](function), function):
        leaf = torch.arange(6.0).reshape(2, 3).requires_grad_()
        called(leaf, torch.ones(3)).sum().backward()
        found.append((leaf.detach(), leaf.grad))
    compare.assert_same(*found)


def of_a_value_that_was_filled(x, w, b):
    filled = torch.zeros_like(x)
    filled[0] = w
    values = torch.linalg.svdvals(x).sum()
    return filled * x + values


def through_a_row(x, w, b):
    b[0].add_(w)
    return b.sin() * x


def through_a_view_of_all(x, w, b):
    b.view(-1).add_(x.view(-1))
    return b.cos() * x


def through_a_transpose(x, w, b):
    b.t().add_(w[:, None])
    return b.cos() * x


def of_a_view_from_before(x, w, b):
    view = b.view(-1)
    b.add_(w)
    return view.sin() * x.view(-1)


def between_two_cuts(x, w, b):
    value = b * 2
    first = torch.linalg.svdvals(x).sum()
    value.add_(w)
    second = torch.linalg.svdvals(x * 2).sum()
    return value * x + first + second


@both
@pytest.mark.parametrize(
    "function",
    [
        of_a_value_that_was_filled,
        through_a_row,
        through_a_view_of_all,
        through_a_transpose,
        of_a_view_from_before,
        between_two_cuts,
    ],
    ids=lambda function: function.__name__,
)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_gradients_of_what_was_written_in_front_of_a_cut(door, function):
    check(function, torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True), torch.zeros(4, 3), door=door)


@both
def test_a_view_of_an_argument_without_a_gradient_is_one_behind_the_call(door):
    def function(x, b):
        return x * 2, b.t()

    found = []
    for called in (DOORS[door](function), function):
        x, b = torch.ones(4, 3, requires_grad=True), torch.zeros(4, 3)
        _, view = called(x, b)
        view.add_(x.t())
        found.append((view._base is b, b.requires_grad, torch.autograd.grad(b.sin().sum(), x)[0]))
    compare.assert_same(*found)


@both
@pytest.mark.parametrize(
    "write", [lambda t: F.relu(t, inplace=True), lambda t: F.relu(t, True), lambda t: F.leaky_relu(t, 0.1, True)]
)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_what_was_written_by_a_flag_without_grad_has_the_gradient_of_what_stood_there(door, write):
    def function(x, w):
        value = x * 2
        with torch.no_grad():
            write(value)
        return value * w

    check(function, torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True), door=door)


def through_detach(x, w, b):
    apart = b.detach()
    apart.mul_(w)
    return b.sin() * x, apart * 1


def through_a_row_of_detach(x, w, b):
    apart = b.detach()[0]
    apart.mul_(w)
    return b.sin() * x, apart * 1


def stored_through_detach(x, w, b):
    apart = b.detach()
    apart[1] = w
    return b.sin() * x, apart * 2


def without_grad(x, w, b):
    apart = b * 2
    with torch.no_grad():
        apart.detach().mul_(w)
    return apart * x, b * 1


def through_data(x, w, b):
    b.data.mul_(w)
    return b.sin() * x


@both
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize(
    "function",
    [through_detach, through_a_row_of_detach, stored_through_detach, through_data, without_grad],
    ids=lambda function: function.__name__,
)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_what_requires_grad_is_written_with_what_does_through_a_detached_view(door, function, computed):
    found = []
    for called in (DOORS[door](function), function):
        for call in range(2):
            generator = torch.Generator().manual_seed(call)
            x, w, b = (torch.randn(*shape, generator=generator).requires_grad_() for shape in ((4, 3), (3,), (4, 3)))
            outputs = called(x, w, b * w if computed else b)
            losses = [out.sum() for out in outputs] if isinstance(outputs, tuple) else [outputs.sum()]
            grads = torch.autograd.grad(losses, [x, w, b], allow_unused=True)
            found.append([None if grad is None else grad.contiguous() for grad in grads])
    compare.assert_same(found[:2], found[2:])


def a_factor(x, w, b):
    y = b * w * x
    w.data.mul_(0.9)
    return y


def a_factor_s_row(x, w, b):
    y = b * w.sin() + x * b
    b.data[0].zero_()
    return y + torch.linalg.svdvals(x).sum()


def a_result_that_was_saved(x, w, b):
    y = x.exp()
    y.data.mul_(2)
    return y * w


def behind_its_uses(x, w, b):
    y = (x * w).sigmoid()
    z = y * w
    y.data.zero_()
    return z + y


def in_front_of_its_uses(x, w, b):
    w.data.clamp_(-0.5, 0.5)
    y = x * w
    y.data.round_()
    return y.sin() * b


def a_factor_of_what_was_written_since(x, w, b):
    a = x.sin()
    y = a * w
    y.add_(1)
    a.data.mul_(2)
    return y


def a_factor_of_a_part(x, w, b):
    a, y = x.sin(), x * w
    y[0].mul_(a[1])
    a.data.mul_(2)
    return y


def a_part_that_was_saved(x, w, b):
    y = x * w
    y[0].sigmoid_()
    y.data.mul_(2)
    return y * 1


def by_a_flag(x, w, b):
    y = x * w
    z = y.sin()
    F.relu(y.data, inplace=True)
    return z + b


def into_several(x, w, b):
    y = x * w
    z = y.sin()
    top, rest = y.data.split([1, 3])
    torch._foreach_mul_([top, rest], 2)
    return z + b


def what_data_was_taken_of(x, w, b):
    a = w.sin()
    y = x * a.data
    with torch.no_grad():
        a[0].copy_(y[1, 0])
    return y + b * a


def one_data_beside_another(x, w, b):
    a = w.sin()
    y = x * a.data
    a.data.mul_(2)
    return y + b


@both
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize(
    "function",
    [
        what_data_was_taken_of,
        one_data_beside_another,
        a_factor,
        a_factor_s_row,
        a_result_that_was_saved,
        behind_its_uses,
        in_front_of_its_uses,
        a_factor_of_what_was_written_since,
        a_factor_of_a_part,
        a_part_that_was_saved,
        by_a_flag,
        into_several,
    ],
    ids=lambda function: function.__name__,
)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_gradients_are_those_of_what_was_written_by_way_of_data(function, dynamic, door):
    inputs = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    check(function, *inputs, dynamic=dynamic, door=door)


@both
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_data_has_no_gradient_of_what_is_written_beside_it(door):
    def function(x, w, b):
        data = b.data
        b[...] = w
        data -= data.cos()
        return b, data

    found = []
    for called in (DOORS[door](function), function):
        for _ in range(2):
            x, w, b = (torch.arange(1.0, 5).requires_grad_() for _ in range(3))
            b_written, data = called(x, w, b * 1)
            b_written.sum().backward()
            found.append((data.requires_grad, data.detach(), w.grad, b.grad))
    compare.assert_same(found[:2], found[2:])


def by_data_behind_a_break(x, w, b):
    y = x * w * b
    print(end="")
    w.data.mul_(0.5)
    return y


def by_data_in_a_graph_with_gradients(x, w, b):
    y = x * b
    print(end="")
    b.data[0].mul_(0.5)
    return y + w.sin()


def by_data_that_is_returned(x, w, b):
    y = x * w * b
    print(end="")
    data = b.data
    data.mul_(0.5)
    return y, data


def by_data_that_was_detached(x, w, b):
    y = x * w * b
    print(end="")
    b.data.detach().mul_(0.5)
    return y


UNCOUNTED = [
    by_data_behind_a_break,
    by_data_in_a_graph_with_gradients,
    by_data_that_is_returned,
    by_data_that_was_detached,
]


@both
@pytest.mark.parametrize("function", UNCOUNTED, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_write_by_way_of_data_is_not_counted(door, function):
    check(function, torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True), torch.randn(4, 3), door=door)


def test_what_was_written_by_way_of_data_before_a_call_is_as_it_was_saved():
    """Another tensor that the call has saved is written, which the pass does not need: each is looked at by itself."""
    clamp = DOORS["capture"](lambda y: y.data.clamp_(0, 1).sum())
    found = []
    for called in (DOORS["capture"](lambda x, y, z: (x * y, x * z)), lambda x, y, z: (x * y, x * z)):
        x, y, z = torch.ones(3, requires_grad=True), torch.full((3,), 2.0), torch.ones(3)
        clamp(y)
        first, _ = called(x, y, z)
        z.add_(1)
        first.sum().backward()
        found.append(x.grad)
    compare.assert_same(*found)


@both
@pytest.mark.parametrize("write", [lambda b: b.mul_(2), lambda b: F.relu(b, True)])
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_write_beside_one_by_way_of_data_is_counted(door, write):
    def function(x, b):
        y = x * b
        print(end="")
        b.data.mul_(0.5)
        write(b)
        return y

    for _ in range(2):
        y = DOORS[door](function)(torch.ones(4, requires_grad=True), torch.ones(4))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def other_memory(x, w, b):
    w.data = w.data * 0.5
    return x * w + b


def other_memory_behind_a_use(x, w, b):
    y = x * w
    w.data = w.data.clone().mul_(0.5)
    return y * w + b


def other_memory_behind_a_view(x, w, b):
    y = F.linear(x, w.expand(2, 3)).sin()
    w.data = w.data * 0.5
    return y


OTHER_MEMORY = [other_memory, other_memory_behind_a_use, other_memory_behind_a_view]


@both
@pytest.mark.parametrize("function", OTHER_MEMORY, ids=lambda function: function.__name__)
@pytest.mark.filterwarnings("ignore:oxytorch")
def test_a_tensor_that_gets_other_memory(door, function):
    check(function, torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True), torch.randn(4, 3), door=door)


def test_a_write_to_data_that_was_returned_is_not_told_to_what_it_shares_memory_with():
    def function(w):
        return w * w, w.data

    found = []
    for called in (oxytorch.compile(function), function):
        w = torch.ones(3, requires_grad=True)
        y, data = called(w)
        data.mul_(2)
        y.sum().backward()
        found.append((w._version, w.grad))
    compare.assert_same(*found)


def test_a_write_by_data_to_what_no_gradient_of_a_result_needs_is_compiled():
    """The table of a quantiser: distances from it are differentiable, but only the nearest entry is taken."""

    def function(x, table):
        nearest = (x @ table).argmax(1)
        found = table.t()[nearest]
        table.data.mul_(0.9)
        return x + (found - x).detach(), (found - x).square().mean()

    compiled = oxytorch.compile(function, fullgraph=True)
    for call in range(2):
        generator = torch.Generator().manual_seed(call)
        given = torch.randn(5, 4, generator=generator), torch.randn(4, 3, generator=generator)
        found = []
        for called in (compiled, function):
            x, table = given[0].clone().requires_grad_(), given[1].clone()
            result, loss = called(x, table)
            (result.sum() + loss).backward()
            found.append((result.detach(), loss.detach(), x.grad, table))
        compare.assert_same(*found)
    assert oxytorch.last_compile()["outcome"] == "compiled"


def in_between(x, w):
    y = x.exp()
    loss = y.sum()
    y.add_(1)
    return loss


def a_buffer(x, w):
    loss = (x * w.detach()).sum()
    w.detach().add_(1)
    return loss


def a_parameter(x, w):
    loss = (x @ w).sum()
    with torch.no_grad():
        w.add_(0.1)
    return loss


def one_of_two(x, w):
    """Only the second loss needs what was written."""
    y = x.exp()
    loss = x.sin().sum()
    other = (y * w).sum()
    with torch.no_grad():
        y.add_(1)
    return loss, other


@both
@pytest.mark.parametrize("inside", [False, True], ids=["behind", "inside"])
@pytest.mark.parametrize("function", [in_between, a_buffer, a_parameter, one_of_two])
def test_what_a_gradient_needs_is_written_by_the_same_graph(door, function, inside):
    """A Graph knows of no writes: its gradients would be computed where eager's raise."""

    def step(x, w):
        losses = function(x, w)
        for loss in losses if isinstance(losses, tuple) else [losses]:
            loss.backward()

    def run(called, rows):
        x, w = torch.ones(rows, 3, requires_grad=True), torch.full((3 if function is a_parameter else rows, 3), 2.0, requires_grad=True)
        try:
            result = called(x, w)
            for loss in () if inside else result if isinstance(result, tuple) else [result]:
                loss.backward()
            outcome = "no error"
        except RuntimeError as error:
            outcome = str(error)
        return outcome, x.grad, w.grad, w.detach()

    compiled = DOORS[door](step if inside else function)
    for rows in (4, 4, 5):
        got, want = run(compiled, rows), run(step if inside else function, rows)
        assert "modified by an inplace operation" in want[0]
        assert got[0] == want[0]
        compare.assert_same(got[1:], want[1:])


SAVED = {
    "amax": lambda x, y: x.amax(1),
    "amin": lambda x, y: x.amin(1),
    "norm": lambda x, y: x.norm(dim=1),
    "std": lambda x, y: x.std(1),
    "prod": lambda x, y: x.prod(1),
    "cumprod": lambda x, y: x.cumprod(0),
    "logsumexp": lambda x, y: x.logsumexp(1),
    "hypot": lambda x, y: x.hypot(y),
    "exp": lambda x, y: x.exp(),
    "maximum": lambda x, y: torch.maximum(x, y),
    "var": lambda x, y: x.var(1),
    "index_add": lambda x, y: x.clone().index_add_(0, torch.zeros(x.shape[0], dtype=torch.long), y),
    "scatter_reduce": lambda x, y: x.scatter_reduce(0, torch.zeros(x.shape, dtype=torch.long), y, "mean"),
    "two": lambda x, y: (x.norm(dim=1), (x * y).sum(1)),
}


@both
@pytest.mark.parametrize("name", SAVED)
def test_a_result_that_only_eager_saves(name, door):
    """Its gradient is computed of something else here: who writes to it is told so where eager tells it, and nowhere else."""

    def gradients(f, rows, of):
        torch.manual_seed(rows)
        x, y = (torch.rand(rows, 5, requires_grad=True) for _ in range(2))
        results = f(x, y)
        results = results if isinstance(results, tuple) else (results,)
        results[0].add_(1)
        try:
            return torch.autograd.grad((results[of] * 2).sum(), (x, y), allow_unused=True)
        except RuntimeError as error:
            return str(error).partition(":")[0]

    compiled = DOORS[door](SAVED[name])
    for rows, of in ((4, 0), (4, -1), (6, 0)):
        want, got = gradients(SAVED[name], rows, of), gradients(compiled, rows, of)
        compare.assert_same(got, want)


SHOWN = {
    "turned": lambda x: (lambda n: (n.t(), (n * n).sum()))(x.clone()),
    "rows": lambda x: (lambda n: (n[0], n[1], (n * n).sum()))(x.clone()),
    "flat": lambda x: (lambda n: (n.view(-1), n * 2, n.exp()))(x.clone()),
    "norm": lambda x: (lambda n: (n, n * 2, x / n))(x.norm(dim=1, keepdim=True)),
    "largest": lambda x: (lambda n: (n, n + 1, n * n))(x.amax(1)),
}


@both
@pytest.mark.parametrize("name", SHOWN)
def test_a_result_that_eager_saves_for_others_of_them(name, door):
    """A write to it matters to those gradients alone that come to who has saved it."""

    def gradients(f, written, of):
        torch.manual_seed(0)
        x = torch.rand(4, 5, requires_grad=True)
        results = f(x * 1)
        with torch.no_grad():
            results[written].add_(1)
        try:
            return torch.autograd.grad(results[of].sum(), x)
        except RuntimeError as error:
            return str(error).partition(":")[0]

    compiled = DOORS[door](SHOWN[name])
    for written, of in ((0, 0), (0, 1), (0, -1), (1, 0), (1, -1)):
        want, got = gradients(SHOWN[name], written, of), gradients(compiled, written, of)
        compare.assert_same(got, want)
