#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// OLMo 3 (Ai2, 2025; the norms as OLMo 2, arXiv 2501.00656): branches read the residual stream as it is, and are normed before they join
/// it; queries and keys are normed over all heads at once; three sliding-window layers per full one:
///   x ← x + norm(attention(x));   x ← x + norm(mlp(x)).
const ModelFamily& olmo3() {
  static const StandardFamily family({.name = "olmo3", .keys = local_rotation_keys(standard_keys({"model.attention_bias"}))},
                                     {.norms = NormPlacement::after, .query_key_norm = QueryKeyNorm::all_heads, .round_first = false},
                                     {.model_type = "olmo3",
                                      .architecture = "Olmo3ForCausalLM",
                                      .attention_bias = true,
                                      .epsilon = 1e-5,
                                      .window = 4096,
                                      .full_every = 4,
                                      .reads_layer_types = true,
                                      .rope = {.theta = 5e5, .two_ropes = true}});
  return family;
}

}  // namespace millrace::layers
