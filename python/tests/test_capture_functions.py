"""Small functions against plain CPython: result or exception, on the first call and on later ones, whatever breaks they have."""

import collections
import copy
import functools
import inspect
import itertools
import json
import math
import operator
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from compare import assert_same
from oxytorch import _oxytorch


def outcome(function, args):
    try:
        return function(*copy.deepcopy(args)), None
    except Exception as error:
        return None, (type(error), str(error))


def check(function, *calls):
    captured = _oxytorch.capture(function)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        for args in calls:
            for _ in range(3):
                want, want_error = outcome(function, args)
                got, got_error = outcome(captured, args)
                assert got_error == want_error
                assert_same(got, want)


# fmt: off
def iterator_by_hand(t):
    l=[1,2,3]; it=iter(l); next(it); return t+next(it), list(it)
def lambda_with_varargs(t): return t + (lambda *a,**k: sum(a)+sum(k.values()))(1,2,z=3)
def default_dict(t):
    d=collections.defaultdict(list); d["a"].append(t); d["b"].append(t+1); return dict(d)
def chained_items(t):
    return {k:v for k,v in itertools.chain({"a":1}.items(),{"b":2}.items())}, t
def product_loop(t):
    s=0
    for a,b in itertools.product([1,2],[3,4]): s+=a*b
    return t*s
def odd_indexing(t): return [t[i:i+1] for i in range(0,3,2)], t[...,None], t[[0,2]], t[t>0].shape[0]>=0
def finally_writes(t):
    try:
        return t+1
    finally:
        t.add_(1)
def recursion(t):
    def fib(n): return n if n<2 else fib(n-1)+fib(n-2)
    return t*fib(7)
def cached_closure(t):
    @functools.lru_cache
    def g(n): return n*2
    return t*g(3)
def special_methods(t):
    class P:
        def __init__(s,v): s.v=v
        def __eq__(s,o): return s.v==o.v
        def __hash__(s): return hash(s.v)
        def __lt__(s,o): return s.v<o.v
    return t, P(1)==P(1), P(1) in [P(2),P(1)], sorted([P(3),P(1)])[0].v
def nonlocal_counter(t):
    x=1
    def inc():
        nonlocal x
        x+=1
        return x
    inc(); inc()
    return t*x
def numbers_of_tensors(t): return t.sum().item()>0, int(t.shape[0]), float(t.max())
def branch_per_row(t):
    out=[]
    for i,r in enumerate(t):
        if r.sum()>0: out.append(r)
        else: out.append(-r)
    return torch.stack(out)
def nonzero_shape(t): return torch.where(t>0,t,torch.zeros_like(t)).nonzero().shape[1]
def grad_of_detached(t):
    with torch.no_grad():
        y=t*2
    z=y.detach().requires_grad_(True)
    return (z*z).sum().detach()
def products(t): return F.softmax(t,dim=-1)@t.T, torch.einsum("ij,kj->ik",t,t), t.unsqueeze(0).repeat(2,1,1).transpose(1,2).contiguous()
def conversions(t): return t.to(torch.float64), t.half().float(), t.long(), t.bool(), t.type(torch.int32), t.cpu(), t.to("cpu")
def writes_through_views(t):
    y=t.clone(); v=y[0]; v.zero_(); y[1]=v+5; w=y.view(12); w[3]=9; return y,v,w
def pairs_of_results(t): return t.max(dim=1), t.min(), t.sort(dim=0), t.topk(2), torch.unique(t.round()).dim()
def writes_through_chunks(t): 
    a,b=t.chunk(2,dim=1); a+=1; return t,a,b
def key_error(t,k="x"): return t+{"x":1,"y":2}[k]
def raises_text(t):
    raise RuntimeError("boom %d"%t.shape[0])
def matmul_error(t): return t@t
def index_error(t): return t[5]
def name_error(t): return undefined_name+t
def deleted_local(t):
    del t
    return t
def caught_torch_error(t):
    try: t@t
    except RuntimeError as e: return "caught", t
def generator_expression(t):
    g=(i*2 for i in range(3)); a=next(g); return t+a+sum(g), list(zip(*[[1,2],[3,4]]))
def shapes(t): return math.prod(t.shape), t.shape+(1,), t.shape[1:], list(t.shape), t.size(), torch.Size([1,2])
def texts(t): return "{:.2f} {}".format(1.234,"a"), f"{3:03d}", "%s"%None, str(1.5), repr("a"), t
def random_of_its_own(t):
    import random as r
    return t, r.Random(0).random()
def sets(t):
    s={1,2}|{3}; s.add(4); f=frozenset([1]); return t, sorted(s), 1 in f, len(s)
def identities(t): return t if t is not None else 0, t is t, t is not None, not t.shape[0]
def varargs_and_kwargs(*ts,**kw): return sum(ts), kw
def list_operators(t):
    l=[t]; l2=l; l2+=[t+1]; l*=2; l[0]=t*0; del l[1]; return l
def same_object(t): 
    x=y=t; x+=1
    return x is y, x
def joins_and_splits(t): return torch.cat([t,t]).split(3), torch.stack([t,t],-1).flatten(1), t.new_ones(2,2), torch.eye(3)[:2]
def finally_in_loop(t):
    r=[]
    for i in range(5):
        try:
            if i==1: continue
            if i==3: break
            r.append(i)
        finally: r.append(-i)
    return t,r
def closed_generator(t):
    def gen():
        try:
            yield 1
            yield 2
        finally: log.append("closed")
    log=[]
    for v in gen(): break
    return t+v
def operator_getters(t): return operator.itemgetter(1)([1,2]), operator.attrgetter("shape")(t), operator.methodcaller("sum")(t)
def other_modules(t): return json.dumps({"a":[1,2]}), re.sub("a","b","a    return t.sum().item()>0, int(t.shape[0]), float(t.max())a"), t
def partials(t): return functools.partial(torch.add,alpha=2)(t,t), functools.partial(F.relu)(t)
def out_argument(t):
    a=torch.empty(3); a.fill_(2); torch.add(t,1,out=a.new_empty(3,4)); return a
def masked(t): return t.apply_ if False else t.masked_fill(t>0,float("-inf")), t.clamp(min=0), t.pow(2).mean(-1,keepdim=True), t.std(), t.norm()
def leaves_torch(t): return t.numpy().sum() > -1e9, t.tolist()[0][0]==t[0,0].item()
def sets_global(t):
    global GL
    GL = t.shape[0]
    return t + GL
def truths(t): return bool(t.sum()==t.sum()), (t==t).all().item()
def unary_and_reflected(t): return max(t.shape), min(3,t.shape[0]), abs(t), round(2.5), -t, +t, ~(t>0), t%2, t//2, 2**t, 1/t, 3-t, t<<1 if False else t
def dict_methods(t):
    d={}
    d["x"]=t; d.update(y=t+1); d.pop("x"); return d, d.setdefault("z",[]), list(d.values())
def while_loop(t,n=3):
    while n>0:
        n-=1
        if n==1: return t*n
    return t

# fmt: on


FUNCTIONS = [
    iterator_by_hand, lambda_with_varargs, default_dict, chained_items, product_loop, odd_indexing, finally_writes, recursion, cached_closure, special_methods, nonlocal_counter, numbers_of_tensors, branch_per_row, nonzero_shape, grad_of_detached, products, conversions, writes_through_views, pairs_of_results, writes_through_chunks, key_error, raises_text, matmul_error, index_error, name_error, deleted_local, caught_torch_error, generator_expression, shapes, texts, random_of_its_own, sets, identities, varargs_and_kwargs, list_operators, same_object, joins_and_splits, finally_in_loop, closed_generator, operator_getters, other_modules, partials, out_argument, masked, leaves_torch, sets_global, truths, unary_and_reflected, dict_methods, while_loop,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_function(function):
    t = torch.randn(3, 4)
    check(function, (t,), (t.abs(),), (-t.abs(),))


def test_arguments():
    t = torch.randn(3, 4)
    check(varargs_and_kwargs, (t,), (t, t))
    check(key_error, (t,), (t, "y"), (t, "q"))


class Speaker:
    def __init__(self):
        self.said = []

    @functools.lru_cache(None)
    def say_once(self, text):
        self.said.append(text)

    @functools.lru_cache(None)
    def factor(self, number):
        self.said.append(number)
        return number * 2


def test_a_method_with_a_cache_is_called_once_for_its_arguments():
    """Loggers of transformers have such a method: it stands in the way of every model that computes its own loss."""
    speaker = Speaker()

    def speaking(t, name):
        y = t + 1
        speaker.say_once(f"hello {name}")
        factor = speaker.factor
        return y * speaker.factor(3) * factor(4)

    captured = _oxytorch.capture(speaking, fullgraph=True)
    with torch.no_grad():
        for name in ("a", "a", "b", "a", "b"):
            t = torch.randn(3)
            assert torch.equal(captured(t, name), (t + 1) * 6 * 8)
    assert speaker.said == ["hello a", 3, 4, "hello b"]
    assert captured.stats()["traced"] == 2


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight, self.calls = torch.nn.Parameter(torch.ones(3)), 0

    @functools.lru_cache(None)
    def total(self, number):
        self.calls += 1
        return number + self.weight.sum()

    def forward(self, t):
        return t * self.total(2)


def test_a_cached_method_of_a_module_keeps_what_it_has():
    module = Counting()
    captured = _oxytorch.capture(module)
    with torch.no_grad():
        for n in range(3):
            module.weight.fill_(n + 1)
            assert torch.equal(captured(torch.ones(2)), torch.full((2,), 5.0))
    assert module.calls == 1


def signatures(t):
    parameters = inspect.signature(signed).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not inspect.Parameter.empty}
    kinds = [p.kind for p in parameters.values()]
    present = "b" in parameters.keys(), "d" in parameters, parameters["c"].default, parameters.get("d"), len(parameters)
    return t * len(set(parameters.keys())), list(parameters), defaults, kinds, present


def signed(a, b=2, *, c=3, **rest):
    return a


def test_parameters_of_a_signature_are_no_break():
    captured = _oxytorch.capture(signatures)
    for _ in range(3):
        t = torch.randn(3)
        assert_same(captured(t), signatures(t))
    assert captured.stats()["breaks"] == [] and captured.stats()["traced"] == 1


def test_a_cell_that_is_filled_later():
    def make():
        def read(t):
            return t + late

        def put(value):
            nonlocal late
            late = value

        if False:
            late = None
        return read, put

    read, put = make()
    captured = _oxytorch.capture(read)
    t = torch.randn(3)
    for _ in range(2):
        with pytest.raises(NameError, match="free variable 'late'"):
            captured(t)
    put(t)
    assert_same(captured(t), t + t)


def test_a_signature_that_changes():
    def signed(a, b=2, *, c=3):
        return a

    settings = [("recompile_limit", 100)]
    captured = _oxytorch.capture(lambda t: (t + 1, str(inspect.signature(signed))), settings=settings)
    for name, value in (
        ("__defaults__", (5,)),
        ("__kwdefaults__", {"c": 4}),
        ("__annotations__", {"a": int}),
        ("__annotations__", {"a": list[int]}),
        ("__annotations__", {"a": list[str]}),
        ("__signature__", inspect.signature(lambda q: q)),
        ("__signature__", None),
        ("__wrapped__", lambda z: z),
        ("__wrapped__", lambda z, y=1: z),
    ):
        setattr(signed, name, value)
        for _ in range(2):
            t = torch.randn(3)
            assert_same(captured(t), (t + 1, str(inspect.signature(signed))))
    del signed.__wrapped__, signed.__signature__
    for hint in (float, list[int]):
        signed.__annotations__["a"] = hint
        assert_same(captured(t), (t + 1, str(inspect.signature(signed))))


def test_a_signature_without_defaults_is_one_trace():
    captured = _oxytorch.capture(lambda t: (t + 1, list(inspect.signature(uses_none).parameters)))
    for _ in range(3):
        t = torch.randn(3)
        assert_same(captured(t), (t + 1, ["a", "b"]))
    assert captured.stats()["traced"] == 1


def uses_none(a, b):
    return a


def test_the_signature_of_a_function_that_wraps_itself():
    def wrapping(): ...

    wrapping.__wrapped__ = wrapping

    def step(a):
        try:
            return a + 1, str(inspect.signature(wrapping))
        except ValueError as error:
            return a + 1, str(error)

    captured = _oxytorch.capture(step)
    for _ in range(3):
        assert_same(captured(torch.ones(2)), step(torch.ones(2)))


def asks_of_autocast(t):
    kinds = [torch.is_autocast_enabled(kind) for kind in ("cpu", "cuda", "mps", "xpu")]
    return t + 1 if any(kinds) else t + 2, kinds, torch.get_autocast_dtype("mps")


def test_the_autocast_of_devices_that_nothing_is_computed_on():
    captured, t = _oxytorch.capture(asks_of_autocast), torch.ones(2)
    for _ in range(3):
        assert_same(captured(t), asks_of_autocast(t))
    assert captured.stats()["breaks"] == [] and captured.stats()["traced"] == 1
    torch.set_autocast_enabled("mps", True)
    try:
        assert_same(captured(t), asks_of_autocast(t))
    finally:
        torch.set_autocast_enabled("mps", False)
    assert_same(captured(t), asks_of_autocast(t))


def test_whether_transforms_are_active():
    def f(t):
        return t * 2 if torch._C._are_functorch_transforms_active() else t * 3

    captured, t = _oxytorch.capture(f), torch.ones(2)
    for _ in range(3):
        assert_same(captured(t), t * 3)
    assert captured.stats()["breaks"] == []
    assert_same(torch.func.vmap(captured)(t), t * 2)
    assert_same(captured(t), t * 3)
    through = _oxytorch.capture(lambda t: torch.func.vmap(f)(t) + f(t))
    for _ in range(3):
        assert_same(through(t), t * 5)
