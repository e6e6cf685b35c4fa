#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"

namespace millrace::kernels::cpu {

/// Replaces each logit by cap·tanh(logit·scale / cap), or by logit·scale if the cap is 0.
MILLRACE_CPU_KERNEL(cross_entropy_shape, void(float* logits, std::int64_t count, float scale, float soft_cap));

/// Adds one tile of a row of logits to the row's running maximum and its sum of exp(logit − maximum).
MILLRACE_CPU_KERNEL(cross_entropy_take, void(const float* logits, std::int64_t count, float& maximum, double& sum));

/// The derivative of a shaped logit with respect to the product is scale·(1 − (logit / cap)²), or just the scale if the cap is 0.
struct CrossEntropySlope {
  float scale = 1;
  float soft_cap = 0;
};

/// Adds a tile like cross_entropy_take, with the same bits, and replaces the tile by exp(logit − maximum)·slope, with 0 at
/// `target` (a column of the tile, or −1 if the target is not in it); if `narrow` is given, the result is written there in bf16
/// instead. Returns exp(maximum before − after), the factor that rescales sums over earlier tiles.
MILLRACE_CPU_KERNEL(cross_entropy_weigh, float(float* logits, std::int64_t count, const CrossEntropySlope& slope, std::int64_t target,
                                               float& maximum, double& sum, BFloat16* narrow));

/// row = by_row·row + by_weights·weights. The weights are in `wide` or in `narrow`; with neither they are omitted. `round`: round
/// to bf16 first.
struct CrossEntropyBlend {
  float by_row = 1;
  float by_weights = 0;
  const float* wide = nullptr;
  const BFloat16* narrow = nullptr;
  bool round = false;
};
MILLRACE_CPU_KERNEL(cross_entropy_blend, void(float* row, std::int64_t count, const CrossEntropyBlend& blend));

/// Arguments for one row of dl: g·(coefficient·exp(logit − lse) − onehot)·slope.
struct CrossEntropyRow {
  float log_sum_exp = 0;
  float coefficient = 1;  // 1 + 2·z·lse
  float g = 0;
  CrossEntropySlope slope;
  std::int64_t target = -1;  // column in this tile, or −1
};

/// Replaces a tile of a row of logits by dl; if `narrow` is given, dl is written there in bf16 instead. Returns the value at the
/// target, in fp32, or 0 if the target is not in this tile.
MILLRACE_CPU_KERNEL(cross_entropy_gradient, float(float* logits, std::int64_t count, const CrossEntropyRow& row, BFloat16* narrow));

}  // namespace millrace::kernels::cpu
