#include "layers/models/standard_family.hpp"

namespace millrace::layers {

/// Qwen 3.5, text, without experts: three layers of linear attention per layer of full attention, whose heads have an output gate and are
/// rotated in part. The sections of its rotation (M-RoPE) turn the pairs of a head by the axes of an image's position; those of a text are
/// equal. Norm weights are stored minus 1, except those of the delta nets.
const ModelFamily& qwen3_5() {
  static const StandardFamily family(
      {.name = "qwen3_5", .keys = linear_attention_keys(standard_keys({"model.attention_bias"})), .ignored_prefixes = {"mtp."}},
      {.query_key_norm = QueryKeyNorm::per_head, .norm_offset = 1, .round_first = false, .output_gate = true},
      {.model_type = "qwen3_5_text",
       .architecture = "Qwen3_5ForCausalLM",
       .attention_bias = true,
       .head_dim = 256,
       .heads = 16,
       .kv_heads = 4,
       .vocab_size = 248320,
       .positions = 32768,
       .rope = {.proportion = 0.25, .sections = true},
       .delta_net = HuggingFaceDeltaNet{}});
  return family;
}

}  // namespace millrace::layers
