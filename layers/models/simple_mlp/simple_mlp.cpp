#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {
namespace {

class SimpleMlp final : public MaxTextFamily {
 public:
  using MaxTextFamily::MaxTextFamily;

  [[nodiscard]] Streams layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                   const Streams& x) const override {
    expect_whole(part);
    const MaxTextLayer layer = begin_layer(builder, model, index, x);
    const std::int64_t inner = model.layers.at(static_cast<std::size_t>(index)).mlp().width;
    return layer.product(layer.product(x, "ff_1", model.width, inner), "ff_2", inner, model.width);
  }
};

}  // namespace

/// MaxText's "simple_mlp", for tests of pipelines: x · W₁ · W₂, neither attention nor norms.
const ModelFamily& simple_mlp() {
  static const SimpleMlp family("simple_mlp", {.attention = false, .rotary = false});
  return family;
}

}  // namespace millrace::layers
