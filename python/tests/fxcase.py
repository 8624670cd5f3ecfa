"""One call of one function as an FX graph, the way Dynamo would hand it over: without Dynamo, which takes far longer than we do."""

import operator

import torch
import torch.fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten


class NotAGraph(Exception):
    """The call cannot be a node of a graph: its result's shape depends on data, or is not made of tensors."""


def graph_of(function, args, kwargs):
    """A GraphModule that takes the tensors in (args, kwargs) and returns the flat list of the result's tensors."""
    leaves, spec = tree_flatten((args, kwargs))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    graph = torch.fx.Graph()
    nodes, fakes = [], []
    for place, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            fake = mode.from_tensor(leaf)
            node = graph.placeholder(f"x{place}")
            node.meta["example_value"] = fake
            nodes.append(node)
            fakes.append(fake)
        else:
            nodes.append(leaf)
            fakes.append(leaf)
    node_args, node_kwargs = tree_unflatten(nodes, spec)
    fake_args, fake_kwargs = tree_unflatten(fakes, spec)
    try:
        if is_wrapper(function):
            tracer = Tracer(graph, {id(fake): node for fake, node in zip(fakes, nodes) if isinstance(fake, torch.Tensor)})
            with mode, tracer:
                example = function(*fake_args, **fake_kwargs)
            outputs = tracer.outputs(example)
        else:
            call = graph.call_function(function, tuple(node_args), node_kwargs)
            with mode:
                call.meta["example_value"] = function(*fake_args, **fake_kwargs)
            outputs = results(graph, call)
    except Exception as error:
        raise NotAGraph(f"{type(error).__name__}: {error}") from error
    graph.output(tuple(outputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph)


def is_wrapper(function):
    """Python around torch's functions, which Dynamo would look into."""
    return getattr(function, "__module__", "").startswith(("torch.testing.", "torch.masked.", "torch.signal."))


class Tracer(TorchFunctionMode):
    """Adds a node for every torch function that is called with tensors of the graph."""

    def __init__(self, graph, nodes):
        super().__init__()
        self.graph, self.nodes, self.kept = graph, nodes, []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(function, "__name__", "") in ("resize_", "resize_as_"):
            raise NotAGraph("it changes the shape of a tensor that is in the graph already")
        result = function(*args, **kwargs)
        if not tensors_of(result):
            return result
        if getattr(function, "__name__", "") == "__get__":
            node = self.graph.call_function(getattr, (self.lift(args[0]), function.__self__.__name__))
        else:
            node = self.graph.call_function(function, self.lift(tuple(args)), self.lift(kwargs))
        node.meta["example_value"] = result
        for item, part in zip(tensors_of(result), results(self.graph, node)):
            self.nodes[id(item)] = part
        self.kept.append(result)  # an id stays one tensor's as long as the tensor lives
        return result

    def lift(self, tree):
        def node_of(leaf):
            return self.nodes[id(leaf)] if isinstance(leaf, torch.Tensor) else leaf

        return tree_map(node_of, tree)

    def outputs(self, example):
        if not isinstance(example, (torch.Tensor, tuple, list)):
            raise NotAGraph(f"a result of type {type(example).__name__}")
        return [self.nodes[id(leaf)] for leaf in tensors_of(example)]


def results(graph, node):
    """Nodes for the tensors of a node's result."""
    example = node.meta["example_value"]
    if isinstance(example, torch.Tensor):
        return [node]
    if not isinstance(example, (tuple, list)) or not all(isinstance(e, torch.Tensor) for e in example):
        raise NotAGraph(f"a result of type {type(example).__name__}")
    items = []
    for place, item in enumerate(example):
        part = graph.call_function(operator.getitem, (node, place))
        part.meta["example_value"] = item
        items.append(part)
    return items


def tensors_of(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def is_plain(tree):
    """Dense tensors without lazy bits, none of which requires grad."""

    def plain(leaf):
        return leaf.layout == torch.strided and not leaf.is_conj() and not leaf.is_neg() and type(leaf) is torch.Tensor

    return all(plain(leaf) for leaf in tensors_of(tree))


def detached(tree):
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, tree)
