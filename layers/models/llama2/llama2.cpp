#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {
namespace {

class Llama2 final : public MaxTextFamily {
 public:
  using MaxTextFamily::MaxTextFamily;

  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& x) const override {
    const MaxTextLayer layer = begin_layer(builder, model, index, x);
    const runtime::ValueId middle = layer.add(x, layer.attention(layer.norm(x, "pre_self_attention_layer_norm")), "attention_residual");
    return layer.dropout(layer.add(middle, layer.mlp(layer.norm(middle, "post_self_attention_layer_norm")), "mlp_residual"), "dropout");
  }
};

}  // namespace

/// MaxText's Llama 2 and 3: the arithmetic of Llama with 1/√head_dim in the query kernels.
const ModelFamily& llama2() {
  static const Llama2 family("llama2", {}, {"model.attn_logit_softcapping"});
  return family;
}

}  // namespace millrace::layers
