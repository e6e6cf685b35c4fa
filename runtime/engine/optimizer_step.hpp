#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "runtime/engine/stage.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// Σ g² of one tensor, or of one of its pieces where a rank does not report all of them.
struct TensorSquareSum {
  std::int32_t order = 0;  // index of the tensor in the model
  double value = 0;
  std::int32_t piece = 0, pieces = 1;                                    // which of the tensor's pieces it is; 0 of 1: the whole tensor
  std::int32_t experts = 1;                                              // of a weight of experts: each has as many pieces
  auto tie() { return std::tie(order, value, piece, pieces, experts); }  // for the wire between processes
  /// The expert that the piece belongs to.
  [[nodiscard]] std::int32_t expert() const noexcept { return piece / (pieces / experts); }
};

/// Sums of squares of the complete gradients of some stages, stage by stage. Of a tensor that several ranks hold each reports what it owns,
/// after the exchange. The sum of a tensor is that of its pieces' sums (ownership.hpp), in their order, so that it has the same bits
/// whichever ranks have them. Not finite if an entry is not.
[[nodiscard]] std::vector<TensorSquareSum> square_sums(const kernels::ExecutionContext& context, std::span<Stage* const> stages);
/// The same for one shard in two parts, between which the device works. The second appends to `sums`.
void compute_square_sums(const kernels::ExecutionContext& context, const StageShard& shard);
void read_square_sums(const StageShard& shard, std::vector<TensorSquareSum>& sums);

/// √ of the sums added in model order, whichever rank reported them; each tensor once, and of a tensor that is reported by pieces every
/// piece. Throws Error(internal) for a duplicate tensor or piece, and for one that is missing.
[[nodiscard]] double global_norm(std::span<const TensorSquareSum> sums);

/// The factor for the gradient: min(1, limit / (norm + 1e-6)), as in torch.nn.utils.clip_grad_norm_; 1 if limit is 0 (no
/// clipping).
[[nodiscard]] float clip_scale(double norm, double limit);
/// The same with train.clip as the limit, by the rule of train.numerics: MaxText's is 1 where norm < limit, else limit / norm.
[[nodiscard]] float clip_scale(double norm, const TrainConfig& train);

/// One update of what the rank owns of every tensor of the shard, by its optimizer: gradients are zeroed, and copies of weights that are
/// not divided are refreshed. If it is to be skipped, gradients alone are zeroed.
void apply_optimizer(const kernels::ExecutionContext& context, const UpdateScalars& scalars, const StageShard& shard);

}  // namespace millrace::runtime
