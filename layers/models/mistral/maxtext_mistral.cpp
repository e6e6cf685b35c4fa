#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Mistral: its Llama 2 without a cap of scores. No layer has a sliding window, whatever the published model has.
const ModelFamily& maxtext_mistral() {
  static const MaxTextFamily family(
      "mistral", {.norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"}});
  return family;
}

}  // namespace millrace::layers
