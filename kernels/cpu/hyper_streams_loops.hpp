#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/hyper_streams.hpp over tokens [begin, end): k streams of `width` features each.
namespace millrace::kernels::cpu {

/// The operands of a call; those that it does not have are null.
template <class T>
struct HyperStreams {
  std::int64_t width = 0, k = 1;
  const T* streams = nullptr;  // [T, k, width], as dy and d_streams of spread
  const T* one = nullptr;      // x or v, or dy of collect [T, width]
  const T* pre = nullptr;      // [T, k]
  const T* post = nullptr;     // [T, k]
  const T* map = nullptr;      // [T, k, k]
  const T* dy = nullptr;       // of spread [T, k, width]
  T* to_streams = nullptr;     // y of expand and spread, d_streams
  T* to_one = nullptr;         // y of reduce and collect, dv
  T* to_gates = nullptr;       // d_pre, d_post
  T* to_map = nullptr;         // d_map
};

MILLRACE_CPU_KERNEL(expand_streams_f32, void(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(expand_streams_bf16, void(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(reduce_streams_f32, void(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(reduce_streams_bf16, void(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(collect_streams_f32, void(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(collect_streams_bf16, void(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(collect_streams_gradient_f32, void(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(collect_streams_gradient_bf16, void(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(spread_streams_f32, void(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(spread_streams_bf16, void(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(spread_streams_gradient_f32, void(const HyperStreams<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(spread_streams_gradient_bf16, void(const HyperStreams<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
