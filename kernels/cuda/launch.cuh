#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/base/dtype.hpp"
#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"
#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/status.hpp"

/// How kernels are written and launched. Every kernel goes through launch(): the one place that checks errors, and that an
/// emulation replaces.
namespace millrace::kernels::cuda {

inline constexpr int kThreads = 256;  // threads per block by default

[[nodiscard]] inline cudaStream_t compute_lane(const ExecutionContext& context) noexcept {
  return state_of(context).lane(StreamKind::compute);
}

/// Number of blocks of `each` elements; at least one.
[[nodiscard]] constexpr unsigned blocks_of(std::int64_t elements, std::int64_t each) noexcept {
  return elements <= 0 ? 1U : static_cast<unsigned>((elements + each - 1) / each);
}

/// Enqueues kernel(arguments...) on a stream, or on the context's compute stream. Throws Error(device) if that fails.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t lane, const char* component, void (*kernel)(Parameters...), dim3 grid, dim3 block, std::size_t shared_bytes,
            const Arguments&... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = lane;
  if (shared_bytes > 48U << 10)
    check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)), component,
               "shared memory");
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...), component, "launch");
}

template <class... Parameters, class... Arguments>
void launch(const ExecutionContext& context, const char* component, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, const Arguments&... arguments) {
  launch(compute_lane(context), component, kernel, grid, block, shared_bytes, arguments...);
}

// -- numbers ------------------------------------------------------------------------------------------------------------------------------
// Kernels see bf16 as __nv_bfloat16, whose memory is that of BFloat16.

__device__ __forceinline__ float load(const float* x) { return *x; }
__device__ __forceinline__ float load(const __nv_bfloat16* x) { return __bfloat162float(*x); }
__device__ __forceinline__ void store(float* y, float value) { *y = value; }
__device__ __forceinline__ void store(__nv_bfloat16* y, float value) { *y = __float2bfloat16_rn(value); }
/// `value` rounded to this type.
template <class T>
__device__ __forceinline__ float rounded(float value) {
  T stored;
  store(&stored, value);
  return load(&stored);
}

/// Two numbers rounded to bf16 in one register, the first in the low half.
__device__ __forceinline__ std::uint32_t rounded_pair(float first, float second) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(first, second);
  std::uint32_t bits;
  memcpy(&bits, &both, sizeof(bits));
  return bits;
}

/// Calls body(float{}) or body(__nv_bfloat16{}), by the type of a tensor's elements.
template <class Body>
void with_type(DType dtype, Body&& body) {
  if (dtype == DType::f32)
    body(float{});
  else
    body(__nv_bfloat16{});
}

// -- one thread an element
// ------------------------------------------------------------------------------------------------------------------

/// Calls body(i) for i < elements, one thread for each. Body: a struct with a __device__ call operator, passed by value.
template <class Body>
__global__ void __launch_bounds__(kThreads) each_element(Body body, std::int64_t elements) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i < elements) body(i);
}

template <class Body>
void for_each(const ExecutionContext& context, const char* component, std::int64_t elements, const Body& body) {
  if (elements <= 0) return;
  launch(context, component, each_element<Body>, dim3(blocks_of(elements, kThreads)), dim3(kThreads), 0, body, elements);
}

// -- sums of a block, in an order that depends on nothing but its size --------------------------------------------------------------------

/// Sum over the 32 threads of a warp, returned to all of them.
template <class Number>
__device__ __forceinline__ Number warp_sum(Number x) {
  for (int distance = 16; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffU, x, distance);
  return x;
}
__device__ __forceinline__ float warp_maximum(float x) {
  for (int distance = 16; distance > 0; distance /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffU, x, distance));
  return x;
}

/// Sum over a block of `Threads` threads, returned to all of them. Every thread must call it.
template <int Threads, class Number>
__device__ Number block_sum(Number x) {
  static_assert(Threads % 32 == 0 && Threads <= 1024);
  __shared__ Number warps[Threads / 32];
  x = warp_sum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  Number sum = 0;
  for (int warp = 0; warp < Threads / 32; ++warp) sum += warps[warp];
  return sum;
}

template <int Threads>
__device__ float block_maximum(float x) {
  static_assert(Threads % 32 == 0 && Threads <= 1024);
  __shared__ float warps[Threads / 32];
  x = warp_maximum(x);
  __syncthreads();
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = x;
  __syncthreads();
  float most = warps[0];
  for (int warp = 1; warp < Threads / 32; ++warp) most = fmaxf(most, warps[warp]);
  return most;
}

/// Reports an error that a kernel found; the first report counts.
__device__ __forceinline__ void report(FaultSlot* slot, FaultSlot::Kind kind, std::int32_t value, std::int64_t position,
                                       std::int64_t limit) {
  if (atomicCAS_system(&slot->claimed, 0U, 1U) != 0U) return;
  slot->value = value;
  slot->position = position;
  slot->limit = limit;
  __threadfence_system();
  *static_cast<volatile std::uint32_t*>(&slot->kind) = kind;
}

}  // namespace millrace::kernels::cuda
