#include "layers/decoders/gpt2.hpp"

#include <fmt/format.h>

#include <cmath>

#include "kernels/base/check.hpp"
#include "layers/embedding.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/norm.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* kTokenTable = "transformer.wte.weight";

/// x · weight + bias of `module`, the weight with its inputs first.
ValueId dense(ProgramBuilder& builder, ValueId x, std::int64_t inputs, std::int64_t outputs, const std::string& module,
              const std::string& name) {
  const ValueId weight = builder.parameter(module + ".weight", {inputs, outputs});
  const ValueId product = runtime::linear_input_major(builder, x, weight, name);
  return runtime::add_bias(builder, product, builder.parameter(module + ".bias", {outputs}), name + "_bias");
}

ValueId attention(ProgramBuilder& builder, const ModelConfig& config, ValueId x, const std::string& module) {
  const std::int64_t width = config.hidden_size;
  const auto qkv =
      runtime::split(builder, dense(builder, x, width, 3 * width, module + ".c_attn", "attn.c_attn"), {width, width, width}, "attn.split");
  builder.label(qkv[0], "qkv_proj");
  const runtime::AttentionForm form{.head_dim = config.head_dim,
                                    .scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config.head_dim)))};
  const ValueId context = runtime::attention(builder, qkv[0], qkv[1], qkv[2], builder.batch("segments"), form, "attn.attention");
  builder.label(context, "context");
  builder.label(context, "attention_out");
  const ValueId out = dense(builder, context, width, width, module + ".c_proj", "attn.c_proj");
  builder.label(out, "out_proj");
  return out;
}

ValueId mlp(ProgramBuilder& builder, const ModelConfig& config, ValueId x, const std::string& module) {
  const ValueId hidden = dense(builder, x, config.hidden_size, config.intermediate_size, module + ".c_fc", "mlp.c_fc");
  builder.label(hidden, "mlpwi");
  const ValueId active = runtime::activate(builder, kernels::Activation::gelu, hidden, "mlp.gelu");
  const ValueId out = dense(builder, active, config.intermediate_size, config.hidden_size, module + ".c_proj", "mlp.c_proj");
  builder.label(out, "mlpwo");
  return out;
}

class Gpt2 final : public Decoder {
 public:
  [[nodiscard]] std::string_view family() const override { return "gpt2"; }

  void validate(const ModelConfig& config) const override {
    const auto positive = [](const char* name, std::int64_t value) {
      MILLRACE_CHECK(value >= 1, ExitCode::model, "layers.gpt2", "{} = {}, expected 1 or more", name, value);
    };
    positive("vocab_size", config.vocab_size);
    positive("hidden_size", config.hidden_size);
    positive("intermediate_size", config.intermediate_size);
    positive("layers", config.layers);
    positive("heads", config.heads);
    positive("max_position_embeddings", config.max_position_embeddings);
    MILLRACE_CHECK(config.kv_heads == config.heads && config.head_dim * config.heads == config.hidden_size, ExitCode::model, "layers.gpt2",
                   "heads = {}, kv_heads = {}, head_dim = {}, expected as many kv_heads as heads, together hidden_size = {} wide",
                   config.heads, config.kv_heads, config.head_dim, config.hidden_size);
  }

  [[nodiscard]] ValueId embed(ProgramBuilder& builder, const ModelConfig& config) const override {
    MILLRACE_CHECK(builder.options().sequence <= config.max_position_embeddings, ExitCode::model, "layers.gpt2",
                   "rows of {} tokens, expected at most max_position_embeddings = {}, the positions that were learned",
                   builder.options().sequence, config.max_position_embeddings);
    const ValueId tokens = token_embedding(builder, config.vocab_size, config.hidden_size, kTokenTable);
    const ValueId positions = position_embedding(builder, config.max_position_embeddings, config.hidden_size, "transformer.wpe.weight");
    return runtime::add(builder, tokens, positions, "embeddings");
  }

  [[nodiscard]] ValueId layer(ProgramBuilder& builder, const ModelConfig& config, int index, ValueId x) const override {
    const std::string module = fmt::format("transformer.h.{}", index);
    builder.label(x, "decoder_layer_input");
    const ValueId attended = attention(builder, config, norm(builder, config, x, module + ".ln_1", "ln_1"), module + ".attn");
    const ValueId middle = runtime::add(builder, x, attended, "attention_residual");
    const ValueId fed = mlp(builder, config, norm(builder, config, middle, module + ".ln_2", "ln_2"), module + ".mlp");
    return runtime::add(builder, middle, fed, "mlp_residual");
  }

  [[nodiscard]] ValueId head(ProgramBuilder& builder, const ModelConfig& config, ValueId x, bool want_logits,
                             double z_loss) const override {
    const ValueId h = norm(builder, config, x, "transformer.ln_f", "ln_f");
    builder.label(h, "final_norm");
    const HeadTable table = config.tie_word_embeddings ? HeadTable{kTokenTable, config.vocab_size, config.hidden_size, 1}
                                                       : HeadTable{"lm_head.weight", config.vocab_size, config.hidden_size, 0};
    const runtime::HeadForm form{.z_loss = static_cast<float>(z_loss)};
    return output_head(builder, h, table, form, want_logits);
  }

 private:
  static ValueId norm(ProgramBuilder& builder, const ModelConfig& config, ValueId x, const std::string& module, std::string_view name) {
    return layer_norm(builder, x, config.hidden_size, {.epsilon = static_cast<float>(config.rms_norm_eps)}, module, name);
  }
};

}  // namespace

const Decoder& gpt2() {
  static const Gpt2 decoder;
  return decoder;
}

}  // namespace millrace::layers
