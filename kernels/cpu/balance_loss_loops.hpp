#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

/// Loops of kernels/balance_loss.hpp over tokens [begin, end).
namespace millrace::kernels::cpu {

template <class T>
struct BalancedTokens {
  const T* logits;              // [T, E]
  const std::int32_t* choices;  // [B, E]
  std::int64_t experts, sequence;
};

/// terms[t − begin] = Σ_e choices[b, e] · softmax(logits[t])[e].
MILLRACE_CPU_KERNEL(balance_terms_f32, void(const BalancedTokens<float>& at, std::int64_t begin, std::int64_t end, double* terms));
MILLRACE_CPU_KERNEL(balance_terms_bf16, void(const BalancedTokens<BFloat16>& at, std::int64_t begin, std::int64_t end, double* terms));

/// d_logits[t] = factor · q ⊙ (choices − ⟨choices, q⟩).
MILLRACE_CPU_KERNEL(balance_gradient_f32,
                    void(const BalancedTokens<float>& at, std::int64_t begin, std::int64_t end, float factor, float* d_logits));
MILLRACE_CPU_KERNEL(balance_gradient_bf16,
                    void(const BalancedTokens<BFloat16>& at, std::int64_t begin, std::int64_t end, float factor, BFloat16* d_logits));

}  // namespace millrace::kernels::cpu
