"""What a call relies on and need not look at again is still noticed when it changes. Each case calls until nothing is studied any more,
changes something, and calls again."""

import enum
import gc
import operator
import weakref
from collections import OrderedDict

import compare
import oxytorch
import pytest
import torch
import torch.nn.utils.parametrize
from torch import nn


@pytest.fixture(autouse=True)
def inference():
    with torch.no_grad():
        yield


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("shift", torch.randn(6))
        self.factor = 2.0
        self.steps = [1.0, 2.0, 3.0]
        self.inner = nn.Linear(6, 6)

    def forward(self, x):
        x = self.inner(x) @ self.weight + self.shift
        for step in self.steps:
            x = x * step
        return x * self.factor if self.training else x


class Other(Block):
    def forward(self, x):
        return super().forward(x) - 1


def model():
    torch.manual_seed(3)
    return nn.Sequential(Block(), Block()).eval()


def replace_dict(m):
    m[1].__dict__ = dict(m[1].__dict__, steps=[5.0])


def no_grad(function, *args):
    with torch.no_grad():
        function(*args)


def swap(m):
    torch.utils.swap_tensors(m[0].weight, nn.Parameter(torch.randn(6, 6)))


def grow_storage(m):
    old = m[1].shift.clone()
    m[1].shift.untyped_storage().resize_(1 << 16)
    m[1].shift.copy_(old + 1)


def refill_storage(m):
    """As those do who share weights out over processes: no memory for a while, then some other."""
    old = m[0].weight.clone()
    storage = m[0].weight.untyped_storage()
    size = storage.nbytes()
    storage.resize_(0)
    holes = [torch.empty(size, dtype=torch.uint8) for _ in range(4)]
    storage.resize_(size)
    m[0].weight.copy_(old * 2)
    del holes


class Doubled(nn.Module):
    def forward(self, weight):
        return weight * 2


def parametrize(m):
    torch.nn.utils.parametrize.register_parametrization(m[1], "weight", Doubled())


def double(m):
    m[0].inner.weight.data = m[0].inner.weight.data.double()
    m[0].inner.bias.data = m[0].inner.bias.data.double()
    m[0].weight.data = m[0].weight.data.double()
    m[0].shift = m[0].shift.double()


def other_type(m):
    m[1].double(), m[1].float()
    with torch.no_grad():
        m[1].weight += 0.5


CHANGES = {
    "a parameter is written": lambda m: m[0].weight.mul_(2),
    "a parameter is replaced": lambda m: setattr(m[0], "weight", nn.Parameter(torch.randn(6, 6))),
    "a parameter gets other data": lambda m: setattr(m[0].weight, "data", torch.randn(6, 6)),
    "a parameter gets data of other strides": lambda m: setattr(m[0].weight, "data", torch.randn(6, 6).t()),
    "a parameter is transposed in place": lambda m: m[1].weight.t_(),
    "a parameter shows one column of its memory": lambda m: no_grad(m[1].weight.as_strided_, (6, 6), (6, 0)),
    "a parameter shows its memory by columns": lambda m: no_grad(m[0].weight.as_strided_, (6, 6), (1, 6)),
    "a buffer shows one element": lambda m: m[1].shift.as_strided_((6,), (0,)),
    "a buffer is shorter": lambda m: m[1].shift.as_strided_((1,), (1,)),
    "a buffer has a dimension more": lambda m: m[1].shift.as_strided_((1, 6), (6, 1)),
    "a parameter is swapped": swap,
    "a parameter is resized": lambda m: m[0].weight.data.resize_(6, 6).mul_(3),
    "a parameter gets memory of its own": lambda m: m[0].weight.set_(torch.randn(6, 6)),
    "a parameter requires grad no more": lambda m: m[0].weight.requires_grad_(False),
    "a module goes to another type and back": other_type,
    "a buffer is set": lambda m: m[1].shift.set_(torch.randn(6)),
    "a buffer is a scalar now": lambda m: setattr(m[1], "shift", torch.tensor(2.0)),
    "a buffer's storage grows": grow_storage,
    "a parameter's memory goes and comes": refill_storage,
    "a parameter is computed": parametrize,
    "weights are loaded": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}),
    "weights are assigned": lambda m: m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}, assign=True),
    "a flag": lambda m: m[0].train(),
    "a number, where it is read": lambda m: (m[1].train(), setattr(m[1], "factor", 3.0)),
    "an item of a list": lambda m: m[0].steps.__setitem__(1, 7.0),
    "a list grows": lambda m: m[0].steps.append(9.0),
    "a list shrinks": lambda m: m[0].steps.clear(),
    "another list": lambda m: setattr(m[0], "steps", [4.0]),
    "a class": lambda m: setattr(m[1], "__class__", Other),
    "a whole dict": replace_dict,
    "a module is replaced": lambda m: m.__setitem__(0, nn.Identity()),
    "a module is added": lambda m: m.append(nn.Tanh()),
    "a module is removed": lambda m: m.__delitem__(1),
    "a hook": lambda m: m[1].inner.register_forward_hook(lambda module, args, out: out + 1),
    "a hook before": lambda m: m[1].inner.register_forward_pre_hook(lambda module, args: (args[0] * 2,)),
    "a hook of the whole": lambda m: m.register_forward_hook(lambda module, args, out: out * 2),
    "a forward of its own": lambda m: setattr(m[1], "forward", lambda x: x * 3),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_to_a_module_is_noticed(change):
    ours, theirs = model(), model()
    wrapped = oxytorch.compile(ours)
    x = torch.randn(3, 6)
    for _ in range(4):
        compare.assert_same(wrapped(x), theirs(x))
    for m in (ours, theirs):
        torch.manual_seed(5)
        CHANGES[change](m)
    for _ in range(4):
        compare.assert_same(wrapped(x), theirs(x))


def test_other_types_of_weights_are_noticed():
    ours, theirs = nn.Linear(6, 6), nn.Linear(6, 6)
    theirs.load_state_dict(ours.state_dict())
    wrapped = oxytorch.compile(ours)
    x = torch.randn(3, 6)
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
        ours.to(dtype), theirs.to(dtype)
        for _ in range(3):
            compare.assert_same(wrapped(x.to(dtype)), theirs(x.to(dtype)))


def test_what_a_closure_holds_is_noticed():
    layer, scale, values = nn.Linear(6, 6), 2.0, [1.0, 2.0]

    def f(x):
        return layer(x) * scale + values[1]

    def change(number):
        nonlocal layer, scale
        if number == 1:
            scale = 3.0
        elif number == 2:
            values[1] = 5.0
        elif number == 3:
            layer = nn.Linear(6, 6)
        elif number == 4:
            values[:] = [0.0, 0.5, 1.0]

    wrapped = oxytorch.compile(f)
    x = torch.randn(2, 6)
    for number in range(5):
        change(number)
        for _ in range(3):
            compare.assert_same(wrapped(x), f(x))


def test_what_changes_in_every_call_costs_no_result():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.weight

    m = Counting()
    wrapped = oxytorch.compile(m)
    for n in range(200):
        m.weight.data = torch.full((4,), float(n))
        compare.assert_same(wrapped(torch.ones(4)), torch.full((4,), float(n)))
    assert m.calls == 200


def test_two_functions_do_not_disturb_each_other():
    first, second = model(), model()
    one, two = oxytorch.compile(first), oxytorch.compile(second)
    x = torch.randn(3, 6)
    for n in range(6):
        first[0].steps[0] = float(n)
        compare.assert_same(one(x), first(x))
        compare.assert_same(two(x), second(x))


def test_a_model_goes_when_nobody_holds_it():
    m = model()
    wrapped = oxytorch.compile(m)
    for _ in range(4):
        wrapped(torch.randn(3, 6))
    parameter, replaced = weakref.ref(m[1].weight), weakref.ref(m[0].weight)
    m[0].weight = nn.Parameter(torch.randn(6, 6))
    gc.collect()
    assert replaced() is None  # although nobody has called again
    wrapped(torch.randn(3, 6))
    del m, wrapped
    gc.collect()
    assert parameter() is None


class Name(str, enum.Enum):
    factor = "factor"


class Equal:
    def __hash__(self):
        return hash("factor")

    def __eq__(self, other):
        return other == "factor"


@pytest.mark.parametrize("key", ["factor", Name.factor, Equal()])
def test_a_dict_that_is_changed_by_an_equal_key(key):
    factors = {"factor": 2.0}
    x = torch.randn(4)
    compiled = oxytorch.compile(lambda x: x * factors["factor"])
    for _ in range(5):
        compare.assert_same(compiled(x), x * 2.0)
    factors[key] = 7.0
    compare.assert_same(compiled(x), x * 7.0)


@pytest.mark.parametrize(
    "left, right, change",
    [
        ({"a": [1]}, {"a": [1]}, lambda d: d["a"].append(2)),
        ({"a": {"b": 1}}, {"a": {"b": 1}}, lambda d: d["a"].update(b=2)),
        (OrderedDict(a=1, b=2), OrderedDict(a=1, b=2), lambda d: d.move_to_end("a")),
        ({"a": 1}, {"a": 1}, lambda d: d.update(a=2)),
    ],
)
def test_dicts_that_are_equal_no_more(left, right, change):
    compiled = oxytorch.compile(lambda x: x + 1 if operator.eq(left, right) else x - 1)
    x = torch.randn(4)
    for _ in range(5):
        compare.assert_same(compiled(x), x + 1)
    change(left)
    compare.assert_same(compiled(x), x - 1)


def test_operator_call_does_what_it_calls():
    calls = []

    def count():
        calls.append(1)
        return len(calls)

    compiled = oxytorch.compile(lambda x: x + operator.call(count))
    x = torch.zeros(4)
    for n in range(1, 5):
        compare.assert_same(compiled(x), x + n)
    assert len(calls) == 4


# Modules and other objects that get in as arguments.


class Held:
    """What a compiled method is called on."""

    def __init__(self, factor):
        self.factor = factor
        self.weight = torch.full((4,), float(factor))

    @oxytorch.compile
    def scaled(self, x):
        return x * self.weight * self.factor


def change_factor(held):
    held.factor += 1


def change_weight(held):
    held.weight = held.weight + 1


def change_class(held):
    held.__class__ = type("Other", (Held,), {"factor": property(lambda self: 11)})


@pytest.mark.parametrize("change", [change_factor, change_weight, change_class])
def test_changes_to_what_a_method_is_called_on(change):
    first, second = Held(2), Held(2)
    x = torch.randn(4)
    for _ in range(4):
        for held in (first, second):
            compare.assert_same(held.scaled(x), x * held.weight * held.factor)
    change(first)
    for _ in range(4):
        for held in (first, second):
            compare.assert_same(held.scaled(x), x * held.weight * held.factor)


def test_an_object_that_a_method_was_called_on_goes():
    held = Held(3)
    for _ in range(4):
        held.scaled(torch.randn(4))
    weight, held = weakref.ref(held.weight), weakref.ref(held)
    gc.collect()
    assert held() is None and weight() is None


def test_objects_that_come_and_go():
    """At the same address, perhaps: what was known of one is not taken for the other."""
    x = torch.ones(4)
    for n in range(300):
        compare.assert_same(Held(n % 7).scaled(x), torch.full((4,), float((n % 7) ** 2)))


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_to_a_module_that_is_an_argument(change):
    function = oxytorch.compile(lambda module, x: module(x))
    ours, theirs, other = model(), model(), model()
    x = torch.randn(3, 6)
    for _ in range(4):
        compare.assert_same(function(ours, x), theirs(x))
        compare.assert_same(function(other, x), theirs(x))
    want = theirs(x)
    for m in (ours, theirs):
        torch.manual_seed(5)
        CHANGES[change](m)
    for _ in range(4):
        compare.assert_same(function(ours, x), theirs(x))
        compare.assert_same(function(other, x), want)


def test_modules_that_are_arguments_go():
    function = oxytorch.compile(lambda module, x: module(x))
    modules = [model() for _ in range(5)]
    for _ in range(4):
        for m in modules:
            function(m, torch.randn(3, 6))
    references = [weakref.ref(m[0].weight) for m in modules]
    del m, modules
    gc.collect()
    assert all(reference() is None for reference in references)


# Numbers that the program counts.


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.seconds = 0, 0.0
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        self.calls += 1
        self.seconds += 0.5
        return x * self.weight


def test_a_count_is_no_reason_to_trace_again():
    m = Counting()
    wrapped = oxytorch.compile(m)
    for _ in range(50):
        compare.assert_same(wrapped(torch.ones(4)), torch.ones(4))
    assert (m.calls, m.seconds) == (50, 25.0)
    assert m._forward_hooks == {} and wrapped._oxytorch.call.stats()["traced"] == 1


COUNT = 0
TABLE = {"count": 0}


def in_a_global(x):
    global COUNT
    COUNT += 1
    return x + 1


def in_a_dict(x):
    TABLE["count"] += 1
    TABLE["count"] += 1
    return x + 1


def in_a_closure():
    count = 0

    def step(x):
        nonlocal count
        count += 1
        return x + 1

    return step


def read_again():
    class Holder:
        n = 0

    holder = Holder()
    holder.n = 5

    def step(x):
        holder.n += 1
        holder.n = holder.n * 2
        return x * holder.n + holder.__dict__["n"]

    return step


def read_before():
    class Holder:
        n = 0

    holder = Holder()
    holder.n = 1
    table = holder.__dict__

    def step(x):
        before = dict(table)
        holder.n += 1
        return x * table["n"] + before["n"] + sum(table.values()), list(table.items())

    return step


def written_twice():
    class Holder:
        n = 0

    holder, other = Holder(), Holder()
    holder.n, other.n = 1, 2

    def step(x):
        holder.n += 1
        holder.n = other.n
        other.n += 1
        return x * holder.n

    return step


@pytest.mark.parametrize("make", [lambda: in_a_global, lambda: in_a_dict, in_a_closure, read_again, read_before, written_twice])
def test_counts_in_other_places(make):
    TABLE["count"] = 0
    plain, own = make(), make()
    compiled = oxytorch.compile(own)
    for n in range(12):
        x = torch.full((3,), float(n))
        got = compiled(x)
        table = dict(TABLE)
        TABLE["count"] -= 2 * (own is in_a_dict)
        want = plain(x)
        compare.assert_same(got, want)
        assert TABLE == table
    if make in (in_a_closure,) or own in (in_a_global, in_a_dict):
        assert compiled.stats()["traced"] == 1
