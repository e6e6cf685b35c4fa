#include "layers/models/gated_experts.hpp"

#include "layers/models/standard_family.hpp"

namespace millrace::layers {

ExpertsSpec gated_experts(const ModelConfig& config, kernels::Activation activation) {
  ExpertsSpec spec = softmax_experts(config, activation);
  const std::int64_t width = config.shared_expert_intermediate_size;
  spec.shared = MlpSpec{.width = width > 0 ? width : spec.expert.width, .activation = activation};
  spec.shared_gate = true;
  return spec;
}

ExpertNames gated_expert_names(ExpertStorage storage) { return {.storage = storage, .shared = "shared_expert"}; }

}  // namespace millrace::layers
