#include "layers/attention/indexer.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "layers/rotary.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

/// The epsilon of the norm of keys, which is the same in all models.
constexpr float key_norm_epsilon = 1e-6F;

/// What scores are computed from: queries [T, heads·head_dim], keys [T, head_dim], weights f32 [T, heads].
struct Index {
  ValueId queries, keys, weights;
};

/// Computes them from the layer's input and the queries' latent vector.
Index index_of(ProgramBuilder& builder, const LatentAttentionSpec& spec, const IndexerParameters& parameters, ValueId x, ValueId latent,
               const std::string& name) {
  const auto project = [&](ValueId from, ValueId matrix, const char* operation) {
    return parameters.input_major ? runtime::linear_input_major(builder, from, matrix, name + operation)
                                  : runtime::linear(builder, from, matrix, name + operation);
  };
  // The rotated features come first, and their pairs are halves of them, unlike those of latent attention.
  const kernels::RopeOptions form{.factor = rotary_factor(spec.rope), .unrotated = spec.indexer->head_dim - spec.rope_head_dim};
  const ValueId frequencies =
      builder.constant("inverse_frequencies", inverse_frequencies(spec.rope, spec.rope_head_dim, builder.options().sequence));
  const auto rotated = [&](ValueId from, const char* operation) {
    return runtime::rope(builder, from, builder.batch("positions"), frequencies, form, name + operation);
  };
  Index index;
  index.queries = rotated(project(latent, parameters.query, ".wq_b"), ".q_rope");
  const ValueId normed = runtime::layer_norm(builder, project(x, parameters.key, ".wk"), parameters.norm_scale, parameters.norm_bias,
                                             {.epsilon = key_norm_epsilon}, name + ".k_norm");
  index.keys = rotated(normed, ".k_rope");
  index.weights = project(runtime::to_f32(builder, x, name + ".weights_input"), parameters.weights, ".weights_proj");
  return index;
}

double layers_with_indexer(const ModelSpec& model) {
  return static_cast<double>(std::ranges::count_if(model.layers, [](const LayerSpec& layer) {
    const auto* latent = std::get_if<LatentAttentionSpec>(&layer.mixer);
    return latent != nullptr && latent->indexer.has_value();
  }));
}

}  // namespace

runtime::ParameterForm indexer_form(const IndexerSpec& spec, const runtime::LossWeights& losses, bool f32) {
  runtime::ParameterForm form;
  if (f32) form.dtype = kernels::DType::f32;
  form.trained = spec.always_trained || losses.indexer_loss > 0;
  return form;
}

ValueId indexed_attention(ProgramBuilder& builder, const LatentAttention& attention, const ModelSpec& model,
                          const LatentAttentionSpec& spec, const IndexerParameters& parameters, ValueId x, const std::string& name) {
  const IndexerSpec& indexer = spec.indexer.value();
  if (builder.options().sequence <= indexer.keys) return attention(x);
  const LatentQueries q = attention.queries(x);
  const LatentKeys kv = attention.keys(x);
  const std::string prefix = name + ".indexer";
  const bool learns = model.losses.indexer_loss > 0;
  const auto constant = [&](ValueId from, const char* operation) {
    return learns ? runtime::detach(builder, from, prefix + operation) : from;
  };
  const Index index = index_of(builder, spec, parameters, constant(x, ".input"), constant(q.latent, ".latent"), prefix);
  const double heads = static_cast<double>(indexer.heads), width = static_cast<double>(indexer.head_dim);
  const auto scale = static_cast<float>(1.0 / std::sqrt(heads) / std::sqrt(width));
  const ValueId segments = builder.batch("segments");
  const ValueId keys =
      runtime::choose_keys(builder, index.queries, index.keys, index.weights, segments,
                           {.keys_per_query = indexer.keys, .scale = scale, .torch_ties = indexer.torch_ties}, prefix + ".choose_keys");
  const kernels::AttentionOptions form = attention.form();
  if (learns) {
    const runtime::IndexerLossInputs inputs{.q = q.heads,
                                            .k = kv.keys,
                                            .index_q = index.queries,
                                            .index_k = index.keys,
                                            .index_weights = index.weights,
                                            .segments = segments,
                                            .keys = model.losses.indexer_warmup ? ValueId{} : keys};
    builder.loss_term(
        {.name = "indexer_loss",
         .weight = model.losses.indexer_loss,
         .denominator = runtime::Denominator::microbatches,
         .divisor = static_cast<double>(builder.tokens_count()) * layers_with_indexer(model),
         .auxiliary = true},
        runtime::indexer_loss(builder, inputs, {.head_dim = form.head_dim, .scale = form.scale, .index_scale = scale}, prefix + ".loss"));
  }
  return attention.output(runtime::sparse_attention(
      builder, q.heads, kv.keys, kv.values, keys,
      {.head_dim = form.head_dim, .v_head_dim = form.v_head_dim, .scale = form.scale, .soft_cap = form.soft_cap}, name + ".attention"));
}

IndexerParameters hugging_face_indexer(ProgramBuilder& builder, const ModelSpec& model, const LatentAttentionSpec& spec,
                                       const std::string& module) {
  const IndexerSpec& indexer = spec.indexer.value();
  const auto parameter = [&](const char* name, kernels::Shape shape, bool f32) {
    return builder.parameter(module + name, shape, indexer_form(indexer, model.losses, f32));
  };
  return {.query = parameter(".wq_b.weight", {indexer.heads * indexer.head_dim, spec.query_rank}, false),
          .key = parameter(".wk.weight", {indexer.head_dim, model.width}, false),
          .weights = parameter(".weights_proj.weight", {indexer.heads, model.width}, true),
          .norm_scale = parameter(".k_norm.weight", {indexer.head_dim}, true),
          .norm_bias = parameter(".k_norm.bias", {indexer.head_dim}, true)};
}

void check_indexer(const std::string& family, const LatentAttentionSpec& spec) {
  constexpr const char* component = "layers.indexer";
  const IndexerSpec& indexer = spec.indexer.value();
  for (const auto& [name, value] :
       {std::pair{"index_n_heads", indexer.heads}, {"index_head_dim", indexer.head_dim}, {"index_topk", indexer.keys}})
    MILLRACE_CHECK(value >= 1, ExitCode::model, component, "{}: {} = {}, expected 1 or more", family, name, value);
  MILLRACE_CHECK(indexer.head_dim >= spec.rope_head_dim, ExitCode::model, component,
                 "{}: index_head_dim = {}, expected qk_rope_head_dim = {} or more", family, indexer.head_dim, spec.rope_head_dim);
  MILLRACE_CHECK(spec.query_rank > 0, ExitCode::model, component,
                 "{}: q_lora_rank = 0 with an indexer, expected 1 or more: its queries are expanded from the same vector", family);
  MILLRACE_CHECK(spec.causal, ExitCode::model, component, "{}: causal = false with an indexer, expected true", family);
}

bool is_of_indexer(std::string_view parameter) { return parameter.find(".indexer.") != std::string_view::npos; }

}  // namespace millrace::layers
