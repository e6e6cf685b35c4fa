#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "configs/key_binding.hpp"
#include "layers/family_traits.hpp"

namespace millrace::configs {
namespace {

using namespace binding;
using enum Mark;

constexpr double most_experts = 4096;  // kernels::max_experts; tests/configs/schema_test.cpp compares them

/// Adds the keys of one rotation, the `member` of the model: with the prefix "model.rope" or, for sliding layers,
/// "model.rope_local". Keys of the same name mean the same in both.
void rope_keys(std::vector<Key>& keys, const std::string& prefix, layers::RopeConfig layers::ModelConfig::*member) {
  const bool local = member == &layers::ModelConfig::rope_local;
  const auto doc = [&](const std::string& suffix, const char* text) {
    return local ? fmt::format("Sliding-window layers: as model.rope{}.", suffix) : std::string(text);
  };
  const auto add = [&](const std::string& suffix, const char* text, auto of) {
    return bind((prefix + suffix).c_str(), Mark::identity, doc(suffix, text).c_str(),
                [ member, of ](RunConfig & config) -> auto& { return config.model.*member.*of; });
  };
  using layers::RopeConfig;
  keys.push_back(named(
      prefix.c_str(), doc("", "How rotary frequencies are scaled for long contexts.").c_str(), names_of(layers::all_rope_kinds),
      [member](const RunConfig& config) { return to_string((config.model.*member).kind); },
      [member](RunConfig& config, const std::string& name) {
        for (const auto kind : layers::all_rope_kinds)
          if (name == to_string(kind)) (config.model.*member).kind = kind;
      }));
  Key theta = between(add("_theta", "Base of the rotary frequencies.", &RopeConfig::theta), local ? 0 : 1, huge);
  if (local) theta.doc = "Base of the rotary frequencies of sliding-window layers. 0: the same rotation as in other layers.";
  keys.push_back(std::move(theta));
  keys.push_back(
      between(add("_factor", "All kinds but default: the new context length divided by the original one.", &RopeConfig::factor), 1, many));
  keys.push_back(between(add("_low_freq_factor", "llama3: frequencies with wavelengths above original / this are divided by the factor.",
                             &RopeConfig::low_freq_factor),
                         above_zero, many));
  keys.push_back(between(
      add("_high_freq_factor", "llama3: frequencies with wavelengths below original / this are kept.", &RopeConfig::high_freq_factor),
      above_zero, many));
  keys.push_back(between(
      add("_original_max_position", "llama3, yarn, dynamic, longrope: the original context length.", &RopeConfig::original_max_position), 0,
      huge, "tokens"));
  keys.push_back(between(add("_beta_fast", "yarn: pairs with more rotations than this within the original context keep their frequency.",
                             &RopeConfig::beta_fast),
                         above_zero, many));
  keys.push_back(between(
      add("_beta_slow", "yarn: frequencies of pairs with fewer rotations than this are divided by the factor.", &RopeConfig::beta_slow),
      above_zero, many));
  keys.push_back(
      add("_truncate", "yarn: the bounds of the ramp between the two are rounded to whole pair indices.", &RopeConfig::truncate));
  keys.push_back(between(add("_attention_factor",
                             "yarn, longrope: multiplies cos and sin. 0: 0.1 ln(rope_factor) + 1, or the root of 1 + ln(rope_factor) / "
                             "ln(rope_original_max_position).",
                             &RopeConfig::attention_factor),
                         0, many));
  if (!local)
    keys.push_back(between(
        add("_mscale_all_dim", "Latent attention, all kinds but default: multiplies the scores by (0.1 this ln(rope_factor) + 1)^2.",
            &RopeConfig::mscale_all_dim),
        0, many));
  keys.push_back(
      between(add("_proportion",
                  "The part of every head that is rotated: its first features, over which the frequencies are spread. proportional: its "
                  "first pairs, with the frequencies of a whole head.",
                  &RopeConfig::proportion),
              0, 1));
  keys.push_back(
      between(add("_short_factors", "longrope: what divides each frequency in rows up to rope_original_max_position; one number per pair.",
                  &RopeConfig::short_factors),
              above_zero, many));
  keys.push_back(between(add("_long_factors", "longrope: the same for longer rows.", &RopeConfig::long_factors), above_zero, many));
}

/// The activation functions that MaxText's config files can name.
constexpr std::array maxtext_activations = {kernels::Activation::silu, kernels::Activation::gelu, kernels::Activation::relu};

Key activation(const char* doc) {
  return named(
      "model.activation", doc, names_of(maxtext_activations), [](const RunConfig& config) { return to_string(config.model.activation); },
      [](RunConfig& config, const std::string& name) {
        for (const auto one : maxtext_activations)
          if (name == to_string(one)) config.model.activation = one;
      });
}

Key hidden_act(const char* doc) {
  std::vector<std::string> choices = names_of(kernels::all_activations);
  choices.insert(choices.begin(), "default");
  return named(
      "model.hidden_act", doc, std::move(choices),
      [](const RunConfig& config) { return config.model.hidden_act ? to_string(*config.model.hidden_act) : "default"; },
      [](RunConfig& config, const std::string& name) {
        config.model.hidden_act.reset();
        for (const auto one : kernels::all_activations)
          if (name == to_string(one)) config.model.hidden_act = one;
      });
}

/// A list with one entry per layer, each of which is the name of a value.
template <class Kind, std::size_t N>
Key per_layer(const char* name, const char* doc, std::vector<Kind> layers::ModelConfig::*member,
              const std::array<std::pair<Kind, const char*>, N>& names) {
  Key key;
  key.name = name;
  key.kind = configs::Kind::list;
  key.mark = Mark::identity;
  key.doc = doc;
  for (const auto& [kind, text] : names) key.choices.emplace_back(text);
  key.fetch = [member, names](const RunConfig& config) {
    std::vector<std::string> texts;
    for (const Kind layer : config.model.*member)
      for (const auto& [kind, text] : names)
        if (kind == layer) texts.emplace_back(text);
    return Value(std::move(texts));
  };
  key.store = [member, names](RunConfig& config, const Value& value) {
    (config.model.*member).clear();
    for (const std::string& entry : std::get<std::vector<std::string>>(value))
      for (const auto& [kind, text] : names)
        if (entry == text) (config.model.*member).push_back(kind);
  };
  return key;
}

Key layer_types(const char* doc) {
  using layers::LayerKind;
  return per_layer("model.layer_types", doc, &layers::ModelConfig::layer_kinds,
                   std::array{std::pair{LayerKind::full, "full_attention"}, std::pair{LayerKind::sliding, "sliding_attention"},
                              std::pair{LayerKind::chunked, "chunked_attention"}, std::pair{LayerKind::linear, "linear_attention"}});
}

Key layer_positions(const char* doc) {
  using layers::LayerPositions;
  return per_layer("model.layer_positions", doc, &layers::ModelConfig::layer_positions,
                   std::array{std::pair{LayerPositions::rotary, "rope"}, std::pair{LayerPositions::none, "none"}});
}

Key mlp_layer_types(const char* doc) {
  using layers::MlpKind;
  return per_layer("model.mlp_layer_types", doc, &layers::ModelConfig::mlp_kinds,
                   std::array{std::pair{MlpKind::dense, "dense"}, std::pair{MlpKind::sparse, "sparse"}});
}

/// N-gram memories.
void engram_keys(std::vector<Key>& keys) {
  keys.push_back(between(bind("model.engram_layers", identity,
                              "Layers, counted from 0, that look up rows of tables by hashes of the n-grams before each token "
                              "(Engram), in the order in which the tables' sizes are given out.",
                              MEMBER(model.engram.layers)),
                         0, 1 << 16));
  keys.push_back(between(bind("model.engram_max_ngram_size", identity, "Engram: n-grams of 2 to this many tokens are looked up.",
                              MEMBER(model.engram.max_ngram)),
                         2, 8));
  keys.push_back(between(
      bind("model.engram_num_heads", identity, "Engram: tables for the n-grams of each length.", MEMBER(model.engram.heads)), 1, 256));
  keys.push_back(
      between(bind("model.engram_head_dim", identity, "Engram: size of a table's rows.", MEMBER(model.engram.head_dim)), 1, 1 << 20));
  keys.push_back(between(bind("model.engram_vocab_bases", identity,
                              "Engram: the least number of rows of a table, one for each length of n-gram from 2; a table has the "
                              "next prime number that no other has.",
                              MEMBER(model.engram.vocab_bases)),
                         1, 2147483647));
  keys.push_back(between(bind("model.engram_kernel_size", identity, "Engram: taps of the convolution, engram_max_ngram_size tokens apart.",
                              MEMBER(model.engram.kernel_size)),
                         1, 16));
  keys.push_back(between(bind("model.engram_seed", identity, "Engram: seed of the hashes.", MEMBER(model.engram.seed)), 0, 2147483647));
  keys.push_back(between(bind("model.engram_compressed_vocab_size", identity,
                              "Engram: number of compressed ids, which `millrace data compress` prints for the tokenizer.",
                              MEMBER(model.engram.compressed_vocab_size)),
                         0, 2147483647));
  keys.push_back(between(bind("model.engram_compressed_pad_id", identity,
                              "Engram: compressed id of the padding token, which stands before the first token of a row.",
                              MEMBER(model.engram.compressed_pad_id)),
                         0, 2147483647));
}

/// The sizes of gated delta nets.
void linear_attention_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("model.linear_key_heads", identity, "Linear attention: heads of queries and keys.", MEMBER(model.linear_key_heads)), 0,
              1 << 16));
  keys.push_back(
      between(bind("model.linear_value_heads", identity,
                   "Linear attention: heads of values, each with a state; a multiple of the key heads.", MEMBER(model.linear_value_heads)),
              0, 1 << 16));
  keys.push_back(between(bind("model.linear_key_head_dim", identity, "Linear attention: size of a head of queries and keys.",
                              MEMBER(model.linear_key_head_dim)),
                         0, 1 << 16));
  keys.push_back(between(
      bind("model.linear_value_head_dim", identity, "Linear attention: size of a head of values.", MEMBER(model.linear_value_head_dim)), 0,
      1 << 16));
  keys.push_back(between(bind("model.linear_conv_kernel_dim", identity,
                              "Linear attention: tokens that the convolution of a token's queries, keys and values sees, its own the last.",
                              MEMBER(model.linear_conv_kernel_dim)),
                         0, kernels::max_convolution_taps, "tokens"));
}

/// Sizes of layers with full attention, inputs of layers, and layers that attend to the keys of others.
void full_layer_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("model.global_head_dim", identity, "Size of a head in layers with full attention, an even number. 0: model.head_dim.",
                   MEMBER(model.global_head_dim)),
              0, 1 << 16));
  keys.push_back(between(bind("model.global_kv_heads", identity,
                              "Key and value heads of layers with full attention; must divide the query heads. 0: model.kv_heads.",
                              MEMBER(model.global_kv_heads)),
                         0, 1 << 16));
  keys.push_back(
      bind("model.share_kv", identity, "The values are the projected keys, in gemma4 those of full layers.", MEMBER(model.share_kv)));
  keys.push_back(
      between(bind("model.per_layer_input_size", identity,
                   "Width of what each layer receives of a token by itself, from a second table and from the embedding. 0: nothing.",
                   MEMBER(model.per_layer_input_size)),
              0, 1 << 20));
  keys.push_back(between(bind("model.per_layer_vocab_size", identity, "Rows of that second table.", MEMBER(model.per_layer_vocab_size)), 0,
                         1 << 26, "tokens"));
  keys.push_back(between(bind("model.kv_shared_layers", identity,
                              "The last layers, which attend to the keys and values of the last layer of their kind before them.",
                              MEMBER(model.kv_shared_layers)),
                         0, 1 << 16));
  keys.push_back(bind("model.double_wide_mlp", identity, "The MLPs of these layers are twice as wide.", MEMBER(model.double_wide_mlp)));
}

/// A key whose values are the members of an enum, by name.
template <class Member, std::size_t N>
Key choice_of(const char* name, const char* doc, Member layers::ModelConfig::*member,
              const std::array<std::pair<Member, const char*>, N>& names) {
  std::vector<std::string> choices;
  for (const auto& [value, text] : names) choices.emplace_back(text);
  return named(
      name, doc, std::move(choices),
      [member, names](const RunConfig& config) {
        return std::ranges::find(names, config.model.*member, &std::pair<Member, const char*>::first)->second;
      },
      [member, names](RunConfig& config, const std::string& text) {
        for (const auto& [value, name_of_value] : names)
          if (text == name_of_value) config.model.*member = value;
      });
}

/// How routers choose experts and weigh them, in the families that do not fix it.
void router_keys(std::vector<Key>& keys) {
  using enum kernels::RouterScore;
  using kernels::RouterBias;
  keys.push_back(
      choice_of("model.routed_score_func",
                "The score of an expert: the logit of the router, its part of the softmax, its sigmoid, or the root of its softplus.",
                &layers::ModelConfig::routed_score,
                std::array{std::pair{logit, "none"}, std::pair{kernels::RouterScore::softmax, "softmax"}, std::pair{sigmoid, "sigmoid"},
                           std::pair{sqrt_softplus, "sqrtsoftplus"}}));
  keys.push_back(choice_of(
      "model.routed_bias",
      "A learned bias per expert: none; choice: added to the scores when experts are chosen, and not to their weights; "
      "score: part of the score.",
      &layers::ModelConfig::routed_bias,
      std::array{std::pair{RouterBias::none, "none"}, std::pair{RouterBias::choice, "choice"}, std::pair{RouterBias::score, "score"}}));
  keys.push_back(between(
      bind("model.routed_scaling_factor", identity, "Multiplies the weights of a token's experts.", MEMBER(model.routed_scaling_factor)), 0,
      many));
  keys.push_back(between(bind("model.routing_groups", identity, "Experts are chosen from the best of so many groups. 1: from all.",
                              MEMBER(model.routing_groups)),
                         1, 1 << 16));
  keys.push_back(between(bind("model.kept_routing_groups", identity, "The number of groups that a token's experts are chosen from.",
                              MEMBER(model.kept_routing_groups)),
                         1, 1 << 16));
  keys.push_back(between(bind("model.capacity_factor", identity,
                              "An expert computes on this many times its even share of a sequence's tokens, the first ones; of the other "
                              "tokens that choose it the choice is dropped. 0: on all.",
                              MEMBER(model.capacity_factor)),
                         0, many));
  keys.push_back(bind("model.float32_gate_logits", identity, "maxtext: the router computes in fp32; else in the compute dtype.",
                      MEMBER(model.float32_gate_logits)));
}

std::vector<std::string> family_names() {
  const auto names = layers::family_names();
  return {names.begin(), names.end()};
}

void model_keys(std::vector<Key>& keys) {
  keys.push_back(bind("model.preset", layout,
                      "A model of configs/models by name, or a TOML file by path. The values that it sets are identity keys.",
                      MEMBER(model_preset)));
  keys.push_back(
      bind("model.from", layout,
           "A model folder: config.json gives the sizes, model.safetensors the initial weights. Or a GPT-2 file of llm.c (.bin).",
           MEMBER(model_from)));
  keys.push_back(
      among(bind("model.numerics", identity, "The implementation whose numerics are reproduced: hf is transformers, maxtext is MaxText.",
                 MEMBER(model.numerics)),
            {"hf", "maxtext"}));
  keys.push_back(among(bind("model.family", identity, "The model family, which determines the decoder's layers.", MEMBER(model.family)),
                       family_names()));
  keys.push_back(
      between(bind("model.vocab_size", identity, "Rows of the embedding table; 257 or more for data.text.", MEMBER(model.vocab_size)), 1,
              1 << 26, "tokens"));
  keys.push_back(between(bind("model.hidden_size", identity, "Width of the residual stream.", MEMBER(model.hidden_size)), 1, 1 << 20));
  keys.push_back(between(bind("model.intermediate_size", identity, "Width of the MLP.", MEMBER(model.intermediate_size)), 1, 1 << 24));
  keys.push_back(between(bind("model.layers", identity, "Decoder layers.", MEMBER(model.layers)), 1, 1 << 16));
  keys.push_back(between(bind("model.mhc_expansion_rate", identity,
                              "Residual streams of hyper-connections (mHC), which layers mix by weights of the token. 1: there is one "
                              "stream, and no such connections.",
                              MEMBER(model.mhc_expansion_rate)),
                         1, 8));
  keys.push_back(between(bind("model.sinkhorn_iterations", identity,
                              "Hyper-connections: how often columns and rows of the matrix that mixes streams are normalised by turns.",
                              MEMBER(model.sinkhorn_iterations)),
                         1, 64));
  keys.push_back(bind("model.mhc_lite", identity,
                      "Hyper-connections: the matrix that mixes streams is a mean of all permutations, weighted by a softmax (mHC-lite).",
                      MEMBER(model.mhc_lite)));
  engram_keys(keys);
  keys.push_back(between(bind("model.mtp_layers", identity,
                              "Modules behind the last layer that predict further tokens in training (multi-token prediction): the k-th "
                              "one predicts the token k + 1 places ahead.",
                              MEMBER(model.mtp_layers)),
                         0, 64));
  keys.push_back(between(bind("model.heads", identity, "Query heads.", MEMBER(model.heads)), 1, 1 << 16));
  keys.push_back(
      between(bind("model.kv_heads", identity, "Key and value heads; must divide the query heads. Not given: as many as query heads.",
                   MEMBER(model.kv_heads)),
              1, 1 << 16));
  keys.push_back(between(bind("model.head_dim", identity,
                              "Size of a head, an even number. Not given: hidden_size / heads; with latent attention qk_rope_head_dim.",
                              MEMBER(model.head_dim)),
                         2, 1 << 16));
  keys.push_back(between(
      bind("model.rms_norm_eps", identity, "Epsilon of norms, added to the mean square or the variance.", MEMBER(model.rms_norm_eps)), 0,
      1));
  rope_keys(keys, "model.rope", &layers::ModelConfig::rope);
  rope_keys(keys, "model.rope_local", &layers::ModelConfig::rope_local);
  keys.push_back(bind("model.rope_interleaved", identity, "Rotary pairs are neighbours, not halves of what is rotated.",
                      MEMBER(model.rope_interleaved)));
  keys.push_back(between(
      bind("model.q_lora_rank", identity,
           "Latent attention: width of the vector from which a token's queries are expanded. 0: there is none.", MEMBER(model.q_lora_rank)),
      0, 1 << 20));
  keys.push_back(
      between(bind("model.kv_lora_rank", identity,
                   "Latent attention: width of the vector from which a token's keys and values are expanded.", MEMBER(model.kv_lora_rank)),
              0, 1 << 20));
  keys.push_back(
      between(bind("model.qk_nope_head_dim", identity, "Latent attention: features of a head of queries and keys that are not rotated.",
                   MEMBER(model.qk_nope_head_dim)),
              0, 1 << 16));
  keys.push_back(between(
      bind("model.qk_rope_head_dim", identity, "Latent attention: features of a head of queries and keys that are rotated, an even number.",
           MEMBER(model.qk_rope_head_dim)),
      0, 1 << 16));
  keys.push_back(
      between(bind("model.v_head_dim", identity, "Latent attention: features of a head of values.", MEMBER(model.v_head_dim)), 0, 1 << 16));
  keys.push_back(
      between(bind("model.index_n_heads", identity, "Heads of the indexer that chooses the keys of a query.", MEMBER(model.index_n_heads)),
              0, 1 << 16));
  keys.push_back(between(bind("model.index_head_dim", identity, "Features of a head of the indexer, at least model.qk_rope_head_dim.",
                              MEMBER(model.index_head_dim)),
                         0, 1 << 16));
  keys.push_back(between(bind("model.index_topk", identity,
                              "Keys that a query attends to, chosen by the indexer; shorter rows have attention to all keys. 0: there is "
                              "no indexer.",
                              MEMBER(model.index_topk)),
                         0, 1LL << 31));
  keys.push_back(bind("model.causal", identity,
                      "A query attends to no later token. false: to both sides, within its document, window or chunk.",
                      MEMBER(model.causal)));
  keys.push_back(between(bind("model.sliding_window", identity,
                              "Keys that a query of a sliding layer attends to, its own the last; without model.causal as many to each "
                              "side of its own.",
                              MEMBER(model.sliding_window)),
                         0, huge, "tokens"));
  keys.push_back(layer_types(
      "How each layer mixes tokens: by attention with one of three masks, or by linear attention, a gated delta net. A list shorter "
      "than the model repeats. Empty: full attention in all layers."));
  keys.push_back(
      between(bind("model.attention_chunk_size", identity,
                   "Keys of a chunk of the row: a query of a chunked layer attends to no other chunk.", MEMBER(model.attention_chunk)),
              0, huge, "tokens"));
  keys.push_back(
      layer_positions("The position encoding of each layer; a list shorter than the model repeats. Empty: rotary in all layers."));
  full_layer_keys(keys);
  keys.push_back(bind("model.use_qk_norm", identity,
                      "Rotated queries and keys are divided by their root mean square, head by head, in layers with a rotation.",
                      MEMBER(model.use_qk_norm)));
  keys.push_back(
      bind("model.attn_temperature_tuning", identity,
           "In layers without a rotation, queries at position p are multiplied by attn_scale ln(1 + floor((p + 1) / floor_scale)) "
           "+ 1.",
           MEMBER(model.attn_temperature_tuning)));
  keys.push_back(between(bind("model.attn_scale", identity, "The factor of that logarithm.", MEMBER(model.attn_scale)), -many, many));
  keys.push_back(between(bind("model.floor_scale", identity, "After so many positions that logarithm rises.", MEMBER(model.floor_scale)), 1,
                         huge, "tokens"));
  keys.push_back(bind("model.attention_sinks", identity, "Adds a learned score per query head to the sum of attention's softmax.",
                      MEMBER(model.attention_sinks)));
  keys.push_back(
      bind("model.attention_bias", identity, "Biases on queries, keys, values and the output of attention.", MEMBER(model.attention_bias)));
  keys.push_back(bind("model.mlp_bias", identity, "Biases on all projections of the MLP.", MEMBER(model.mlp_bias)));
  linear_attention_keys(keys);
  keys.push_back(
      hidden_act("hf: the activation of the MLP and of linear attention's convolution; gelu is the tanh form, gelu_erf the exact one. "
                 "default: the family's."));
  keys.push_back(between(bind("model.experts", identity, "Experts of a layer, from which its router chooses. 0: every layer has one MLP.",
                              MEMBER(model.experts)),
                         0, most_experts));
  keys.push_back(between(bind("model.experts_per_token", identity, "Experts that compute on a token.", MEMBER(model.experts_per_token)), 0,
                         most_experts));
  keys.push_back(between(
      bind("model.moe_intermediate_size", identity, "Width of an expert. 0: model.intermediate_size.", MEMBER(model.moe_intermediate_size)),
      0, 1 << 24));
  keys.push_back(between(bind("model.shared_expert_intermediate_size", identity,
                              "Width of the expert that every token has, in the families that have one. 0: that of the other experts.",
                              MEMBER(model.shared_expert_intermediate_size)),
                         0, 1 << 24));
  keys.push_back(
      bind("model.norm_topk_prob", identity, "The weights of a token's experts are divided by their sum.", MEMBER(model.norm_topk_prob)));
  keys.push_back(between(
      bind("model.swiglu_limit", identity, "The clamped gate of experts: the gate is at most this, and the size of what it multiplies.",
           MEMBER(model.swiglu_limit)),
      above_zero, many));
  keys.push_back(between(bind("model.swiglu_alpha", identity, "The clamped gate of experts: multiplies the gate within its sigmoid.",
                              MEMBER(model.swiglu_alpha)),
                         -many, many));
  router_keys(keys);
  keys.push_back(mlp_layer_types(
      "Whether each layer has one MLP or experts; a list shorter than the model repeats. Empty: all have experts, if there are any."));
  keys.push_back(between(bind("model.first_dense_layers", identity,
                              "The first layers, which have one MLP in place of experts, whatever model.mlp_layer_types says.",
                              MEMBER(model.first_dense_layers)),
                         0, 1 << 16));
  keys.push_back(between(bind("model.shared_experts", identity,
                              "Experts of every token beside those that its router chooses: one MLP of as many times an expert's width.",
                              MEMBER(model.shared_experts)),
                         0, 1 << 16));
  keys.push_back(
      bind("model.scale_by_layer", identity, "Attention scores of the n-th layer are also divided by n.", MEMBER(model.scale_by_layer)));
  keys.push_back(
      between(bind("model.query_pre_attn_scalar", identity, "Attention scores are divided by its square root. 0: by that of head_dim.",
                   MEMBER(model.query_pre_attn_scalar)),
              0, many));
  keys.push_back(between(bind("model.attn_logit_softcapping", identity, "Attention scores s become cap tanh(s / cap). 0: no cap.",
                              MEMBER(model.attn_logit_softcapping)),
                         0, many));
  keys.push_back(
      between(bind("model.final_logit_softcapping", identity, "The same for logits.", MEMBER(model.final_logit_softcapping)), 0, many));
  keys.push_back(between(bind("model.max_position_embeddings", identity, "Longest context the model is meant for; recorded and exported.",
                              MEMBER(model.max_position_embeddings)),
                         1, huge, "tokens"));
  keys.push_back(
      bind("model.tie_word_embeddings", identity, "The output head uses the embedding table.", MEMBER(model.tie_word_embeddings)));
  keys.push_back(between(
      bind("model.initializer_range", identity, "Standard deviation of the initial weights.", MEMBER(model.initializer_range)), 0, 1000));
}

/// Keys for MaxText's blocks only.
void maxtext_keys(std::vector<Key>& keys) {
  keys.push_back(activation("maxtext: the activation of the MLP; gelu is the tanh form."));
  keys.push_back(
      bind("model.gated_mlp", identity, "maxtext: activation(x wi_0) times x wi_1; else activation(x wi).", MEMBER(model.gated_mlp)));
  keys.push_back(bind("model.fused_qkv", identity, "maxtext: one kernel for queries, keys and values; requires kv_heads = heads.",
                      MEMBER(model.fused_qkv)));
  keys.push_back(bind("model.fused_mlp", identity, "maxtext: one kernel for wi_0 and wi_1.", MEMBER(model.fused_mlp)));
  keys.push_back(bind("model.sinusoidal_positions", identity, "maxtext: sines and cosines of the position are added to the embedding.",
                      MEMBER(model.sinusoidal_positions)));
  keys.push_back(between(bind("model.learned_positions", identity, "maxtext: rows of a learned table added to the embedding. 0: none.",
                              MEMBER(model.learned_positions)),
                         0, 1 << 30, "tokens"));
  keys.push_back(between(
      bind("model.dropout_rate", identity,
           "maxtext: fraction of the features that dropout removes in training, in embedding, MLP and layers.", MEMBER(model.dropout_rate)),
      0, 0.999));
  keys.push_back(bind("model.gdn_reset_at_segments", identity,
                      "maxtext: linear layers begin anew at every document of a packed row. false: as in MaxText, the state and the "
                      "convolution pass from one document to the next. hf: they always begin anew.",
                      MEMBER(model.gdn_reset_at_segments)));
  keys.push_back(
      between(bind("model.moba_chunk_size", identity,
                   "maxtext: keys of a block of the row; every query chooses the blocks that it attends to. 0: it attends to all.",
                   MEMBER(model.moba_chunk_size)),
              0, huge, "tokens"));
  keys.push_back(
      between(bind("model.moba_topk", identity, "maxtext: so many blocks a query attends to, its own among them.", MEMBER(model.moba_topk)),
              1, huge));
  keys.push_back(bind("model.normalize_embedding_logits", identity, "maxtext: a tied head divides by the square root of hidden_size.",
                      MEMBER(model.normalize_embedding_logits)));
}

}  // namespace

void append_model_keys(std::vector<Key>& keys) {
  model_keys(keys);
  maxtext_keys(keys);
}

}  // namespace millrace::configs
