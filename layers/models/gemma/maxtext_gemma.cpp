#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Gemma: the arithmetic of its Llama 2. √hidden_size is part of the stored table (the tied head divides by it), and 1 is part of
/// the stored scales of norms. Layers have an epsilon of 1e-6 in MaxText, whatever its key says, so that the key must say so too.
const ModelFamily& maxtext_gemma() {
  static const MaxTextFamily family("gemma", {.norm_names = {.before_attention = "pre_self_attention_norm", .before_mlp = "pre_ffw_norm"}},
                                    {.fixed = {{"normalization_layer_epsilon", 1e-6}}});
  return family;
}

}  // namespace millrace::layers
