#include "layers/decoders/qwen2.hpp"

#include "layers/decoders/layer_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Qwen2 final : public StandardDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "qwen2"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const LayerBuilder layer = begin_layer(builder, config, index, x);
    const ValueId middle = layer.add(x, layer.attention(layer.norm(x, "input_layernorm"), {.bias = true}), "attention");
    return layer.add(middle, layer.mlp(layer.norm(middle, "post_attention_layernorm"), kernels::Activation::silu), "mlp");
  }
};

}  // namespace

const Decoder& qwen2() {
  static const Qwen2 decoder;
  return decoder;
}

}  // namespace millrace::layers
