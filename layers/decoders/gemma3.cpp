#include "layers/decoders/gemma3.hpp"

#include "layers/decoders/gemma_decoder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Gemma3 final : public GemmaDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "gemma3"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const LayerBuilder layer = begin_layer(builder, config, index, x);
    const ValueId attended = layer.attention(layer.norm(x, "input_layernorm"), {.norm = QueryKeyNorm::per_head});
    const ValueId middle = layer.add(x, layer.norm(attended, "post_attention_layernorm"), "attention");
    const ValueId fed = layer.mlp(layer.norm(middle, "pre_feedforward_layernorm"), kernels::Activation::gelu);
    return layer.add(middle, layer.norm(fed, "post_feedforward_layernorm"), "mlp");
  }
};

}  // namespace

const Decoder& gemma3() {
  static const Gemma3 decoder;
  return decoder;
}

}  // namespace millrace::layers
