#include "layers/decoders/default_block.hpp"

#include "layers/decoders/maxtext_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class DefaultBlock final : public MaxTextDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "default"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const MaxTextLayer layer = begin_layer(builder, config, index, x);
    const ValueId u = layer.norm(x, "pre_self_attention_norm");
    return layer.add(x, layer.dropout(layer.add(layer.mlp(u), layer.attention(u), "branches"), "dropout"), "residual");
  }
};

}  // namespace

const Decoder& default_block() {
  static const DefaultBlock decoder;
  return decoder;
}

}  // namespace millrace::layers
