#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/context_gate.hpp over tokens [begin, end): k streams of `width` features each.
namespace millrace::kernels::cpu {

inline constexpr std::int64_t kMaxGatedStreams = 64;

/// The operands of a call; those that it does not have are null.
template <class T>
struct ContextGate {
  std::int64_t width, k;
  float root;             // √width
  const T* q;             // [T, k, width]
  const T* keys;          // [T, k, width]
  const T* v;             // [T, width]
  float* z;               // [T, k]
  T* y = nullptr;         // [T, k, width]
  const T* dy = nullptr;  // [T, k, width]
  T* dq = nullptr;
  T* d_keys = nullptr;
  T* dv = nullptr;
};

MILLRACE_CPU_KERNEL(context_gate_forward_f32, void(const ContextGate<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(context_gate_forward_bf16, void(const ContextGate<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(context_gate_gradient_f32, void(const ContextGate<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(context_gate_gradient_bf16, void(const ContextGate<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
