#include "layers/attention/latent.hpp"

#include <cmath>
#include <utility>

#include "kernels/base/check.hpp"
#include "layers/rotary.hpp"
#include "runtime/program/observation.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

/// transformers' name of a projection.
const char* latent_matrix_name(LatentMatrix which) {
  switch (which) {
    case LatentMatrix::query:
      return "q_proj";
    case LatentMatrix::query_down:
      return "q_a_proj";
    case LatentMatrix::query_up:
      return "q_b_proj";
    case LatentMatrix::kv_down:
      return "kv_a_proj_with_mqa";
    case LatentMatrix::kv_up:
      return "kv_b_proj";
    case LatentMatrix::out:
      return "o_proj";
  }
  return "?";
}

}  // namespace

kernels::HeadOutputs score_outputs(LatentMatrix which, const LatentAttentionSpec& spec, bool rows) {
  if (which == LatentMatrix::query || which == LatentMatrix::query_up) return {spec.heads, spec.nope_head_dim, spec.rope_head_dim, 0, rows};
  if (which == LatentMatrix::kv_up) return {spec.heads, spec.nope_head_dim, 0, spec.v_head_dim, rows};
  return {};
}

ValueId LatentAttention::rotated(ValueId x, std::int64_t unrotated, const std::string& name) const {
  const auto frequencies =
      builder_.constant("inverse_frequencies", inverse_frequencies(spec_.rope, spec_.rope_head_dim, builder_.options().sequence));
  const kernels::RopeOptions form{
      .factor = rotary_factor(spec_.rope), .interleaved = spec_.interleaved, .unrotated = unrotated, .rotate_last = unrotated > 0};
  return runtime::rope(builder_, x, builder_.batch("positions"), frequencies, form, name_ + "." + name);
}

LatentQueries LatentAttention::queries(ValueId x) const {
  LatentQueries result;
  ValueId heads;
  if (spec_.query_rank == 0) {
    heads = weights_.project(LatentMatrix::query, x, width_, spec_.heads * head_dim());
  } else {
    const ValueId down = weights_.project(LatentMatrix::query_down, x, width_, spec_.query_rank);
    builder_.label(down, "query_wa_proj");
    result.latent = weights_.norm(LatentVector::query, down, spec_.query_rank);
    builder_.label(result.latent, "mla_q");
    heads = weights_.project(LatentMatrix::query_up, result.latent, spec_.query_rank, spec_.heads * head_dim());
  }
  result.heads = rotated(heads, spec_.nope_head_dim, "q_rope");
  if (spec_.scale_queries) result.heads = runtime::scale(builder_, result.heads, static_cast<double>(spec_.scale), name_ + ".q_scale");
  builder_.label(result.heads, "query_proj");
  return result;
}

LatentKeys LatentAttention::keys(ValueId x) const {
  const ValueId down = weights_.project(LatentMatrix::kv_down, x, width_, spec_.kv_rank + spec_.rope_head_dim);
  builder_.label(down, "kv_wa_proj");
  const auto parts = runtime::split(builder_, down, {spec_.kv_rank, spec_.rope_head_dim}, name_ + ".kv_split");
  const ValueId latent = weights_.norm(LatentVector::key_value, parts[0], spec_.kv_rank);
  builder_.label(latent, "mla_kv");
  const ValueId up = weights_.project(LatentMatrix::kv_up, latent, spec_.kv_rank, spec_.heads * (spec_.nope_head_dim + spec_.v_head_dim));
  const auto heads = runtime::split_heads(builder_, up, spec_.heads, {spec_.nope_head_dim, spec_.v_head_dim}, name_ + ".kv_heads");
  const ValueId turned = rotated(parts[1], 0, "k_rope");
  const ValueId keys = runtime::join_heads(builder_, {heads[0], turned}, {.heads = spec_.heads, .shared = 1}, name_ + ".k_heads");
  builder_.label(keys, "key_proj");
  builder_.label(heads[1], "value_proj");
  return {keys, heads[1]};
}

kernels::AttentionOptions LatentAttention::form() const {
  return {.head_dim = head_dim(),
          .v_head_dim = spec_.v_head_dim,
          .scale = spec_.scale_queries ? 1.0F : spec_.scale,
          .soft_cap = static_cast<float>(spec_.soft_cap),
          .causal = spec_.causal};
}

ValueId LatentAttention::output(ValueId context) const {
  builder_.label(context, "context");
  builder_.label(context, "attention_out");
  const ValueId out = weights_.project(LatentMatrix::out, context, spec_.heads * spec_.v_head_dim, width_);
  builder_.label(out, "out_proj");
  return out;
}

ValueId LatentAttention::operator()(ValueId x) const {
  const LatentQueries q = queries(x);
  const LatentKeys kv = keys(x);
  if (builder_.options().observe_scores)
    builder_.observe(runtime::score_maxima_name,
                     runtime::score_maxima(builder_, q.heads, kv.keys, builder_.batch("segments"), form(), name_ + ".score_maxima"));
  return output(runtime::attention(builder_, q.heads, kv.keys, kv.values, builder_.batch("segments"), form(), name_ + ".attention"));
}

ValueId HuggingFaceLatentWeights::project(LatentMatrix which, ValueId x, std::int64_t inputs, std::int64_t outputs) const {
  const std::string name = latent_matrix_name(which);
  const ValueId weight =
      builder_.parameter(module_ + "." + name + ".weight", {outputs, inputs}, {.heads = score_outputs(which, spec_, true)});
  const ValueId y = runtime::linear(builder_, x, weight, "self_attn." + name);
  const bool has_bias = which == LatentMatrix::query_down || which == LatentMatrix::kv_down || which == LatentMatrix::out;
  if (!spec_.bias || !has_bias) return y;
  const ValueId bias = builder_.parameter(module_ + "." + name + ".bias", {outputs}, runtime::in_f32);
  return runtime::add_bias(builder_, y, bias, "self_attn." + name + "_bias");
}

ValueId HuggingFaceLatentWeights::norm(LatentVector which, ValueId x, std::int64_t width) const {
  const std::string name = which == LatentVector::query ? "q_a_layernorm" : "kv_a_layernorm";
  const ValueId weight = builder_.parameter(module_ + "." + name + ".weight", {width}, runtime::in_f32);
  kernels::RmsNormOptions form = norm_form_;
  form.epsilon = static_cast<float>(spec_.norm_epsilon);
  return runtime::rms_norm(builder_, x, weight, form, "self_attn." + name);
}

ValueId latent_attention(ProgramBuilder& builder, ValueId x, std::int64_t width, const LatentAttentionSpec& spec,
                         const kernels::RmsNormOptions& norm_form, const std::string& module) {
  const HuggingFaceLatentWeights weights(builder, spec, norm_form, module);
  const std::string name = "self_attn";
  return LatentAttention(builder, spec, weights, width, name)(x);
}

void check_latent_attention(const std::string& family, const LatentAttentionSpec& spec) {
  constexpr const char* component = "layers.latent_attention";
  for (const auto& [name, value, least] : {std::tuple{"q_lora_rank", spec.query_rank, 0},
                                           {"kv_lora_rank", spec.kv_rank, 1},
                                           {"qk_nope_head_dim", spec.nope_head_dim, 1},
                                           {"qk_rope_head_dim", spec.rope_head_dim, 2},
                                           {"v_head_dim", spec.v_head_dim, 1}})
    MILLRACE_CHECK(value >= least, ExitCode::model, component, "{}: {} = {}, expected {} or more", family, name, value, least);
  MILLRACE_CHECK(spec.rope_head_dim % 2 == 0, ExitCode::model, component, "{}: qk_rope_head_dim = {}, expected an even number", family,
                 spec.rope_head_dim);
  MILLRACE_CHECK(2 * rotary_pairs(spec.rope, spec.rope_head_dim) == spec.rope_head_dim, ExitCode::model, component,
                 "{}: rope_proportion = {} rotates {} of qk_rope_head_dim = {}, expected all of them", family, spec.rope.proportion,
                 2 * rotary_pairs(spec.rope, spec.rope_head_dim), spec.rope_head_dim);
}

double latent_score_factor(double mscale, double factor) {
  if (factor <= 1) return 1.0;
  const double root = 0.1 * mscale * std::log(factor) + 1.0;
  return root * root;
}

}  // namespace millrace::layers
