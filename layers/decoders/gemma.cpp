#include "layers/decoders/gemma.hpp"

#include "layers/decoders/gemma_decoder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Gemma final : public GemmaDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "gemma"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const LayerBuilder layer = begin_layer(builder, config, index, x);
    const ValueId middle = layer.add(x, layer.attention(layer.norm(x, "input_layernorm")), "attention");
    return layer.add(middle, layer.mlp(layer.norm(middle, "post_attention_layernorm"), kernels::Activation::gelu), "mlp");
  }
};

}  // namespace

const Decoder& gemma() {
  static const Gemma decoder;
  return decoder;
}

}  // namespace millrace::layers
