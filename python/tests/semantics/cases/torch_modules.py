"""Modules: attributes, buffers, containers, hooks, modes, sharing."""

import torch
from torch import nn

from ..case import call, case, made
from ..values import x


def fill(module):
    """Whole numbers in place of random weights, so that results are exact."""
    for n, parameter in enumerate(module.parameters()):
        values = (torch.arange(parameter.numel()) * 3 + n) % 5 - 2
        parameter.data = values.to(parameter.dtype).reshape(parameter.shape)
    return module


def input():
    return x(2, 4)


class Scale(nn.Module):
    def __init__(self, k=2):
        super().__init__()
        self.k = k
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, a):
        return a * self.weight * self.k


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.scale = Scale()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), Scale(3)])
        self.heads = nn.ModuleDict({"p": nn.Linear(4, 2), "q": nn.Identity()})

    def forward(self, a):
        a = self.scale(self.first(a))
        for layer in self.layers:
            a = layer(a)
        return {name: head(a) for name, head in self.heads.items()}


@made(input, lambda: x(3, 4), lambda: x(1, 2, 4))
def linear():
    return fill(nn.Linear(4, 3))


@made(input)
def without_bias():
    return fill(nn.Linear(4, 3, bias=False))


@made(input)
def nested():
    return fill(Net())


@made(input)
def sequential():
    return fill(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(Scale(), nn.Linear(4, 2))))


@made(input, between=lambda net: net.scale.weight.data.mul_(2))
def weights_change_in_place():
    return fill(Net())


@made(input, between=lambda net: setattr(net.scale, "weight", nn.Parameter(torch.full((4,), 3.0))))
def parameter_is_replaced():
    return fill(Net())


@made(input, between=lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}))
def state_is_loaded():
    return fill(Net())


@made(input, between=lambda net: setattr(net.scale, "k", 7))
def attribute_changes():
    return fill(Net())


@made(input, between=lambda net: net.layers.__setitem__(1, nn.Identity()))
def layer_is_replaced():
    return fill(Net())


@made(input, between=lambda net: net.layers.append(Scale(5)))
def layer_is_added():
    return fill(Net())


@made(input, between=lambda net: net.heads.pop("q"))
def head_is_removed():
    return fill(Net())


@made(input, between=lambda net: setattr(net, "scale", nn.Identity()))
def child_is_replaced():
    return fill(Net())


class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, a):
        if self.training:
            return self.drop(a)
        return self.drop(a) * 10


@made(input, between=lambda net: net.eval())
def train_then_eval():
    return Switch()


@made(input, between=lambda net: net.train())
def eval_then_train():
    return Switch().eval()


class Running(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0), persistent=False)
        self.register_buffer("nothing", None)

    def forward(self, a):
        self.mean.mul_(0.5).add_(a[0], alpha=2)
        self.steps += 1
        return a - self.mean, self.steps * 2, self.nothing


@made(input)
def buffers_in_place():
    return Running()


class Assigning(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(4))
        self.seen = []

    def forward(self, a):
        self.last = a[0] * 2
        self.seen.append(self.last)
        self.extra = a
        return self.last + 1


@made(input)
def buffers_assigned():
    return Assigning()


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, a):
        self.calls += 1
        return a * self.calls


@made(input, again=False)
def counter_on_a_module():
    return Counting()


@made(input, close=True)
def batch_norm_training():
    return nn.BatchNorm1d(4, momentum=0.5)


@made(input, close=True)
def batch_norm_eval():
    return nn.BatchNorm1d(4).eval()


# Eager raises: it has the last word on a mistake, behind a break.
@made(input, close=True, graphs=2)
def batch_norm_without_eps():
    return nn.BatchNorm1d(4, eps=0.0).eval()


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.full((4,), float(n))) for n in range(3)])
        self.named = nn.ParameterDict({"p": nn.Parameter(torch.ones(4)), "q": nn.Parameter(torch.zeros(4))})

    def forward(self, a):
        for weight in self.weights:
            a = a + weight
        for name, weight in self.named.items():
            a = a * (weight + len(name))
        return a, len(self.weights), "p" in self.named, self.weights[1], list(self.named)


@made(input)
def parameter_containers():
    return Lists()


class Containers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([Scale(n) for n in range(4)])
        self.table = nn.ModuleDict({"p": Scale(5), "q": Scale(6)})

    def forward(self, a):
        first, last = self.layers[0], self.layers[-1]
        some = self.layers[1:3]
        b = some[0](a) + last(a) + len(self.layers) + self.table["q"](a)
        return (
            b, type(some).__name__, first is self.layers[0], [n for n, _ in enumerate(self.layers)], list(self.table.keys()),
            "z" in self.table,
        )  # fmt: skip


@made(input)
def module_containers():
    return Containers()


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.p = nn.Linear(4, 4)
        self.q = self.p
        self.r = nn.Linear(4, 4)
        self.r.weight = self.p.weight

    def forward(self, a):
        return self.r(self.q(self.p(a))), self.p is self.q, self.p.weight is self.r.weight


@made(input)
def shared_parameters():
    return fill(Shared())


def add_hooks(net):
    net.log = []
    net.first.register_forward_pre_hook(lambda module, args: net.log.append("pre") or (args[0] + 1,))
    net.first.register_forward_hook(lambda module, args, output: output * 2)
    net.register_forward_hook(lambda module, args, output: net.log.append(len(args)))
    return net


@made(input)
def hooks():
    return add_hooks(fill(Net()))


@made(input, between=add_hooks)
def hooks_come_later():
    return fill(Net())


def with_removable_hook():
    net = fill(nn.Sequential(nn.Linear(4, 4)))
    net.handle = net.register_forward_hook(lambda module, args, output: output + 100)
    return net


@made(input, between=lambda net: net.handle.remove())
def hook_is_removed():
    return with_removable_hook()


@made(lambda: call(input(), k=3))
def hooks_with_keywords():
    class Keyed(nn.Module):
        def forward(self, a, k=1):
            return a * k

    net = Keyed()
    net.register_forward_pre_hook(lambda module, args, kwargs: (args, {"k": kwargs["k"] + 1}), with_kwargs=True)
    net.register_forward_hook(lambda module, args, kwargs, output: output + kwargs["k"], with_kwargs=True)
    return net


@made(input)
def hook_raises():
    def hook(module, args):
        raise ValueError("from the hook")

    net = Scale()
    net.register_forward_pre_hook(hook)
    return net


@made(input)
def global_hook():
    log = []
    net = fill(Net())

    def step(a):
        handle = nn.modules.module.register_module_forward_hook(lambda module, args, output: log.append(type(module).__name__))
        try:
            return net(a), log
        finally:
            handle.remove()

    return step


@made(input)
def method_of_a_module():
    net = fill(Net())
    return net.forward


@made(input)
def function_that_uses_a_module():
    net = fill(Net())

    def step(a):
        return net(a)["p"] + 1, net.training, net.scale.k

    return step


@made(input)
def module_questions():
    net = fill(Net())

    def step(a):
        names = [name for name, _ in net.named_parameters()]
        children = [type(child).__name__ for child in net.children()]
        return (
            a, len(names), names[0], children, sum(p.numel() for p in net.parameters()), hasattr(net, "first"),
            isinstance(net.first, nn.Linear),
        )  # fmt: skip

    return step


@made(input)
def state_dict_inside():
    net = fill(nn.Linear(4, 4))

    def step(a):
        return list(net.state_dict()), net(a)

    return step


@made(input)
def missing_attribute():
    class Broken(nn.Module):
        def forward(self, a):
            return self.there_is_none(a)

    return Broken()


@made(input)
def no_forward():
    class Empty(nn.Module):
        pass

    return Empty()


@made(input, between=lambda net: setattr(net, "forward", lambda a: a * 100))
def forward_on_the_instance():
    return Scale()


@made(input)
def own_call():
    class Own(nn.Module):
        def __call__(self, a):
            return super().__call__(a) + 1

        def forward(self, a):
            return a * 2

    return Own()


@made(input)
def module_made_inside():
    def step(a):
        layer = Scale(4)
        return layer(a)

    return step


@made(input)
def activations():
    net = nn.ModuleList([nn.ReLU(), nn.LeakyReLU(0.5), nn.Hardtanh(), nn.Identity(), nn.Flatten(), nn.ReLU(inplace=True)])

    def step(a):
        return [layer(a.clone()) for layer in net]

    return step


@made(lambda: torch.tensor([[0, 2], [1, 1]]), lambda: torch.tensor([[3]]))
def embedding():
    return fill(nn.Embedding(4, 3, padding_idx=0))


@made(lambda: x(1, 2, 5, 5))
def convolution():
    return fill(nn.Sequential(nn.Conv2d(2, 3, 3, padding=1), nn.MaxPool2d(2), nn.Flatten()))


@made(lambda: x(2, 3, 4), close=True)
def recurrent():
    net = fill(nn.GRU(4, 3, batch_first=True))
    net.flatten_parameters()
    return net


@made(lambda: x(2, 3, 4), close=True)
def attention():
    torch.manual_seed(0)
    return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)


@made(input)
def tuple_outputs():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, a, *, both=True):
            hidden = self.layer(a)
            return (hidden, (a, hidden)) if both else hidden

    return fill(Two())


@made(lambda: call(input(), mask=None), lambda: call(input(), mask=x(2, 4)))
def optional_input():
    class Masked(nn.Module):
        def forward(self, a, mask=None):
            return a if mask is None else a * mask

    return Masked()


@made(input)
def properties_on_a_module():
    class Sized(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        @property
        def width(self):
            return self.weight.shape[0]

        @property
        def device(self):
            return next(self.parameters()).device

        def forward(self, a):
            return a * self.width, self.device

    return Sized()


@made(input)
def getattr_on_a_module():
    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            for n in range(3):
                setattr(self, f"layer{n}", Scale(n))
                self.register_buffer(f"buffer{n}", torch.full((4,), float(n)))

        def forward(self, a):
            for n in range(3):
                a = getattr(self, f"layer{n}")(a) + getattr(self, f"buffer{n}")
            return a, hasattr(self, "layer7")

    return Lookup()


@made(input, graphs=2)
def print_in_forward():
    class Talking(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = Scale(3)

        def forward(self, a):
            b = self.layer(a)
            print("forward", b.shape)
            return self.layer(b)

    return Talking()


@made(input, graphs=2)
def print_in_a_child():
    class Child(nn.Module):
        def forward(self, a):
            b = a + 1
            print("child")
            return b * 2

    return nn.Sequential(Scale(2), Child(), Scale(3))


@made(input, graphs=2)
def item_in_forward():
    class Gate(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Parameter(torch.tensor(2.0))

        def forward(self, a):
            return a * int(self.gate.item())

    return Gate()


@made(input, grad=True, eager=True)
def training_with_gradients():
    net = fill(nn.Linear(4, 4))

    def step(a):
        net(a).sum().backward()
        return net.weight.grad

    return step


@made(input)
def weights_written_in_forward():
    class Learner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))

        def forward(self, a):
            self.weight.sub_(a[0])
            return a * self.weight

    return Learner()


@made(input)
def apply_and_zero():
    net = fill(nn.Linear(4, 4))

    def step(a):
        net.apply(lambda module: module.bias.data.fill_(1.0))
        return net(a)

    return step


@case(lambda: (fill(nn.Linear(4, 4)), input()), lambda: (Scale(), input()))
def module_as_argument(net, a):
    return net(a) + 1


@case(lambda: ([Scale(2), Scale(3)], input()), lambda: ([Scale(2)], input()))
def modules_in_a_list(layers, a):
    for layer in layers:
        a = layer(a)
    return a
