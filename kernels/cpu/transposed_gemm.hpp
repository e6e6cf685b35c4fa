#pragma once

#include <cstddef>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels::cpu {

/// c = aᵀ · b or c += aᵀ · b, the sum over tokens that gives a weight's gradient: a [K, M], b [K, N] of one dtype, c f32 [M, N].
/// Each thread owns rows of c, and copies all of b for them, part by part: sharing columns out instead was slower, since each thread then
/// transposes all of a.
struct TransposedGemm {
  std::int64_t m = 0, n = 0, k = 0;
  DType operands = DType::f32;
  bool accumulate = false;

  /// Bytes of scratch on `threads` threads, aligned.
  [[nodiscard]] std::size_t scratch_bytes(int threads) const;
  /// True if there are enough rows for each thread to have some.
  [[nodiscard]] bool suits(int threads) const;
  void run(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, Scratch scratch) const;
};

}  // namespace millrace::kernels::cpu
