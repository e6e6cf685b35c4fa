#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {
namespace {

class Gpt3 final : public MaxTextFamily {
 public:
  using MaxTextFamily::MaxTextFamily;

  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& x) const override {
    const MaxTextLayer layer = begin_layer(builder, model, index, x);
    const runtime::ValueId middle = layer.add(x, layer.attention(layer.norm(x, "pre_self_attention_norm")), "attention_residual");
    return layer.dropout(layer.add(middle, layer.mlp(layer.norm(middle, "mlp.mlp_layer_norm")), "mlp_residual"), "dropout");
  }
};

}  // namespace

/// MaxText's GPT-3: LayerNorms whose scale is stored minus 1, learned positions, projections with biases, an MLP with its own norm.
const ModelFamily& gpt3() {
  static const Gpt3 family(
      "gpt3", {.rotary = false, .bias = true, .scale_in_weights = false, .split_axis = true, .layer_norm = true, .equal_heads = true});
  return family;
}

}  // namespace millrace::layers
