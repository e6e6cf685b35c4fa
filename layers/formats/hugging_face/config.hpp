#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/activation.hpp"
#include "layers/formats/hugging_face/rope.hpp"
#include "layers/model_config.hpp"
#include "runtime/io/json_reader.hpp"

namespace millrace::layers {

/// What use_bidirectional_attention does in a class: nothing; attention to both sides with half the window on each (Gemma 3); or one thing
/// in one of transformers' implementations of attention and nothing in another (Gemma and Gemma 2: only the flag is_causal of the attention
/// module depends on it, which eager attention does not read); or "vision", which has no effect on text (Gemma 4).
enum class BidirectionalKey : std::uint8_t { unread, halves_window, ambiguous, vision };

/// What a class with mixtures of experts reads of them, and what a missing key means.
struct HuggingFaceExperts {
  std::int64_t count = 8;         // of num_local_experts or num_experts
  std::int64_t per_token = 2;     // of num_experts_per_tok
  bool has_size = false;          // the key moe_intermediate_size is an expert's width; without it, that is intermediate_size
  std::int64_t size = 0;          // of moe_intermediate_size
  std::int64_t shared = 0;        // of shared_expert_intermediate_size; 0: the class has no expert that every token has
  std::optional<bool> normalise;  // of norm_topk_prob; not set: the class has no such key, and normalises
  bool has_dense_layers = false;  // decoder_sparse_step and mlp_only_layers: some layers have an MLP in place of experts
  bool has_moe_layers = false;    // interleave_moe_layer_step and moe_layers: the same
  std::int64_t dense_size = 0;    // of intermediate_size_mlp, the width of an MLP where intermediate_size is an expert's; 0: no such key
  double balance_weight = 0.001;  // of router_aux_loss_coef
  bool has_clamp = false;         // swiglu_limit and swiglu_alpha: the gate of an expert is clamped
  bool needs_some = false;        // a layer without experts cannot be computed
};

/// What a missing key means in a class with multi-head latent attention.
struct HuggingFaceLatent {
  std::int64_t query_rank = 1536;  // of q_lora_rank
  std::int64_t kv_rank = 512;      // of kv_lora_rank
  std::int64_t nope_head_dim = 128, rope_head_dim = 64, v_head_dim = 128;
  double norm_epsilon = 1e-6;    // of the norms of latent vectors, which the class does not take from rms_norm_eps
  bool reads_interleave = true;  // rope_interleave says whether rotary pairs are neighbours; without it they are
};

/// What a missing key means in a class with an indexer.
struct HuggingFaceIndexer {
  std::int64_t heads = 64;      // of index_n_heads
  std::int64_t head_dim = 128;  // of index_head_dim
  std::int64_t keys = 2048;     // of index_topk
};

/// What a class with DeepSeek's mixtures of experts reads of them, and what a missing key means.
struct HuggingFaceRoutedExperts {
  std::int64_t count = 256;           // of n_routed_experts
  std::int64_t per_token = 8;         // of num_experts_per_tok; 0: the key is required
  std::int64_t size = 2048;           // of moe_intermediate_size
  std::int64_t shared = 1;            // of n_shared_experts
  double scaling_factor = 2.5;        // of routed_scaling_factor
  std::int64_t dense_layers = 3;      // of first_k_dense_replace
  std::int64_t groups = 8;            // of n_group; 0: the key is required where experts are chosen by groups
  std::int64_t groups_per_token = 4;  // of topk_group
  std::int64_t group_best = 2;        // experts by which a group is judged: it has no fewer
  bool reads_method = false;          // topk_method says whether experts are chosen by groups; without it they are
  std::optional<bool> normalise;      // of norm_topk_prob; not set: the class does not read it, and does not normalise
  const char* score = "sigmoid";      // scoring_func, which transformers does not read
};

/// The defaults of a class with linear attention: the sizes of its gated delta nets.
struct HuggingFaceDeltaNet {
  std::int64_t key_heads = 16;        // of linear_num_key_heads
  std::int64_t value_heads = 32;      // of linear_num_value_heads
  std::int64_t key_head_dim = 128;    // of linear_key_head_dim
  std::int64_t value_head_dim = 128;  // of linear_value_head_dim
  std::int64_t taps = 4;              // of linear_conv_kernel_dim
  std::int64_t full_every = 4;        // of full_attention_interval: every so many layers one has full attention
};

/// A class some of whose layers have no rotation, while those with one attend to their own chunk (Llama 4): no_rope_layers, layer_types,
/// use_qk_norm, attn_temperature_tuning.
struct HuggingFaceNoRope {
  std::int64_t interval = 4;  // of no_rope_layer_interval
  std::int64_t chunk = 8192;  // of attention_chunk_size
};

/// A class whose full layers may have heads of their own sizes (Gemma 4): per_layer_config, or global_head_dim and
/// num_global_key_value_heads; and attention_k_eq_v.
struct HuggingFaceFullLayers {
  std::int64_t head_dim = 512;  // of global_head_dim
};

/// A class whose layers may have per-layer inputs, and whose last layers may attend to the keys and values of others.
struct HuggingFacePerLayerInputs {
  std::int64_t size = 256;            // of hidden_size_per_layer_input
  std::int64_t vocab_size = 262'144;  // of vocab_size_per_layer_input
};

/// A class of transformers: which of the common keys it reads, and what a missing one means.
struct HuggingFaceClass {
  const char* model_type;
  const char* architecture;
  kernels::Activation activation = kernels::Activation::silu;
  const char* activation_key = "hidden_act";  // the key that it reads: "hidden_act" or "hidden_activation"
  bool gelu_is_tanh = false;                  // "gelu" in hidden_act has always meant the tanh form
  bool reads_activation = true;               // false: the class has its activation whatever the keys say
  bool attention_bias = false;                // the class reads the key attention_bias
  bool has_attention_bias = false;            // what it means if it is missing
  bool mlp_bias = false;                      // the class reads the key mlp_bias
  bool tied = false;
  std::int64_t head_dim = 0;  // 0: hidden_size / heads
  std::int64_t heads = 32;
  std::int64_t kv_heads = 0;    // 0: the same as heads
  std::int64_t vocab_size = 0;  // 0: no default, the file must have the key
  std::int64_t positions = 2048;
  double epsilon = 1e-6;
  std::int64_t window = 0;             // default size of the sliding window; 0: the class has none
  bool reads_window = false;           // sliding_window gives all layers a window although the class's default is none
  bool has_window_switch = false;      // there is a window only if use_sliding_window is true
  bool has_first_window = false;       // layers before max_window_layers have no window
  std::int64_t full_every = 0;         // n: every n-th layer uses full attention, the others a sliding window; 0: all layers are alike
  bool reads_pattern = false;          // the key sliding_window_pattern sets n
  bool reads_layer_types = false;      // the key layer_types names the kind of each layer
  double query_pre_attn_scalar = 0.0;  // 0: the class has no such key
  double attention_cap = 0.0, final_cap = 0.0;
  bool reads_attention_cap = false;  // attn_logit_softcapping caps scores
  bool reads_final_cap = false;      // final_logit_softcapping caps logits, whatever the other keys are
  bool last_is_full = false;         // transformers gives the last layer full attention, whatever layer_types says
  BidirectionalKey bidirectional = BidirectionalKey::unread;
  RopeDefaults rope = {};
  std::optional<HuggingFaceExperts> experts = {};
  std::optional<HuggingFaceNoRope> no_rope = {};        // some layers have no rotation
  std::optional<HuggingFaceDeltaNet> delta_net = {};    // layers are gated delta nets or have full attention; no windows
  bool has_mlp_size = true;                             // the key intermediate_size; without it every layer has experts
  std::vector<const char*> unread = {};                 // keys of published files that the class does not read
  std::optional<HuggingFaceRoutedExperts> routed = {};  // in place of `experts`
  std::optional<HuggingFaceLatent> latent = {};         // attention is multi-head latent attention
  std::optional<HuggingFaceIndexer> indexer = {};       // with it, an indexer chooses the keys of a query
  std::optional<HuggingFaceFullLayers> full_layers = {};
  std::optional<HuggingFacePerLayerInputs> per_layer_inputs = {};
  bool expert_branch = false;                     // enable_moe_block: layers have experts beside their MLP
  std::vector<std::string_view> also_named = {};  // further values of model_type, of models with the same architecture
};

/// Whether a config.json belongs to the class: by its model_type or, if that is missing, by the first entry of its architectures.
[[nodiscard]] bool is_of_class(runtime::JsonReader& reader, const HuggingFaceClass& file);

/// What a config.json of transformers says, in the spelling of its version 4 (rope_theta, rope_scaling) or 5 (rope_parameters). A missing
/// key has the default of its class; vocab_size, hidden_size, intermediate_size and num_hidden_layers must be there where the class has
/// none. The family is left to the caller. Errors: Error(model) naming the key, its value and what is supported: an activation or a kind of
/// rotary scaling that transformers does not know, a quantised checkpoint, a value of the wrong type or out of range, heads that kv_heads
/// do not divide.
[[nodiscard]] ModelConfig read_hugging_face(runtime::JsonReader& reader, const HuggingFaceClass& file, std::vector<std::string>& warnings);

/// Writes a config.json for transformers; write_rope() chooses the key for the rotations. `dtype` is the dtype of the exported
/// tensors ("float32", "bfloat16").
[[nodiscard]] runtime::OrderedJson hugging_face_json(const ModelConfig& model, const HuggingFaceClass& file, std::string_view dtype);

/// Reads is_causal and use_bidirectional_attention, and halves the window where the class does. `model` has its window already.
void read_causality(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings);

/// Writes the key that makes attention see both sides, if it does.
void write_causality(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the keys of mixtures of experts, if the class has some. `model` has its layers already.
void read_experts(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings);
void write_experts(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the sizes of linear attention, and which layers have it, if the class has some. `model` has its layers already.
void read_linear_attention(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model);
void write_linear_attention(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);
/// The same for DeepSeek's mixtures of experts (routed_experts.cpp): the keys transformers reads, and those of the published code that must
/// agree with what transformers computes.
void read_routed_experts(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings);
void write_routed_experts(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the ranks and widths of latent attention, if the class has it. `model` has its heads already; its head_dim becomes the width of
/// the rotated part.
void read_latent(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model, std::vector<std::string>& warnings);
void write_latent(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);
/// Reads which layers have a rotation, which attend to their own chunk, and what becomes of queries and keys there, if the class has such
/// layers. `model` has its number of layers already.
void read_no_rope(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model);
void write_no_rope(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the sizes of an indexer, if the class has one. `model` has its latent attention already.
void read_indexer(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model);
void write_indexer(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the sizes of full layers' heads, and whether their keys are their values, if the class has such keys. `model` has its layers.
void read_full_layers(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model);
void write_full_layers(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the keys of per-layer inputs and of layers that share keys and values, if the class has them. `model` has its layers already.
void read_per_layer_inputs(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model);
void write_per_layer_inputs(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Reads the keys of experts that are a branch beside the MLP, if the class has such experts.
void read_expert_branch(runtime::JsonReader& reader, const HuggingFaceClass& file, ModelConfig& model);
void write_expert_branch(runtime::OrderedJson& json, const HuggingFaceClass& file, const ModelConfig& model);

/// Puts in what every export has: the ids of special tokens, which the library would take from its class and which are tokens of our
/// vocabularies, as null, and the dtype.
void add_common_keys(runtime::OrderedJson& json, std::string_view dtype);

/// Keys of transformers that do not change the result of training in these families, whatever their value.
[[nodiscard]] const std::vector<const char*>& ignored_hugging_face_keys();

}  // namespace millrace::layers
