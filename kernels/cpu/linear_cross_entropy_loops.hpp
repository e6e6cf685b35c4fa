#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/isa.hpp"

namespace millrace::kernels::cpu {

/// logit becomes cap·tanh(logit·scale / cap), or logit·scale where the cap is 0.
MILLRACE_CPU_KERNEL(cross_entropy_shape, void(float* logits, std::int64_t count, float scale, float soft_cap));

/// Takes one tile of a row of logits into the row's running maximum and its sum of exp(logit − maximum).
MILLRACE_CPU_KERNEL(cross_entropy_take, void(const float* logits, std::int64_t count, float& maximum, double& sum));

/// What one row's gradient needs. dl = g·(coefficient·exp(logit − lse) − onehot)·scale, and with a cap times 1 − (logit / cap)².
struct CrossEntropyRow {
  float log_sum_exp = 0;
  float coefficient = 1;  // 1 + 2·z·lse
  float g = 0;
  float scale = 1;
  float soft_cap = 0;
  std::int64_t target = -1;  // column in this tile, or −1
};

/// Replaces a tile of a row of logits by dl; where `narrow` is given, writes dl there in bf16 instead.
MILLRACE_CPU_KERNEL(cross_entropy_gradient, void(float* logits, std::int64_t count, const CrossEntropyRow& row, BFloat16* narrow));

}  // namespace millrace::kernels::cpu
