#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/options.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

struct ChooseKeysOptions {
  std::int64_t sequence = 0;        // S: the T = rows·S tokens are rows of this length
  std::int64_t keys_per_query = 1;  // L
  float scale = 1.0F;               // multiplies the scores
  bool torch_ties = false;          // of equal scores those keys are chosen that torch.topk takes on a CPU; else the lower places

  static constexpr auto members() {
    return std::tuple(member("sequence", &ChooseKeysOptions::sequence), member("keys_per_query", &ChooseKeysOptions::keys_per_query),
                      member("scale", &ChooseKeysOptions::scale), member("torch_ties", &ChooseKeysOptions::torch_ties));
  }
};

/// The choice of DeepSeek-V3.2's indexer (arXiv 2512.02556, section 2.1): the L keys that are best for each query, by the scores
///   I[t, u] = scale · Σ_h weights[t, h] · max(q[t, h] · k[u], 0),
/// among the keys that the query sees: those of its row up to its own place, with segments[u] == segments[t]. q [T, H, D] and k [T, D] of
/// one dtype, f32 or bf16; weights f32 [T, H]; segments i32 [T] → keys i32 [T, L], which is a key list: the places of the keys in the row,
/// in increasing order, and −1 behind the last of them if the query sees fewer than L. Among equal scores the lower place is better, or
/// with torch_ties whichever torch.topk takes on a CPU from the whole row, in which keys that are not seen are the worst. That is no rule
/// of its own but the result of an algorithm in the C++ standard library (kernels/base/torch_topk.hpp); with it scores that are exactly 0,
/// as a few heads have them often, lead to transformers' choice. A GPU always takes the lower place. Both zeros are equal; a NaN is better
/// than every number, so that it is seen in what the query attends to. Scores are computed in fp32, sums over heads in increasing order;
/// the scores of one query at a time are stored for each thread, or each block of a GPU. A query's result depends on its own operands and
/// on the keys that it sees, not on the thread count. Throws Error(config) if L is below 1, Error(internal) for operands of other types.
void choose_keys(const ExecutionContext& context, const Tensor& q, const Tensor& k, const Tensor& weights, const Tensor& segments,
                 ChooseKeysOptions options, const Tensor& keys, Scratch scratch);

/// Scratch of the call; q's shape is [T, H, D].
[[nodiscard]] std::size_t choose_keys_scratch_bytes(const Shape& q, DType dtype, ChooseKeysOptions options, const Processor& processor);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(choose_keys)> choose_keys("choose_keys");
inline constinit Kernel<decltype(choose_keys_scratch_bytes)> choose_keys_scratch_bytes("choose_keys_scratch_bytes");
}  // namespace table

}  // namespace millrace::kernels
