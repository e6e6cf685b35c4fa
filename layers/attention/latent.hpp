#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// The matrices of latent attention. Queries have either `query`, from the layer's input to heads, or `query_down` and `query_up`, with a
/// latent vector in between; keys and values always have the latter.
enum class LatentMatrix : std::uint8_t { query, query_down, query_up, kv_down, kv_up, out };

/// How QK-clip scales this matrix by the scores of the heads: queries and keys without position by their root, rotated queries by the
/// whole, values not at all. No heads for another matrix.
[[nodiscard]] kernels::HeadOutputs score_outputs(LatentMatrix which, const LatentAttentionSpec& spec, bool rows);

/// The two latent vectors, which are normalised.
enum class LatentVector : std::uint8_t { query, key_value };

/// How a family's files have the weights of latent attention: their names and axes.
class LatentWeights {
 public:
  virtual ~LatentWeights() = default;
  /// x [T, inputs] → [T, outputs].
  [[nodiscard]] virtual runtime::ValueId project(LatentMatrix which, runtime::ValueId x, std::int64_t inputs,
                                                 std::int64_t outputs) const = 0;
  /// RMSNorm with a weight [width]: x [T, width] → same.
  [[nodiscard]] virtual runtime::ValueId norm(LatentVector which, runtime::ValueId x, std::int64_t width) const = 0;
};

/// The queries of a layer.
struct LatentQueries {
  runtime::ValueId latent;  // [T, query_rank] after its norm; not valid if there is none
  runtime::ValueId heads;   // [T, heads · (nope_head_dim + rope_head_dim)], rotated
};

/// The keys and values of a layer.
struct LatentKeys {
  runtime::ValueId keys;    // [T, heads · (nope_head_dim + rope_head_dim)], rotated
  runtime::ValueId values;  // [T, heads · v_head_dim]
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1) over x [T, width] → [T, width], in its parts, so that a layer
/// which chooses the keys of a query can put its choice between them; operator() is the whole. Documents of a packed row do not attend to
/// each other. Operations are named `<name>.…`. Labels: query_wa_proj and mla_q (the queries' latent vector before and after its norm),
/// kv_wa_proj (that of keys and values with the keys' rotary part), mla_kv (after its norm), query_proj, key_proj and value_proj (what the
/// scores and sums are computed from), context and attention_out (the weighted values), out_proj (result). All arguments must outlive it.
class LatentAttention {
 public:
  LatentAttention(runtime::ProgramBuilder& builder, const LatentAttentionSpec& spec, const LatentWeights& weights, std::int64_t width,
                  const std::string& name)
      : builder_(builder), spec_(spec), weights_(weights), width_(width), name_(name) {}

  [[nodiscard]] LatentQueries queries(runtime::ValueId x) const;
  [[nodiscard]] LatentKeys keys(runtime::ValueId x) const;
  /// The options of the attention kernel for these queries and keys.
  [[nodiscard]] kernels::AttentionOptions form() const;
  /// The weighted values [T, heads · v_head_dim] → [T, width].
  [[nodiscard]] runtime::ValueId output(runtime::ValueId context) const;

  [[nodiscard]] runtime::ValueId operator()(runtime::ValueId x) const;

 private:
  [[nodiscard]] std::int64_t head_dim() const { return spec_.nope_head_dim + spec_.rope_head_dim; }
  /// Rotates the last rope_head_dim features of every head of x, of which the first `unrotated` are left alone.
  [[nodiscard]] runtime::ValueId rotated(runtime::ValueId x, std::int64_t unrotated, const std::string& name) const;

  runtime::ProgramBuilder& builder_;
  const LatentAttentionSpec& spec_;
  const LatentWeights& weights_;
  const std::int64_t width_;
  const std::string& name_;
};

/// The weights as transformers has them, under `module`: q_proj [heads·(nope + rope), width], or q_a_proj [query_rank, width],
/// q_a_layernorm [query_rank] and q_b_proj [heads·(nope + rope), query_rank]; kv_a_proj_with_mqa [kv_rank + rope, width], kv_a_layernorm
/// [kv_rank], kv_b_proj [heads·(nope + v), kv_rank], o_proj [width, heads·v] (.weight). With spec.bias q_a_proj, kv_a_proj_with_mqa and
/// o_proj have a .bias. `norm_form` is the form of the norms but for their epsilon, which is the spec's. All arguments must outlive it.
class HuggingFaceLatentWeights final : public LatentWeights {
 public:
  HuggingFaceLatentWeights(runtime::ProgramBuilder& builder, const LatentAttentionSpec& spec, const kernels::RmsNormOptions& norm_form,
                           const std::string& module)
      : builder_(builder), spec_(spec), norm_form_(norm_form), module_(module) {}

  [[nodiscard]] runtime::ValueId project(LatentMatrix which, runtime::ValueId x, std::int64_t inputs, std::int64_t outputs) const override;
  [[nodiscard]] runtime::ValueId norm(LatentVector which, runtime::ValueId x, std::int64_t width) const override;

 private:
  runtime::ProgramBuilder& builder_;
  const LatentAttentionSpec& spec_;
  const kernels::RmsNormOptions& norm_form_;
  const std::string& module_;
};

/// Latent attention with transformers' weights; operations are named `self_attn.…`.
[[nodiscard]] runtime::ValueId latent_attention(runtime::ProgramBuilder& builder, runtime::ValueId x, std::int64_t width,
                                                const LatentAttentionSpec& spec, const kernels::RmsNormOptions& norm_form,
                                                const std::string& module);

/// Throws Error(model) naming `family` and the width that does not fit: all must be 1 or more but query_rank, which may be 0, and
/// rope_head_dim must be even and rotated as a whole.
void check_latent_attention(const std::string& family, const LatentAttentionSpec& spec);

/// The factor of scores whose rotation is scaled for longer contexts: (0.1·mscale·ln(factor) + 1)², 1 for a factor of 1 or below.
[[nodiscard]] double latent_score_factor(double mscale, double factor);

}  // namespace millrace::layers
