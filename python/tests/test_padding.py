"""`options={"pad_to": ...}`: arguments padded to buckets, results cut where the graph's sizes say so."""

import collections
import dataclasses
import sys

import pytest
import torch
import torch.nn as nn

import oxytorch
from compare import assert_same


def compiled(function, **pad_to):
    return oxytorch.compile(function, options={"pad_to": pad_to})


def masked(ids, mask=None, *, scale=1.0):
    # 8 is a bucket as well: only the graph can tell the two apart.
    hot = nn.functional.one_hot(ids % 8, 8).float() * scale
    if mask is not None:
        hot = hot * mask[..., None]
    return {"hot": hot, "sum": hot.sum(1), "rest": [hot.transpose(1, 2), 3, None], "pair": (hot[..., 0], hot)}


def test_results_are_cut_where_they_are_padded():
    padded = compiled(masked, ids={1: 8}, mask={-1: 8})
    for n in (3, 5, 8, 11, 1, 16, 0, 7):
        ids, mask = torch.arange(2 * n).reshape(2, n), torch.ones(2, n)
        for _ in range(2):
            assert_same(padded(ids, mask), masked(ids, mask), strides=False)
            assert_same(padded(ids, mask=mask, scale=2.0), masked(ids, mask, scale=2.0), strides=False)
    # By place, by name, and with a number that changes.
    assert padded.stats()["traced"] <= 3, padded.report()["recompiles"]


def test_few_sizes_are_seen():
    seen = set()

    @torch.compiler.disable
    def look(x):
        seen.add(x.shape[0])

    def function(x):
        look(x)
        return x.sum()

    padded = compiled(function, x={0: [4, 16]})
    for n in range(1, 17):
        padded(torch.ones(n))
    assert seen == {4, 16}


def test_other_values():
    def total(x):
        return x.amax(), x + 1

    padded = compiled(total, x={0: (4, -100.0)})
    for n in (3, 6, 4):
        x = -torch.arange(1.0, n + 1)
        assert_same(padded(x), total(x))
    flags = compiled(lambda m: (m.sum(), ~m), m={0: (4, True)})
    total, inverted = flags(torch.zeros(6, dtype=torch.bool))
    assert total == 2 and inverted.tolist() == [True] * 6


Pair = collections.namedtuple("Pair", "left right")


def test_modules_and_gradients():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 8)

        def forward(self, x):
            y = self.layer(x).relu()
            return Pair(y.detach(), y * 2)

    net = Net()
    padded = oxytorch.compile(net, options={"pad_to": {"x": {0: 8}}})
    for n in (3, 9, 8, 1):
        x = torch.linspace(-1, 1, 4 * n).reshape(n, 4)
        ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
        got, want = padded(ours), net(theirs)
        assert type(got) is Pair
        assert_same(tuple(t.detach() for t in got), tuple(t.detach() for t in want))
        grads = [torch.autograd.grad(result.right.pow(2).sum(), [*net.parameters(), x]) for result, x in ((got, ours), (want, theirs))]
        assert_same(*grads)


def test_sizes_that_must_be_equal():
    padded = compiled(masked, ids={1: 8}, mask={1: 8})
    padded(torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 3))
    with pytest.raises(ValueError, match="mask and dimension 1 of ids must be equal"):
        padded(torch.zeros(2, 3, dtype=torch.long), torch.ones(2, 5))


@pytest.mark.parametrize(
    "pad_to, error, text",
    [
        ({"idz": {1: 8}}, ValueError, "no parameter 'idz'; there are ids, mask, scale"),
        ({"ids": 8}, TypeError, "ids needs a dict of its dimensions"),
        ([8], TypeError, "a dict of parameters' names"),
        ({"ids": {"1": 8}}, TypeError, "ids, dimension 1: a dimension is a number"),
        ({"ids": {1: 1}}, ValueError, "a bucket is 2 or more, not 1"),
        ({"ids": {1: []}}, TypeError, "takes a multiple, a list of sizes"),
        ({"ids": {1: 8.0}}, TypeError, "takes a multiple, a list of sizes"),
        ({"ids": {1: (8, "x")}}, TypeError, "padded with 'x', which is no number"),
    ],
)
def test_refused_at_once(pad_to, error, text):
    with pytest.raises(error, match=text):
        oxytorch.compile(masked, options={"pad_to": pad_to})


def broken(x):
    y = x * 2
    sys.getswitchinterval()
    return y + 1


@pytest.mark.parametrize(
    "function, dims, shape, text",
    [
        (lambda x: x + 1, {4: 8}, (2, 3), "x has 2 dimensions; there is no dimension 4"),
        (lambda x: x + 1, {1: [4, 8]}, (2, 9), "dimension 1 of x is 9, above its largest bucket, 8"),
        (lambda x: x.flatten(), {1: 8}, (2, 9), "dimension 0 of a result, 32, is made of dimension 1 of x"),
        (lambda x: torch.cat([x, x], 1), {1: 8}, (2, 9), "dimension 1 of a result, 32, is made of dimension 1 of x"),
        (lambda x: x.reshape(2, 8), {1: 8}, (2, 7), "the program needs it to be 8"),
        (broken, {1: 8}, (2, 7), "the function is no single graph"),
    ],
)
def test_refused_in_a_call(function, dims, shape, text):
    with pytest.raises(ValueError, match=text):
        compiled(function, x=dims)(torch.zeros(shape))


def write(x, y=None):
    x.add_(1)
    return x, x * 2


@pytest.mark.parametrize("inference", [False, True])
def test_writes_are_copied_back(inference):
    padded = compiled(write, x={0: 4, 1: 8})
    with torch.inference_mode(inference):
        for shape in ((4, 8), (2, 5), (3, 8), (2, 7)):
            x, y = torch.zeros(shape), torch.zeros(shape)
            got = padded(x)
            assert_same(got, write(y), strides=False)
            assert_same(x, y)
            assert got[0] is x


def test_writes_by_way_of_data_are_copied_back():
    def function(x):
        x.data.add_(1)
        return x * 2

    padded = compiled(function, x={0: 4})
    for n in (3, 4, 2):
        ours, eagers = torch.zeros(n), torch.zeros(n)
        assert_same(padded(ours), function(eagers), strides=False)
        assert torch.equal(ours, eagers)


def test_writes_to_what_requires_grad():
    padded = compiled(write, x={0: 8})
    leaf = torch.ones(5, requires_grad=True)
    with torch.no_grad():
        assert padded(leaf)[0] is leaf
    assert leaf.tolist() == [2.0] * 5
    # Autograd sees the write.
    other = leaf.detach().clone().requires_grad_()
    for start, called in ((leaf, padded), (other, write)):
        given = start * 2
        results = called(given)
        assert results[0] is given
        sum(result.sum() for result in (given, *results)).backward()
    assert torch.equal(leaf.grad, other.grad)


def test_writes_to_memory_that_is_shared():
    def other(x, y):
        y.add_(1)
        return x * 2

    x = torch.zeros(5)
    with pytest.raises(ValueError, match="x is padded and written to, and shares memory with another argument"):
        compiled(write, x={0: 8})(x, [x[:2]])
    with pytest.raises(ValueError, match="x is padded, and its memory is written to under another name"):
        compiled(other, x={0: 8})(x, x[:2])
    with pytest.raises(ValueError, match="x is padded, and the function gives it another shape"):
        compiled(lambda x: x.unsqueeze_(0).sum(), x={0: 8})(x)


@dataclasses.dataclass
class Out:
    y: torch.Tensor
    rest: object = None


@dataclasses.dataclass(frozen=True)
class Frozen:
    y: torch.Tensor
    rest: object = None


class Custom:
    def __init__(self, y):
        self.y = y


def test_containers_are_cut():
    outputs = pytest.importorskip("transformers.modeling_outputs")

    def function(x):
        y, same = x * 2, [x + 1]
        model = outputs.BaseModelOutput(last_hidden_state=y, hidden_states=(y, y + 1))
        return Out(y, model), Frozen(y + 2, torch.float32), collections.OrderedDict(a=same, b=same), y.max(0)

    padded = compiled(function, x={1: 8})
    for n in (5, 8, 7):
        x = torch.arange(2.0 * n).reshape(2, n)
        (out, frozen, both, largest), (want, want_frozen, want_both, want_largest) = padded(x), function(x)
        assert_same([out.y, frozen.y, both, tuple(largest)], [want.y, want_frozen.y, want_both, tuple(want_largest)], strides=False)
        assert type(out.rest) is type(want.rest) and out.rest.last_hidden_state is out.rest["last_hidden_state"] is out.y
        assert_same(out.rest.to_tuple(), want.rest.to_tuple(), strides=False)


@pytest.mark.parametrize(
    "function, text",
    [
        (lambda x: Custom(x * 2), "of type test_padding.Custom"),
        (lambda x: [1, {"a": {2}}], "of type builtins.set"),
        (lambda x: {x * 2: 1}, "a dict with tensors as keys"),
    ],
)
def test_other_objects_are_refused(function, text):
    padded = compiled(function, x={1: 8})
    for n in (5, 8):
        with pytest.raises(TypeError, match=text):
            padded(torch.zeros(2, n))


def test_sizes_that_must_fit_together():
    def twice(x, y):
        return x.repeat(2) + y

    padded = compiled(twice, x={0: 8}, y={0: 16})
    assert_same(padded(torch.ones(8), torch.ones(16)), torch.full((16,), 2.0))
    for n, m in ((5, 11), (5, 13), (9, 17)):
        with pytest.raises(ValueError, match="dimension 0 of y and dimension 0 of x must fit together"):
            padded(torch.ones(n), torch.ones(m))


def test_a_dimension_with_two_buckets():
    compiled = oxytorch.compile(lambda x: x * 2, options={"pad_to": {"x": {1: 8, -1: 16}}})
    with pytest.raises(ValueError, match="dimension 1 of x has two buckets"):
        compiled(torch.ones(2, 5))
    assert torch.equal(compiled(torch.ones(3, 2, 5)), torch.full((3, 2, 5), 2.0))


def test_what_another_trace_needs_to_be_equal():
    """Added in one trace, and not in the other: only there must the sizes be equal before they are padded."""

    def f(x, y, join):
        return x + y if join else (x * 2, y * 3)

    compiled = oxytorch.compile(f, options={"pad_to": {"x": {0: 8}, "y": {0: 8}}})
    assert_same(compiled(torch.ones(5), torch.ones(5), True), torch.full((5,), 2.0))
    assert_same(compiled(torch.ones(5), torch.ones(6), False), (torch.full((5,), 2.0), torch.full((6,), 3.0)))
    with pytest.raises(ValueError, match="must be equal"):
        compiled(torch.ones(5), torch.ones(6), True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.cat([x, y], 1),
        lambda x, y: (x[:, :, None] * y[:, None, :]).flatten(1),
        lambda x, y: torch.ones(x.shape[1] - y.shape[1] + 5),
        lambda x, y: torch.ones(x.shape[1] * 8 // y.shape[1]),
    ],
)
def test_what_is_made_of_several_sizes_is_refused_if_one_is_padded(function):
    padded = compiled(function, x={1: 4}, y={1: 4})
    for n, m in ((3, 4), (4, 3), (3, 3), (4, 4), (4, 3), (3, 4)):
        x, y = torch.ones(1, n), torch.full((1, m), 2.0)
        if (n, m) == (4, 4):
            assert_same(padded(x, y), function(x, y))
            continue
        with pytest.raises(ValueError, match="is made of dimension 1 of " + ("x" if n == 3 else "y")):
            padded(x, y)


def test_a_number_that_is_computed_of_a_padded_size():
    padded = compiled(lambda x: x[:, : int(x.shape[1] * 0.5)], x={1: 4})
    for n in (3, 4, 5, 8):
        if n % 4 == 0:
            assert_same(padded(torch.ones(2, n)), torch.ones(2, n // 2), strides=False)
            continue
        with pytest.raises(ValueError, match="is made of dimension 1 of x"):
            padded(torch.ones(2, n))


def test_two_padded_dimensions_in_one():
    padded = compiled(lambda x: x.flatten(), x={0: 4, 1: 4})
    for shape, dim in (((3, 4), 0), ((4, 3), 1), ((3, 3), 0)):
        with pytest.raises(ValueError, match=f"is made of dimension {dim} of x"):
            padded(torch.ones(shape))
    assert_same(padded(torch.ones(4, 4)), torch.ones(16))


def test_a_break_is_refused_whichever_argument_is_padded():
    def f(x, y):
        doubled = x * 2
        print(end="")
        return doubled, y * 3

    for n, m in ((3, 4), (4, 3), (3, 3)):
        with pytest.raises(ValueError, match="the function is no single graph"):
            compiled(f, x={1: 4}, y={1: 4})(torch.ones(1, n), torch.ones(1, m))


def test_a_result_that_holds_itself_is_refused():
    def endless(x):
        found = [x * 2]
        found.append(found)
        return found

    with pytest.raises((RecursionError, RuntimeError)):
        compiled(endless, x={0: 8})(torch.ones(5))


@pytest.mark.parametrize("function", [lambda x: x.t_(), lambda x: (x.transpose_(0, 1), x.sum(0))[1], lambda x: x.as_strided_((4, 4), (1, 4))])
def test_another_shape_of_the_same_numbers_is_refused(function):
    """Both sizes are padded to 4: the copy, turned, has the shape that it had."""
    x = torch.arange(6.0).view(3, 2)
    with pytest.raises(ValueError, match="gives it another shape"):
        compiled(function, x={0: 4, 1: 4})(x)
    assert torch.equal(x, torch.arange(6.0).view(3, 2))


def test_what_is_refused_behind_a_write_changes_nothing():
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match="is made of dimension 1 of x"):
        compiled(lambda x: x.add_(1).flatten(), x={1: 4})(x)
    assert torch.equal(x, torch.zeros(2, 3))


def test_what_was_written_before_an_exception_stays():
    def fails(x, index):
        x.add_(1)
        if index is None:
            raise KeyError("x")
        return torch.arange(5.0)[index]

    padded = compiled(fails, x={0: 4})
    for index, error in ((None, KeyError), (torch.tensor([9]), IndexError), (None, KeyError)):
        ours, eagers = torch.zeros(3), torch.zeros(3)
        for function, x in ((padded, ours), (fails, eagers)):
            with pytest.raises(error):
                function(x, index)
        assert torch.equal(ours, eagers)
