#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Llama 2 and 3 (Touvron et al., arXiv 2307.09288; arXiv 2407.21783), as transformers' LlamaForCausalLM computes it:
///   x ← x + attention(norm(x));   x ← x + mlp(norm(x));   head(norm(x)).
const ModelFamily& llama() {
  static const StandardFamily family({.name = "llama", .keys = standard_keys({"model.attention_bias", "model.mlp_bias"})}, {},
                                     {.model_type = "llama", .architecture = "LlamaForCausalLM", .attention_bias = true, .mlp_bias = true});
  return family;
}

}  // namespace millrace::layers
