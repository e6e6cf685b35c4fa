#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {

/// MaxText's Llama 4: its Llama 2 with the layers of Llama 4. A token has one expert, whose input is multiplied by the sigmoid of its
/// score, and a shared one as wide.
const ModelFamily& maxtext_llama4() {
  static const MaxTextFamily family(
      "llama4",
      {.chunks = true,
       .scale_in_weights = false,
       .norm_names = {.before_attention = "pre_self_attention_layer_norm", .before_mlp = "post_self_attention_layer_norm"},
       .experts = MaxTextExperts{.module = "Llama4MoEBlock_0.MoeBlock_0",
                                 .weights = MaxTextWeights::sigmoid,
                                 .shared = "Llama4MoEBlock_0.shared_experts",
                                 .one_shared = true}},
      {},
      {"model.layer_types", "model.attention_chunk_size", "model.layer_positions", "model.use_qk_norm", "model.attn_temperature_tuning",
       "model.attn_scale", "model.floor_scale"});
  return family;
}

}  // namespace millrace::layers
