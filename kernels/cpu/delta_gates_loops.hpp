#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/delta_gates.hpp: over tokens [begin, end) of all heads; the weight gradient over heads [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct DeltaGates {
  const T* a;
  const T* b;  // not for the weight gradient
  const float* a_log;
  const float* dt_bias;
  std::int64_t tokens;
  std::int64_t heads;
  bool round_decay;
};
template <class T>
struct DeltaGatesForward {
  DeltaGates<T> in;
  float* g;
  float* beta;
};
template <class T>
struct DeltaGatesInputGradient {
  DeltaGates<T> in;
  const float* dg;
  const float* dbeta;
  T* da;
  T* db;
};
template <class T>
struct DeltaGatesWeightGradient {
  DeltaGates<T> in;
  const float* dg;
  float* d_a_log;
  float* d_dt_bias;
};

MILLRACE_CPU_KERNEL(delta_gates_forward_f32, void(const DeltaGatesForward<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(delta_gates_forward_bf16, void(const DeltaGatesForward<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(delta_gates_input_gradient_f32, void(const DeltaGatesInputGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(delta_gates_input_gradient_bf16,
                    void(const DeltaGatesInputGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(delta_gates_weight_gradient_f32, void(const DeltaGatesWeightGradient<float>& at, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(delta_gates_weight_gradient_bf16,
                    void(const DeltaGatesWeightGradient<BFloat16>& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
