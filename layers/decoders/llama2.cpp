#include "layers/decoders/llama2.hpp"

#include "layers/decoders/maxtext_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Llama2 final : public MaxTextDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "llama2"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const MaxTextLayer layer = begin_layer(builder, config, index, x);
    const ValueId middle = layer.add(x, layer.attention(layer.norm(x, "pre_self_attention_layer_norm")), "attention_residual");
    return layer.dropout(layer.add(middle, layer.mlp(layer.norm(middle, "post_self_attention_layer_norm")), "mlp_residual"), "dropout");
  }
};

}  // namespace

const Decoder& llama2() {
  static const Llama2 decoder;
  return decoder;
}

}  // namespace millrace::layers
