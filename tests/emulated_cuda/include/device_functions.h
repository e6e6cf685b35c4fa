#pragma once
#pragma GCC system_header

#include <math.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "vector_types.h"

/// CUDA's additions to C++, for sources that the host's compiler compiles. A thread of a block is a fiber (fibers.hpp). The fibers
/// of a block share one OS thread and its thread_local variables, so __shared__ is implemented as thread_local.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ thread_local
#define __constant__
#define __align__(n) __attribute__((aligned(n)))
#define __grid_constant__

extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
inline constexpr int warpSize = 32;

namespace emulated_cuda {

/// `extern __shared__ T name[];` has no meaning for a host's compiler; T* name = static_cast<T*>(emulated_cuda::dynamic_shared()) has.
[[nodiscard]] void* dynamic_shared() noexcept;
/// A barrier for all threads of the block that have not returned. Gets the number of threads whose predicate holds, and the number
/// of threads.
struct Count {
  int holding, arrived;
};
Count meet_in_block(bool predicate);
/// Lets the block's other threads go on: in a loop that waits for something that one of them does.
void yield();
/// Counts a product of a warpgroup. At its end a process for which MILLRACE_EMULATED_HOPPER is set reports if there was none.
void note_product() noexcept;
/// Whether MILLRACE_EMULATED_HOPPER is "early".
[[nodiscard]] bool products_are_early() noexcept;
/// Waits for the lanes of `mask`; returns the value of lane `source`, or all ones (a NaN of every type) if that lane does not take part.
std::uint64_t exchange(unsigned mask, std::uint64_t value, int source);
/// Returns the lanes of `mask` whose predicate holds.
unsigned ballot(unsigned mask, bool predicate);
extern constinit thread_local int current_lane;
[[nodiscard]] inline int lane() noexcept { return current_lane; }

template <class T>
T exchange_value(unsigned mask, T value, int source) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange(mask, bits, source);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

inline float reciprocal_root(float x) { return 1.0F / std::sqrt(x); }

}  // namespace emulated_cuda

// -- synchronisation
// --------------------------------------------------------------------------------------------------------------------
inline void __syncthreads() { static_cast<void>(emulated_cuda::meet_in_block(false)); }
inline int __syncthreads_count(int predicate) { return emulated_cuda::meet_in_block(predicate != 0).holding; }
inline int __syncthreads_or(int predicate) { return emulated_cuda::meet_in_block(predicate != 0).holding > 0 ? 1 : 0; }
inline int __syncthreads_and(int predicate) {
  const auto count = emulated_cuda::meet_in_block(predicate != 0);
  return count.holding == count.arrived ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffU) { static_cast<void>(emulated_cuda::ballot(mask, false)); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const int lane = emulated_cuda::lane();
  return emulated_cuda::exchange_value(mask, value, (lane & ~(width - 1)) | (source & (width - 1)));
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance, int width = 32) {
  const int lane = emulated_cuda::lane(), source = lane ^ distance;
  // As in hardware, lanes of earlier segments may be read, lanes of later ones may not.
  return emulated_cuda::exchange_value(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const int lane = emulated_cuda::lane(), source = lane + static_cast<int>(distance);
  return emulated_cuda::exchange_value(mask, value, source > (lane | (width - 1)) ? lane : source);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance, int width = 32) {
  const int lane = emulated_cuda::lane(), source = lane - static_cast<int>(distance);
  return emulated_cuda::exchange_value(mask, value, source < (lane & ~(width - 1)) ? lane : source);
}
inline unsigned __ballot_sync(unsigned mask, int predicate) { return emulated_cuda::ballot(mask, predicate != 0); }
inline int __any_sync(unsigned mask, int predicate) { return emulated_cuda::ballot(mask, predicate != 0) != 0 ? 1 : 0; }
inline int __all_sync(unsigned mask, int predicate) { return emulated_cuda::ballot(mask, predicate == 0) == 0 ? 1 : 0; }
inline unsigned __reduce_add_sync(unsigned mask, unsigned value) {
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(mask, value, distance);
  return value;
}

// -- memory -------------------------------------------------------------------------------------------------------------------------------
template <class T>
T __ldg(const T* from) {
  return *from;
}
template <class T>
T __ldcg(const T* from) {
  return *from;
}
template <class T>
T __ldcs(const T* from) {
  return *from;
}
template <class T>
void __stcs(T* to, T value) {
  *to = value;
}
template <class T>
void __stcg(T* to, T value) {
  *to = value;
}
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_system() { std::atomic_thread_fence(std::memory_order_seq_cst); }

template <class T>
requires std::is_integral_v<T> T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> wanted) {
  __atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
template <class T>
T atomicCAS_system(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> wanted) {
  return atomicCAS(at, expected, wanted);
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> wanted) {
  return std::atomic_ref<T>(*at).exchange(wanted);
}
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> more) {
  return std::atomic_ref<T>(*at).fetch_add(more);
}
template <class T>
T atomicAdd_system(T* at, std::type_identity_t<T> more) {
  return atomicAdd(at, more);
}
template <class T>
requires std::is_integral_v<T> T atomicOr(T* at, std::type_identity_t<T> more) { return std::atomic_ref<T>(*at).fetch_or(more); }
template <class T>
T atomicMax(T* at, std::type_identity_t<T> value) {
  T found = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (found < value && !__atomic_compare_exchange_n(at, &found, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return found;
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> value) {
  T found = __atomic_load_n(at, __ATOMIC_SEQ_CST);
  while (value < found && !__atomic_compare_exchange_n(at, &found, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return found;
}

// -- numbers ------------------------------------------------------------------------------------------------------------------------------
inline int min(int a, int b) { return b < a ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline float min(float a, float b) { return ::fminf(a, b); }
inline double min(double a, double b) { return ::fmin(a, b); }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float max(float a, float b) { return ::fmaxf(a, b); }
inline double max(double a, double b) { return ::fmax(a, b); }

// The C library declares some of these names itself, without definitions. Macros avoid conflicts with these declarations.
#define rsqrtf(x) (::emulated_cuda::reciprocal_root(x))
#define rsqrt(x) (1.0 / ::sqrt(x))
#define __expf(x) (::expf(x))
#define __exp2f(x) (::exp2f(x))
#define __logf(x) (::logf(x))
#define __log2f(x) (::log2f(x))
#define __sinf(x) (::sinf(x))
#define __cosf(x) (::cosf(x))
#define __tanhf(x) (::tanhf(x))
#define __powf(x, y) (::powf((x), (y)))
#define __sincosf(x, s, c) (::sincosf((x), (s), (c)))

inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __frcp_rn(float a) { return 1.0F / a; }
inline float __frsqrt_rn(float a) { return emulated_cuda::reciprocal_root(a); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __saturatef(float a) { return a > 0 ? (a < 1 ? a : 1.0F) : 0.0F; }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline double __longlong_as_double(long long a) { return std::bit_cast<double>(a); }
inline int __float2int_rn(float a) { return static_cast<int>(std::nearbyint(a)); }
inline int __float2int_rz(float a) { return static_cast<int>(a); }
inline float __int2float_rn(int a) { return static_cast<float>(a); }
inline float __uint2float_rn(unsigned a) { return static_cast<float>(a); }
inline float __double2float_rn(double a) { return static_cast<float>(a); }
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __popcll(unsigned long long a) { return std::popcount(a); }
inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __ffs(int a) { return __builtin_ffs(a); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32); }
[[noreturn]] inline void __trap() { std::abort(); }
