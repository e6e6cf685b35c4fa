#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Mixtral: its Mistral with experts, as wide as an MLP, in place of every MLP.
const ModelFamily& maxtext_mixtral() {
  static const MaxTextFamily family(
      "mixtral", {.norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"},
                  .experts = MaxTextExperts{.own_width = false}});
  return family;
}

}  // namespace millrace::layers
