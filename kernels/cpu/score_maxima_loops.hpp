#pragma once

#include <cstdint>

#include "kernels/base/dtype.hpp"
#include "kernels/cpu/simd/isa.hpp"
#include "kernels/score_maxima.hpp"

namespace millrace::kernels::cpu {

template <class T>
struct ScoreMaximaOperands {
  const T* q;
  const T* k;
  const std::int32_t* segments;
  AttentionOptions options;
  std::int64_t heads, kv_heads, width;
};

/// The largest score of the queries of row `row` of head `head`. `memory`: floats for the row's keys in columns, [width, padded sequence].
MILLRACE_CPU_KERNEL(score_maximum_f32, float(const ScoreMaximaOperands<float>& at, std::int64_t row, std::int64_t head, float* memory));
MILLRACE_CPU_KERNEL(score_maximum_bf16, float(const ScoreMaximaOperands<BFloat16>& at, std::int64_t row, std::int64_t head, float* memory));

}  // namespace millrace::kernels::cpu
