#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Qwen 3, dense (arXiv 2505.09388): Llama with queries and keys normed head by head; the layers from a given one on may have a sliding
/// window.
const ModelFamily& qwen3() {
  static const StandardFamily family({.name = "qwen3", .keys = standard_keys({"model.attention_bias"})},
                                     {.query_key_norm = QueryKeyNorm::per_head},
                                     {.model_type = "qwen3",
                                      .architecture = "Qwen3ForCausalLM",
                                      .attention_bias = true,
                                      .head_dim = 128,
                                      .kv_heads = 32,
                                      .positions = 32768,
                                      .window = 4096,
                                      .has_window_switch = true,
                                      .has_first_window = true,
                                      .reads_layer_types = true});
  return family;
}

}  // namespace millrace::layers
