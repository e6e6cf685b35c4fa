#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"
#include "kernels/grouped_matmul.hpp"

namespace millrace::kernels {

/// A check that the rows of a grouped product do not depend on each other: random batches in which the experts get random numbers of rows.
struct RowStabilityOptions {
  DType dtype = DType::f32;  // of operands and results
  std::int64_t experts = 4, k = 1024, n = 128;
  std::int64_t rows = 128;  // that an expert typically gets
  int batches = 10;         // each with counts of its own, for every number of threads
  std::uint32_t seed = 1;
};

/// What was found.
struct RowStability {
  std::int64_t rows = 0;       // that were compared
  std::int64_t different = 0;  // those with other bits than their expert yields for the same row alone with another number of rows
  std::string first;           // which the first one was: "bf16, 2 threads: row 7 of the 131 rows of expert 3"; empty if there is none
};

/// c[r] = a[r] · b[e]ᵀ as grouped_matmul computes it: a [R, K], b [E, N, K], offsets i32 [E + 1], c [R, N].
using GroupedProduct =
    std::function<void(const ExecutionContext& context, const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c)>;

/// Runs the check on the CPU with each of these numbers of threads. `product`: what is checked; empty: grouped_matmul, with packed weights
/// where this processor's products read them, as training uses it.
[[nodiscard]] RowStability row_stability(const RowStabilityOptions& options, std::span<const int> threads,
                                         const GroupedProduct& product = {});

}  // namespace millrace::kernels
