#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/router_z_loss.hpp over tokens [begin, end) of logits [T, E].
namespace millrace::kernels::cpu {

/// terms[t − begin] = z[t]².
MILLRACE_CPU_KERNEL(z_terms_f32, void(const float* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, double* terms));
MILLRACE_CPU_KERNEL(z_terms_bf16, void(const BFloat16* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, double* terms));

/// d_logits[t] = 2 · scale · z[t] · softmax(logits[t]).
MILLRACE_CPU_KERNEL(z_gradient_f32,
                    void(const float* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, float scale, float* d_logits));
MILLRACE_CPU_KERNEL(z_gradient_bf16, void(const BFloat16* logits, std::int64_t experts, std::int64_t begin, std::int64_t end, float scale,
                                          BFloat16* d_logits));

}  // namespace millrace::kernels::cpu
