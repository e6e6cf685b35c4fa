#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {
namespace {

class DefaultBlock final : public MaxTextFamily {
 public:
  using MaxTextFamily::MaxTextFamily;

  [[nodiscard]] Streams layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                   const Streams& x) const override {
    expect_whole(part);
    const MaxTextLayer layer = begin_layer(builder, model, index, x);
    const runtime::ValueId u = layer.norm(x, "pre_self_attention_norm");
    return layer.add(x, layer.dropout(layer.add(layer.mlp(u), layer.attention(u), "branches"), "dropout"), "residual");
  }
};

}  // namespace

/// MaxText's block "default": u = RMSNorm(x), y = x + (MLP(u) + attention(u)); one norm feeds both branches.
const ModelFamily& default_block() {
  static const DefaultBlock family("default", {.shares_kv = true, .norms = NormPlacement::shared});
  return family;
}

}  // namespace millrace::layers
