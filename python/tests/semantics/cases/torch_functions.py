"""Torch's own features: in-place writes, views, out=, keywords, factories, modes, random numbers."""

import torch
import torch.nn.functional as F

from ..case import ANY, call, case, made
from ..values import positive, x


def pair():
    return x(), x()


@case(x)
def in_place_on_an_argument(a):
    b = a.add_(1)
    a.mul_(2)
    return b is a, a + 0


@case(x)
def in_place_on_a_made_one(a):
    b = a.clone()
    b += 1
    b[0] = 7
    b[:, 1:] *= 2
    return b, a


@case(x)
def augmented_assignment_keeps_identity(a):
    kept = a
    a += 1
    a -= 3
    a *= 2
    return kept is a, kept


@case(pair)
def copy_and_fill(a, b):
    a.copy_(b)
    b.fill_(3)
    c = torch.empty_like(a).zero_()
    return c


@case(lambda: x(3, 2))
def write_through_a_view(a):
    b = a.clone()
    row = b[0]
    row.add_(10)
    b.view(-1)[4] = 5
    b.t()[1].mul_(2)
    return b, row


@case(lambda: x(3, 2))
def write_through_a_view_of_an_argument(a):
    a[0].add_(10)
    a.view(-1)[1:3] = 0
    a.t()[0].zero_()
    return a[1]


@case(lambda: x(3, 2))
def view_sees_a_later_write(a):
    view = a.view(-1)
    before = view + 0
    a.add_(1)
    return before, view, view.sum()


@case(x)
def returned_views(a):
    return a.view(-1), a.t(), a[0], a[:, 1:], a.unsqueeze(0), a.expand(4, 2, 3), a.flatten(), a.detach()


@case(x)
def returned_views_of_a_made_one(a):
    b = a * 2
    return b, b.view(-1), b[0], b.t()


@case(x)
def returned_view_alone(a):
    b = a * 2
    return b.t()


@case(lambda: x(4, 4))
def overlapping_views(a):
    b = a.clone()
    b[:2] += b[2:]
    b[1:].copy_(b[:-1].clone())
    b.diagonal().fill_(9)
    return b


@case(lambda: (lambda a: (a, a[0]))(x()), lambda: (x(), x(3)))
def argument_is_a_view_of_another(a, row):
    a.add_(1)
    return row * 2


@case(lambda: x(2, 3, 4))
def many_views(a):
    return (
        a.permute(2, 0, 1), a.transpose(0, 1), a.reshape(6, 4), a.movedim(0, -1), a.squeeze(), a.narrow(1, 0, 2), a.select(0, 1),
        a.unflatten(2, (2, 2)), a.mT, a.swapaxes(0, 2), *a.unbind(0), *a.split(2, 1),
    )  # fmt: skip


@case(lambda: (x(), x(), torch.empty(2, 3)))
def out_argument(a, b, out):
    result = torch.add(a, b, out=out)
    return result is out, out + 0


@case(pair)
def out_argument_made_here(a, b):
    out = torch.empty(0)
    torch.mul(a, b, out=out)
    return out, out.shape


@case(x)
def keyword_forms(a):
    return (
        torch.sum(input=a, dim=1, keepdim=True), a.sum(dim=(0, 1)), a.mean(dim=-1), torch.add(a, a, alpha=3), a.clamp(min=0),
        a.to(dtype=torch.float64),
    )  # fmt: skip


@case(x)
def scalars_and_types(a):
    return a + True, a * 2.5, a.int() + 1, a.int() + 1.5, a.long() / 2, a.bool() + 1, a.half() + a, torch.result_type(a, 1)


@case(lambda: (x(), 2), lambda: (x(), 4))
def factories(a, n):
    return (
        torch.zeros(n), torch.ones(n, 2, dtype=torch.int64), torch.full((n,), 7.0), torch.arange(n), torch.arange(0, 1, 0.25), torch.eye(n),
        torch.tensor([1, 2]), torch.tensor([[1.0], [2.0]]), torch.tensor(n), torch.empty(0), torch.linspace(0, 1, 5), torch.zeros_like(a),
        torch.ones_like(a, dtype=torch.bool), a.new_zeros(2), a.new_full((1,), 3), a.new_tensor([1, 2]), torch.scalar_tensor(3),
    )  # fmt: skip


@case(x)
def factory_results_are_fresh(a):
    p, q = torch.zeros(2), torch.zeros(2)
    p.add_(1)
    return p, q, p is q, a


@case(x)
def tensor_from_tensors(a):
    return (
        torch.stack([a, a]), torch.cat([a, a], dim=1), torch.as_tensor(a) is a, torch.tensor([[1, 2], [3, 4]]).sum(),
        torch.stack((a[0], a[1])),
    )  # fmt: skip


@case(x)
def joining_and_splitting(a):
    p, q = torch.split(a, 1)
    return torch.hstack([p, q]), torch.vstack([p, q]), a.chunk(2, dim=1), torch.tensor_split(a, 3, dim=1), torch.broadcast_tensors(a, a[:1])


@case(lambda: x(3, 3))
def masks(a):
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    return a.masked_fill(~mask, 0), torch.where(mask, a, -1), torch.triu(a), mask.sum(), mask.any(), mask.all()


@case(lambda: (x(4, 3), torch.tensor([0, 2, 1, 1])), graphs=2)
def gather_and_scatter(a, index):
    return (
        a[index], a.gather(0, index[None, :3]), torch.zeros(4, 3).index_add(0, index, a), F.one_hot(index),
        a.index_select(0, index), torch.zeros(4).scatter_add(0, index, a[:, 0]),
    )  # fmt: skip


@case(positive, close=True)
def pointwise_functions(a):
    return a.exp(), a.log(), a.sqrt(), a.sin(), torch.tanh(a), a.sigmoid(), F.gelu(a), F.silu(a), a.rsqrt(), a.pow(0.5), a.reciprocal()


@case(x, close=True)
def normalisations(a):
    return F.softmax(a, -1), F.layer_norm(a, (3,)), a.var(-1), a.std(), F.log_softmax(a, dim=1), F.normalize(a + 10), a.norm()


@case(x)
def reductions(a):
    return a.sum(), a.prod(), a.amax(1), a.amin(), a.mean(), a.cumsum(0), a.any(), a.count_nonzero(), a.argmin(dim=1), torch.max(a, a.flip(0))


@case(lambda: torch.tensor([0.0, -0.0, 1.0, float("nan")]))
def greater_of_two_zeros(a):
    return torch.max(a, -a), torch.min(a, -a), a.clamp(min=0), a.relu()


@case(lambda: (x(2, 3), x(3, 4), x(4)))
def linear_algebra(a, b, c):
    return a @ b, torch.mm(a, b), F.linear(a, b.t(), c), torch.einsum("ij,jk->ki", a, b), torch.outer(c, c), b @ c, torch.addmm(c, a, b)


@case(pair)
def no_grad_block(a, b):
    with torch.no_grad():
        c = a + b
        inside = torch.is_grad_enabled()
    return c, inside, torch.is_grad_enabled()


@case(x, grad=True)
def grad_modes_nested(a):
    seen = [torch.is_grad_enabled()]
    with torch.no_grad():
        seen.append(torch.is_grad_enabled())
        with torch.enable_grad():
            seen.append(torch.is_grad_enabled())
            a = a + 1
        seen.append(torch.is_grad_enabled())
    seen.append(torch.is_grad_enabled())
    return a, seen


@case(x)
def grad_mode_set_and_left(a):
    torch.set_grad_enabled(True)
    return a + 1, torch.is_grad_enabled()


@case(x)
def set_grad_enabled_block(a):
    with torch.set_grad_enabled(True):
        inside = torch.is_grad_enabled()
    return a * 2, inside, torch.is_grad_enabled()


@torch.no_grad()
def decorated_helper(a):
    return a * 3, torch.is_grad_enabled()


@case(x, grad=True)
def no_grad_decorator(a):
    return decorated_helper(a), torch.is_grad_enabled()


@case(x)
def mode_is_restored_by_an_exception(a):
    try:
        with torch.enable_grad():
            raise ValueError
    except ValueError:
        return a + 1, torch.is_grad_enabled()


@case(x)
def inference_mode_block(a):
    with torch.inference_mode():
        b = a + 1
        inside = torch.is_inference_mode_enabled()
    return b, inside, b.is_inference()


@case(x, close=True)
def autocast_block(a):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        b = a @ a.t()
        inside = torch.is_autocast_enabled("cpu")
    return b, b.dtype, inside, a @ a.t()


@case(lambda: x().requires_grad_(), grad=True, eager=True)
def gradients_flow(a):
    b = (a * 2).sum()
    return b.requires_grad, b


@case(lambda: x().requires_grad_(), grad=True, eager=True)
def backward_inside(a):
    (a * a).sum().backward()
    return a.grad * 1


@case(lambda: x().requires_grad_())
def requires_grad_without_grad_mode(a):
    return a * 2, a.requires_grad, a.detach(), a.detach().requires_grad


@case(pair, graphs=2)
def out_argument_of_another_kind(a, b):
    wide, turned, grown = torch.empty(0, dtype=torch.float64), torch.empty(0), torch.empty(0)
    torch.mul(a, b, out=wide)
    same = torch.matmul(a, b.t(), out=grown)
    grown += 1
    torch.add(a.t(), b.t(), out=turned)
    return wide, turned.stride(), turned, same is grown, same


@case(pair, graphs=ANY)
def inference_mode_in_the_middle(a, b):
    before = a + b
    with torch.inference_mode():
        inside = before * 2
        print(torch.is_inference_mode_enabled())
        with torch.inference_mode(False):
            outside = a * b
        again = inside - 1
    after = outside + 1
    return [(t, t.is_inference()) for t in (before, inside, outside, again, after, again + 1)]


@case(x, grad=True)
def inference_mode_as_a_decorator(a):
    @torch.inference_mode()
    def inner(value):
        return value * 2, value.view(-1), torch.is_grad_enabled()

    twice, flat, enabled = inner(a)
    return twice, twice.is_inference(), flat.is_inference(), enabled, torch.is_inference_mode_enabled()


@case(lambda: (x(), torch.tensor([3, 4])), graphs=ANY)
def default_dtype_of_all_kinds(a, n):
    torch.set_default_dtype(torch.float64)
    try:
        print(torch.get_default_dtype())
        torch.set_default_dtype(torch.float16)
        return torch.zeros(2), torch.arange(2.0), n / 2, n * 0.5, torch.full((2,), 1.5), a * n, torch.ones(1, dtype=torch.float32)
    finally:
        torch.set_default_dtype(torch.float32)


@case(x, graphs=3, grad=True)
def leaf_is_made_and_used(a):
    b = (a * 2).requires_grad_()
    loss = (b * b).sum()
    return b.is_leaf, loss.requires_grad, torch.autograd.grad(loss, b)


@case(x)
def requires_grad_is_set(a):
    b = a * 2
    b.requires_grad_()
    return b.requires_grad, a.requires_grad, b


@case(lambda: torch.nn.Parameter(x()), lambda: x())
def parameter_argument(a):
    return a * 2, isinstance(a, torch.nn.Parameter), type(a).__name__


@case(x)
def random_in_order(a):
    return torch.rand(3), torch.randn(2), torch.randint(0, 10, (3,)), torch.randperm(4), a + torch.rand_like(a)


@case(x, graphs=4)
def random_under_a_seed(a):
    torch.manual_seed(7)
    p = torch.rand(2)
    torch.manual_seed(7)
    return torch.equal(p, torch.rand(2)), p, a


# What a generator of the program's draws is torch's: each use of one is a break.
@case(x, graphs=5)
def own_generator(a):
    generator = torch.Generator().manual_seed(3)
    return a + torch.rand(2, 3, generator=generator), torch.randn(2, generator=generator)


@case(lambda: (x(), torch.Generator().manual_seed(1)), graphs=2)
def generator_argument(a, generator):
    return a * torch.rand(3, generator=generator)


@case(lambda: call(x(), p=0.5, training=True), lambda: call(x(), p=0.5, training=False))
def dropout(a, p, training):
    return F.dropout(a, p, training=training)


@case(lambda: torch.zeros(3))
def random_in_place(a):
    a.uniform_()
    return a.normal_(), torch.bernoulli(torch.full((3,), 0.5))


@case(x)
def default_dtype(a):
    torch.set_default_dtype(torch.float64)
    try:
        return torch.ones(2), a + 1, torch.get_default_dtype()
    finally:
        torch.set_default_dtype(torch.float32)


@case(x, between=lambda _: torch.set_default_dtype(torch.float64))
def default_dtype_changes(a):
    result = torch.ones(2) * 0.5, torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    return result


@made(x)
def buffer_written_in_place():
    total = torch.zeros(2, 3)

    def step(a):
        total.add_(a)
        return total * 2

    return step


@made(x)
def cache_written_by_slices():
    cache, position = torch.zeros(8, 3), torch.tensor([0, 1])

    def step(a):
        cache[position] = a
        position.add_(1)
        return cache[:4], position

    return step


@case(lambda: (x(), x()))
def swap_by_data(a, b):
    a.data = b.data + 1
    return a * 2


@case(x)
def set_attribute_requires_grad(a):
    a.requires_grad = True
    return a.requires_grad, a.detach() + 1


@case(x)
def clone_and_detach(a):
    b = a.clone()
    c = a.detach()
    b.add_(1)
    c.add_(2)
    return a, b, c


@case(x)
def type_conversions(a):
    return a.double(), a.int(), a.bool(), a.to(torch.bfloat16).float(), a.type_as(a.int()), a.type(torch.int16), a.byte()


@case(lambda: torch.tensor([1 + 2j, 3 - 1j]))
def complex_tensors(z):
    return z * z, z.real, z.imag, z.conj(), z.abs(), torch.view_as_real(z)


@case(x)
def empty_tensors(a):
    return a[:0], a[:0].sum(), torch.cat([a[:0], a]), torch.empty(0, 3).shape


@case(lambda: torch.tensor([1.0, float("nan"), float("inf"), -0.0]))
def special_values(a):
    return a + 1, a.isnan(), a.isinf(), a == a, a.nan_to_num(), a.max(), a * 0, -a


@case(lambda: torch.tensor([127, -128], dtype=torch.int8))
def integer_overflow(n):
    return n + 1, n - 1, n * 2, -n, n.abs()


@case(x, graphs=2, again=False)
def integer_division_by_zero(a):
    return a.int() // 0


@case(x)
def torch_function_forms(a):
    return (
        torch.Tensor.__add__(a, 1), a.__radd__(2), a.__getitem__(0), torch.ops.aten.add.Tensor(a, a), torch.square(a),
        torch.special.expit(a * 0),
    )  # fmt: skip


@case(x)
def compile_questions(a):
    return (
        torch.is_tensor(a), torch.is_storage(a), torch.numel(a), torch.is_floating_point(a), torch.is_grad_enabled(),
        a.is_shared() if False else None,
    )  # fmt: skip


@case(x)
def classes_for_types(a):
    made = [torch.zeros(2, dtype=int), torch.tensor(0, dtype=bool), torch.ones(1, dtype=float)]
    return made, a.to(float), a > 0
