#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "layers/attention/dot_product.hpp"
#include "layers/layer_spec.hpp"
#include "layers/model_config.hpp"
#include "layers/models/layer_streams.hpp"
#include "layers/moe/maxtext_experts.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The names of a layer's norms. NormPlacement says which of them a layer has.
struct MaxTextNormNames {
  const char* before_attention = "";
  const char* after_attention = "";
  const char* before_mlp = "";
  const char* after_mlp = "";
};

/// One of several layers that MaxText counts as one. The suffix is part of the names of its modules and norms.
struct MaxTextPart {
  const char* suffix;
  LayerKind kind;
};

/// Differences between MaxText's blocks that no key expresses.
struct MaxTextBlocks {
  bool attention = true;         // has attention and a gated MLP
  bool rotary = true;            // queries and keys are rotated
  bool chunks = false;           // layers may attend to their own chunk of the row, and may have no rotation (Llama 4)
  bool bias = false;             // on all projections
  bool qkv_bias = false;         // on queries, keys and values
  bool sinks = false;            // a learned score per query head joins the softmax's sum
  bool scale_in_weights = true;  // 1/√head_dim is part of the query kernel; else scores are scaled when they are used
  bool split_axis = false;       // a fused kernel is stored [D, 3, N, h]; else [D, 3 N, h]
  bool layer_norm = false;       // norms are LayerNorms whose scale is stored minus 1; else RMSNorms
  bool shares_kv = false;        // the values may be the projected keys, in a file with full_layers those of full layers only
  bool equal_heads = false;      // needs as many kv_heads as heads, each with values of its own
  bool output_dropout = true;    // dropout also on the output of a layer
  bool hyper = false;            // may have hyper-connections (layers/hyper_connections.hpp): <layer>.mhc_attention, .mhc_mlp
  bool engram = false;           // layers may have an n-gram memory (layers/engram.hpp): <layer>.engram_layer_norm, .engram
  // Layers of linear attention (attention_module), and full ones with an output gate (a module `attention` in it, the output kernel without
  // an axis of heads); scales of norms are stored minus 1.
  bool hybrid = false;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool value_norm = false;                 // AttentionSpec::value_norm
  LayerScalar scalar = LayerScalar::none;  // <layer>.layer_scalar [1]
  NormPlacement norms = NormPlacement::before;
  MaxTextNormNames norm_names = {};
  const char* attention_module = "self_attention";
  std::optional<MaxTextExperts> experts = {};  // set: layers have experts in place of the MLP, all or some of them
  bool latent = false;                         // attention is multi-head latent attention
  std::vector<MaxTextPart> parts = {};         // not empty: every layer consists of these, one after the other
};

/// One of MaxText's decoder layers, or a part of one, under its parameter paths (decoder.layers_N.…) and with its kernels, which have
/// their inputs first and keep the axes of heads.
class MaxTextLayer {
 public:
  /// `spec` is that of the layer, or of the part with this suffix.
  MaxTextLayer(runtime::ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model, int index, const LayerSpec& spec,
               std::string suffix = "");

  /// The whole layer in the form that most blocks have: attention, then the MLP, each added to the stream, with the norms of the spec. A
  /// layer that takes or leaves other streams finds them in `streams`. With `part`, returns the residual stream behind that part.
  [[nodiscard]] runtime::ValueId output(runtime::ValueId in, LayerStreams* streams = nullptr, LayerPart part = LayerPart::whole) const;

  /// The norm with the parameters `<layer>.<name>.scale` [D] and, for a LayerNorm, `.bias`.
  [[nodiscard]] runtime::ValueId norm(runtime::ValueId x, const std::string& name) const;
  /// Attention, or the delta net that the layer has in its place. `seen` as in dot_product_attention().
  [[nodiscard]] runtime::ValueId attention(runtime::ValueId x, KeysAndValues& seen) const;
  [[nodiscard]] runtime::ValueId attention(runtime::ValueId x) const;
  /// The MLP, or the experts that the layer has in its place.
  [[nodiscard]] runtime::ValueId mlp(runtime::ValueId x) const;
  /// x · W with the bare parameter `<layer>.<name>` [inputs, outputs].
  [[nodiscard]] runtime::ValueId product(runtime::ValueId x, const std::string& name, std::int64_t inputs, std::int64_t outputs) const;
  [[nodiscard]] runtime::ValueId add(runtime::ValueId x, runtime::ValueId y, const std::string& name) const;
  /// x with dropout, if the model has it.
  [[nodiscard]] runtime::ValueId dropout(runtime::ValueId x, const std::string& name) const;

 private:
  struct Kernel;
  class LatentKernels;
  /// The residual streams with what the layer's n-gram memory adds to them.
  [[nodiscard]] runtime::ValueId with_engram(runtime::ValueId x) const;
  /// The MLP, or the experts beside it, of the residual stream `stream`; `x` is its norm.
  [[nodiscard]] runtime::ValueId mlp_of_stream(runtime::ValueId x, runtime::ValueId stream) const;
  /// The layer's output with what it makes of its own input.
  [[nodiscard]] runtime::ValueId with_own_input(runtime::ValueId y, runtime::ValueId own) const;
  /// Latent attention, whose keys an indexer may choose.
  [[nodiscard]] runtime::ValueId latent_attention(runtime::ValueId x, const LatentAttentionSpec& spec) const;
  /// An MLP under the path `mlp` of the layer.
  [[nodiscard]] runtime::ValueId mlp_of(runtime::ValueId x, const MlpSpec& spec, const std::string& mlp) const;
  /// y times the sigmoid of x · `<layer>.<path>.kernel`, one number per token.
  [[nodiscard]] runtime::ValueId gated_by_token(runtime::ValueId x, runtime::ValueId y, const std::string& path) const;
  [[nodiscard]] runtime::ValueId dense(runtime::ValueId x, const Kernel& kernel) const;
  /// Queries or keys with their norm, if the layer has it, and as scores use them. `name` is "query" or "key".
  [[nodiscard]] runtime::ValueId norm_and_rotate(runtime::ValueId x, QueryOrKey which, std::int64_t width) const;

  runtime::ProgramBuilder& builder_;
  const MaxTextBlocks& blocks_;
  const ModelSpec& model_;
  const LayerSpec& spec_;
  std::string module_, suffix_, attention_, mlp_;
};

/// A norm of MaxText over x [T, width]: `<module>.scale` and, for a LayerNorm, `.bias`. `name` is the operation's.
[[nodiscard]] runtime::ValueId maxtext_norm(runtime::ProgramBuilder& builder, const MaxTextBlocks& blocks, const ModelSpec& model,
                                            runtime::ValueId x, const std::string& module, std::string_view name);

/// x with dropout, if the model has it.
[[nodiscard]] runtime::ValueId maxtext_dropout(runtime::ProgramBuilder& builder, const ModelSpec& model, runtime::ValueId x,
                                               std::string_view name);

}  // namespace millrace::layers
