#pragma once

#include <cstdint>

#include "kernels/cpu/simd/isa.hpp"
#include "kernels/muon.hpp"

namespace millrace::kernels::cpu {

/// Pointers to one matrix; `copy` may be null.
struct MuonStepPointers {
  const float* x;
  float* parameter;
  float* gradient;
  BFloat16* copy;
};

MILLRACE_CPU_KERNEL(muon_momentum_f32,
                    void(const MuonMomentum& rule, float* gradient, float* momentum, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(muon_momentum_bf16,
                    void(const MuonMomentum& rule, float* gradient, BFloat16* momentum, std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(divide_range, void(float* x, float divisor, std::int64_t begin, std::int64_t end));
/// Rows [begin, end) of matrices [side, side].
MILLRACE_CPU_KERNEL(muon_polynomial_rows, void(const MuonPolynomial& rule, const float* gram, float* value, std::int64_t side,
                                               std::int64_t begin, std::int64_t end));
MILLRACE_CPU_KERNEL(muon_step_range, void(const MuonStep& rule, const MuonStepPointers& at, std::int64_t begin, std::int64_t end));

}  // namespace millrace::kernels::cpu
