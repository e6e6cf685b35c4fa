#include "runtime/engine/optimizer_step.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/square_sum.hpp"

namespace millrace::runtime {

std::vector<TensorSquareSum> square_sums(const kernels::ExecutionContext& context, std::span<Stage* const> stages) {
  std::vector<TensorSquareSum> sums;
  for (const Stage* stage : stages) compute_square_sums(context, stage->shard());
  context.device_context().drain();
  for (const Stage* stage : stages) read_square_sums(stage->shard(), sums);
  return sums;
}

void compute_square_sums(const kernels::ExecutionContext& context, const StageShard& shard) {
  if (!shard.owned_gradients().empty()) kernels::square_sums(context, shard.owned_gradients(), shard.square_sums());
}

void read_square_sums(const StageShard& shard, std::vector<TensorSquareSum>& sums) {
  const double* next = shard.square_sums().as<double>();
  for (const StoredParameter& tensor : shard.tensors()) {
    if (tensor.is_owner()) sums.push_back({tensor.order, *next++});
  }
}

double global_norm(std::span<const TensorSquareSum> sums) {
  std::vector<TensorSquareSum> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
  double total = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    MILLRACE_CHECK(i == 0 || sorted[i].order != sorted[i - 1].order, ExitCode::internal, "runtime.optimizer_step",
                   "tensor {} has two square sums, expected each tensor once", sorted[i].order);
    total += sorted[i].value;
  }
  return std::sqrt(total);
}

float clip_scale(double norm, double limit) {
  if (limit <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
}

float clip_scale(double norm, const TrainConfig& train) {
  if (train.numerics != "maxtext" || train.clip <= 0) return clip_scale(norm, train.clip);
  return norm < train.clip ? 1.0F : static_cast<float>(train.clip / norm);
}

void apply_optimizer(const kernels::ExecutionContext& context, const UpdateScalars& scalars, const StageShard& shard) {
  if (scalars.skip) return shard.zero_accumulators(context);
  for (const kernels::Tensor& gradient : shard.frozen_gradients()) kernels::fill_zero(context, gradient);
  const auto updates = shard.updates();
  if (updates.empty()) return;
  if (!shard.packs()) return shard.optimizer().update(context, scalars, updates, shard.scratch());
  std::size_t next = 0;
  for (const StoredParameter& tensor : shard.tensors()) {
    if (!tensor.trained) continue;
    shard.optimizer().update(context, scalars, updates.subspan(next++, 1), shard.scratch());
    shard.pack_copies(context, tensor);  // before the next tensor, since bf16 copies may share memory
  }
}

}  // namespace millrace::runtime
