#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Gemma 3, text (arXiv 2503.19786): Gemma 2 with queries and keys normed in place of the soft caps, five sliding-window layers per full
/// one, and a rotation of its own for each kind.
const ModelFamily& gemma3() {
  static const StandardFamily family(
      {.name = "gemma3",
       .keys = local_rotation_keys(standard_keys(
           {"model.attention_bias", "model.query_pre_attn_scalar", "model.attn_logit_softcapping", "model.final_logit_softcapping"}))},
      {.norms = NormPlacement::around,
       .query_key_norm = QueryKeyNorm::per_head,
       .norm_offset = 1,
       .round_first = false,
       .scale_embedding = true},
      {.model_type = "gemma3_text",
       .architecture = "Gemma3ForCausalLM",
       .activation = kernels::Activation::gelu,
       .activation_key = "hidden_activation",
       .gelu_is_tanh = true,
       .attention_bias = true,
       .tied = true,
       .head_dim = 256,
       .heads = 8,
       .kv_heads = 4,
       .vocab_size = 262208,
       .positions = 131072,
       .window = 4096,
       .full_every = 6,
       .reads_pattern = true,
       .reads_layer_types = true,
       .query_pre_attn_scalar = 256,
       .bidirectional = BidirectionalKey::halves_window,
       .rope = {.theta = 1e6, .local_theta = 10000.0, .two_ropes = true}});
  return family;
}

}  // namespace millrace::layers
