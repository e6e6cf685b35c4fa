#include "layers/models/standard_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/base/check.hpp"
#include "layers/activation.hpp"
#include "layers/attention/delta_net_spec.hpp"
#include "layers/attention/dot_product.hpp"
#include "layers/attention/gated_delta_net.hpp"
#include "layers/attention/indexer.hpp"
#include "layers/attention/latent.hpp"
#include "layers/embedding.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/losses/output_loss.hpp"
#include "layers/mlp.hpp"
#include "layers/models/layer_streams.hpp"
#include "layers/models/shared_layers.hpp"
#include "layers/norm.hpp"
#include "layers/per_layer_inputs.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* embedding_table = "model.embed_tokens.weight";

kernels::RmsNormOptions norm_form(const NormSpec& norm) {
  return {.epsilon = static_cast<float>(norm.epsilon), .offset = static_cast<float>(norm.offset), .round_first = norm.round_first};
}

/// The numbers that the kinds of layers need.
void check_kinds(const ModelConfig& config) {
  constexpr const char* component = "layers.models";
  for (const LayerKind kind : config.layer_kinds) {
    MILLRACE_CHECK(kind != LayerKind::sliding || config.sliding_window >= 1, ExitCode::model, component,
                   "{}: sliding_window = {} with sliding layers, expected 1 or more", config.family, config.sliding_window);
    MILLRACE_CHECK(kind != LayerKind::chunked || config.attention_chunk >= 1, ExitCode::model, component,
                   "{}: attention_chunk_size = {} with chunked layers, expected 1 or more", config.family, config.attention_chunk);
  }
  const bool any = std::ranges::find(config.mlp_kinds, MlpKind::sparse) != config.mlp_kinds.end();
  MILLRACE_CHECK(config.experts > 0 || !any, ExitCode::model, component,
                 "{}: experts = 0 with sparse layers in mlp_layer_types, expected 1 or more", config.family);
  MILLRACE_CHECK(config.experts == 0 || (config.experts_per_token >= 1 && config.experts_per_token <= config.experts), ExitCode::model,
                 component, "{}: experts_per_token = {}, expected 1 to the {} experts", config.family, config.experts_per_token,
                 config.experts);
}

/// Sizes and lists that every family of this form needs.
void check_sizes(const ModelConfig& config) {
  constexpr const char* component = "layers.models";
  for (const auto& [name, value] : {std::pair{"vocab_size", config.vocab_size},
                                    {"hidden_size", config.hidden_size},
                                    {"intermediate_size", config.intermediate_size},
                                    {"layers", config.layers},
                                    {"heads", config.heads},
                                    {"kv_heads", config.kv_heads}})
    MILLRACE_CHECK(value >= 1, ExitCode::model, component, "{}: {} = {}, expected 1 or more", config.family, name, value);
  MILLRACE_CHECK(config.heads % config.kv_heads == 0, ExitCode::model, component,
                 "{}: heads = {}, kv_heads = {}, expected heads a multiple of kv_heads", config.family, config.heads, config.kv_heads);
  MILLRACE_CHECK(config.head_dim >= 2 && config.head_dim % 2 == 0, ExitCode::model, component, "{}: head_dim = {}, expected an even number",
                 config.family, config.head_dim);
  const bool latent = config.kv_lora_rank > 0;
  MILLRACE_CHECK(!latent || config.heads == config.kv_heads, ExitCode::model, component,
                 "{}: kv_heads = {}, expected heads = {}: with latent attention every head has keys of its own", config.family,
                 config.kv_heads, config.heads);
  MILLRACE_CHECK(!latent || config.head_dim == config.qk_rope_head_dim, ExitCode::model, component,
                 "{}: head_dim = {}, expected qk_rope_head_dim = {} with latent attention", config.family, config.head_dim,
                 config.qk_rope_head_dim);
  const auto one_per_layer = [&](const char* name, std::size_t entries) {
    MILLRACE_CHECK(entries == 0 || static_cast<std::int64_t>(entries) == config.layers, ExitCode::model, component,
                   "{}: {} has {} entries, expected {}, one per layer", config.family, name, entries, config.layers);
  };
  one_per_layer("layer_types", config.layer_kinds.size());
  one_per_layer("layer_positions", config.layer_positions.size());
  one_per_layer("mlp_layer_types", config.mlp_kinds.size());
  check_kinds(config);
  check_layer_sizes(config);
  MILLRACE_CHECK(!config.attn_temperature_tuning || config.floor_scale >= 1, ExitCode::model, component,
                 "{}: floor_scale = {}, expected 1 or more with attn_temperature_tuning", config.family, config.floor_scale);
}

/// The rows of `tokens` i32 [T] in the embedding's table, times what the model multiplies them with.
ValueId scaled_embedding(ProgramBuilder& builder, const ModelSpec& model, ValueId tokens, int use) {
  const ValueId rows = token_embedding(builder, tokens, {embedding_table, model.vocab_size, model.width, use});
  return model.embedding_scale == 1.0 ? rows : runtime::scale(builder, rows, model.embedding_scale, "embed_scale");
}

/// The decoder layers of modules are counted on from those of the model, as DeepSeek-V3's files have them.
std::string module_path(const ModelSpec& model, int module) { return fmt::format("model.layers.{}", model.decoder_layers() + module - 1); }

/// The MLP of every token, alone or beside experts.
MlpSpec& dense_mlp(LayerSpec& layer) {
  auto* experts = std::get_if<ExpertsSpec>(&layer.ffn);
  return experts != nullptr ? experts->shared.value() : std::get<MlpSpec>(layer.ffn);
}

}  // namespace

ExpertsSpec softmax_experts(const ModelConfig& config, kernels::Activation activation) {
  return {.experts = config.experts,
          .route = {.experts_per_token = config.experts_per_token, .normalise = config.norm_topk_prob},
          .expert = {.width = expert_width(config), .activation = activation},
          .capacity_factor = config.capacity_factor};
}

ExpertsSpec sigmoid_experts(const ModelConfig& config, kernels::Activation activation) {
  return {.experts = config.experts,
          .route = {.experts_per_token = config.experts_per_token,
                    .score = kernels::RouterScore::sigmoid,
                    .bias = kernels::RouterBias::choice,
                    .groups = config.routing_groups,
                    .kept_groups = config.kept_routing_groups,
                    .normalise = config.norm_topk_prob,
                    .sum_epsilon = 1e-20F,
                    .scale = static_cast<float>(config.routed_scaling_factor)},
          .expert = {.width = expert_width(config), .activation = activation},
          .shared = shared_expert_of(config, activation),
          .route_bias_trained = false,
          .capacity_factor = config.capacity_factor};
}

std::optional<MlpSpec> shared_expert_of(const ModelConfig& config, kernels::Activation activation) {
  if (config.shared_experts == 0) return std::nullopt;
  return MlpSpec{.width = config.shared_experts * expert_width(config), .activation = activation, .bias = config.mlp_bias};
}

std::vector<std::string_view> standard_keys(std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> keys = {"model.rope",
                                        "model.rope_theta",
                                        "model.rope_factor",
                                        "model.rope_low_freq_factor",
                                        "model.rope_high_freq_factor",
                                        "model.rope_original_max_position",
                                        "model.rope_beta_fast",
                                        "model.rope_beta_slow",
                                        "model.rope_truncate",
                                        "model.rope_attention_factor",
                                        "model.rope_proportion",
                                        "model.rope_short_factors",
                                        "model.rope_long_factors",
                                        "model.causal",
                                        "model.layer_types",
                                        "model.sliding_window",
                                        "model.attention_chunk_size",
                                        "model.layer_positions",
                                        "model.attention_sinks",
                                        "model.hidden_act"};
  keys.insert(keys.end(), more);
  return keys;
}

std::vector<std::string_view> latent_keys(std::initializer_list<std::string_view> more) {
  std::vector<std::string_view> keys = {"model.rope",
                                        "model.rope_theta",
                                        "model.rope_factor",
                                        "model.rope_low_freq_factor",
                                        "model.rope_high_freq_factor",
                                        "model.rope_original_max_position",
                                        "model.rope_beta_fast",
                                        "model.rope_beta_slow",
                                        "model.rope_truncate",
                                        "model.rope_attention_factor",
                                        "model.rope_mscale_all_dim",
                                        "model.rope_proportion",
                                        "model.rope_short_factors",
                                        "model.rope_long_factors",
                                        "model.q_lora_rank",
                                        "model.kv_lora_rank",
                                        "model.qk_nope_head_dim",
                                        "model.qk_rope_head_dim",
                                        "model.v_head_dim",
                                        "model.causal",
                                        "model.attention_bias",
                                        "model.hidden_act"};
  keys.insert(keys.end(), more);
  return keys;
}

std::vector<std::string_view> local_rotation_keys(std::vector<std::string_view> keys) {
  for (const char* key : {"model.rope_local", "model.rope_local_theta", "model.rope_local_factor", "model.rope_local_low_freq_factor",
                          "model.rope_local_high_freq_factor", "model.rope_local_original_max_position", "model.rope_local_beta_fast",
                          "model.rope_local_beta_slow", "model.rope_local_truncate", "model.rope_local_attention_factor",
                          "model.rope_local_proportion", "model.rope_local_short_factors", "model.rope_local_long_factors"})
    keys.emplace_back(key);
  return keys;
}

std::vector<std::string_view> linear_attention_keys(std::vector<std::string_view> keys) {
  for (const char* key : {"model.linear_key_heads", "model.linear_value_heads", "model.linear_key_head_dim", "model.linear_value_head_dim",
                          "model.linear_conv_kernel_dim"})
    keys.emplace_back(key);
  return keys;
}

std::vector<std::string_view> expert_keys(std::vector<std::string_view> keys) {
  for (const char* key : {"model.experts", "model.experts_per_token", "model.capacity_factor"}) keys.emplace_back(key);
  return keys;
}

AttentionSpec StandardFamily::attention(const ModelConfig& config, std::size_t index) const {
  const LayerKind kind = config.layer_kinds.empty() ? LayerKind::full : config.layer_kinds[index];
  const bool turns = config.layer_positions.empty() || config.layer_positions[index] == LayerPositions::rotary;
  AttentionSpec spec;
  const bool full = kind == LayerKind::full;
  spec.heads = config.heads;
  spec.kv_heads = full && config.global_kv_heads > 0 ? config.global_kv_heads : config.kv_heads;
  spec.head_dim = full && config.global_head_dim > 0 ? config.global_head_dim : config.head_dim;
  spec.local_rope = turns && kind == LayerKind::sliding && config.rope_local.theta > 0;
  if (turns) spec.rope = spec.local_rope ? config.rope_local : config.rope;
  const double scaled_by = config.query_pre_attn_scalar > 0 ? config.query_pre_attn_scalar : static_cast<double>(config.head_dim);
  spec.scale = blocks_.unit_scale ? 1.0F : static_cast<float>(1.0 / std::sqrt(scaled_by));
  spec.soft_cap = config.attn_logit_softcapping;
  spec.causal = config.causal;
  // To both sides the window leaves the query's own key out, in the kernel it counts it.
  if (kind == LayerKind::sliding) spec.window = config.causal ? config.sliding_window : config.sliding_window + 1;
  spec.chunk = kind == LayerKind::chunked ? config.attention_chunk : 0;
  spec.sinks = config.attention_sinks || blocks_.sinks;
  spec.qkv_bias = config.attention_bias || blocks_.qkv_bias;
  spec.out_bias = config.attention_bias;
  spec.norm = blocks_.query_key_norm;
  spec.interleaved = blocks_.interleaved;
  if (config.use_qk_norm && turns) spec.norm = QueryKeyNorm::after_rotation;
  if (config.attn_temperature_tuning && !turns) spec.temperature = {.scale = config.attn_scale, .floor = config.floor_scale};
  spec.output_gate = blocks_.output_gate;
  spec.share_kv = config.share_kv && full;
  spec.value_norm = blocks_.value_norm;
  spec.keys_of = layer_with_shared_keys(config, static_cast<int>(index));
  return spec;
}

DeltaNetSpec StandardFamily::delta_net(const ModelConfig& config) const {
  DeltaNetSpec spec = delta_net_spec(config);
  spec.activation = config.hidden_act.value_or(file_.activation);
  spec.grouped = blocks_.grouped_delta;
  MILLRACE_CHECK(kernels::activation_parameters(spec.activation) == 0, ExitCode::model, "layers.models",
                 "{}: hidden_act = {} with linear layers, expected an activation without learned numbers", config.family,
                 kernels::to_string(spec.activation));
  return spec;
}

LatentAttentionSpec StandardFamily::latent(const ModelConfig& config) const {
  LatentAttentionSpec spec;
  spec.heads = config.heads;
  spec.query_rank = config.q_lora_rank;
  spec.kv_rank = config.kv_lora_rank;
  spec.nope_head_dim = config.qk_nope_head_dim;
  spec.rope_head_dim = config.qk_rope_head_dim;
  spec.v_head_dim = config.v_head_dim;
  spec.rope = config.rope;
  spec.interleaved = config.rope_interleaved || !file_.latent->reads_interleave;
  double scale = 1.0 / std::sqrt(static_cast<double>(spec.nope_head_dim + spec.rope_head_dim));
  if (config.rope.kind != RopeKind::none && config.rope.mscale_all_dim > 0)
    scale *= latent_score_factor(config.rope.mscale_all_dim, config.rope.factor);
  spec.scale = static_cast<float>(scale);
  spec.causal = config.causal;
  spec.norm_epsilon = file_.latent->norm_epsilon;
  spec.bias = config.attention_bias;
  check_latent_attention(config.family, spec);
  if (file_.indexer) {
    spec.indexer =
        IndexerSpec{.heads = config.index_n_heads, .head_dim = config.index_head_dim, .keys = config.index_topk, .torch_ties = true};
    check_indexer(config.family, spec);
  }
  return spec;
}

ModelSpec StandardFamily::resolve(const ModelConfig& config) const {
  check_sizes(config);
  MILLRACE_CHECK(config.experts > 0 || !blocks_.needs_experts, ExitCode::model, "layers.models", "{}: experts = 0, expected 1 or more",
                 config.family);
  ModelSpec model;
  model.vocab_size = config.vocab_size;
  model.width = config.hidden_size;
  model.norm = {config.rms_norm_eps, blocks_.norm_offset, blocks_.round_first};
  model.tied = config.tie_word_embeddings;
  model.logit_cap = config.final_logit_softcapping;
  if (blocks_.scale_embedding) model.embedding_scale = std::sqrt(static_cast<double>(config.hidden_size));
  model.per_layer_inputs = per_layer_inputs_of(config, config.hidden_act.value_or(file_.activation));
  const MlpSpec mlp{.width = config.intermediate_size, .activation = config.hidden_act.value_or(file_.activation), .bias = config.mlp_bias};
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.layers); ++i) {
    LayerSpec layer{.ffn = mlp, .norms = blocks_.norms, .scalar = blocks_.scalar};
    if (file_.latent)
      layer.mixer = latent(config);
    else if (!config.layer_kinds.empty() && config.layer_kinds[i] == LayerKind::linear)
      layer.mixer = delta_net(config);
    else
      layer.mixer = attention(config, i);
    const bool may_be_sparse = static_cast<std::int64_t>(i) >= config.first_dense_layers;
    if (config.experts > 0 && may_be_sparse && (config.mlp_kinds.empty() || config.mlp_kinds[i] == MlpKind::sparse))
      layer.ffn = blocks_.experts_of(config, mlp.activation);
    if (config.double_wide_mlp && layer_with_shared_keys(config, static_cast<int>(i))) dense_mlp(layer).width *= 2;
    model.layers.push_back(std::move(layer));
  }
  add_mtp(model, config.mtp_layers, config.family);
  return model;
}

std::vector<StreamSpec> StandardFamily::streams(const ModelSpec& model, int index) const { return streams_of_specs(model, index); }

Streams StandardFamily::embed(ProgramBuilder& builder, const ModelSpec& model) const {
  const ValueId x = scaled_embedding(builder, model, builder.batch("tokens"), 0);
  if (!model.per_layer_inputs) return x;
  const std::int64_t part = model.per_layer_inputs->width, parts = static_cast<std::int64_t>(model.layers.size()) * part;
  const ValueId table = builder.parameter("model.embed_tokens_per_layer.weight", {model.per_layer_inputs->vocab_size, parts});
  const ValueId projection = builder.parameter("model.per_layer_model_projection.weight", {parts, model.width});
  const ValueId norm = builder.parameter("model.per_layer_projection_norm.weight", {part}, runtime::in_f32);
  Streams streams(x);
  streams.set(per_layer_stream,
              per_layer_inputs(builder, model, x, {.table = table, .projection = projection, .norm = norm}, norm_form(model.norm)));
  return streams;
}

Streams StandardFamily::layer(ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in) const {
  return layer_part(builder, model, index, LayerPart::whole, in);
}

Streams StandardFamily::layer_part(ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part, const Streams& in) const {
  const LayerSpec& spec = model.layers.at(static_cast<std::size_t>(index));
  const std::string module = fmt::format("model.layers.{}", index);
  const kernels::RmsNormOptions form = norm_form(model.norm);
  LayerStreams streams(builder, model, index, in);
  const ValueId x = streams.hidden();
  const auto norm = [&](ValueId from, const std::string& name) {
    return rms_norm(builder, from, model.width, form, module + "." + name, name);
  };
  const auto mix = [&](ValueId from) {
    if (const auto* net = std::get_if<DeltaNetSpec>(&spec.mixer))
      return gated_delta_net(builder, from, model.width, *net, model.norm.epsilon, module + ".linear_attn");
    const std::string path = module + ".self_attn";
    const auto* latent = std::get_if<LatentAttentionSpec>(&spec.mixer);
    if (latent != nullptr && latent->indexer) {
      const std::string name = "self_attn";
      const HuggingFaceLatentWeights weights(builder, *latent, form, path);
      const IndexerParameters indexer = hugging_face_indexer(builder, model, *latent, path + ".indexer");
      return indexed_attention(builder, LatentAttention(builder, *latent, weights, model.width, name), model, *latent, indexer, from, name);
    }
    if (latent != nullptr) return latent_attention(builder, from, model.width, *latent, form, path);
    return dot_product_attention(builder, from, model.width, spec.attention(), form, module + ".self_attn", streams.keys_and_values());
  };
  const auto branches = [&](ValueId from, ValueId stream, const ExpertsSpec& experts) {
    const ValueId dense = gated_mlp(builder, from, model.width, *experts.shared, module + "." + blocks_.mlp, "mlp.shared");
    const ValueId router_input = branch_router_input(builder, stream, model, blocks_.experts, module);
    const ValueId chosen =
        mixture_of_experts(builder, norm(stream, "pre_feedforward_layernorm_2"), model, experts, blocks_.experts, module, router_input);
    return runtime::add(builder, norm(dense, "post_feedforward_layernorm_1"), norm(chosen, "post_feedforward_layernorm_2"), "branches");
  };
  // `stream` is what `from` is the norm of.
  const auto mlp = [&](ValueId from, ValueId stream) {
    const auto* experts = std::get_if<ExpertsSpec>(&spec.ffn);
    if (experts != nullptr && experts->branch) return branches(from, stream, *experts);
    if (experts != nullptr)
      return mixture_of_experts(builder, from, model, *experts, blocks_.experts, module + "." + blocks_.experts.module);
    return gated_mlp(builder, from, model.width, spec.mlp(), module + "." + blocks_.mlp);
  };
  const auto add = [&](ValueId stream, ValueId branch, const char* name) { return runtime::add(builder, stream, branch, name); };
  const auto layer_output = [&](ValueId y) {
    if (const ValueId own = streams.own_input(); own.valid()) {
      const std::int64_t width = model.per_layer_inputs->width;
      const auto product = [&](ValueId from, const char* name, kernels::Shape shape) {
        return runtime::linear(builder, from, builder.parameter(fmt::format("{}.{}.weight", module, name), shape), name);
      };
      const ValueId gate = product(y, "per_layer_input_gate", {width, model.width});
      const ValueId gated = runtime::glu(builder, model.per_layer_inputs->activation, gate, own, "per_layer_glu");
      const ValueId wide = product(gated, "per_layer_projection", {model.width, width});
      y = add(y, norm(wide, "post_per_layer_input_norm"), "per_layer_residual");
    }
    if (spec.scalar == LayerScalar::none) return streams.out(y);
    const ValueId scalar =
        builder.parameter(module + ".layer_scalar", {1}, {.dtype = kernels::DType::f32, .trained = spec.scalar == LayerScalar::trained});
    return streams.out(runtime::learned_scale(builder, y, scalar, "layer_scalar"));
  };

  const auto attended = [&] {
    if (spec.norms == NormPlacement::around) return norm(mix(norm(x, "input_layernorm")), "post_attention_layernorm");
    if (spec.norms == NormPlacement::after) return norm(mix(x), "post_attention_layernorm");
    return mix(norm(x, "input_layernorm"));
  };
  const auto fed = [&](ValueId middle) {
    if (spec.norms == NormPlacement::around)
      return norm(mlp(norm(middle, "pre_feedforward_layernorm"), middle), "post_feedforward_layernorm");
    if (spec.norms == NormPlacement::after) return norm(mlp(middle, middle), "post_feedforward_layernorm");
    return mlp(norm(middle, "post_attention_layernorm"), middle);
  };

  if (part != LayerPart::ffn) builder.label(x, "decoder_layer_input");
  const ValueId middle = part == LayerPart::ffn ? x : add(x, attended(), "attention_residual");
  return part == LayerPart::attention ? Streams(middle) : layer_output(add(middle, fed(middle), "mlp_residual"));
}

/// A module has a final norm of its own.
HeadOperands StandardFamily::mtp_head(ProgramBuilder& builder, const ModelSpec& model, int module, ValueId x) const {
  const std::string norm = module == 0 ? "model.norm" : module_path(model, module) + ".shared_head.norm";
  HeadOperands head{.h = rms_norm(builder, x, model.width, norm_form(model.norm), norm, "norm"),
                    .table = {.name = model.tied ? embedding_table : "lm_head.weight",
                              .vocabulary = model.vocab_size,
                              .width = model.width,
                              .use = model.tied ? 1 : 0},
                    .form = {.soft_cap = static_cast<float>(model.logit_cap)}};
  builder.label(head.h, "final_norm");
  if (module == 0) head.form.z_loss = static_cast<float>(model.losses.z_loss);
  return head;
}

ValueId StandardFamily::head(ProgramBuilder& builder, const ModelSpec& model, const Streams& x, bool want_logits) const {
  const HeadOperands head = mtp_head(builder, model, 0, x);
  return want_logits ? output_logits(builder, head) : output_loss(builder, model.losses.output, head, builder.batch("targets"));
}

ValueId StandardFamily::mtp_embedding(ProgramBuilder& builder, const ModelSpec& model, int module) const {
  const ValueId tokens = mtp_shifted(builder, model, "tokens", module, 0);
  return scaled_embedding(builder, model, tokens, mtp_table_use(module));
}

ValueId StandardFamily::mtp_input(ProgramBuilder& builder, const ModelSpec& model, int module, ValueId embedding, ValueId hidden) const {
  const std::string path = module_path(model, module);
  const kernels::RmsNormOptions form = norm_form(model.norm);
  const ValueId joined = runtime::join(builder,
                                       {rms_norm(builder, embedding, model.width, form, path + ".enorm", "enorm"),
                                        rms_norm(builder, hidden, model.width, form, path + ".hnorm", "hnorm")},
                                       "join");
  return runtime::linear(builder, joined, builder.parameter(path + ".eh_proj.weight", {model.width, 2 * model.width}), "eh_proj");
}

ValueId StandardFamily::mtp_layer(ProgramBuilder& builder, const ModelSpec& model, int module, ValueId x) const {
  return layer(builder, model, model.decoder_layers() + module - 1, x);
}

Initial StandardFamily::initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const {
  if (const auto recurrent = initial_delta_net_parameter(name, ".linear_attn.norm.weight", 0.01)) return *recurrent;
  if (name.ends_with("bias")) return {InitialKind::zeros};
  if (const auto learned = initial_activation_parameter(name, "act_fn")) return *learned;
  if (shape.rank() >= 2 || name.ends_with(".sinks")) return {InitialKind::normal};
  return {model.norm.offset == 0 ? InitialKind::ones : InitialKind::zeros};
}

void StandardFamily::read_config(runtime::JsonReader& reader, ConfigFile& file) const {
  file.model = read_hugging_face(reader, file_, file.warnings);
  file.model.family = traits_.name;
}

runtime::OrderedJson StandardFamily::config_json(const ConfigFile& file, std::string_view dtype) const {
  return hugging_face_json(file.model, file_, dtype);
}

}  // namespace millrace::layers
