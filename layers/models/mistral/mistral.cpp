#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Mistral 7B (Jiang et al., arXiv 2310.06825): Llama, with a sliding window in all layers or in none.
const ModelFamily& mistral() {
  static const StandardFamily family(
      {.name = "mistral", .keys = standard_keys()}, {},
      {.model_type = "mistral", .architecture = "MistralForCausalLM", .kv_heads = 8, .positions = 4096 * 32, .window = 4096});
  return family;
}

}  // namespace millrace::layers
