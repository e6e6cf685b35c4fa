#include "runtime/engine/optimizer_step.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/square_sum.hpp"

namespace millrace::runtime {

namespace {

constexpr const char* norm_component = "runtime.optimizer_step";

double sum_of_parts(std::span<const double> parts) {
  double sum = 0;
  for (const double part : parts) sum += part;
  return sum;
}

}  // namespace

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
    const ElementRange reported = tensor.reported();
    if (reported.empty()) continue;
    const Pieces pieces = tensor.pieces();
    const auto [first, end] = pieces.of(reported);
    const std::int64_t experts = tensor.experts.present() ? tensor.experts.whole : 1;
    const std::int64_t all = experts * pieces.of_part();  // of the tensor, whichever experts are here
    if (end - first == all) {
      sums.push_back({tensor.order, sum_of_parts({next, static_cast<std::size_t>(all)})});
      next += all;
      continue;
    }
    for (std::int64_t piece = first; piece < end; ++piece)
      sums.push_back({tensor.order, *next++, static_cast<std::int32_t>(tensor.experts.first * pieces.of_part() + piece),
                      static_cast<std::int32_t>(all), static_cast<std::int32_t>(experts)});
  }
}

double global_norm(std::span<const TensorSquareSum> sums) {
  std::vector<TensorSquareSum> sorted(sums.begin(), sums.end());
  std::ranges::sort(sorted, {}, [](const TensorSquareSum& sum) { return std::tuple(sum.order, sum.piece); });
  double total = 0;
  for (auto next = sorted.begin(); next != sorted.end();) {
    const std::int32_t order = next->order, pieces = next->pieces;
    double own = 0;  // of the tensor
    std::int32_t found = 0;
    for (; next != sorted.end() && next->order == order && next->piece == found && next->pieces == pieces; ++next, ++found)
      own += next->value;
    const bool more = next != sorted.end() && next->order == order;
    MILLRACE_CHECK(found == pieces && !more, ExitCode::internal, norm_component,
                   "tensor {} has {} after {} of its {} square sums in order, expected each piece once", order,
                   more ? fmt::format("that of piece {} of {}", next->piece, next->pieces) : "no more", found, pieces);
    total += own;
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
  const auto groups = shard.update_scalars();
  const auto update = [&](std::size_t first, std::size_t count) {
    shard.optimizer().update(context, groups[first].applied_to(scalars), updates.subspan(first, count), shard.scratch());
  };
  std::size_t next = 0;
  if (!shard.packs()) {  // neighbours with the same scalars share a call
    while (next < updates.size()) {
      const auto is_other = [&](const GroupScalars& other) { return other != groups[next]; };
      const auto end = static_cast<std::size_t>(std::find_if(groups.begin() + next, groups.end(), is_other) - groups.begin());
      update(next, end - next);
      next = end;
    }
    return;
  }
  for (const StoredParameter& tensor : shard.tensors()) {
    if (!tensor.trained || tensor.owned.empty()) continue;
    update(next++, 1);
    // Before the next tensor, since bf16 copies may share memory. Of a divided weight the others' parts come first.
    if (!tensor.divided) shard.pack_copies(context, tensor);
  }
}

}  // namespace millrace::runtime
