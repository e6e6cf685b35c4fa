#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// DeepSeek-V3.2 (arXiv 2512.02556): DeepSeek-V3 whose queries attend to the keys that an indexer chooses. As in transformers nothing
/// trains the indexer, unless the run asks for its loss (train.indexer_loss).
const ModelFamily& deepseek_v32() {
  static const StandardFamily family(
      {.name = "deepseek_v32",
       .keys = expert_keys(latent_keys({"model.moe_intermediate_size", "model.norm_topk_prob", "model.first_dense_layers",
                                        "model.shared_experts", "model.routed_scaling_factor", "model.routing_groups",
                                        "model.kept_routing_groups", "model.index_n_heads", "model.index_head_dim", "model.index_topk"}))},
      {.experts_of = sigmoid_experts},
      {.model_type = "deepseek_v32",
       .architecture = "DeepseekV32ForCausalLM",
       .attention_bias = true,
       .heads = 128,
       .vocab_size = 129280,
       .positions = 4096,
       .rope = {.scales_scores = true},
       .routed = HuggingFaceRoutedExperts{.normalise = true},
       .latent = HuggingFaceLatent{.reads_interleave = false},
       .indexer = HuggingFaceIndexer{}});
  return family;
}

}  // namespace millrace::layers
