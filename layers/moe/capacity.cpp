#include "layers/moe/capacity.hpp"

#include <algorithm>

namespace millrace::layers {

std::int64_t expert_capacity(std::int64_t tokens, std::int64_t experts_per_token, std::int64_t experts, double factor) {
  const std::int64_t even = (tokens * experts_per_token + experts - 1) / experts;
  // More than all choices of a sequence is as good as all of them.
  const auto most = static_cast<double>(tokens * experts_per_token);
  return static_cast<std::int64_t>(std::min(std::max(static_cast<double>(even) * factor, factor), most));
}

runtime::ValueId weights_within_capacity(runtime::ProgramBuilder& builder, const runtime::Routing& routing, const ExpertsSpec& spec,
                                         const std::string& module) {
  if (spec.capacity_factor <= 0) return routing.weights;
  const std::int64_t sequences = builder.options().rows;
  const std::int64_t capacity =
      expert_capacity(builder.options().sequence, spec.route.experts_per_token, spec.experts, spec.capacity_factor);
  const runtime::KeptChoices kept =
      runtime::apply_capacity(builder, routing.weights, routing.experts,
                              {.experts = spec.experts, .sequences = sequences, .capacity = capacity}, module + ".capacity");
  builder.observe(runtime::dropped_tokens_name, kept.dropped);
  return kept.weights;
}

}  // namespace millrace::layers
