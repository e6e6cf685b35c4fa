#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "kernels/base/activation.hpp"
#include "kernels/base/clamped_glu_options.hpp"
#include "kernels/base/hyper_gates_options.hpp"
#include "kernels/base/ngram_options.hpp"
#include "kernels/base/route_options.hpp"
#include "layers/model_config.hpp"
#include "runtime/program/loss_weights.hpp"

/// The parts of a model, resolved: the spec of every layer lists its parts, so builders need no rule by which the layers of a mixed model
/// differ. The family makes it from a ModelConfig (ModelFamily::resolve); only the builders of layers read it.
namespace millrace::layers {

/// Normalisation of queries and keys: none; before the rotation, per head with a weight [head_dim], or over all heads at once with
/// weights [heads·head_dim] and [kv_heads·head_dim]; or after the rotation, per head without a weight (Llama 4).
enum class QueryKeyNorm : std::uint8_t { none, per_head, all_heads, after_rotation };

/// Whether the norm has a weight, as those before the rotation do.
[[nodiscard]] constexpr bool has_norm_weight(QueryKeyNorm norm) {
  return norm == QueryKeyNorm::per_head || norm == QueryKeyNorm::all_heads;
}

/// Queries of position p are multiplied by 1 + scale·ln(1 + ⌊(p + 1) / floor⌋) (Llama 4).
struct QueryTemperature {
  double scale = 0.1;
  std::int64_t floor = 8192;  // positions, 1 or more

  bool operator==(const QueryTemperature&) const = default;
};

/// Self-attention with grouped queries (Ainslie et al., arXiv 2305.13245).
struct AttentionSpec {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;  // divides heads
  std::int64_t head_dim = 0;
  std::optional<RopeConfig> rope;  // not set: no position encoding
  bool local_rope = false;         // use the rotation of sliding-window layers, if the model has a separate one
  bool interleaved = false;        // rotary pairs are neighbours, not halves of the head
  float scale = 1.0F;              // multiplies q·k
  double soft_cap = 0.0;           // scores s become cap·tanh(s / cap); 0: no cap
  bool causal = true;              // a query attends to no later key; false: to both sides
  std::int64_t window = 0;         // a query attends to keys that are less than this many positions away; 0: no limit
  std::int64_t chunk = 0;          // a query attends to its own chunk of this many keys; 0: no limit
  std::int64_t block = 0;          // a query attends only to the blocks of this many keys that it chooses (MoBA); 0: no limit
  std::int64_t blocks = 0;         // with block: it chooses at most this many, its own block among them
  bool sinks = false;              // the softmax's sum includes a learned score per query head
  bool qkv_bias = false;
  bool out_bias = false;
  QueryKeyNorm norm = QueryKeyNorm::none;
  std::optional<QueryTemperature> temperature = {};
  bool fused = false;       // one kernel for queries, keys and values
  bool share_kv = false;    // the values are the projected keys
  bool value_norm = false;  // each head of the values is divided by its root mean square
  // The layer whose keys and values it attends to, as that layer's scores use them; it has none of its own. Not set: it attends to its own.
  std::optional<int> keys_of = {};
  // The query projection is twice as wide: each head's second half is a gate, whose sigmoid multiplies the head's weighted values.
  bool output_gate = false;

  bool operator==(const AttentionSpec&) const = default;
};

/// What chooses the keys of a query in DeepSeek-V3.2's sparse attention (arXiv 2512.02556, section 2.1).
struct IndexerSpec {
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;    // of its queries and keys; the first rope_head_dim features are rotated
  std::int64_t keys = 0;        // that a query attends to; rows that are not longer have attention to all keys
  bool torch_ties = false;      // of equal scores those keys are chosen that torch.topk takes
  bool always_trained = false;  // optimizers also update it if no loss trains it, with a gradient of 0

  bool operator==(const IndexerSpec&) const = default;
};

/// A gated delta net (Yang et al., arXiv 2412.06464) in the form of Qwen3-Next: linear attention, whose state has a fixed size.
struct DeltaNetSpec {
  std::int64_t key_heads = 0;                                  // Hk, of queries and keys
  std::int64_t value_heads = 0;                                // Hv, a multiple of key_heads
  std::int64_t key_head_dim = 0;                               // dk
  std::int64_t value_head_dim = 0;                             // dv
  std::int64_t taps = 0;                                       // of the convolution over queries, keys and values
  kernels::Activation activation = kernels::Activation::silu;  // of the convolution's result
  // Two projections, whose outputs are grouped by key head, give everything; else there are four.
  bool grouped = false;
  bool reset_at_segments = true;  // no document of a packed row sees another; false: state and convolution pass on to the next
  bool round_decay = false;       // the decay is rounded to the compute dtype (kernels/delta_gates.hpp)

  [[nodiscard]] std::int64_t key_width() const { return key_heads * key_head_dim; }
  [[nodiscard]] std::int64_t value_width() const { return value_heads * value_head_dim; }
  [[nodiscard]] std::int64_t channels() const { return 2 * key_width() + value_width(); }  // of the convolution
  bool operator==(const DeltaNetSpec&) const = default;
};

/// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1): keys and values, and queries if query_rank is not 0, are
/// expanded from one latent vector per token. A part of every head carries the position; that of the keys is shared by all heads.
struct LatentAttentionSpec {
  std::int64_t heads = 0;
  std::int64_t query_rank = 0;     // width of the queries' latent vector; 0: queries have none
  std::int64_t kv_rank = 0;        // width of the latent vector of keys and values
  std::int64_t nope_head_dim = 0;  // of queries and keys, not rotated
  std::int64_t rope_head_dim = 0;  // of queries and keys, rotated; even
  std::int64_t v_head_dim = 0;
  RopeConfig rope;
  bool interleaved = true;                  // rotary pairs are neighbours, not halves of the rotated part
  float scale = 1.0F;                       // multiplies q·k
  bool scale_queries = false;               // the scale multiplies the queries in the compute dtype, not the scores in fp32
  double soft_cap = 0.0;                    // scores s become cap·tanh(s / cap); 0: no cap
  bool causal = true;                       // a query attends to no later key; false: to both sides
  double norm_epsilon = 1e-6;               // of the norms of the latent vectors
  bool bias = false;                        // on the projections to the latent vectors and on that of the output
  std::optional<IndexerSpec> indexer = {};  // a query attends to the keys that it chooses

  bool operator==(const LatentAttentionSpec&) const = default;
};

/// down(activation(gate(x)) ⊙ up(x)) (Shazeer, arXiv 2002.05202), or down(activation(up(x))) without a gate.
struct MlpSpec {
  std::int64_t width = 0;  // of the hidden features
  kernels::Activation activation = kernels::Activation::silu;
  bool gated = true;
  bool bias = false;                                     // on all projections; in an expert each has its own
  bool fused = false;                                    // one kernel for gate and up
  std::optional<kernels::ClampedGluOptions> clamp = {};  // gate and up are clamped (GPT-OSS), and combined by σ whatever the activation

  bool operator==(const MlpSpec&) const = default;
};

/// A mixture of experts (Shazeer et al., arXiv 1701.06538; Fedus et al., arXiv 2101.03961): a router chooses experts for every token, and
/// adds up their results with weights. Each expert is a gated MLP.
struct ExpertsSpec {
  std::int64_t experts = 0;            // E
  kernels::RouteOptions route;         // how experts are chosen and weighed
  MlpSpec expert;                      // of each expert
  bool router_bias = false;            // the router's product has a bias, which is part of its logits
  bool scale_input = false;            // weights multiply the experts' inputs, and their results are added as they are
  std::optional<MlpSpec> shared = {};  // an expert that every token has
  bool shared_gate = false;            // whose result is multiplied by the sigmoid of a learned product of the token
  // The experts and the shared one are branches of a layer, each with norms of its own: the result of both is normed, the experts read the
  // residual stream and not what the shared one reads, and so does the router, through a norm and learned scales of its own (Gemma 4).
  bool branch = false;
  bool expert_scales = false;      // the weight of an expert is multiplied by a learned number of the expert
  bool route_bias_trained = true;  // false: the bias of the route is stored with the weights and stays as it is
  double capacity_factor = 0;  // an expert takes this many times its even share of a sequence's choices; 0: all (layers/moe/capacity.hpp)
  bool router_in_f32 = true;   // the router computes in fp32; else in the compute dtype
  // The scores of whose softmax the balance loss takes the mean, to which a bias of the route is added. transformers takes the logits.
  kernels::RouterScore balanced = kernels::RouterScore::logit;

  bool operator==(const ExpertsSpec&) const = default;
};

/// The position of the norms in each of a layer's two branches:
///   before: x + f(norm(x))    around: x + norm(f(norm(x)))    after: x + norm(f(x))    shared: x + f(u) + g(u), u = norm(x)
enum class NormPlacement : std::uint8_t { before, around, after, shared };

/// A learned number that multiplies the output of a layer, the residual stream with it: none, or one that training leaves as the checkpoint
/// has it, or one that is trained.
enum class LayerScalar : std::uint8_t { none, frozen, trained };

/// The n-gram memory of a layer (layers/engram.hpp).
struct EngramSpec {
  kernels::NgramOptions hash;  // but for the length of a row of text
  std::int64_t head_dim = 0;   // of a table's rows
  std::int64_t taps = 0;       // of the convolution

  bool operator==(const EngramSpec&) const = default;
};

/// Which part of a decoder layer: all of it, its attention, or its MLP or experts. A half has its own norms and residual connection; the
/// residual stream passes from one to the other.
enum class LayerPart : std::uint8_t { whole, attention, ffn };

/// One decoder layer. Both parts stay empty in families whose layers are plain matrices (MaxText's simple, for tests of pipelines).
struct LayerSpec {
  std::variant<std::monostate, AttentionSpec, LatentAttentionSpec, DeltaNetSpec> mixer;  // mixes tokens
  std::variant<std::monostate, MlpSpec, ExpertsSpec> ffn;                                // computes on each token separately
  NormPlacement norms = NormPlacement::before;
  LayerScalar scalar = LayerScalar::none;
  std::optional<EngramSpec> engram = {};  // what it adds to the residual streams before the mixer
  // Not empty: the layer consists of these, one after the other, and has no mixer and ffn of its own (MaxText counts two layers of Gemma 2
  // as one).
  std::vector<LayerSpec> parts = {};

  [[nodiscard]] const AttentionSpec& attention() const { return std::get<AttentionSpec>(mixer); }
  [[nodiscard]] const MlpSpec& mlp() const { return std::get<MlpSpec>(ffn); }
  bool operator==(const LayerSpec&) const = default;
};

/// The properties that all norms of a model share. RMSNorm has an offset and an order of rounding (kernels/rms_norm.hpp), LayerNorm an
/// offset.
struct NormSpec {
  double epsilon = 1e-6;
  double offset = 0.0;      // added to the stored weight
  bool round_first = true;  // the normalised value is rounded to the compute dtype before it is multiplied by the weight

  bool operator==(const NormSpec&) const = default;
};

/// What each layer knows of a token beside the residual stream: a row of a second table and a projection of the token's embedding have a
/// part for every layer, which the layer adds through a gate (Gemma 3n and 4; layers/per_layer_inputs.hpp).
struct PerLayerInputsSpec {
  std::int64_t vocab_size = 0;                                 // rows of that table
  std::int64_t width = 0;                                      // of a layer's part
  kernels::Activation activation = kernels::Activation::gelu;  // of the gate

  bool operator==(const PerLayerInputsSpec&) const = default;
};

/// A whole model.
struct ModelSpec {
  std::int64_t vocab_size = 0;
  std::int64_t width = 0;  // of the residual stream, of each if there are several
  NormSpec norm;
  double embedding_scale = 1.0;        // multiplies the looked-up rows
  std::int64_t learned_positions = 0;  // rows of a learned table of positions; 0: there is none
  std::int64_t rotary_positions = 0;   // the number of positions that the rotation is defined for; 0: it is for all
  bool sinusoidal_positions = false;   // sines and cosines of the position are added to the embedding
  bool tied = false;                   // the output head uses the embedding table
  float head_scale = 1.0F;             // multiplies the logits
  double logit_cap = 0.0;              // logits s become cap·tanh(s / cap); 0: no cap
  double dropout_rate = 0.0;           // of features in training
  std::optional<PerLayerInputsSpec> per_layer_inputs = {};
  std::vector<LayerSpec> layers;  // the decoder layers, and after them that of each module of multi-token prediction
  int modules = 0;                // the number of these modules (layers/models/mtp.hpp)
  std::optional<kernels::HyperGatesOptions> hyper_connections = {};  // the residual stream is several (layers/hyper_connections.hpp)
  bool shifts_over_documents = false;                                // ShiftOptions::last_border_only for what modules predict
  runtime::LossWeights losses = {};                                  // which the run sets when it builds a stage

  /// The features of a token between layers.
  [[nodiscard]] std::int64_t stream_width() const { return hyper_connections ? hyper_connections->streams * width : width; }
  /// The number of layers without those of modules.
  [[nodiscard]] int decoder_layers() const { return static_cast<int>(layers.size()) - modules; }

  bool operator==(const ModelSpec&) const = default;
};

}  // namespace millrace::layers
