#include "layers/models/maxtext_family.hpp"

namespace millrace::layers {
namespace {

class Simple final : public MaxTextFamily {
 public:
  using MaxTextFamily::MaxTextFamily;

  [[nodiscard]] Streams layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                   const Streams& x) const override {
    expect_whole(part);
    return begin_layer(builder, model, index, x).product(x, "weights", model.width, model.width);
  }
};

}  // namespace

/// MaxText's "simple", for tests of pipelines: x · W, neither attention nor norms.
const ModelFamily& simple() {
  static const Simple family("simple", {.attention = false, .rotary = false});
  return family;
}

}  // namespace millrace::layers
