#include "layers/decoders/olmo3.hpp"

#include "layers/decoders/layer_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Olmo3 final : public StandardDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "olmo3"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const LayerBuilder layer = begin_layer(builder, config, index, x);
    const ValueId attended = layer.attention(x, {.norm = QueryKeyNorm::all_heads});
    const ValueId middle = layer.add(x, layer.norm(attended, "post_attention_layernorm"), "attention");
    return layer.add(middle, layer.norm(layer.mlp(middle, kernels::Activation::silu), "post_feedforward_layernorm"), "mlp");
  }

 private:
  [[nodiscard]] runtime::RmsNormForm norm_form(const ModelConfig& config) const override {
    return {.epsilon = static_cast<float>(config.rms_norm_eps), .round_first = false};
  }
};

}  // namespace

const Decoder& olmo3() {
  static const Olmo3 decoder;
  return decoder;
}

}  // namespace millrace::layers
