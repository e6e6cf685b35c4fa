#pragma once

#include <span>
#include <string>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "runtime/engine/parameter_store.hpp"
#include "runtime/train_config.hpp"

namespace millrace::runtime {

/// Σ g² of one tensor of the rank.
struct TensorSquareSum {
  int order = 0;  // of the tensor in the model
  double value = 0;
};

/// Square sums of the complete gradients, in model order. A tensor that two ranks hold is told by the one that is_owner for it, after the
/// exchange. Not finite where an entry is not.
[[nodiscard]] std::vector<TensorSquareSum> square_sums(const kernels::ExecutionContext& context, const ParameterStore& store);
/// The same in two parts, for a GPU works between them. `sums` is filled again and again: after the first step nothing is allocated.
void compute_square_sums(const kernels::ExecutionContext& context, const ParameterStore& store);
void read_square_sums(const ParameterStore& store, std::vector<TensorSquareSum>& sums);

/// √ of the sums added in model order, whichever rank told them; each tensor once. Throws Error(internal) for a tensor that comes twice.
[[nodiscard]] double global_norm(std::span<const TensorSquareSum> sums);

/// What the gradient is multiplied with: min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_; 1 where limit is 0 (no
/// clipping).
[[nodiscard]] float clip_scale(double norm, double limit);
/// The same with train.clip as the limit, by the rule of train.numerics: MaxText's is 1 where norm < limit, else limit / norm.
[[nodiscard]] float clip_scale(double norm, const TrainConfig& train);

/// One update of every tensor of the rank by the store's optimizer: copies are refreshed, gradients zeroed.
void apply_optimizer(const kernels::ExecutionContext& context, const UpdateScalars& scalars, const ParameterStore& store);

}  // namespace millrace::runtime
