#pragma once

#include <cstddef>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels::cpu {

/// c = aᵀ · b or c += aᵀ · b, the sum over tokens that a weight's gradient is: a [K, M], b [K, N] of one dtype, c f32 [M, N]. Each thread
/// has rows of c; it turns its columns of a and multiplies them by stretches of K that stay in its cache, in order.
struct TransposedGemm {
  std::int64_t m = 0, n = 0, k = 0;
  DType operands = DType::f32;
  bool accumulate = false;

  /// Scratch on `threads` threads, aligned.
  [[nodiscard]] std::size_t scratch_bytes(int threads) const;
  /// True where rows are enough for each thread to have some.
  [[nodiscard]] bool suits(int threads) const;
  void run(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& c, Scratch scratch) const;
};

}  // namespace millrace::kernels::cpu
