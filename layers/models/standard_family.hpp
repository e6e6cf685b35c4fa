#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "layers/formats/hugging_face/config.hpp"
#include "layers/models/model_family.hpp"
#include "layers/moe/mixture_of_experts.hpp"

namespace millrace::layers {

/// The mixture of experts of Mixtral and Qwen 3: an expert's weight is its part of the softmax over all experts.
[[nodiscard]] ExpertsSpec softmax_experts(const ModelConfig& config, kernels::Activation activation);

/// The mixture of experts of DeepSeek-V3 (arXiv 2412.19437, section 2.1.2): experts are chosen by their sigmoids plus a bias that only the
/// choice has and that training by gradients leaves alone, from the best groups, each judged by its two best. Their weights are the
/// sigmoids without the bias.
[[nodiscard]] ExpertsSpec sigmoid_experts(const ModelConfig& config, kernels::Activation activation);

/// The model.shared_experts of every token as one MLP, if there are any.
[[nodiscard]] std::optional<MlpSpec> shared_expert_of(const ModelConfig& config, kernels::Activation activation);

/// Differences between the blocks of these families that no key expresses.
struct StandardBlocks {
  NormPlacement norms = NormPlacement::before;
  QueryKeyNorm query_key_norm = QueryKeyNorm::none;
  bool qkv_bias = false;         // biases on queries, keys and values, whatever attention_bias says
  bool interleaved = false;      // rotary pairs are neighbours, not halves of the head
  bool sinks = false;            // sinks in every layer, whatever attention_sinks says
  bool needs_experts = false;    // a layer without experts cannot be computed
  double norm_offset = 0.0;      // subtracted from a norm's weight in files
  bool round_first = true;       // a norm rounds to the compute dtype before it multiplies by its weight
  bool scale_embedding = false;  // the looked-up rows are multiplied by √hidden_size
  bool unit_scale = false;       // scores are q·k, whatever the size of a head
  bool value_norm = false;       // AttentionSpec::value_norm
  LayerScalar scalar = LayerScalar::none;
  bool output_gate = false;    // attention's result has a gate (AttentionSpec::output_gate)
  bool grouped_delta = false;  // the projections of linear attention are grouped by key head (DeltaNetSpec::grouped)
  const char* mlp = "mlp";     // the module of a layer's MLP in files
  ExpertNames experts = {};    // the names of a mixture of experts in files
  ExpertsSpec (*experts_of)(const ModelConfig& config, kernels::Activation activation) = softmax_experts;
};

/// The keys of model.* that every family of this form reads: rotations, masks per layer, sinks, the activation.
[[nodiscard]] std::vector<std::string_view> standard_keys(std::initializer_list<std::string_view> more = {});

/// Returns `keys` plus the sizes of linear attention.
[[nodiscard]] std::vector<std::string_view> linear_attention_keys(std::vector<std::string_view> keys);

/// Returns `keys` plus the keys that every family with experts has: how many there are, how many a token has, and their capacity.
[[nodiscard]] std::vector<std::string_view> expert_keys(std::vector<std::string_view> keys);

/// The keys that every family with latent attention reads: its ranks and widths, the one rotation of all layers, the activation.
[[nodiscard]] std::vector<std::string_view> latent_keys(std::initializer_list<std::string_view> more = {});

/// Returns `keys` plus the keys of the separate rotation that sliding layers have in some families.
[[nodiscard]] std::vector<std::string_view> local_rotation_keys(std::vector<std::string_view> keys);

/// A family in the form that most of transformers' decoders have: model.embed_tokens, model.layers.N with self_attn and a gated mlp, norms
/// of one kind, model.norm, and lm_head or the tied table. The specs describe the layers, so such a family consists of data only.
class StandardFamily final : public ModelFamily, private MtpFamily {
 public:
  StandardFamily(FamilyTraits traits, StandardBlocks blocks, HuggingFaceClass file)
      : traits_(std::move(traits)), blocks_(blocks), file_(std::move(file)) {
    traits_.config_type = file_.model_type;
    if (file_.per_layer_inputs) return;
    traits_.keys.emplace_back("model.mtp_layers");
    traits_.layer_prefix = "model.layers.";
  }

  [[nodiscard]] const FamilyTraits& traits() const override { return traits_; }
  [[nodiscard]] ModelSpec resolve(const ModelConfig& config) const override;
  [[nodiscard]] std::vector<StreamSpec> streams(const ModelSpec& model, int index) const override;
  [[nodiscard]] Streams embed(runtime::ProgramBuilder& builder, const ModelSpec& model) const override;
  /// Norms as the layer's spec places them; before: input_layernorm and post_attention_layernorm; after: post_attention_layernorm and
  /// post_feedforward_layernorm; around: these three and pre_feedforward_layernorm. Experts that are a branch beside an MLP have
  /// pre_feedforward_layernorm_2 and post_feedforward_layernorm_2, and that MLP post_feedforward_layernorm_1.
  [[nodiscard]] Streams layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, const Streams& in) const override;
  [[nodiscard]] Streams layer_part(runtime::ProgramBuilder& builder, const ModelSpec& model, int index, LayerPart part,
                                   const Streams& in) const override;
  [[nodiscard]] runtime::ValueId head(runtime::ProgramBuilder& builder, const ModelSpec& model, const Streams& x,
                                      bool want_logits) const override;
  /// Under the names of DeepSeek-V3's files: a module is a further layer N, with enorm, hnorm, eh_proj [D, 2 D] and, for the head, a norm
  /// of its own, shared_head.norm.
  [[nodiscard]] const MtpFamily& multi_token_prediction() const override { return *this; }
  /// Matrices and sinks: normal; biases: 0; scales of norms: the stored value that means 1; learned numbers of activations and of delta
  /// nets: transformers'.
  [[nodiscard]] Initial initial(const ModelSpec& model, const std::string& name, const kernels::Shape& shape) const override;

  [[nodiscard]] bool recognises(runtime::JsonReader& reader) const override { return is_of_class(reader, file_); }
  void read_config(runtime::JsonReader& reader, ConfigFile& file) const override;
  [[nodiscard]] runtime::OrderedJson config_json(const ConfigFile& file, std::string_view dtype) const override;

 private:
  [[nodiscard]] runtime::ValueId mtp_embedding(runtime::ProgramBuilder& builder, const ModelSpec& model, int module) const override;
  [[nodiscard]] runtime::ValueId mtp_input(runtime::ProgramBuilder& builder, const ModelSpec& model, int module, runtime::ValueId embedding,
                                           runtime::ValueId hidden) const override;
  [[nodiscard]] runtime::ValueId mtp_layer(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                           runtime::ValueId x) const override;
  [[nodiscard]] HeadOperands mtp_head(runtime::ProgramBuilder& builder, const ModelSpec& model, int module,
                                      runtime::ValueId x) const override;
  [[nodiscard]] AttentionSpec attention(const ModelConfig& config, std::size_t index) const;
  [[nodiscard]] DeltaNetSpec delta_net(const ModelConfig& config) const;
  [[nodiscard]] LatentAttentionSpec latent(const ModelConfig& config) const;

  FamilyTraits traits_;
  StandardBlocks blocks_;
  HuggingFaceClass file_;
};

}  // namespace millrace::layers
