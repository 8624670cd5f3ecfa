//@ Report complain
/// What a kernel reports when a check fails; the first failure wins.
struct Report {
  unsigned long long check;
  long long value, extent;
};
/// The host may look at any time: it sees no check before its numbers are there, since what is being written counts as none (-1).
__device__ inline void complain(Report* report, int check, long long value, long long extent) {
  if (atomicCAS(&report->check, 0ull, ~0ull) != 0) return;
  report->value = value;
  report->extent = extent;
  __threadfence_system();
  atomicExch(&report->check, check + 1ull);
}

//@ checked
/// An index from memory, made good: where it is out of range that is reported, and it is taken for 0.
__device__ inline long long checked(long long value, long long extent, bool wrap, Report* report, int check) {
  const long long at = wrap && value < 0 ? value + extent : value;
  if (at >= 0 && at < extent) return at;
  complain(report, check, value, extent);
  return 0;
}

//@ from_bf16 bf16_bits round_bf16
__device__ inline float from_bf16(unsigned short x) { return __uint_as_float((unsigned)x << 16); }
/// Of a value that has been rounded already.
__device__ inline unsigned short bf16_bits(float x) { return __float_as_uint(x) >> 16; }
__device__ inline float round_bf16(float x) {
#if __CUDA_ARCH__ >= 800
  // Two at once, one of them zero: the conversion of one alone is four times slower.
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(x), "f"(0.0f));
  return __uint_as_float(both);
#else
  if (x != x) return __uint_as_float(0x7fff0000u);
  const unsigned bits = __float_as_uint(x);
  return __uint_as_float((bits + 0x7fffu + (bits >> 16 & 1)) & 0xffff0000u);
#endif
}

//@ from_f16 to_f16 round_f16
#ifdef __CUDA_ARCH__
__device__ inline float from_f16(unsigned short x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x));
  return f;
}
__device__ inline unsigned short to_f16(float x) {
  unsigned short h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
  return h;
}
#endif
__device__ inline float round_f16(float x) { return from_f16(to_f16(x)); }

//@ quot rem
/// Division of what is not negative; a wide size may be divided by a narrow number.
__device__ inline int quot(int a, int b) { return (unsigned)a / (unsigned)b; }
__device__ inline int rem(int a, int b) { return (unsigned)a % (unsigned)b; }
template <typename A, typename B> __device__ inline long long quot(A a, B b) { return (unsigned long long)a / (unsigned long long)b; }
template <typename A, typename B> __device__ inline long long rem(A a, B b) { return (unsigned long long)a % (unsigned long long)b; }

//@ floor_div floor_mod
/// Rounded down; by zero (a size, in code that runs for no element) does not trap.
template <typename A, typename B> __device__ inline auto floor_div(A a, B b) -> decltype(a + b) {
  if (b == 0) return 0;
  const auto q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
template <typename A, typename B> __device__ inline auto floor_mod(A a, B b) -> decltype(a + b) {
  return a - floor_div(a, b) * b;
}

//@ least most
template <typename T> __device__ inline T least(T a, T b) { return a < b ? a : b; }
template <typename T> __device__ inline T most(T a, T b) { return a < b ? b : a; }

//@ is_inf sign_bit
__device__ inline bool is_inf(float x) { return fabsf(x) == __int_as_float(0x7f800000); }
__device__ inline bool is_inf(double x) { return fabs(x) == __longlong_as_double(0x7ff0000000000000ll); }
__device__ inline bool sign_bit(float x) { return __float_as_int(x) < 0; }
__device__ inline bool sign_bit(double x) { return __double_as_longlong(x) < 0; }

//@ maximum minimum Max Min
/// NaN wins.
template <typename T> __device__ inline T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ inline T minimum(T a, T b) { return a < b || a != a ? a : b; }
#if __CUDA_ARCH__ >= 800
__device__ inline float maximum(float a, float b) {
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}
__device__ inline float minimum(float a, float b) {
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
  return a;
}
#endif
struct Max {
  template <typename T> __device__ T operator()(T a, T b) const { return maximum(a, b); }
};
struct Min {
  template <typename T> __device__ T operator()(T a, T b) const { return minimum(a, b); }
};

//@ quick_exp quick_div quick_sqrt one_plus_erf
// For results that are rounded to 16 bits, in a few instructions: within a few units in the last place of a float, `quick_exp` within some |x|.
#ifdef __CUDA_ARCH__
__device__ inline float quick_exp(float x) {
  x *= 1.4426950408889634f;
  asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ inline float quick_inverse(float x) {
  asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
  return x;
}
__device__ inline float quick_sqrt(float x) {
  asm("sqrt.approx.f32 %0, %0;" : "+f"(x));
  return x;
}
#else
__device__ inline float quick_exp(float x) { return expf(x); }
__device__ inline float quick_inverse(float x) { return 1.0f / x; }
__device__ inline float quick_sqrt(float x) { return sqrtf(x); }
#endif
/// What depends on the divisor alone is done once where that stays the same. It is scaled to where its inverse is a normal number.
__device__ inline float quick_div(float a, float b) {
  const float size = fabsf(b);
  const float scale = size > 0x1p126f ? 0.25f : size < 0x1p-126f ? 0x1p24f : 1.0f;
  return a * scale * quick_inverse(b * scale);
}
/// 1 + erf(x), which is erfc(-x): no digits cancel far to the left. Abramowitz and Stegun, 7.1.26.
__device__ inline float one_plus_erf(float x) {
  const float t = quick_inverse(fmaf(0.3275911f, fabsf(x), 1.0f));
  float p = fmaf(1.061405429f, t, -1.453152027f);
  p = fmaf(p, t, 1.421413741f);
  p = fmaf(p, t, -0.284496736f);
  p = fmaf(p, t, 0.254829592f);
  const float tail = p * t * quick_exp(-x * x);
  return x < 0.0f ? tail : 2.0f - tail;
}

//@ div_floor remainder_of
__device__ inline float fmod_of(float a, float b) { return fmodf(a, b); }
__device__ inline double fmod_of(double a, double b) { return fmod(a, b); }
__device__ inline float floor_of(float a) { return floorf(a); }
__device__ inline double floor_of(double a) { return floor(a); }
__device__ inline float sign_from(float a, float b) { return copysignf(a, b); }
__device__ inline double sign_from(double a, double b) { return copysign(a, b); }
/// The remainder that has the divisor's sign.
template <typename T> __device__ inline T remainder_of(T a, T b) {
  const T r = fmod_of(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}
/// The quotient of what is left after the remainder is taken off, so that `floor` sees no rounding error.
template <typename T> __device__ inline T div_floor(T a, T b) {
  if (b == 0) return a / b;
  const T r = fmod_of(a, b);
  T q = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) q -= 1;
  if (q == 0) return sign_from(T(0), a / b);
  const T down = floor_of(q);
  return q - down > T(0.5) ? down + 1 : down;
}

//@ int_div int_div_floor
/// Rounded to zero. By zero gives 0; the least integer by -1 wraps.
template <typename T> __device__ inline T int_div(T a, T b) {
  if (b == 0) return 0;
  if (T(-1) < T(0) && b == T(-1)) return T(0ull - (unsigned long long)a);
  return T(a / b);
}
template <typename T> __device__ inline T int_div_floor(T a, T b) {
  const T q = int_div(a, b);
  const T r = T((unsigned long long)a - (unsigned long long)q * (unsigned long long)b);
  return r != 0 && (r < 0) != (b < 0) && b != 0 ? T(q - 1) : q;
}

//@ int_pow
/// By squaring. Exponents below zero give 0, except for bases 1 and -1.
template <typename T> __device__ inline T int_pow(T base, T exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    return base == T(-1) ? (exponent % 2 ? T(-1) : T(1)) : T(0);
  }
  unsigned long long result = 1, factor = base;
  for (unsigned long long left = exponent; left; left >>= 1) {
    if (left & 1) result *= factor;
    factor *= factor;
  }
  return T(result);
}

//@ int_shl int_shr
/// Shifts by less than 0 or at least the width give 0 (or the sign).
template <typename T> __device__ inline T int_shl(T a, T by) {
  return by < 0 || by >= T(8 * sizeof(T)) ? T(0) : T((unsigned long long)a << by);
}
template <typename T> __device__ inline T int_shr(T a, T by) {
  const bool fits = by >= 0 && by < T(8 * sizeof(T));
  if (T(-1) < T(0)) return T(a >> (fits ? (int)by : int(8 * sizeof(T) - 1)));
  return fits ? T(a >> by) : T(0);
}

//@ random_bits
/// Philox 4x32-10: two of its four words, from `first` on.
template <int first> __device__ inline long long random_bits(unsigned long long key, unsigned long long low, unsigned long long high) {
  unsigned k0 = (unsigned)key, k1 = (unsigned)(key >> 32);
  unsigned w[4] = {(unsigned)low, (unsigned)(low >> 32), (unsigned)high, (unsigned)(high >> 32)};
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const unsigned long long a = 0xd2511f53ull * w[0], b = 0xcd9e8d57ull * w[2];
    w[0] = (unsigned)(b >> 32) ^ w[1] ^ k0;
    w[2] = (unsigned)(a >> 32) ^ w[3] ^ k1;
    w[1] = (unsigned)b;
    w[3] = (unsigned)a;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return (long long)(w[first] | (unsigned long long)w[first + 1] << 32);
}

//@ Pack load_pack store_pack
/// Neighbours in memory, moved in accesses of up to 16 bytes.
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) Pack {
  T at[N];
};
template <int N, typename T> __device__ inline Pack<T, N> load_pack(const T* from, bool whole) {
  if (whole) return *reinterpret_cast<const Pack<T, N>*>(from);
  Pack<T, N> pack;
#pragma unroll
  for (int n = 0; n < N; ++n) pack.at[n] = from[n];
  return pack;
}
template <int N, typename T> __device__ inline void store_pack(T* to, const Pack<T, N>& pack, bool whole) {
  if (whole) {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) to[n] = pack.at[n];
}

//@ bf16_at pack_bf16 join_bf16
// Words of two, as they lie in registers: elements of 16 bits would be cut out and put together one by one.
template <int N> __device__ inline float bf16_at(const Pack<unsigned short, N>& pack, int n) {
  if constexpr (N % 2 == 0) {
    const unsigned both = reinterpret_cast<const unsigned*>(&pack)[n / 2];
    return __uint_as_float(n % 2 != 0 ? both & 0xffff0000u : both << 16);
  }
  return from_bf16(pack.at[n]);
}
/// Rounded, two at once.
template <int N> __device__ inline Pack<unsigned short, N> pack_bf16(const float (&from)[N]) {
  static_assert(N % 2 == 0, "words of two");
  Pack<unsigned short, N> pack;
#if __CUDA_ARCH__ >= 800
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(reinterpret_cast<unsigned*>(&pack)[n / 2]) : "f"(from[n + 1]), "f"(from[n]));
  }
#else
#pragma unroll
  for (int n = 0; n < N; ++n) pack.at[n] = bf16_bits(round_bf16(from[n]));
#endif
  return pack;
}
/// Of values that are rounded already: the bits stay as they are, those of a NaN too.
template <int N> __device__ inline Pack<unsigned short, N> join_bf16(const float (&from)[N]) {
  static_assert(N % 2 == 0, "words of two");
  Pack<unsigned short, N> pack;
#pragma unroll
  for (int n = 0; n < N; n += 2) {
    const unsigned low = __float_as_uint(from[n]), high = __float_as_uint(from[n + 1]);
#ifdef __CUDA_ARCH__
    reinterpret_cast<unsigned*>(&pack)[n / 2] = __byte_perm(low, high, 0x7632);
#else
    reinterpret_cast<unsigned*>(&pack)[n / 2] = (high & 0xffff0000u) | low >> 16;
#endif
  }
  return pack;
}

//@ keep_packed
/// Adds what is zero, unknown to the compilers: what follows is computed from the pack again, and the pack is all that stays in registers.
template <typename T, int N> __device__ inline void keep_packed(Pack<T, N>& pack, const Report* report) {
#ifdef __CUDA_ARCH__
  const unsigned zero = (unsigned)(unsigned long long)report & 1u;
#pragma unroll
  for (int n = 0; n < sizeof(T) * N / 4; ++n) {
    asm volatile("add.u32 %0, %0, %1;" : "+r"(reinterpret_cast<unsigned*>(&pack)[n]) : "r"(zero));
  }
#endif
}

//@ is_aligned
__device__ inline bool is_aligned(const void* at, unsigned bytes) { return (unsigned long long)at % bytes == 0; }

//@ exchange
/// The value of the thread whose number differs in the bits of `mask`.
template <typename T> __device__ inline T exchange(T value, int mask) { return (T)__shfl_xor_sync(~0u, (int)value, mask); }
__device__ inline float exchange(float value, int mask) { return __shfl_xor_sync(~0u, value, mask); }
__device__ inline double exchange(double value, int mask) { return __shfl_xor_sync(~0u, value, mask); }
__device__ inline long long exchange(long long value, int mask) { return __shfl_xor_sync(~0u, value, mask); }

//@ ValueAt ArgMax ArgMin
/// A value and where it stands.
template <typename T> struct ValueAt {
  T value;
  long long at;
};
template <typename T> __device__ inline ValueAt<T> exchange(ValueAt<T> mine, int mask) {
  return {exchange(mine.value, mask), exchange(mine.at, mask)};
}
/// Whether a comes before b: by value (a NaN beats every number), or because it is equal and stands first.
template <typename T> __device__ inline bool wins(const ValueAt<T>& a, const ValueAt<T>& b, bool beats) {
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  return beats || (a_nan && !b_nan) || ((a.value == b.value || (a_nan && b_nan)) && a.at < b.at);
}
struct ArgMax {
  template <typename T> __device__ ValueAt<T> operator()(ValueAt<T> a, ValueAt<T> b) const {
    return wins(b, a, b.value > a.value) ? b : a;
  }
};
struct ArgMin {
  template <typename T> __device__ ValueAt<T> operator()(ValueAt<T> a, ValueAt<T> b) const {
    return wins(b, a, b.value < a.value) ? b : a;
  }
};

//@ Sum Prod
template <typename T> __device__ inline T sum_of(T a, T b) { return T((unsigned long long)a + (unsigned long long)b); }
template <typename T> __device__ inline T product_of(T a, T b) { return T((unsigned long long)a * (unsigned long long)b); }
__device__ inline float sum_of(float a, float b) { return a + b; }
__device__ inline double sum_of(double a, double b) { return a + b; }
__device__ inline float product_of(float a, float b) { return a * b; }
__device__ inline double product_of(double a, double b) { return a * b; }
struct Sum {
  template <typename T> __device__ T operator()(T a, T b) const { return sum_of(a, b); }
};
struct Prod {
  template <typename T> __device__ T operator()(T a, T b) const { return product_of(a, b); }
};

//@ MaxSum JoinMaxSum max_sum_of
/// The largest of some numbers, and the sum of `exp(x - max)` over them.
struct MaxSum {
  float max, sum;
  /// As if `max` had been known beforehand: of numbers that are all -inf nothing is left but NaN.
  __device__ float total() const { return max == __int_as_float(0xff800000) ? max - max : sum; }
};
/// Where all are -inf so far, the exponents are taken as they are: exp(-inf) is 0, and exp(-inf - -inf) would not be forgotten.
__device__ inline float base_of(float max) { return max == __int_as_float(0xff800000) ? 0.0f : max; }
struct JoinMaxSum {
  __device__ MaxSum operator()(MaxSum a, MaxSum b) const {
    const float max = maximum(a.max, b.max), base = base_of(max);
    return {max, a.sum * quick_exp(a.max - base) + b.sum * quick_exp(b.max - base)};
  }
};
/// With neighbours (a difference that is large, and so a little off, weighs little): what was summed before is scaled once for all of them.
template <int N> __device__ inline MaxSum max_sum_of(MaxSum a, const float (&x)[N]) {
  float max = a.max;
#pragma unroll
  for (int n = 0; n < N; ++n) max = maximum(max, x[n]);
  const float base = base_of(max);
  float sum = a.sum * quick_exp(a.max - base);
#pragma unroll
  for (int n = 0; n < N; ++n) sum += quick_exp(x[n] - base);
  return {max, sum};
}
__device__ inline MaxSum exchange(MaxSum a, int mask) { return {exchange(a.max, mask), exchange(a.sum, mask)}; }

//@ Any All
struct Any {
  template <typename T> __device__ T operator()(T a, T b) const { return a | b; }
};
struct All {
  template <typename T> __device__ T operator()(T a, T b) const { return a & b; }
};

//@ reduce_rows
/// Of `Y` neighbouring threads; all of them get the result.
template <int Y, typename T, typename Op> __device__ inline T reduce_rows(T value, Op op, void* shared) {
#pragma unroll
  for (int mask = (Y < 32 ? Y : 32) / 2; mask > 0; mask /= 2) value = op(value, exchange(value, mask));
  if constexpr (Y > 32) {
    constexpr int warps = Y / 32;
    T* const slots = static_cast<T*>(shared);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
    if (lane == 0) slots[warp] = value;
    __syncthreads();
    value = slots[warp / warps * warps + lane % warps];
#pragma unroll
    for (int mask = warps / 2; mask > 0; mask /= 2) value = op(value, exchange(value, mask));
  }
  return value;
}

//@ reduce_columns
/// Of the `Y` threads that are `X` apart; all of them get the result.
template <int X, int Y, typename T, typename Op> __device__ inline T reduce_columns(T value, Op op, void* shared) {
  T* const slots = static_cast<T*>(shared);
  const int mine = threadIdx.x;
  __syncthreads();
  slots[mine] = value;
#pragma unroll
  for (int half = Y / 2; half > 0; half /= 2) {
    __syncthreads();
    if (mine / X < half) slots[mine] = op(slots[mine], slots[mine + half * X]);
  }
  __syncthreads();
  return slots[mine % X];
}

//@ reduce_neighbours
/// The same for neighbouring columns, as many at once as there is room for: 16 bytes for each thread.
template <int X, int Y, int N, typename T, typename Op> __device__ inline void reduce_neighbours(T (&values)[N], Op op, void* shared) {
  constexpr int ROOM = 16 / sizeof(T), AT_ONCE = ROOM < N ? ROOM : N;
  static_assert(N % AT_ONCE == 0, "powers of two");
  T* const slots = static_cast<T*>(shared);
  const int mine = threadIdx.x;
#pragma unroll
  for (int first = 0; first < N; first += AT_ONCE) {
    __syncthreads();
#pragma unroll
    for (int n = 0; n < AT_ONCE; ++n) slots[n * X * Y + mine] = values[first + n];
// Written out it would be a fifth of what NVRTC has to do for such a kernel.
#pragma unroll 1
    for (int half = Y / 2; half > 0; half /= 2) {
      __syncthreads();
      if (mine / X < half) {
#pragma unroll
        for (int at = mine; at < AT_ONCE * X * Y; at += X * Y) slots[at] = op(slots[at], slots[at + half * X]);
      }
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < AT_ONCE; ++n) values[first + n] = slots[n * X * Y + mine % X];
  }
}

//@ scan_block
template <typename T> __device__ inline T from_before(T value, int by) { return (T)__shfl_up_sync(~0u, (int)value, by); }
__device__ inline float from_before(float value, int by) { return __shfl_up_sync(~0u, value, by); }
__device__ inline double from_before(double value, int by) { return __shfl_up_sync(~0u, value, by); }
__device__ inline long long from_before(long long value, int by) { return __shfl_up_sync(~0u, value, by); }
/// The running result over the `Y` threads of a block, behind what was carried in; what the whole chunk comes to is carried on.
template <int Y, typename T, typename Op> __device__ inline T scan_block(T value, Op op, void* shared, T& carried) {
  T* const slots = static_cast<T*>(shared);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const T before = from_before(value, by);
    if (lane >= by) value = op(before, value);
  }
  __syncthreads();
  if (lane == 31) slots[warp] = value;
  __syncthreads();
  T all = carried;
  for (int n = 0; n < Y / 32; ++n) {
    if (n == warp) value = op(all, value);
    all = op(all, slots[n]);
  }
  carried = all;
  return value;
}

//@ atomic_add
__device__ inline void atomic_add(float* to, float value) { atomicAdd(to, value); }
__device__ inline void atomic_add(double* to, double value) { atomicAdd(to, value); }
__device__ inline void atomic_add(int* to, int value) { atomicAdd(to, value); }
__device__ inline void atomic_add(long long* to, long long value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(to), (unsigned long long)value);
}

//@ atomic_update
template <int N> struct Word;
template <> struct Word<2> { using type = unsigned short; };
template <> struct Word<4> { using type = unsigned; };
template <> struct Word<8> { using type = unsigned long long; };
/// Replaces `*to` by `next(*to)` as if no other thread were there.
template <typename T, typename F> __device__ inline void atomic_update(T* to, F next) {
  if constexpr (sizeof(T) == 1) {
    const int shift = 8 * ((unsigned long long)to % 4);
    unsigned* const word = reinterpret_cast<unsigned*>((unsigned long long)to / 4 * 4);
    unsigned seen = *word, found;
    do {
      found = seen;
      const unsigned fresh = (unsigned char)next((T)(found >> shift));
      seen = atomicCAS(word, found, (found & ~(0xffu << shift)) | fresh << shift);
    } while (seen != found);
  } else {
    using W = typename Word<sizeof(T)>::type;
    W seen = *reinterpret_cast<W*>(to), found;
    do {
      found = seen;
      const T fresh = next(*reinterpret_cast<T*>(&found));
      seen = atomicCAS(reinterpret_cast<W*>(to), found, *reinterpret_cast<const W*>(&fresh));
    } while (seen != found);
  }
}

//@ atomic_add_bf16 atomic_add_f16
__device__ inline void atomic_add_bf16(unsigned short* to, float value) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.global.add.noftz.bf16 [%0], %1;" : : "l"(to), "h"(bf16_bits(value)) : "memory");
#else
  atomic_update(to, [&](unsigned short old) { return bf16_bits(round_bf16(from_bf16(old) + value)); });
#endif
}
__device__ inline void atomic_add_f16(unsigned short* to, float value) {
#if __CUDA_ARCH__ >= 700
  asm volatile("red.global.add.noftz.f16 [%0], %1;" : : "l"(to), "h"(to_f16(value)) : "memory");
#else
  atomic_update(to, [&](unsigned short old) { return to_f16(from_f16(old) + value); });
#endif
}

//@ atomic_pack_bf16 atomic_pack_f16 atomic_pack_f32
/// Adds neighbours, in as few steps as the GPU can.
template <int N> __device__ inline void atomic_pack_bf16(unsigned short* to, const Pack<unsigned short, N>& pack, bool whole) {
#if __CUDA_ARCH__ >= 900
  if (N == 8 && whole) {
    const unsigned* w = reinterpret_cast<const unsigned*>(&pack);
    asm volatile("red.global.add.noftz.v4.bf16x2 [%0], {%1, %2, %3, %4};" : : "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    return;
  }
#endif
#pragma unroll
  for (int n = 0; n < N; ++n) atomic_add_bf16(to + n, from_bf16(pack.at[n]));
}
template <int N> __device__ inline void atomic_pack_f16(unsigned short* to, const Pack<unsigned short, N>& pack, bool whole) {
#if __CUDA_ARCH__ >= 900
  if (N == 8 && whole) {
    const unsigned* w = reinterpret_cast<const unsigned*>(&pack);
    asm volatile("red.global.add.noftz.v4.f16x2 [%0], {%1, %2, %3, %4};" : : "l"(to), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]) : "memory");
    return;
  }
#endif
#pragma unroll
  for (int n = 0; n < N; ++n) atomic_add_f16(to + n, from_f16(pack.at[n]));
}
template <int N> __device__ inline void atomic_pack_f32(float* to, const Pack<float, N>& pack, bool whole) {
#if __CUDA_ARCH__ >= 900
  if (N % 4 == 0 && whole) {
#pragma unroll
    for (int n = 0; n < N; n += 4) {
      asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" : : "l"(to + n), "f"(pack.at[n]), "f"(pack.at[n + 1]), "f"(pack.at[n + 2]), "f"(pack.at[n + 3]) : "memory");
    }
    return;
  }
#endif
#pragma unroll
  for (int n = 0; n < N; ++n) atomicAdd(to + n, pack.at[n]);
}
