#include "layers/decoders/gpt3.hpp"

#include "kernels/base/check.hpp"
#include "layers/decoders/maxtext_builder.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

class Gpt3 final : public MaxTextDecoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "gpt3"; }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const MaxTextLayer layer = begin_layer(builder, config, index, x);
    const MaxTextAttention style{.bias = true, .rotary = false, .scale_in_weights = false, .split_axis = true};
    const ValueId attended = layer.attention(layer.layer_norm(x, "pre_self_attention_norm"), style);
    const ValueId middle = layer.add(x, attended, "attention_residual");
    return layer.dropout(layer.add(middle, layer.mlp(layer.layer_norm(middle, "mlp.mlp_layer_norm"), true), "mlp_residual"), "dropout");
  }

  void validate(const ModelConfig& config) const override {
    MaxTextDecoder::validate(config);
    MILLRACE_CHECK(config.heads == config.kv_heads && !config.share_kv, ExitCode::model, "layers.gpt3",
                   "heads = {}, kv_heads = {}, share_kv = {}, expected as many kv_heads as heads, each with values of its own",
                   config.heads, config.kv_heads, config.share_kv);
  }

  /// LayerNorm scales are stored less 1.
  [[nodiscard]] Initial initial(const ModelConfig& config, const std::string& name, const kernels::Shape& shape) const override {
    if (name.ends_with(".scale")) return {InitialKind::zeros};
    return MaxTextDecoder::initial(config, name, shape);
  }

 private:
  [[nodiscard]] bool folds_query_scale() const override { return false; }
  [[nodiscard]] ValueId final_norm(ProgramBuilder& builder, const ModelConfig& config, ValueId x) const override {
    return maxtext_layer_norm(builder, config, x, "decoder.decoder_norm", "decoder_norm");
  }
};

}  // namespace

const Decoder& gpt3() {
  static const Gpt3 decoder;
  return decoder;
}

}  // namespace millrace::layers
