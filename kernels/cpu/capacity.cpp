#include "kernels/capacity.hpp"

#include <algorithm>
#include <array>

#include "kernels/base/route_options.hpp"

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 4096;

void apply_capacity(const ExecutionContext& context, const Tensor& weights, const Tensor& experts, const CapacityOptions& options,
                    const Tensor& kept_weights, const Tensor& kept, const Tensor& dropped) {
  const std::int64_t of_sequence = experts.elements() / options.sequences;
  const auto* expert = experts.as<std::int32_t>();
  const auto* weight = weights.as<float>();
  auto* keeps = kept.as<std::int32_t>();
  context.team().for_ranges(options.sequences, 1, [&](std::int64_t begin, std::int64_t end) {
    std::array<std::int32_t, max_experts> taken;
    for (std::int64_t sequence = begin; sequence < end; ++sequence) {
      std::fill_n(taken.data(), options.experts, 0);
      for (std::int64_t i = sequence * of_sequence; i < (sequence + 1) * of_sequence; ++i) {
        const bool fits = taken[static_cast<std::size_t>(expert[i])]++ < options.capacity;
        keeps[i] = fits ? 1 : 0;
        kept_weights.as<float>()[i] = fits ? weight[i] : 0.0F;
      }
    }
  });
  dropped.as<std::int32_t>()[0] = static_cast<std::int32_t>(std::count(keeps, keeps + kept.elements(), 0));
}

void apply_capacity_input_gradient(const ExecutionContext& context, const Tensor& d_kept_weights, const Tensor& kept,
                                   const Tensor& d_weights) {
  context.team().for_ranges(kept.elements(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      d_weights.as<float>()[i] = kept.as<std::int32_t>()[i] == 0 ? 0.0F : d_kept_weights.as<float>()[i];
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::apply_capacity, apply_capacity},
    {Backend::cpu, table::apply_capacity_input_gradient, apply_capacity_input_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
