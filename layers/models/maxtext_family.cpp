#include "layers/models/maxtext_family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "kernels/base/check.hpp"
#include "layers/attention/delta_net_spec.hpp"
#include "layers/attention/indexer.hpp"
#include "layers/attention/latent.hpp"
#include "layers/embedding.hpp"
#include "layers/engram.hpp"
#include "layers/engram_hash.hpp"
#include "layers/formats/maxtext/config.hpp"
#include "layers/hyper_connections.hpp"
#include "layers/losses/cross_entropy.hpp"
#include "layers/losses/output_loss.hpp"
#include "layers/models/shared_layers.hpp"
#include "layers/per_layer_inputs.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using kernels::Shape;
using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* maxtext_component = "layers.maxtext";
constexpr const char* token_table = "token_embedder.embedding";
constexpr const char* per_layer_table = "decoder.per_layer_embedder.embed_tokens_per_layer";
constexpr const char* position_table = "decoder.position_embedder.embedding";

/// MaxText draws from a normal distribution truncated at two deviations, and divides by the standard deviation that remains.
constexpr double truncated_deviation = 0.87962566103423978;

/// A part of a module of multi-token prediction.
std::string mtp_path(int module, std::string_view part) { return fmt::format("mtp_block.mtp_layer_{0}.mtp_{0}_{1}", module, part); }

/// Checks the relations between the members of a config.
void check(const ModelConfig& config, const MaxTextBlocks& blocks) {
  const auto expect = [&](bool fits, const char* name, std::int64_t value, std::string_view what) {
    MILLRACE_CHECK(fits, ExitCode::model, maxtext_component, "{}: {} = {}, expected {}", config.family, name, value, what);
  };
  for (const auto& [name, value] : {std::pair{"vocab_size", config.vocab_size},
                                    {"hidden_size", config.hidden_size},
                                    {"intermediate_size", config.intermediate_size},
                                    {"layers", config.layers},
                                    {"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"head_dim", config.head_dim}})
    expect(value >= 1, name, value, "1 or more");
  expect(config.heads % config.kv_heads == 0, "kv_heads", config.kv_heads, fmt::format("a divisor of heads = {}", config.heads));
  expect(config.head_dim % 2 == 0, "head_dim", config.head_dim, "an even number");
  expect(!config.fused_qkv || config.heads == config.kv_heads, "kv_heads", config.kv_heads,
         fmt::format("heads = {} with fused_qkv", config.heads));
  MILLRACE_CHECK(!config.fused_qkv || !config.share_kv, ExitCode::model, maxtext_component,
                 "{}: fused_qkv and share_kv together, expected one of them", config.family);
  MILLRACE_CHECK(config.dropout_rate >= 0 && config.dropout_rate < 1, ExitCode::model, maxtext_component,
                 "{}: dropout_rate = {}, expected from 0 to below 1", config.family, config.dropout_rate);
  expect(!config.sinusoidal_positions || config.hidden_size % 2 == 0, "hidden_size", config.hidden_size,
         "an even number with sinusoidal_positions");
  MILLRACE_CHECK(config.tie_word_embeddings || config.final_logit_softcapping == 0, ExitCode::model, maxtext_component,
                 "{}: final_logit_softcapping = {} without tie_word_embeddings, expected 0: MaxText caps logits of tied tables only",
                 config.family, config.final_logit_softcapping);
  MILLRACE_CHECK(!blocks.latent || !config.fused_qkv, ExitCode::model, maxtext_component,
                 "{}: fused_qkv with latent attention, expected kernels of their own", config.family);
  MILLRACE_CHECK(!blocks.latent || config.rope.kind == RopeKind::yarn, ExitCode::model, maxtext_component,
                 "{}: rope = {}, expected yarn, which MaxText's latent attention rotates by", config.family, to_string(config.rope.kind));
  MILLRACE_CHECK(!blocks.equal_heads || (config.heads == config.kv_heads && !config.share_kv), ExitCode::model, maxtext_component,
                 "{}: heads = {}, kv_heads = {}, share_kv = {}, expected as many kv_heads as heads, each with values of its own",
                 config.family, config.heads, config.kv_heads, config.share_kv);
  const std::int64_t streams = config.mhc_expansion_rate,
                     most = config.mhc_lite ? kernels::max_permuted_streams : kernels::max_hyper_streams;
  expect(streams >= 1 && streams <= most, "mhc_expansion_rate", streams,
         fmt::format("1 to {}{}", most, config.mhc_lite ? " with mhc_lite" : ""));
  expect(config.sinkhorn_iterations >= 1 && config.sinkhorn_iterations <= kernels::max_sinkhorn_iterations, "sinkhorn_iterations",
         config.sinkhorn_iterations, fmt::format("1 to {}", kernels::max_sinkhorn_iterations));
  expect(streams == 1 || config.mtp_layers == 0, "mtp_layers", config.mtp_layers,
         fmt::format("0 with mhc_expansion_rate = {}: a module reads one residual stream", streams));
  expect(streams == 1 || config.dropout_rate == 0, "mhc_expansion_rate", streams,
         fmt::format("1 with dropout_rate = {}: MaxText drops the same features of all streams", config.dropout_rate));
  expect(streams > 1 || config.engram.layers.empty(), "mhc_expansion_rate", streams,
         "2 or more with engram_layers: MaxText's n-gram memory is made for several residual streams");
  for (const std::int64_t layer : config.engram.layers)
    expect(layer >= 0 && layer < config.layers, "engram_layers", layer, fmt::format("0 to {}, layers of the model", config.layers - 1));
  const std::int64_t span = (config.engram.kernel_size - 1) * config.engram.max_ngram + 1;
  expect(config.engram.layers.empty() || (config.engram.kernel_size >= 1 && config.engram.kernel_size <= kernels::max_convolution_taps &&
                                          span <= kernels::max_convolution_span),
         "engram_kernel_size", config.engram.kernel_size,
         fmt::format("1 to {} taps that reach over at most {} places in steps of engram_max_ngram_size = {}", kernels::max_convolution_taps,
                     kernels::max_convolution_span, config.engram.max_ngram));
  expect(config.moba_chunk_size >= 0, "moba_chunk_size", config.moba_chunk_size, "0 or more");
  expect(config.moba_chunk_size == 0 || config.moba_topk >= 1, "moba_topk", config.moba_topk, "1 or more with moba_chunk_size");
  const auto kinds = static_cast<std::int64_t>(config.layer_kinds.size());
  MILLRACE_CHECK(kinds == 0 || kinds == config.layers, ExitCode::model, maxtext_component,
                 "{}: layer_types has {} entries, expected {}, one per layer", config.family, kinds, config.layers);
  const auto mlp_kinds = static_cast<std::int64_t>(config.mlp_kinds.size());
  MILLRACE_CHECK(mlp_kinds == 0 || mlp_kinds == config.layers, ExitCode::model, maxtext_component,
                 "{}: mlp_layer_types has {} entries, expected {}, one per layer", config.family, mlp_kinds, config.layers);
  const auto has = [&](LayerKind kind) { return std::ranges::find(config.layer_kinds, kind) != config.layer_kinds.end(); };
  MILLRACE_CHECK(blocks.hybrid || !has(LayerKind::linear), ExitCode::model, maxtext_component,
                 "{}: layer_types has linear layers, expected full and sliding ones", config.family);
  MILLRACE_CHECK(!blocks.hybrid || (!has(LayerKind::sliding) && !has(LayerKind::chunked)), ExitCode::model, maxtext_component,
                 "{}: layer_types has sliding or chunked layers, expected linear and full ones", config.family);
  MILLRACE_CHECK(!has(LayerKind::chunked) || blocks.chunks, ExitCode::model, maxtext_component,
                 "{}: layer_types has chunked layers, expected full and sliding ones", config.family);
  MILLRACE_CHECK(!has(LayerKind::sliding) || !blocks.chunks, ExitCode::model, maxtext_component,
                 "{}: layer_types has sliding layers, expected full and chunked ones", config.family);
  expect(!has(LayerKind::chunked) || config.attention_chunk >= 1, "attention_chunk_size", config.attention_chunk,
         "1 or more: the model has chunked layers");
  const auto positions = static_cast<std::int64_t>(config.layer_positions.size());
  MILLRACE_CHECK(positions == 0 || positions == config.layers, ExitCode::model, maxtext_component,
                 "{}: layer_positions has {} entries, expected {}, one per layer", config.family, positions, config.layers);
  expect(!config.attn_temperature_tuning || config.floor_scale >= 1, "floor_scale", config.floor_scale,
         "1 or more with attn_temperature_tuning");
  const bool slides =
      has(LayerKind::sliding) || std::ranges::find(blocks.parts, LayerKind::sliding, &MaxTextPart::kind) != blocks.parts.end();
  check_layer_sizes(config);
  expect(!slides || config.sliding_window >= 1, "sliding_window", config.sliding_window, "1 or more: the model has sliding layers");
}

}  // namespace

MaxTextFamily::MaxTextFamily(std::string_view name, MaxTextBlocks blocks, MaxTextFile file, std::initializer_list<std::string_view> keys)
    : traits_{.name = name,
              .numerics = "maxtext",
              .config_type = name,
              .keys = {"model.final_logit_softcapping", "model.learned_positions", "model.sinusoidal_positions",
                       "model.normalize_embedding_logits", "model.dropout_rate", "model.mtp_layers"}},
      blocks_(std::move(blocks)),
      file_(std::move(file)) {
  const auto add = [&](std::initializer_list<std::string_view> more) { traits_.keys.insert(traits_.keys.end(), more); };
  add(keys);
  const bool clamped = blocks_.experts && blocks_.experts->clamped;
  if (blocks_.attention) add({"model.fused_qkv", "model.moba_chunk_size", "model.moba_topk"});
  if (blocks_.attention && !clamped) add({"model.activation", "model.gated_mlp", "model.fused_mlp"});
  if (clamped) add({"model.swiglu_limit"});
  if (blocks_.shares_kv) add({"model.share_kv"});
  if (blocks_.attention && blocks_.rotary)
    add({"model.rope", "model.rope_theta", "model.rope_factor", "model.rope_low_freq_factor", "model.rope_high_freq_factor",
         "model.rope_original_max_position", "model.rope_interleaved"});
  if (file_.yarn) add({"model.rope_beta_fast", "model.rope_beta_slow", "model.rope_truncate", "model.rope_attention_factor"});
  file_.block = name;
  file_.attention = blocks_.attention;
  file_.rotary = blocks_.attention && blocks_.rotary;
  file_.shares_kv = blocks_.shares_kv;
  file_.chunks = blocks_.chunks;
  file_.caps_scores = traits_.reads("model.attn_logit_softcapping");
  file_.hybrid = blocks_.hybrid;
  if (file_.hybrid)
    add({"model.layer_types", "model.rope_proportion", "model.linear_key_heads", "model.linear_value_heads", "model.linear_key_head_dim",
         "model.linear_value_head_dim", "model.linear_conv_kernel_dim", "model.gdn_reset_at_segments"});
  file_.experts = blocks_.experts;
  if (file_.experts) {
    add({"model.experts", "model.experts_per_token", "model.routed_score_func", "model.routed_bias", "model.float32_gate_logits",
         "model.capacity_factor"});
    // As an earlier version of MaxText names the layers.
    if (file_.experts->dense_first)
      traits_.other_spellings = {{"decoder.dense_layers_", "decoder.dense_layer_"}, {"decoder.moe_layers_", "decoder.moe_layer_"}};
    add({file_.experts->dense_first ? "model.first_dense_layers" : "model.mlp_layer_types"});
    if (file_.experts->shared != nullptr && !file_.experts->one_shared) add({"model.shared_experts"});
    if (file_.experts->own_width) add({"model.moe_intermediate_size"});
    if (file_.experts->weights == MaxTextWeights::scaled)
      add({"model.routed_scaling_factor", "model.routing_groups", "model.kept_routing_groups"});
    else if (file_.experts->weights != MaxTextWeights::sigmoid)
      add({"model.norm_topk_prob"});
  }
  file_.hyper = blocks_.hyper;
  if (file_.hyper) add({"model.mhc_expansion_rate", "model.sinkhorn_iterations", "model.mhc_lite"});
  file_.engram = blocks_.engram;
  if (file_.engram)
    add({"model.engram_layers", "model.engram_max_ngram_size", "model.engram_num_heads", "model.engram_head_dim",
         "model.engram_vocab_bases", "model.engram_kernel_size", "model.engram_seed", "model.engram_compressed_vocab_size",
         "model.engram_compressed_pad_id"});
  file_.latent = blocks_.latent;
  if (file_.latent)
    add({"model.rope_mscale_all_dim", "model.q_lora_rank", "model.kv_lora_rank", "model.qk_nope_head_dim", "model.qk_rope_head_dim",
         "model.v_head_dim", "model.index_n_heads", "model.index_head_dim", "model.index_topk"});
  file_.windows = !file_.kinds.empty() || !blocks_.parts.empty();
  if (file_.full_layers) add({"model.global_head_dim", "model.global_kv_heads", "model.rope_proportion"});
  if (file_.per_layer_inputs)
    add({"model.per_layer_input_size", "model.per_layer_vocab_size", "model.kv_shared_layers", "model.double_wide_mlp"});
  if (file_.windows) add({"model.sliding_window", "model.rope_local_theta"});
  if (!file_.kinds.empty()) add({"model.layer_types"});
}

AttentionSpec MaxTextFamily::attention(const ModelConfig& config, LayerKind kind, bool turns) const {
  AttentionSpec spec;
  spec.heads = config.heads;
  const bool full = kind == LayerKind::full;
  spec.kv_heads = full && config.global_kv_heads > 0 ? config.global_kv_heads : config.kv_heads;
  spec.head_dim = full && config.global_head_dim > 0 ? config.global_head_dim : config.head_dim;
  spec.local_rope = turns && kind == LayerKind::sliding && config.rope_local.theta > 0;
  if (turns) spec.rope = spec.local_rope ? config.rope_local : config.rope;
  spec.interleaved = config.rope_interleaved;
  const double scaled_by = config.query_pre_attn_scalar > 0 ? config.query_pre_attn_scalar : static_cast<double>(config.head_dim);
  if (!blocks_.scale_in_weights) spec.scale = 1.0F / std::sqrt(static_cast<float>(scaled_by));
  spec.soft_cap = config.attn_logit_softcapping;
  if (kind == LayerKind::sliding) spec.window = config.sliding_window;
  if (kind == LayerKind::chunked) spec.chunk = config.attention_chunk;
  if (config.attn_temperature_tuning && !turns) spec.temperature = {.scale = config.attn_scale, .floor = config.floor_scale};
  spec.block = config.moba_chunk_size;
  if (spec.block > 0) spec.blocks = config.moba_topk;
  spec.qkv_bias = blocks_.bias || blocks_.qkv_bias;
  spec.out_bias = blocks_.bias;
  spec.sinks = blocks_.sinks;
  spec.norm = config.use_qk_norm && turns ? QueryKeyNorm::after_rotation : blocks_.query_key_norm;
  spec.fused = config.fused_qkv;
  spec.share_kv = config.share_kv && (full || !file_.full_layers);
  spec.value_norm = blocks_.value_norm;
  spec.output_gate = blocks_.hybrid;
  return spec;
}

/// MaxText's code fixes the activation of the convolution.
DeltaNetSpec MaxTextFamily::delta_net(const ModelConfig& config) const {
  DeltaNetSpec spec = delta_net_spec(config);
  spec.grouped = true;
  spec.reset_at_segments = config.gdn_reset_at_segments;
  spec.round_decay = true;
  return spec;
}

LatentAttentionSpec MaxTextFamily::latent(const ModelConfig& config) const {
  LatentAttentionSpec spec;
  spec.heads = config.heads;
  spec.query_rank = config.q_lora_rank;
  spec.kv_rank = config.kv_lora_rank;
  spec.nope_head_dim = config.qk_nope_head_dim;
  spec.rope_head_dim = config.qk_rope_head_dim;
  spec.v_head_dim = config.v_head_dim;
  spec.rope = config.rope;
  spec.interleaved = config.rope_interleaved;
  double scale = 1.0 / std::sqrt(static_cast<double>(spec.nope_head_dim + spec.rope_head_dim));
  if (config.max_position_embeddings > config.rope.original_max_position)
    scale *= latent_score_factor(config.rope.mscale_all_dim, config.rope.factor);
  spec.scale = static_cast<float>(scale);
  spec.scale_queries = true;
  spec.soft_cap = config.attn_logit_softcapping;
  spec.norm_epsilon = config.rms_norm_eps;
  check_latent_attention(config.family, spec);
  if (config.index_topk > 0) {
    spec.indexer =
        IndexerSpec{.heads = config.index_n_heads, .head_dim = config.index_head_dim, .keys = config.index_topk, .always_trained = true};
    check_indexer(config.family, spec);
  }
  return spec;
}

ModelSpec MaxTextFamily::resolve(const ModelConfig& config) const {
  check(config, blocks_);
  ModelSpec model;
  model.vocab_size = config.vocab_size;
  model.width = config.hidden_size;
  model.norm = {config.rms_norm_eps, blocks_.layer_norm || blocks_.hybrid ? 1.0 : 0.0, true};
  model.learned_positions = config.learned_positions;
  model.sinusoidal_positions = config.sinusoidal_positions;
  // MaxText has a table of YaRN's angles, and reads its last row for all later positions.
  if (blocks_.rotary && config.rope.kind == RopeKind::yarn) model.rotary_positions = config.max_position_embeddings;
  model.tied = config.tie_word_embeddings;
  if (model.tied && config.normalize_embedding_logits) model.head_scale = 1.0F / std::sqrt(static_cast<float>(config.hidden_size));
  model.logit_cap = config.final_logit_softcapping;
  model.dropout_rate = config.dropout_rate;
  model.per_layer_inputs = per_layer_inputs_of(config, config.activation);
  const MlpSpec mlp{.width = config.intermediate_size,
                    .activation = config.activation,
                    .gated = config.gated_mlp,
                    .bias = blocks_.bias,
                    .fused = config.fused_mlp};
  std::optional<ExpertsSpec> experts;
  if (blocks_.experts && (config.experts > 0 || blocks_.experts->clamped)) experts = maxtext_experts_spec(config, *blocks_.experts);
  const auto layer_of = [&](LayerKind kind, bool dense, bool turns) {
    LayerSpec layer{.ffn = mlp, .norms = blocks_.norms, .scalar = blocks_.scalar};
    if (experts && !dense) layer.ffn = *experts;
    if (blocks_.latent)
      layer.mixer = latent(config);
    else if (kind == LayerKind::linear)
      layer.mixer = delta_net(config);
    else if (blocks_.attention)
      layer.mixer = attention(config, kind, blocks_.rotary && turns);
    return layer;
  };
  LayerSpec several;
  for (const MaxTextPart& part : blocks_.parts) several.parts.push_back(layer_of(part.kind, false, true));
  for (std::size_t i = 0; i < static_cast<std::size_t>(config.layers); ++i) {
    const LayerKind kind = config.layer_kinds.empty() ? LayerKind::full : config.layer_kinds[i];
    const bool first = static_cast<std::int64_t>(i) < config.first_dense_layers;
    const bool dense = first || (!config.mlp_kinds.empty() && config.mlp_kinds[i] == MlpKind::dense);
    const bool turns = config.layer_positions.empty() || config.layer_positions[i] == LayerPositions::rotary;
    LayerSpec layer = blocks_.parts.empty() ? layer_of(kind, dense, turns) : several;
    if (const auto keys_of = layer_with_shared_keys(config, static_cast<int>(i))) {
      std::get<AttentionSpec>(layer.mixer).keys_of = keys_of;
      if (config.double_wide_mlp) std::get<MlpSpec>(layer.ffn).width *= 2;
    }
    model.layers.push_back(std::move(layer));
  }
  if (!config.engram.layers.empty()) {
    const std::vector<kernels::NgramOptions> hashes = engram_hashes(config.engram);
    for (std::size_t i = 0; i < hashes.size(); ++i)
      model.layers.at(static_cast<std::size_t>(config.engram.layers[i])).engram =
          EngramSpec{.hash = hashes[i], .head_dim = config.engram.head_dim, .taps = config.engram.kernel_size};
  }
  if (config.mhc_expansion_rate > 1)
    model.hyper_connections =
        kernels::HyperGatesOptions{.streams = config.mhc_expansion_rate, .iterations = config.sinkhorn_iterations, .lite = config.mhc_lite};
  model.shifts_over_documents = true;
  add_mtp(model, config.mtp_layers, config.family);
  return model;
}

ValueId MaxTextFamily::embedded(ProgramBuilder& builder, const ModelSpec& model, int module) const {
  const auto field = [&](const char* name) { return module == 0 ? builder.batch(name) : mtp_shifted(builder, model, name, module, 0); };
  const int use = module == 0 ? 0 : mtp_table_use(module);
  const ValueId rows = token_embedding(builder, field("tokens"), {token_table, model.vocab_size, model.width, use});
  ValueId x = maxtext_dropout(builder, model, rows, "embedding_dropout");
  const bool absolute = model.sinusoidal_positions || model.learned_positions > 0;
  const ValueId positions = absolute ? field("positions") : ValueId{};
  if (model.sinusoidal_positions) {
    const std::int64_t half = model.width / 2;
    std::vector<float> inverse_timescales(static_cast<std::size_t>(half));
    const float step = std::log(10000.0F) / static_cast<float>(std::max<std::int64_t>(half - 1, 1));
    for (std::size_t i = 0; i < inverse_timescales.size(); ++i) inverse_timescales[i] = std::exp(static_cast<float>(i) * -step);
    x = runtime::add_sinusoid(builder, x, positions, builder.constant("inverse_timescales", std::move(inverse_timescales)), "sinusoid");
  }
  if (model.learned_positions > 0) {
    MILLRACE_CHECK(builder.options().sequence <= model.learned_positions, ExitCode::model, maxtext_component,
                   "{}: rows of {} tokens, expected at most learned_positions = {}", traits_.name, builder.options().sequence,
                   model.learned_positions);
    x = runtime::add(builder, x, position_embedding(builder, positions, {position_table, model.learned_positions, model.width, use}),
                     "embeddings");
  }
  return x;
}

Streams MaxTextFamily::embed(ProgramBuilder& builder, const ModelSpec& model) const {
  const ValueId x = as_streams(builder, model, embedded(builder, model));
  MILLRACE_CHECK(model.rotary_positions == 0 || builder.options().sequence <= model.rotary_positions, ExitCode::model, maxtext_component,
                 "{}: rows of {} tokens, expected at most max_position_embeddings = {} with yarn", traits_.name, builder.options().sequence,
                 model.rotary_positions);
  if (!model.per_layer_inputs) return x;
  const std::int64_t part = model.per_layer_inputs->width, parts = static_cast<std::int64_t>(model.layers.size()) * part;
  const std::string module = "decoder.per_layer_embedder.";
  const ValueId table = builder.parameter(per_layer_table, {model.per_layer_inputs->vocab_size, parts});
  const ValueId projection = builder.parameter(module + "per_layer_model_projection.kernel", {model.width, parts});
  const ValueId norm = builder.parameter(module + "per_layer_projection_norm.scale", {part}, runtime::in_f32);
  Streams streams(x);
  streams.set(per_layer_stream,
              per_layer_inputs(builder, model, x, {.table = table, .projection = projection, .norm = norm, .input_major = true},
                               {.epsilon = static_cast<float>(model.norm.epsilon), .offset = static_cast<float>(model.norm.offset)}));
  return streams;
}

std::vector<StreamSpec> MaxTextFamily::streams(const ModelSpec& model, int index) const { return streams_of_specs(model, index); }

Streams MaxTextFamily::layer(ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in) const {
  return layer_part(builder, model, index, LayerPart::whole, in);
}

Streams MaxTextFamily::layer_part(ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part, const Streams& in) const {
  const LayerSpec& spec = model.layers.at(static_cast<std::size_t>(index));
  if (spec.parts.empty()) {
    LayerStreams streams(builder, model, index, in);
    if (part != LayerPart::ffn) builder.label(streams.hidden(), "decoder_layer_input");
    const MaxTextLayer layer(builder, blocks_, model, index, spec);
    return streams.out(layer.output(streams.hidden(), &streams, part));
  }
  expect_whole(part);
  builder.label(in, "decoder_layer_input");
  ValueId x = in;
  for (std::size_t i = 0; i < spec.parts.size(); ++i)
    x = MaxTextLayer(builder, blocks_, model, index, spec.parts[i], blocks_.parts.at(i).suffix).output(x);
  return x;
}

/// The model and its modules share norm and table.
HeadOperands MaxTextFamily::mtp_head(ProgramBuilder& builder, const ModelSpec& model, int module, ValueId x) const {
  if (module == 0) builder.label(x, "decoder_output");
  const ValueId summed = sum_of_streams(builder, model, x);
  const ValueId normed = maxtext_norm(builder, blocks_, model, summed, "decoder.decoder_norm", "decoder_norm");
  builder.label(normed, "final_norm");
  HeadOperands head{
      .h = maxtext_dropout(builder, model, normed, "final_dropout"),
      .table = {.name = "decoder.logits_dense.kernel", .vocabulary = model.vocab_size, .width = model.width, .stored_transposed = true}};
  if (module == 0) head.form.z_loss = static_cast<float>(model.losses.z_loss);
  if (!model.tied) return head;
  head.table = {.name = token_table, .vocabulary = model.vocab_size, .width = model.width, .use = 1};
  head.form.round_table = true;
  head.form.soft_cap = static_cast<float>(model.logit_cap);
  head.form.scale = model.head_scale;
  return head;
}

ValueId MaxTextFamily::head(ProgramBuilder& builder, const ModelSpec& model, const Streams& x, bool want_logits) const {
  const HeadOperands head = mtp_head(builder, model, 0, x);
  return want_logits ? output_logits(builder, head) : output_loss(builder, model.losses.output, head, builder.batch("targets"));
}

ValueId MaxTextFamily::mtp_embedding(ProgramBuilder& builder, const ModelSpec& model, int module) const {
  return embedded(builder, model, module);
}

/// These norms are RMSNorms in every block.
ValueId MaxTextFamily::mtp_input(ProgramBuilder& builder, const ModelSpec& model, int module, ValueId embedding, ValueId hidden) const {
  const auto norm = [&](ValueId x, const char* name) {
    const ValueId scale = builder.parameter(mtp_path(module, name) + ".scale", {model.width}, runtime::in_f32);
    return runtime::rms_norm(builder, x, scale, {.epsilon = static_cast<float>(model.norm.epsilon)}, name);
  };
  const ValueId joined = runtime::join(builder, {norm(embedding, "embedding_norm"), norm(hidden, "hidden_state_norm")}, "join");
  const ValueId kernel = builder.parameter(mtp_path(module, "projection") + ".kernel", {2 * model.width, model.width});
  return runtime::linear_input_major(builder, joined, kernel, "projection");
}

ValueId MaxTextFamily::mtp_layer(ProgramBuilder& builder, const ModelSpec& model, int module, ValueId x) const {
  return layer(builder, model, model.decoder_layers() + module - 1, x);
}

Initial MaxTextFamily::initial(const ModelSpec& model, const std::string& name, const Shape& shape) const {
  if (name == token_table || name == position_table || name == per_layer_table) return {InitialKind::normal, 1.0};
  if (const auto recurrent = initial_delta_net_parameter(name, ".norm.rms_norm.scale", 1e-9); recurrent && blocks_.hybrid)
    return *recurrent;
  if (const auto memory = initial_engram_parameter(name, shape); memory && blocks_.engram) return *memory;
  if (name.ends_with(".bias") || name.ends_with("_bias") || name.ends_with(".sinks")) return {InitialKind::zeros};
  if (name.ends_with("_beta")) return {InitialKind::zeros};
  if (name.ends_with("_alpha_scale")) return {.kind = InitialKind::constant, .value = 0.01F};
  if (name.ends_with("_alpha")) return {InitialKind::normal, 1.0 / std::sqrt(static_cast<double>(shape[0]))};
  if (shape.rank() == 1) return {model.norm.offset == 0 ? InitialKind::ones : InitialKind::zeros};
  // MaxText's initialiser takes the experts' axis for the one of inputs and counts the last one as part of a receptive field.
  if (shape.rank() == 3)
    return {InitialKind::truncated_normal, 1.0 / std::sqrt(static_cast<double>(shape[0] * shape[2])) / truncated_deviation};
  const bool turned = name == "decoder.logits_dense.kernel" || name.ends_with(".conv1d.kernel");  // programs have it transposed
  const double deviation = 1.0 / std::sqrt(static_cast<double>(shape[turned ? 1 : 0]));
  const std::string in_module = std::string(".") + blocks_.attention_module + (blocks_.hybrid ? ".attention." : "");
  const bool in_attention = blocks_.attention && name.find(in_module) != std::string::npos;
  if (!in_attention) return {InitialKind::truncated_normal, deviation / truncated_deviation};
  if (!name.ends_with(".query.kernel") || !blocks_.scale_in_weights) return {InitialKind::normal, deviation};
  const LayerSpec& first = model.layers.front();
  const std::int64_t head_dim = shape[1] / (first.parts.empty() ? first : first.parts.front()).attention().heads;
  return {InitialKind::normal, deviation / std::sqrt(static_cast<double>(head_dim))};
}

bool MaxTextFamily::recognises(runtime::JsonReader& reader) const { return reader.text("decoder_block") == std::string(traits_.name); }

void MaxTextFamily::read_config(runtime::JsonReader& reader, ConfigFile& file) const {
  file.model = read_maxtext(reader, file_, file.losses);
}

runtime::OrderedJson MaxTextFamily::config_json(const ConfigFile& file, std::string_view dtype) const {
  return maxtext_json(file.model, file_, dtype, file.losses);
}

MaxTextLayer MaxTextFamily::begin_layer(ProgramBuilder& builder, const ModelSpec& model, int index, ValueId x) const {
  builder.label(x, "decoder_layer_input");
  return {builder, blocks_, model, index, model.layers.at(static_cast<std::size_t>(index))};
}

}  // namespace millrace::layers
