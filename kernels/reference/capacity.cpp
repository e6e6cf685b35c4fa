#include "kernels/capacity.hpp"

namespace millrace::kernels::reference {
namespace {

/// A choice's place among those of its expert is found by looking at all choices before it in the sequence.
void apply_capacity(const Tensor& weights, const Tensor& experts, const CapacityOptions& options, const Tensor& kept_weights,
                    const Tensor& kept, const Tensor& dropped) {
  const std::int64_t of_sequence = experts.elements() / options.sequences;
  const auto* expert = experts.as<std::int32_t>();
  std::int32_t lost = 0;
  for (std::int64_t i = 0; i < experts.elements(); ++i) {
    std::int64_t before = 0;
    for (std::int64_t other = i / of_sequence * of_sequence; other < i; ++other) before += expert[other] == expert[i] ? 1 : 0;
    const bool keeps = before < options.capacity;
    kept.as<std::int32_t>()[i] = keeps ? 1 : 0;
    kept_weights.as<float>()[i] = keeps ? weights.as<float>()[i] : 0.0F;
    lost += keeps ? 0 : 1;
  }
  dropped.as<std::int32_t>()[0] = lost;
}

void apply_capacity_input_gradient(const Tensor& d_kept_weights, const Tensor& kept, const Tensor& d_weights) {
  for (std::int64_t i = 0; i < kept.elements(); ++i)
    d_weights.as<float>()[i] = kept.as<std::int32_t>()[i] == 0 ? 0.0F : d_kept_weights.as<float>()[i];
}

const InTable capacity_in_table[] = {
    {Backend::reference, table::apply_capacity, without_context<apply_capacity>},
    {Backend::reference, table::apply_capacity_input_gradient, without_context<apply_capacity_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
