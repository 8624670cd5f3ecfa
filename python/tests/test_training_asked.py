"""Gradients that are asked for one at a time, or by way of what is left of an earlier graph."""

import compare
import oxytorch
import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from training import DOORS

both = pytest.mark.parametrize("door", DOORS)


@both
def test_one_gradient_of_several(door):
    def f(a, b, c):
        return (torch.sin(a @ b) * c).sum()

    called = DOORS[door](f)
    args = [torch.randn(6, 6, requires_grad=True) for _ in range(3)]
    want = torch.autograd.grad(f(*args), args)
    for n, arg in enumerate(args):
        compare.assert_same(torch.autograd.grad(called(*args), arg)[0], want[n])
        loss = called(*args)
        loss.backward(inputs=[arg])
        compare.assert_same(arg.grad, want[n])
        arg.grad = None
    compare.assert_same(torch.autograd.grad(called(*args), args[:2]), want[:2])
    compare.assert_same(torch.autograd.grad(called(*args), args), want)


@pytest.mark.parametrize("ask", [torch.autograd.grad, lambda loss, inputs: loss.backward(inputs=inputs)], ids=["grad", "backward"])
def test_what_is_not_asked_for_is_not_computed(ask, tmp_path):
    def f(x, *weights):
        for weight in weights:
            x = torch.relu(x @ weight)
        return x.sum()

    called = oxytorch.compile(f, options={"debug_dir": str(tmp_path)})
    x, *weights = [torch.rand(8, 8, requires_grad=True) for _ in range(5)]

    def products(inputs):
        """In the plan that was made last."""
        ask(called(x, *weights), inputs)
        folder = max(tmp_path.iterdir(), key=lambda path: int(path.name.rsplit("-", 1)[1]))
        plan = max(folder.glob("**/3-plan.txt"), key=lambda path: path.parent.name == "backward")
        return plan.read_text().count(" matmul")

    assert (products([x, *weights]), products(weights[-1]), products(weights[-2])) == (8, 1, 2)


def test_gradients_of_what_was_computed_before_the_function():
    """Inputs that are no leaves, of which one is asked for."""
    called = oxytorch.compile(lambda a, b: (a * b).sin().sum())
    x, y = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    f = lambda called: torch.autograd.grad(called(x.exp(), y.cos()), y)[0]
    compare.assert_same(f(called), f(lambda a, b: (a * b).sin().sum()))


@both
def test_a_loss_of_an_earlier_graph_that_is_only_detached(door):
    model = nn.Linear(4, 4)
    called = DOORS[door](lambda x, loss: (model(x) * (1 + loss.detach())).sum())
    x = torch.randn(3, 4)
    loss = model(x).square().sum()
    loss.backward()
    model.zero_grad()
    called(x, loss).backward()
    got = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    (model(x) * (1 + loss.detach())).sum().backward()
    compare.assert_same(got, [p.grad for p in model.parameters()])


def test_two_steps_in_one_function_of_which_the_second_reads_the_first_loss():
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x, y):
        losses = []
        previous = None
        for part in (x, y):
            optimizer.zero_grad()
            out = model(part)
            loss = F.mse_loss(out, torch.ones_like(out))
            if previous is not None:
                loss = loss / (1 + previous.detach())
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
            previous = loss
        return losses

    state = {k: v.clone() for k, v in model.state_dict().items()}
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    results = []
    for called in (step, oxytorch.compile(step)):
        model.load_state_dict(state)
        results.append([called(x, y) for _ in range(3)] + [[p.detach().clone() for p in model.parameters()]])
    compare.assert_same(results[1], results[0])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_a_table_that_is_used_twice(dtype, tmp_path):
    """The rows that an embedding read are added to the gradient of the product, not to zeros of the table's size."""
    f = lambda table, index: (F.embedding(index, table).tanh() @ table.t()).sin()
    table, index = torch.randn(50, 8, dtype=dtype, requires_grad=True), torch.randint(50, (4, 6))
    called = oxytorch.compile(f, options={"debug_dir": str(tmp_path)})
    gradient = lambda f, table: torch.autograd.grad(f(table, index).sum(), table)[0]
    compare.assert_same(gradient(called, table), gradient(f, table), lambda: gradient(f, table.detach().double().requires_grad_()))
    (text,) = (path.read_text() for path in tmp_path.glob("**/backward/1-graph.txt"))
    assert (" add(" in text) == (dtype == torch.bfloat16)


LAYOUTS = {
    "contiguous": lambda: torch.randn(3, 4),
    "transposed": lambda: torch.randn(4, 3).t(),
    "expanded rows": lambda: torch.randn(4).expand(3, 4),
    "expanded columns": lambda: torch.randn(3, 1).expand(3, 4),
    "expanded, in another order": lambda: torch.randn(4, 1, 3).transpose(0, 2).expand(3, 5, 4),
    "a number": lambda: torch.randn(()).expand(3, 4),
    "every other column": lambda: torch.randn(3, 8)[:, ::2],
    "every other row, transposed": lambda: torch.randn(8, 3)[::2].t(),
    "without elements": lambda: torch.randn(3, 1, 0).expand(3, 4, 0),
    "channels last": lambda: torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_gradients_lie_as_in_eager(layout):
    """Those of leaves as torch says that they must, those that are asked for as what is computed element by element."""

    def strides(called):
        x, y = (layout().detach().requires_grad_() for _ in range(2))
        out = called(x)
        out.backward(torch.ones_like(out))
        out = called(y)
        return x.grad.stride(), torch.autograd.grad(out, y, torch.ones_like(out))[0].stride()

    function = lambda x: (x * 2).sin()
    assert strides(oxytorch.compile(function)) == strides(function)
