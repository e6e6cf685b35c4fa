#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Mixtral (Jiang et al., arXiv 2401.04088): Mistral with eight experts in place of every MLP, of which a token has two.
const ModelFamily& mixtral() {
  static const StandardFamily family({.name = "mixtral", .keys = expert_keys(standard_keys())},
                                     {.experts = {.module = "block_sparse_moe", .gate = "w1", .up = "w3", .down = "w2"}},
                                     {.model_type = "mixtral",
                                      .architecture = "MixtralForCausalLM",
                                      .kv_heads = 8,
                                      .positions = 4096 * 32,
                                      .epsilon = 1e-5,
                                      .reads_window = true,
                                      .rope = {.theta = 1e6},
                                      .experts = HuggingFaceExperts{.count = 8, .per_token = 2}});
  return family;
}

}  // namespace millrace::layers
