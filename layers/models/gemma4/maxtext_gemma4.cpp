#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {
namespace {

constexpr LayerKind sliding = LayerKind::sliding;

/// What both of MaxText's blocks have in common. Queries and keys are normed although use_qk_norm is false.
MaxTextBlocks gemma4_blocks() {
  return {.output_dropout = false,
          .query_key_norm = QueryKeyNorm::per_head,
          .value_norm = true,
          .scalar = LayerScalar::trained,
          .norms = NormPlacement::around,
          .norm_names = {.before_attention = "pre_self_attention_norm",
                         .after_attention = "post_self_attention_norm",
                         .before_mlp = "pre_ffw_norm",
                         .after_mlp = "post_ffw_norm"}};
}

/// MaxText finds the rotation by the name of the model. Its epsilon is that of gemma (layers/models/gemma/maxtext_gemma.cpp).
MaxTextFile gemma4_file() {
  return {.full_layers = true,
          .kinds = {sliding, sliding, sliding, sliding, sliding, LayerKind::full},
          .fixed = {{"local_rope_proportion", 1.0},
                    {"normalization_layer_epsilon", 1e-6},
                    {"qk_norm_with_scale", true},
                    {"use_post_attn_norm", true},
                    {"use_post_ffw_norm", true},
                    {"v_norm_with_scale", false}}};
}

}  // namespace

/// MaxText's Gemma 4: the layers of gemma4 with a trained number by which each one's output is multiplied, dense or with experts beside
/// the MLP.
const ModelFamily& maxtext_gemma4() {
  static const MaxTextFamily family(
      "gemma4",
      [] {
        MaxTextBlocks blocks = gemma4_blocks();
        blocks.shares_kv = true;
        blocks.experts = MaxTextExperts{.module = "mlp.moe_block.MoeBlock_0",
                                        .weights = MaxTextWeights::probability,
                                        .shared = "mlp.moe_block.shared_experts",
                                        .branch = true,
                                        .optional = true};
        return blocks;
      }(),
      [] {
        MaxTextFile file = gemma4_file();
        file.model_names = {"gemma4-31b", "gemma4-26b"};
        return file;
      }());
  return family;
}

/// MaxText's small Gemma 4: layers with inputs of their own, of which the last attend to keys and values of others. The name of the model
/// says which layers are full.
const ModelFamily& maxtext_gemma4_small() {
  static const MaxTextFamily family("gemma4_small", gemma4_blocks(), [] {
    MaxTextFile file = gemma4_file();
    file.per_layer_inputs = true;
    file.model_names = {"gemma4-e2b", "gemma4-e4b"};
    file.kinds_by_name = {{"gemma4-e2b", {sliding, sliding, sliding, sliding, LayerKind::full}}};
    return file;
  }());
  return family;
}

}  // namespace millrace::layers
