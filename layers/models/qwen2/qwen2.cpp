#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Qwen 2 and 2.5 (arXiv 2407.10671, arXiv 2412.15115): Llama with biases on queries, keys and values; the layers from a given one on may
/// have a sliding window.
const ModelFamily& qwen2() {
  static const StandardFamily family({.name = "qwen2", .keys = standard_keys()}, {.qkv_bias = true},
                                     {.model_type = "qwen2",
                                      .architecture = "Qwen2ForCausalLM",
                                      .kv_heads = 32,
                                      .positions = 32768,
                                      .window = 4096,
                                      .has_window_switch = true,
                                      .has_first_window = true,
                                      .reads_layer_types = true});
  return family;
}

}  // namespace millrace::layers
