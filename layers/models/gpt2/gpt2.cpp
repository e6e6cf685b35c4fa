#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/check.hpp"
#include "layers/activation.hpp"
#include "layers/attention/dot_product.hpp"
#include "layers/embedding.hpp"
#include "layers/formats/hugging_face/config.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/losses/output_loss.hpp"
#include "layers/models/gpt2/config.hpp"
#include "layers/models/model_family.hpp"
#include "layers/norm.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* gpt2_table = "transformer.wte.weight";
constexpr HuggingFaceClass gpt2_file{.model_type = "gpt2", .architecture = "GPT2LMHeadModel"};

/// x · weight + bias of `module`, the weight with its inputs first.
ValueId dense(ProgramBuilder& builder, ValueId x, std::int64_t inputs, std::int64_t outputs, const std::string& module,
              const std::string& name) {
  const ValueId weight = builder.parameter(module + ".weight", {inputs, outputs});
  const ValueId product = runtime::linear_input_major(builder, x, weight, name);
  return runtime::add_bias(builder, product, builder.parameter(module + ".bias", {outputs}, runtime::in_f32), name + "_bias");
}

ValueId attention(ProgramBuilder& builder, std::int64_t width, const AttentionSpec& spec, ValueId x, const std::string& module) {
  const auto qkv =
      runtime::split(builder, dense(builder, x, width, 3 * width, module + ".c_attn", "attn.c_attn"), {width, width, width}, "attn.split");
  builder.label(qkv[0], "qkv_proj");
  const ValueId context =
      runtime::attention(builder, qkv[0], qkv[1], qkv[2], builder.batch("segments"), attention_form(spec), "attn.attention");
  builder.label(context, "context");
  builder.label(context, "attention_out");
  const ValueId out = dense(builder, context, width, width, module + ".c_proj", "attn.c_proj");
  builder.label(out, "out_proj");
  return out;
}

ValueId mlp(ProgramBuilder& builder, std::int64_t width, const MlpSpec& spec, ValueId x, const std::string& module) {
  const ValueId hidden = dense(builder, x, width, spec.width, module + ".c_fc", "mlp.c_fc");
  builder.label(hidden, "mlpwi");
  const bool gelu = spec.activation == kernels::Activation::gelu;
  const auto learned = activation_parameters(builder, spec.activation, module + ".act");
  const ValueId active = runtime::activate(builder, spec.activation, hidden, gelu ? "mlp.gelu" : "mlp.activation", learned);
  const ValueId out = dense(builder, active, spec.width, width, module + ".c_proj", "mlp.c_proj");
  builder.label(out, "mlpwo");
  return out;
}

class Gpt2 final : public ModelFamily {
 public:
  [[nodiscard]] const FamilyTraits& traits() const override {
    static const FamilyTraits row{.name = "gpt2",
                                  .config_type = gpt2_file.model_type,
                                  .keys = {"model.causal", "model.hidden_act", "model.query_pre_attn_scalar", "model.scale_by_layer"},
                                  // Causal masks, which old checkpoints keep as buffers; attn.c_attn.bias is a weight.
                                  .ignored_tensors = {".attn.bias", ".attn.masked_bias"},
                                  // The first release contains the model without its head.
                                  .optional_prefix = "transformer."};
    return row;
  }

  [[nodiscard]] ModelSpec resolve(const ModelConfig& config) const override {
    constexpr const char* component = "layers.gpt2";
    for (const auto& [name, value] : {std::pair{"vocab_size", config.vocab_size},
                                      {"hidden_size", config.hidden_size},
                                      {"intermediate_size", config.intermediate_size},
                                      {"layers", config.layers},
                                      {"heads", config.heads},
                                      {"max_position_embeddings", config.max_position_embeddings}})
      MILLRACE_CHECK(value >= 1, ExitCode::model, component, "{} = {}, expected 1 or more", name, value);
    MILLRACE_CHECK(config.kv_heads == config.heads && config.head_dim * config.heads == config.hidden_size, ExitCode::model, component,
                   "heads = {}, kv_heads = {}, head_dim = {}, expected as many kv_heads as heads, together hidden_size = {} wide",
                   config.heads, config.kv_heads, config.head_dim, config.hidden_size);
    ModelSpec model;
    model.vocab_size = config.vocab_size;
    model.width = config.hidden_size;
    model.norm.epsilon = config.rms_norm_eps;
    model.learned_positions = config.max_position_embeddings;
    model.tied = config.tie_word_embeddings;
    const double scaled_by = config.query_pre_attn_scalar > 0 ? config.query_pre_attn_scalar : static_cast<double>(config.head_dim);
    for (std::int64_t i = 0; i < config.layers; ++i) {
      const double scale = 1.0 / std::sqrt(scaled_by) / (config.scale_by_layer ? static_cast<double>(i + 1) : 1.0);
      model.layers.push_back({AttentionSpec{.heads = config.heads,
                                            .kv_heads = config.heads,
                                            .head_dim = config.head_dim,
                                            .scale = static_cast<float>(scale),
                                            .causal = config.causal,
                                            .qkv_bias = true,
                                            .out_bias = true,
                                            .fused = true},
                              MlpSpec{.width = config.intermediate_size,
                                      .activation = config.hidden_act.value_or(kernels::Activation::gelu),
                                      .gated = false,
                                      .bias = true},
                              NormPlacement::before});
    }
    return model;
  }

  [[nodiscard]] Streams embed(ProgramBuilder& builder, const ModelSpec& model) const override {
    MILLRACE_CHECK(builder.options().sequence <= model.learned_positions, ExitCode::model, "layers.gpt2",
                   "rows of {} tokens, expected at most max_position_embeddings = {}, the number of learned positions",
                   builder.options().sequence, model.learned_positions);
    const ValueId tokens = token_embedding(builder, builder.batch("tokens"), {gpt2_table, model.vocab_size, model.width});
    const ValueId positions =
        position_embedding(builder, builder.batch("positions"), {"transformer.wpe.weight", model.learned_positions, model.width});
    return runtime::add(builder, tokens, positions, "embeddings");
  }

  [[nodiscard]] Streams layer(ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& x) const override {
    return layer_part(builder, model, index, LayerPart::whole, x);
  }

  [[nodiscard]] Streams layer_part(ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                   const Streams& x) const override {
    const LayerSpec& spec = model.layers.at(static_cast<std::size_t>(index));
    const std::string module = fmt::format("transformer.h.{}", index);
    ValueId middle = x;
    if (part != LayerPart::ffn) {
      builder.label(x, "decoder_layer_input");
      const ValueId normed = norm(builder, model, x, module + ".ln_1", "ln_1");
      const ValueId attended = attention(builder, model.width, spec.attention(), normed, module + ".attn");
      middle = runtime::add(builder, x, attended, "attention_residual");
    }
    if (part == LayerPart::attention) return middle;
    const ValueId fed = mlp(builder, model.width, spec.mlp(), norm(builder, model, middle, module + ".ln_2", "ln_2"), module + ".mlp");
    return runtime::add(builder, middle, fed, "mlp_residual");
  }

  [[nodiscard]] ValueId head(ProgramBuilder& builder, const ModelSpec& model, const Streams& x, bool want_logits) const override {
    const ValueId h = norm(builder, model, x, "transformer.ln_f", "ln_f");
    builder.label(h, "final_norm");
    const HeadOperands head{.h = h,
                            .table = {.name = model.tied ? gpt2_table : "lm_head.weight",
                                      .vocabulary = model.vocab_size,
                                      .width = model.width,
                                      .use = model.tied ? 1 : 0},
                            .form = {.z_loss = static_cast<float>(model.losses.z_loss)}};
    return want_logits ? output_logits(builder, head) : output_loss(builder, model.losses.output, head, builder.batch("targets"));
  }

  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override {
    const auto learned = initial_activation_parameter(name, "act");
    return learned ? *learned : ModelFamily::initial(model, name, shape);
  }

  [[nodiscard]] bool recognises(runtime::JsonReader& reader) const override { return is_of_class(reader, gpt2_file); }

  void read_config(runtime::JsonReader& reader, ConfigFile& file) const override {
    file.model = read_gpt2(reader, gpt2_file, file.warnings);
    file.model.family = traits().name;
  }

  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile& file, std::string_view dtype) const override {
    return gpt2_json(file.model, gpt2_file, dtype);
  }

 private:
  static ValueId norm(ProgramBuilder& builder, const ModelSpec& model, ValueId x, const std::string& module, std::string_view name) {
    return layer_norm(builder, x, model.width, {.epsilon = static_cast<float>(model.norm.epsilon)}, module, name);
  }
};

}  // namespace

/// GPT-2 (Radford et al., 2019), as transformers' GPT2LMHeadModel computes it: learned positions, LayerNorm, one projection to queries,
/// keys and values, GELU, biases everywhere:
///   x ← x + attention(norm(x));   x ← x + mlp(norm(x));   head(norm(x)).
/// Matrices are [inputs, outputs], as in the checkpoint.
const ModelFamily& gpt2() {
  static const Gpt2 family;
  return family;
}

}  // namespace millrace::layers
