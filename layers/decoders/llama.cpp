#include "layers/decoders/llama.hpp"

#include <fmt/format.h>

#include "kernels/base/check.hpp"
#include "layers/attention/dot_product.hpp"
#include "layers/embedding.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/mlp.hpp"
#include "layers/norm.hpp"
#include "layers/rotary.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* kTable = "model.embed_tokens.weight";

class Llama final : public Decoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "llama"; }

  void validate(const ModelConfig& config) const override {
    const auto positive = [](const char* name, std::int64_t value) {
      MILLRACE_CHECK(value >= 1, ExitCode::model, "layers.llama", "{} = {}, wanted 1 or more", name, value);
    };
    positive("vocab_size", config.vocab_size);
    positive("hidden_size", config.hidden_size);
    positive("intermediate_size", config.intermediate_size);
    positive("layers", config.layers);
    positive("heads", config.heads);
    positive("kv_heads", config.kv_heads);
    MILLRACE_CHECK(config.heads % config.kv_heads == 0, ExitCode::model, "layers.llama",
                   "heads = {}, kv_heads = {}, wanted heads a multiple of kv_heads", config.heads, config.kv_heads);
    MILLRACE_CHECK(config.head_dim >= 2 && config.head_dim % 2 == 0, ExitCode::model, "layers.llama",
                   "head_dim = {}, wanted an even number", config.head_dim);
  }

  [[nodiscard]] ValueId embed(ProgramBuilder& builder, const ModelConfig& config) const override {
    return token_embedding(builder, config.vocab_size, config.hidden_size, kTable);
  }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const std::string module = fmt::format("model.layers.{}", index);
    const ValueId frequencies = builder.constant("inverse_frequencies", inverse_frequencies(config.rope, config.head_dim));
    const AttentionSize size{config.hidden_size, config.heads, config.kv_heads, config.head_dim};
    const auto norm = [&](ValueId input, const char* name) {
      return rms_norm(builder, input, config.hidden_size, config.rms_norm_eps, module + "." + name, name);
    };
    builder.label(x, "decoder_layer_input");
    const ValueId attended = dot_product_attention(builder, norm(x, "input_layernorm"), size, frequencies, module + ".self_attn");
    const ValueId middle = runtime::add(builder, x, attended, "attention_residual");
    const ValueId mlp =
        gated_mlp(builder, norm(middle, "post_attention_layernorm"), config.hidden_size, config.intermediate_size, module + ".mlp");
    return runtime::add(builder, middle, mlp, "mlp_residual");
  }

  [[nodiscard]] ValueId head(ProgramBuilder& builder, const ModelConfig& config, ValueId x, bool want_logits,
                             double z_loss) const override {
    const ValueId h = rms_norm(builder, x, config.hidden_size, config.rms_norm_eps, "model.norm", "norm");
    builder.label(h, "final_norm");
    const HeadTable table = config.tie_word_embeddings ? HeadTable{kTable, config.vocab_size, config.hidden_size, 1}
                                                       : HeadTable{"lm_head.weight", config.vocab_size, config.hidden_size, 0};
    return want_logits ? head_logits(builder, h, table) : head_loss(builder, h, table, z_loss);
  }
};

}  // namespace

const Decoder& llama() {
  static const Llama decoder;
  return decoder;
}

}  // namespace millrace::layers
