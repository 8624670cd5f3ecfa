// Enough of CUDA to run a kernel on a CPU, one thread of a block after the other: a thread runs until it must wait for the others of its warp,
// a warp until it must wait for the others of the block. All of them must wait at the same line: kernels neither exchange nor wait in divergent code.
// Threads and warps go in their order or in the reverse one: what depends on that has a race.
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <ucontext.h>
#include <utility>
#include <vector>

#define __global__
#define __device__
#define __shared__
#define __align__(n)
#define __launch_bounds__(...)

struct Dim { unsigned x; };
static Dim threadIdx, blockIdx;
alignas(16) unsigned char shared[1 << 18];

template <typename A, typename B> B bits_as(A a) { B b; static_assert(sizeof a == sizeof b); memcpy(&b, &a, sizeof a); return b; }
static float __uint_as_float(unsigned x) { return bits_as<unsigned, float>(x); }
static float __int_as_float(int x) { return bits_as<int, float>(x); }
static unsigned __float_as_uint(float x) { return bits_as<float, unsigned>(x); }
static int __float_as_int(float x) { return bits_as<float, int>(x); }
static double __longlong_as_double(long long x) { return bits_as<long long, double>(x); }
static long long __double_as_longlong(double x) { return bits_as<double, long long>(x); }
static float from_f16(unsigned short x) { return (float)bits_as<unsigned short, _Float16>(x); }
static unsigned short to_f16(float x) { return bits_as<_Float16, unsigned short>((_Float16)x); }
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static double rsqrt(double x) { return 1.0 / sqrt(x); }
template <typename T> T atomicCAS(T* to, T seen, T fresh) { T old = *to; if (old == seen) *to = fresh; return old; }
template <typename T> T atomicExch(T* to, T fresh) { return std::exchange(*to, fresh); }
static void __threadfence_system() {}
template <typename T, typename U> T atomicAdd(T* to, U value) { T old = *to; *to += value; return old; }

namespace emulate {
constexpr size_t STACK = 256 << 10;
struct Fiber { ucontext_t context; std::vector<char> stack; bool done; int line; };
static std::vector<Fiber> fibers(1024);
static ucontext_t scheduler;
static unsigned current;
static const std::function<void()>* body;
static unsigned char slots[1024][16];
extern "C" int emulate_reversed, emulate_divergent;
// Whether threads go in the reverse order; a line at which not all of them were.
int emulate_reversed = 0, emulate_divergent = 0;

static void wait(int line) {
  fibers[current].line = line;
  swapcontext(&fibers[current].context, &scheduler);
}
static void enter() { (*body)(); fibers[current].done = true; }

// Those that run on must all wait, and at the same line.
static void look(unsigned first, unsigned end) {
  for (unsigned t = first; t < end; ++t) {
    if (fibers[t].done || fibers[t].line != fibers[first].line) emulate_divergent = fibers[t].done ? fibers[first].line : fibers[t].line;
  }
}

// To the next barrier; whether there is one.
static bool warp(unsigned first, unsigned end) {
  bool running;
  do {
    running = false;
    for (unsigned n = first; n < end; ++n) {
      const unsigned t = emulate_reversed ? first + end - 1 - n : n;
      if (fibers[t].done) continue;
      current = threadIdx.x = t;
      swapcontext(&scheduler, &fibers[t].context);
      running |= !fibers[t].done;
    }
    if (running) look(first, end);
  } while (running && fibers[first].line < 0);
  return running;
}

static void block(unsigned threads) {
  memset(shared, 0xa5, sizeof shared);
  for (unsigned t = 0; t < threads; ++t) {
    Fiber& f = fibers[t];
    f.stack.resize(STACK);
    f.done = false;
    f.line = 1;
    getcontext(&f.context);
    f.context.uc_stack = {f.stack.data(), 0, STACK};
    f.context.uc_link = &scheduler;
    makecontext(&f.context, enter, 0);
  }
  for (bool running = true; running;) {
    running = false;
    const unsigned warps = (threads + 31) / 32;
    for (unsigned n = 0; n < warps; ++n) {
      const unsigned first = 32 * (emulate_reversed ? warps - 1 - n : n);
      running |= warp(first, first + 32 < threads ? first + 32 : threads);
    }
    if (running) look(0, threads);
  }
}

template <typename T> T pass(T value, unsigned from, int line) {
  memcpy(slots[threadIdx.x], &value, sizeof value);
  wait(line);
  T other;
  memcpy(&other, slots[from], sizeof other);
  wait(line);
  return other;
}
template <typename T> T pass_up(T value, unsigned by, int line) {
  const unsigned t = threadIdx.x;
  return pass(value, t % 32 >= by ? t - by : t, line);
}

template <typename... A, size_t... I> void call(void (*f)(A...), void** args, std::index_sequence<I...>) { f(*(A*)args[I]...); }
template <typename... A> void launch(void (*f)(A...), void** args, long long grid, unsigned threads) {
  const std::function<void()> work = [&] { call(f, args, std::index_sequence_for<A...>()); };
  body = &work;
  for (long long b = 0; b < grid; ++b) {
    blockIdx.x = b;
    block(threads);
  }
}
}  // namespace emulate

// Exchanges have negative lines.
#define __syncthreads() emulate::wait(__LINE__)
#define __shfl_xor_sync(all, value, mask) emulate::pass(value, threadIdx.x ^ (mask), -__LINE__)
#define __shfl_up_sync(all, value, by) emulate::pass_up(value, by, -__LINE__)
