"""Recorded graphs against eager, case by case. Each is a function of the device: on a GPU graphs are recorded, on the CPU their replays are
the steps themselves (`OXYTORCH_EMULATE_GRAPHS=1`), with the same books and the same memory. Needs no pytest, so that any machine can run it."""

import copy
import threading

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import oxytorch

MODE = "reduce-overhead"
WIDTH = 64
CASES = []
ON_GPU = []


def case(function):
    CASES.append(function)
    return function


def on_gpu(function):
    ON_GPU.append(function)
    return function


def graphs():
    return oxytorch.last_compile()["cuda_graphs"]


def compiled(function):
    return oxytorch.compile(function, mode=MODE)


def same(a, b):
    torch.testing.assert_close(a, b, rtol=2e-3, atol=2e-4)


def mlp(device, dropout=0.0):
    torch.manual_seed(0)
    layers = [nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Dropout(dropout), nn.Linear(2 * WIDTH, WIDTH), nn.LayerNorm(WIDTH)]
    return nn.Sequential(*layers).to(device)


def pair(device, dropout=0.0):
    model = mlp(device, dropout)
    return model, compiled(copy.deepcopy(model))


def batch(device, rows=32):
    return torch.randn(rows, WIDTH, device=device)


def large(device):
    """So much that its results are not copied."""
    return batch(device, 40_000 if device == "cuda" else 32)


@case
def later_calls_are_replayed(device):
    model, fast = pair(device)
    with torch.no_grad():
        for _ in range(8):
            x = batch(device)
            same(fast(x), model(x))
    assert graphs().startswith("recorded"), graphs()


@case
def results_that_are_held_stay(device):
    """More calls than there are recordings, with views and other holders."""
    model, fast = pair(device)
    held = []
    with torch.no_grad():
        for n in range(12):
            x = large(device)
            y = fast(x)
            keep = [y, y[3:5], y.t(), torch.from_dlpack(y), y.view(-1)][n % 5]
            expected = model(x)
            held.append((keep, [expected, expected[3:5], expected.t(), expected, expected.view(-1)][n % 5]))
            del y
    for keep, expected in held:
        same(keep, expected)
    assert "recorded 3 times" in graphs(), graphs()


@case
def a_loop_that_drops_its_results_needs_few_recordings(device):
    model, fast = pair(device)
    with torch.no_grad():
        for _ in range(20):
            x = large(device)
            out = fast(x)
            same(out, model(x))
    del out
    assert "recorded 2 times" in graphs() or "recorded 1 times" in graphs(), graphs()


@case
def a_result_may_be_written_by_the_caller(device):
    model, fast = pair(device)
    with torch.no_grad():
        for _ in range(8):
            x = large(device)
            y = fast(x)
            same(y, model(x))
            y.fill_(float("nan"))


@case
def results_are_inputs_of_the_next_call(device):
    model, fast = pair(device)
    with torch.no_grad():
        h = large(device)
        e = h.clone()
        for _ in range(12):
            h, e = fast(h), model(e)
            same(h, e)


@case
def a_recurrent_loop_of_two_results(device):
    def step(h, c):
        c = torch.sigmoid(h) * c + torch.tanh(h)
        return torch.tanh(c) * 0.9, c

    fast = compiled(step)
    h, c = large(device), large(device)
    a, b = h, c
    for _ in range(10):
        h, c = fast(h, c)
        a, b = step(a, b)
        same(h, a)
        same(c, b)


@case
def sizes_that_change(device):
    model, fast = pair(device)
    with torch.no_grad():
        for n in range(24):
            x = batch(device, rows=[32, 48, 64, 33][n % 4])
            same(fast(x), model(x))


@case
def an_input_that_is_returned(device):
    def f(x, y):
        return x, x.view(-1)[1:], x + y, y

    fast = compiled(f)
    for _ in range(6):
        x, y = batch(device), batch(device)
        a, b, c, d = fast(x, y)
        assert a.data_ptr() == x.data_ptr() and b.data_ptr() == x.data_ptr() + 4 and d.data_ptr() == y.data_ptr()
        same(c, x + y)


@case
def strided_inputs(device):
    fast = compiled(lambda x, y: (x * 2 + y).sum(-1))
    for _ in range(6):
        x, y = batch(device, 128).t()[:, ::2], torch.randn(1, device=device).expand(WIDTH, 64)
        same(fast(x, y), (x * 2 + y).sum(-1))


@case
def a_cache_is_written_in_place(device):
    class Cache(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("kept", torch.zeros(16, WIDTH))

        def forward(self, x, at):
            self.kept.index_copy_(0, at, x)
            return self.kept.sum(0)

    model = Cache().to(device)
    fast = compiled(copy.deepcopy(model))
    with torch.no_grad():
        for n in range(10):
            x, at = batch(device, 1), torch.tensor([n], device=device)
            same(fast(x, at), model(x, at))
        same(dict(fast.named_buffers())["kept"], model.kept)


@case
def a_written_argument(device):
    def f(cache, x):
        cache.add_(x)
        return cache * 2

    fast = compiled(f)
    cache, other = batch(device), batch(device)
    expected, versions = [cache.clone(), other.clone()], cache._version
    for n in range(12):
        x = batch(device)
        target = [cache, other][n % 2 if n > 5 else 0]
        same(fast(target, x), f(expected[n % 2 if n > 5 else 0], x))
    same(cache, expected[0])
    same(other, expected[1])
    assert cache._version > versions


@case
def settings_that_decide_how_it_is_done(device):
    """What was recorded under others would do what the user has turned off."""
    matmul = torch.backends.cuda.matmul
    changes = [
        torch.backends.cuda.enable_flash_sdp,
        torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp,
        lambda allowed: setattr(matmul, "allow_fp16_reduced_precision_reduction", allowed),
        lambda allowed: setattr(matmul, "allow_bf16_reduced_precision_reduction", allowed),
        lambda allowed: setattr(matmul, "allow_fp16_accumulation", allowed),
        lambda allowed: torch.backends.cuda.preferred_blas_library("cublas" if allowed else "cublaslt"),
        lambda allowed: torch._C._set_sm_carveout_experimental(None if allowed else 8),
        torch._C._set_sdp_use_fa3,
    ]
    before = [True, False, True, True, False, True, True, torch._C._get_fa3_sdp_enabled()]
    for change, usual in zip(changes, before):
        model, fast = pair(device)
        x, recorded = batch(device), []
        try:
            for allowed in (usual, not usual, usual):
                change(allowed)
                with torch.no_grad():
                    for _ in range(6):
                        same(fast(x), model(x))
                recorded.append(graphs().split()[:2])
        finally:
            change(usual)
        assert recorded == [["recorded", "1"], ["recorded", "2"], ["recorded", "2"]], (changes.index(change), recorded)


@case
def weights_that_are_replaced(device):
    model, fast = pair(device)
    with torch.no_grad():
        for n in range(12):
            if n % 4 == 3:
                fresh = torch.randn_like(model[0].weight)
                model[0].weight = nn.Parameter(fresh)
                fast[0].weight = nn.Parameter(fresh.clone())
            if n % 4 == 1:
                model[3].bias.add_(1)
                fast[3].bias.add_(1)
            x = batch(device)
            same(fast(x), model(x))


def train_step(model, x):
    loss = model(x).square().mean()
    loss.backward()
    return loss


def compare_gradients(model, fast):
    for (name, p), q in zip(model.named_parameters(), fast.parameters()):
        assert (p.grad is None) == (q.grad is None), name
        if p.grad is not None:
            same(q.grad, p.grad)


@case
def training_steps(device):
    model, fast = pair(device)
    ours, theirs = torch.optim.SGD(fast.parameters(), 0.05), torch.optim.SGD(model.parameters(), 0.05)
    for _ in range(10):
        x = batch(device)
        ours.zero_grad()
        theirs.zero_grad()
        same(train_step(fast, x), train_step(model, x))
        compare_gradients(model, fast)
        ours.step()
        theirs.step()


@case
def gradients_that_accumulate(device):
    model, fast = pair(device)
    for n in range(12):
        x = batch(device)
        train_step(fast, x)
        train_step(model, x)
        compare_gradients(model, fast)
        if n % 4 == 3:
            fast.zero_grad(set_to_none=n % 8 == 3)
            model.zero_grad(set_to_none=n % 8 == 3)


@case
def several_forward_passes_before_backward(device):
    model, fast = pair(device)
    for _ in range(6):
        xs = [batch(device) for _ in range(4)]
        losses = [fast(x).square().mean() for x in xs]
        expected = [model(x).square().mean() for x in xs]
        torch.stack(losses).sum().backward()
        torch.stack(expected).sum().backward()
        compare_gradients(model, fast)
        fast.zero_grad()
        model.zero_grad()


@case
def a_graph_that_is_retained(device):
    model, fast = pair(device)
    for _ in range(5):
        x = batch(device)
        for m in (model, fast):
            loss = m(x).square().mean()
            loss.backward(retain_graph=True)
            loss.backward()
        compare_gradients(model, fast)


class Losses(nn.Module):
    """Two that have parameters in common, but nothing that is saved."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.head = nn.Linear(WIDTH, 8), nn.Linear(WIDTH, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.head(torch.tanh(self.a(x))).square().mean(), self.head(torch.tanh(self.b(x))).exp().mean()


@case
def passes_through_parts_of_a_call(device):
    """Together, one after the other in either order, one alone, and one that retains the graph: what others need stays as it was."""
    model = Losses().to(device)
    fast = compiled(copy.deepcopy(model))
    orders = [(0, 1), (0, 1), (0, 1), (1, 0), (0,), (1,), (0, 1), (1, 0), None, None, (0, 1), None, (1, 0), (0, 0, 1), (0, 1)]
    for order in orders:
        x = batch(device)
        for m in (model, fast):
            losses = m(x)
            if order is None:
                sum(losses).backward()
                continue
            for n, loss in enumerate(order):
                losses[loss].backward(retain_graph=loss in order[n + 1 :])
        compare_gradients(model, fast)


@case
def gradients_that_are_kept(device):
    """They may lie where the forward pass saves what it saves: the next one must not be replayed there."""
    model, fast = pair(device)
    kept = []
    for _ in range(9):
        x = batch(device)
        for m in (model, fast):
            m.zero_grad(set_to_none=True)
            train_step(m, x)
        kept.append([(p.grad, q.grad) for p, q in zip(model.parameters(), fast.parameters())])
    for expected, got in sum(kept, []):
        same(got, expected)


@case
def a_gradient_that_is_kept_now_and_then(device):
    model, fast = pair(device)
    kept = []
    for n in range(16):
        x = batch(device)
        for m in (model, fast):
            m.zero_grad(set_to_none=True)
            train_step(m, x)
        compare_gradients(model, fast)
        if n % 5 == 4:
            kept.append((model[0].weight.grad, fast[0].weight.grad))
    for expected, got in kept:
        same(got, expected)


@case
def what_hooks_hold_is_not_overwritten(device):
    model, fast = pair(device)
    held = []

    def pack(tensor):
        held.append((tensor, tensor.clone()))
        return tensor

    for n in range(9):
        x = batch(device)
        for m in (model, fast):
            m.zero_grad(set_to_none=True)
            with torch.autograd.graph.saved_tensors_hooks(pack if n > 2 else lambda tensor: tensor, lambda tensor: tensor):
                train_step(m, x)
        compare_gradients(model, fast)
        for tensor, before in held:
            assert torch.equal(tensor, before)
        if n % 2:
            held.clear()


@case
def some_backward_passes_keep_the_graph(device):
    """The one that comes last may write over what was saved, the others not."""
    model, fast = pair(device)
    for n in range(12):
        x = batch(device)
        for m in (model, fast):
            m.zero_grad(set_to_none=True)
            loss = m(x).square().mean()
            for again in range(n % 3):
                loss.backward(retain_graph=True)
            loss.backward()
        compare_gradients(model, fast)


@case
def a_forward_pass_without_its_backward_pass(device):
    model, fast = pair(device)
    for n in range(12):
        x = batch(device)
        if n % 3 == 2:
            same(fast(x), model(x))
            continue
        for m in (model, fast):
            m.zero_grad(set_to_none=True)
            train_step(m, x)
        compare_gradients(model, fast)


@case
def checkpointed_parts(device):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = mlp(device), mlp(device)

        def forward(self, x):
            return self.two(checkpoint(self.one, x, use_reentrant=False))

    model = Model().to(device)
    fast = compiled(copy.deepcopy(model))
    for _ in range(6):
        x = batch(device)
        same(train_step(fast, x), train_step(model, x))
        compare_gradients(model, fast)


@case
def steps_that_are_marked(device):
    model, fast = pair(device)
    held = []
    with torch.no_grad():
        for _ in range(8):
            torch.compiler.cudagraph_mark_step_begin()
            x = large(device)
            held.append((fast(x), model(x)))
    for got, expected in held:
        same(got, expected)


@case
def random_numbers_go_on_and_follow_the_seed(device):
    def f(x):
        return F.dropout(x, 0.5) + torch.rand_like(x)

    fast, x = compiled(f), torch.ones(64, WIDTH, device=device)
    runs = []
    for _ in range(2):
        torch.manual_seed(5)
        runs.append([fast(x) for _ in range(6)])
    for n in range(6):
        assert torch.equal(runs[0][n], runs[1][n]), n
        assert n == 0 or not torch.equal(runs[0][n], runs[0][n - 1]), n
        assert 0.3 < (runs[0][n] > 1).float().mean() < 0.7


@case
def eagers_own_random_numbers(device):
    def f(x):
        return F.dropout(x * 2, 0.5)

    fast, x = oxytorch.compile(f, mode=MODE, options={"fallback_random": True}), torch.ones(64, WIDTH, device=device)
    for seed in range(6):
        torch.manual_seed(seed)
        got = fast(x)
        after = torch.rand(3, device=device)
        torch.manual_seed(seed)
        same(got, f(x))
        same(after, torch.rand(3, device=device))


@case
def threads(device):
    model, fast = pair(device)
    wrong = []

    def work(seed):
        generator = torch.Generator(device).manual_seed(seed)
        with torch.no_grad():
            for _ in range(20):
                x = torch.randn(32, WIDTH, device=device, generator=generator)
                y, expected = fast(x), model(x)
                if not torch.allclose(y, expected, rtol=2e-3, atol=2e-4):
                    wrong.append(seed)

    workers = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert not wrong, wrong


@case
def threads_with_models_of_their_own(device):
    """Recordings of different graphs have their intermediates in one memory."""
    pairs, wrong = [pair(device) for _ in range(3)], []

    def work(model, fast, rows):
        generator = torch.Generator(device).manual_seed(rows)
        with torch.no_grad():
            for _ in range(200):
                x = torch.randn(rows, WIDTH, device=device, generator=generator)
                if not torch.allclose(fast(x), model(x), rtol=2e-3, atol=2e-4):
                    wrong.append(rows)

    workers = [threading.Thread(target=work, args=(*both, 160 + 32 * n)) for n, both in enumerate(pairs)]
    [worker.start() for worker in workers]
    [worker.join() for worker in workers]
    assert not wrong, wrong


@case
def inference_mode_and_others_take_turns(device):
    model, fast = pair(device)
    for n in range(12):
        x = large(device)
        with torch.inference_mode() if n % 3 == 0 else torch.no_grad():
            y = fast(x)
            same(y, model(x))
        assert y.is_inference() == (n % 3 == 0)


@case
def a_call_of_python_is_refused_with_a_reason(device):
    from torch.library import custom_op

    name = "oxytorch_graphs::twice"
    if not hasattr(torch.ops.oxytorch_graphs, "twice"):

        @custom_op(name, mutates_args=())
        def twice(x: torch.Tensor) -> torch.Tensor:
            return x * 2

        twice.register_fake(lambda x: torch.empty_like(x))
    fast = compiled(lambda x: torch.ops.oxytorch_graphs.twice(x + 1) - 1)
    for _ in range(5):
        x = batch(device)
        same(fast(x), (x + 1) * 2 - 1)
    assert graphs() is None or graphs().startswith("refused") and "twice" in graphs(), graphs()


@case
def an_explanation_tells_of_recordings(device):
    explained = oxytorch.explain(lambda x: torch.sin(x) + 1, mode=MODE)(batch(device))
    assert explained.cuda_graphs == "not called often enough yet" and "recorded graphs:" in str(explained)


@case
def an_index_out_of_range_is_told(device):
    fast = compiled(lambda table, at: table[at] * 2)
    table = batch(device)
    for _ in range(5):
        at = torch.randint(0, 32, (7,), device=device)
        same(fast(table, at), table[at] * 2)
    try:
        fast(table, torch.full((7,), 99, device=device))
        if device == "cuda":
            torch.cuda.synchronize()
        fast(table, torch.zeros(7, dtype=torch.long, device=device))
        raised = False
    except IndexError:
        raised = True
    assert raised
    at = torch.randint(0, 32, (7,), device=device)
    same(fast(table, at), table[at] * 2)


@on_gpu
def other_streams(device):
    model, fast = pair(device)
    streams = [torch.cuda.Stream() for _ in range(3)]
    with torch.no_grad():
        for n in range(30):
            stream = streams[n % 3] if n % 4 else torch.cuda.current_stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                x = large(device)
                y, expected = fast(x), model(x)
            torch.cuda.current_stream().wait_stream(stream)
            same(y, expected)


@on_gpu
def training_on_other_streams(device):
    """The backward pass overwrites what was saved, and the forward pass the gradients: each waits for those that read it."""
    model, fast = pair(device)
    streams = [torch.cuda.Stream() for _ in range(3)]
    for n in range(30):
        stream = streams[n % 3] if n % 4 else torch.cuda.current_stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            x = large(device)
            for m in (model, fast):
                m.zero_grad(set_to_none=True)
                train_step(m, x)
            compare_gradients(model, fast)
        torch.cuda.current_stream().wait_stream(stream)


@on_gpu
def a_backward_pass_lies_in_the_memory_of_its_forward_pass(device):
    """What is saved takes 48 widths a row, and so do the gradients that flow back: recorded together they take little more than one of them."""

    def needed(mode):
        torch.manual_seed(0)
        layers = [layer for _ in range(12) for layer in (nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH), nn.LayerNorm(WIDTH))]
        model = nn.Sequential(*layers).to(device)
        fast, x = oxytorch.compile(model, mode=mode), batch(device, 100_000)
        for _ in range(8):
            fast.zero_grad(set_to_none=True)
            train_step(fast, x)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        fast.zero_grad(set_to_none=True)
        train_step(fast, x)
        torch.cuda.synchronize()
        return torch.cuda.max_memory_reserved()

    plain = needed(None)
    oxytorch.reset()
    torch.cuda.empty_cache()
    recorded = needed(MODE)
    assert recorded <= 1.15 * plain, (recorded, plain)


@on_gpu
def a_graph_of_the_users_own(device):
    model, fast = pair(device)
    x = batch(device)
    with torch.no_grad():
        for _ in range(4):
            fast(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = fast(x)
        x.copy_(batch(device))
        graph.replay()
        same(y, model(x))
        for _ in range(3):
            z = batch(device)
            same(fast(z), model(z))


@on_gpu
def a_replay_waits_for_nothing(device):
    """A kernel that takes 50 ms stands before it: the call returns at once."""
    import time

    model, fast = pair(device)
    with torch.no_grad():
        x = batch(device)
        for _ in range(6):
            fast(x)
        torch.cuda.synchronize()
        start = time.perf_counter()
        torch.cuda._sleep(100_000_000)
        y = fast(x)
        returned = time.perf_counter() - start
        torch.cuda.synchronize()
        finished = time.perf_counter() - start
        same(y, model(x))
    assert returned < 0.5 * finished, (returned, finished)


@on_gpu
def an_operator_that_waits_ends_the_recording(device):
    """cholesky looks whether it worked. What was begun is undone: torch's allocator and generator go on as before."""

    def f(x):
        return torch.linalg.cholesky(x @ x.t() + 10 * torch.eye(WIDTH, device=device)) * 2

    fast = compiled(f)
    for _ in range(8):
        x = torch.randn(WIDTH, WIDTH, device=device)
        same(fast(x), f(x))
    assert graphs().startswith("refused"), graphs()
    assert not torch.equal(torch.rand(3, device=device), torch.rand(3, device=device))
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        torch.empty(1 << 20, device=device).record_stream(torch.cuda.current_stream())
    later_calls_are_replayed(device)
    random_numbers_go_on_and_follow_the_seed(device)


@on_gpu
def memory_that_runs_out(device):
    """In the first call, while recording, and in a replay: an exception or eager, and afterwards all is well."""
    model, fast = pair(device)
    with torch.no_grad():
        x = batch(device)
        same(fast(x), model(x))
        torch.cuda.empty_cache()
        free, _ = torch.cuda.mem_get_info()
        big = torch.empty(max(0, free - (64 << 20)), dtype=torch.uint8, device=device)
        large = compiled(lambda a: (a.expand(1 << 14, 1 << 14) * 2.0).exp() + 1)
        for _ in range(3):
            try:
                large(torch.ones(1, device=device))
            except torch.OutOfMemoryError:
                pass
        del big
        for _ in range(5):
            x = batch(device)
            same(fast(x), model(x))
        assert large(torch.zeros(1, device=device))[0, 0] == 2


def run(device):
    """Name and error of each case."""
    for function in CASES + (ON_GPU if device == "cuda" else []):
        oxytorch.reset()
        try:
            function(device)
            if device == "cuda":
                torch.cuda.synchronize()
            yield function.__name__, None
        except Exception as error:
            yield function.__name__, f"{type(error).__name__}: {error}"
