#include "layers/decoders/llama.hpp"

#include "layers/decoders/layer_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Llama final : public StandardDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "llama"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const LayerBuilder layer = begin_layer(builder, config, index, x);
    const ValueId middle = layer.add(x, layer.attention(layer.norm(x, "input_layernorm")), "attention");
    return layer.add(middle, layer.mlp(layer.norm(middle, "post_attention_layernorm"), kernels::Activation::silu), "mlp");
  }
};

}  // namespace

const Decoder& llama() {
  static const Llama decoder;
  return decoder;
}

}  // namespace millrace::layers
