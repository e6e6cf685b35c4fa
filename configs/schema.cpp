#include "configs/schema.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "layers/family_traits.hpp"
#include "runtime/optimizers/optimizer_config.hpp"
#include "runtime/schedule/schedule_config.hpp"

namespace millrace::configs {
namespace {

constexpr double many = 1e9;   // of steps, rows, milliseconds
constexpr double huge = 1e15;  // of positions

// -- binding a key to its member ---------------------------------------

template <class Member>
constexpr Kind kind_of() {
  if constexpr (std::is_same_v<Member, bool>) return Kind::boolean;
  if constexpr (std::is_same_v<Member, std::int64_t> || std::is_same_v<Member, int>) return Kind::integer;
  if constexpr (std::is_same_v<Member, double>) return Kind::number;
  if constexpr (std::is_same_v<Member, std::string>) return Kind::text;
  if constexpr (std::is_same_v<Member, std::vector<std::string>>) return Kind::list;
  if constexpr (std::is_same_v<Member, std::vector<double>>) return Kind::numbers;
}

/// Binds a key to a member of RunConfig: `member` is a function RunConfig& -> T&, where T is one of the alternatives of Value.
template <class Access>
Key bind(const char* name, Mark mark, const char* doc, Access member) {
  using Member = std::remove_reference_t<std::invoke_result_t<Access, RunConfig&>>;
  Key key;
  key.name = name;
  key.kind = kind_of<Member>();
  key.mark = mark;
  key.doc = doc;
  // Value's integers have 64 bits; the key's range must exclude values that overflow a shorter member.
  using Held = std::conditional_t<std::is_same_v<Member, int>, std::int64_t, Member>;
  key.fetch = [member](const RunConfig& config) { return Value(static_cast<Held>(member(const_cast<RunConfig&>(config)))); };
  key.store = [member](RunConfig& config, const Value& value) { member(config) = static_cast<Member>(std::get<Held>(value)); };
  return key;
}

Key between(Key key, double least, double most, const char* unit = "") {
  key.least = least;
  key.most = most;
  key.unit = unit;
  return key;
}

Key among(Key key, std::vector<std::string> choices) {
  key.choices = std::move(choices);
  return key;
}

/// A key whose values are names; `fetch` and `store` convert between the member and the name.
template <class Fetch, class Store>
Key named(const char* name, const char* doc, std::vector<std::string> choices, Fetch fetch, Store store) {
  Key key;
  key.name = name;
  key.mark = Mark::identity;
  key.doc = doc;
  key.choices = std::move(choices);
  key.fetch = [fetch](const RunConfig& config) { return Value(std::string(fetch(config))); };
  key.store = [store](RunConfig& config, const Value& value) { store(config, std::get<std::string>(value)); };
  return key;
}

template <class Names>
std::vector<std::string> names_of(const Names& values) {
  std::vector<std::string> names;
  for (const auto value : values) names.emplace_back(to_string(value));
  return names;
}

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
                              std::pair{LayerKind::chunked, "chunked_attention"}});
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

std::vector<std::string> family_names() {
  const auto names = layers::family_names();
  return {names.begin(), names.end()};
}

#define MEMBER(path) \
  [](RunConfig & config) -> auto& { return config.path; }

// -- the sections -----------------------------------------------------------

constexpr Mark identity = Mark::identity;
constexpr Mark layout = Mark::layout;

void run_keys(std::vector<Key>& keys) {
  keys.push_back(among(bind("device", identity, "The device that the kernels run on.", MEMBER(device)), {"cpu", "cuda"}));
  keys.push_back(
      bind("run.directory", layout, "Folder for checkpoints, metrics and traces. Empty: nothing is written.", MEMBER(directory)));
  keys.push_back(
      among(bind("run.record", layout, "hashes: record a hash of every tensor of every step in run.directory, for millrace compare. Slow.",
                 MEMBER(record)),
            {"none", "hashes"}));
  keys.push_back(
      bind("run.tensorboard", layout, "Write TensorBoard event files to the folder tensorboard of run.directory.", MEMBER(tensorboard)));
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
  keys.push_back(between(bind("model.heads", identity, "Query heads.", MEMBER(model.heads)), 1, 1 << 16));
  keys.push_back(
      between(bind("model.kv_heads", identity, "Key and value heads; must divide the query heads. Not given: as many as query heads.",
                   MEMBER(model.kv_heads)),
              1, 1 << 16));
  keys.push_back(
      between(bind("model.head_dim", identity, "Size of a head, an even number. Not given: hidden_size / heads.", MEMBER(model.head_dim)),
              2, 1 << 16));
  keys.push_back(between(
      bind("model.rms_norm_eps", identity, "Epsilon of norms, added to the mean square or the variance.", MEMBER(model.rms_norm_eps)), 0,
      1));
  rope_keys(keys, "model.rope", &layers::ModelConfig::rope);
  rope_keys(keys, "model.rope_local", &layers::ModelConfig::rope_local);
  keys.push_back(bind("model.causal", identity,
                      "A query attends to no later token. false: to both sides, within its document, window or chunk.",
                      MEMBER(model.causal)));
  keys.push_back(between(bind("model.sliding_window", identity,
                              "Keys that a query of a sliding layer attends to, its own the last; without model.causal as many to each "
                              "side of its own.",
                              MEMBER(model.sliding_window)),
                         0, huge, "tokens"));
  keys.push_back(
      layer_types("The attention mask of each layer; a list shorter than the model repeats. Empty: full attention in all layers."));
  keys.push_back(
      between(bind("model.attention_chunk_size", identity,
                   "Keys of a chunk of the row: a query of a chunked layer attends to no other chunk.", MEMBER(model.attention_chunk)),
              0, huge, "tokens"));
  keys.push_back(
      layer_positions("The position encoding of each layer; a list shorter than the model repeats. Empty: rotary in all layers."));
  keys.push_back(bind("model.attention_sinks", identity, "Adds a learned score per query head to the sum of attention's softmax.",
                      MEMBER(model.attention_sinks)));
  keys.push_back(
      bind("model.attention_bias", identity, "Biases on queries, keys, values and the output of attention.", MEMBER(model.attention_bias)));
  keys.push_back(bind("model.mlp_bias", identity, "Biases on all projections of the MLP.", MEMBER(model.mlp_bias)));
  keys.push_back(hidden_act("hf: the activation of the MLP; gelu is the tanh form, gelu_erf the exact one. default: the family's."));
  keys.push_back(between(bind("model.experts", identity, "Experts of a layer, from which its router chooses. 0: every layer has one MLP.",
                              MEMBER(model.experts)),
                         0, 1 << 16));
  keys.push_back(
      between(bind("model.experts_per_token", identity, "Experts that compute on a token.", MEMBER(model.experts_per_token)), 0, 1 << 16));
  keys.push_back(between(
      bind("model.moe_intermediate_size", identity, "Width of an expert. 0: model.intermediate_size.", MEMBER(model.moe_intermediate_size)),
      0, 1 << 24));
  keys.push_back(
      bind("model.norm_topk_prob", identity, "The weights of a token's experts are divided by their sum.", MEMBER(model.norm_topk_prob)));
  keys.push_back(mlp_layer_types(
      "Whether each layer has one MLP or experts; a list shorter than the model repeats. Empty: all have experts, if there are any."));
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
  keys.push_back(bind("model.share_kv", identity, "maxtext: the values are the projected keys.", MEMBER(model.share_kv)));
  keys.push_back(bind("model.rope_interleaved", identity, "maxtext: rotary pairs are neighbours, not halves of the head.",
                      MEMBER(model.rope_interleaved)));
  keys.push_back(bind("model.sinusoidal_positions", identity, "maxtext: sines and cosines of the position are added to the embedding.",
                      MEMBER(model.sinusoidal_positions)));
  keys.push_back(between(bind("model.learned_positions", identity, "maxtext: rows of a learned table added to the embedding. 0: none.",
                              MEMBER(model.learned_positions)),
                         0, 1 << 30, "tokens"));
  keys.push_back(between(
      bind("model.dropout_rate", identity,
           "maxtext: fraction of the features that dropout removes in training, in embedding, MLP and layers.", MEMBER(model.dropout_rate)),
      0, 0.999));
  keys.push_back(bind("model.normalize_embedding_logits", identity, "maxtext: a tied head divides by the square root of hidden_size.",
                      MEMBER(model.normalize_embedding_logits)));
}

void data_keys(std::vector<Key>& keys) {
  // The paths of the data are layout keys, so that data can be moved. Their fingerprint (names, sizes, tokens) and the hash of
  // their content are part of the identity.
  keys.push_back(bind("data.text", layout, "Text files and folders, read as bytes. Set either this or data.tokens.", MEMBER(data.text)));
  keys.push_back(bind("data.tokens", layout,
                      "Token files of llm.c, nanoGPT or Megatron (.bin; Megatron's with its .idx beside it, or the common name without "
                      "both suffixes), or folders of them.",
                      MEMBER(data.tokens)));
  keys.push_back(bind("data.suffixes", identity,
                      "Suffixes of the files taken from folders, such as [\".py\", \".md\"]. Empty: all files (for data.tokens: .bin).",
                      MEMBER(data.suffixes)));
  keys.push_back(between(
      bind("data.separator", identity, "The token that ends a document in data.tokens. -1: none.", MEMBER(data.separator)), -1, 1 << 26));
  keys.push_back(between(
      bind("data.held_out", identity,
           "Hold out every n-th file for evaluation; from a single file, the last n-th of its tokens, beginning with a document. 0: none.",
           MEMBER(data.held_out)),
      0, many, "files"));
  keys.push_back(bind("data.packing", identity, "Documents packed into one row do not attend to each other.", MEMBER(data.packing)));
}

void train_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("train.steps", identity, "Number of steps of the run; the learning-rate schedule spans them.", MEMBER(train.steps)), 1,
              many, "steps"));
  keys.push_back(
      among(bind("train.dtype", identity, "Compute dtype. Master parameters and optimizer states are always fp32.", MEMBER(train.dtype)),
            {"fp32", "bf16"}));
  keys.push_back(between(bind("train.batch", identity, "Rows per microbatch.", MEMBER(train.batch)), 1, 1 << 20, "rows"));
  keys.push_back(between(bind("train.sequence", identity, "Tokens per row.", MEMBER(train.sequence)), 1, 1 << 24, "tokens"));
  keys.push_back(between(bind("train.microbatches", identity, "Microbatches per step.", MEMBER(train.microbatches)), 1, 1 << 20));
  keys.push_back(between(bind("train.seed", identity, "Random seed of initial weights and data order.", MEMBER(train.seed)), 0, 9e18));
  keys.push_back(
      between(bind("train.threads", identity,
                   "Compute threads per rank. 0: cores / ranks of the process, or the value of the checkpoint when a run is resumed.",
                   MEMBER(train.threads)),
              0, 4096, "threads"));
  keys.push_back(between(bind("train.accumulators", identity,
                              "Number of gradient sums, each over a contiguous part of the microbatches, as data-parallel replicas would "
                              "have them. dualpipe always has 2.",
                              MEMBER(train.accumulators)),
                         1, 1 << 20));
  keys.push_back(among(bind("train.numerics", identity,
                            "Whose training rules: hf are those of PyTorch and transformers; maxtext are MaxText's learning rate (0 in the "
                            "first step of the warm-up, final in the last step), clipping, and weight decay on all parameters.",
                            MEMBER(train.numerics)),
                       {"hf", "maxtext"}));
  std::vector<std::string> optimizers;
  for (const auto& choice : runtime::optimizer_choices) optimizers.emplace_back(choice.name);
  keys.push_back(among(bind("train.optimizer", identity,
                            "The optimizer: adamw; adam_pax, MaxText's Adam, which stores bias-corrected moments; sgd as in PyTorch.",
                            MEMBER(train.optimizer)),
                       std::move(optimizers)));
  keys.push_back(
      between(bind("train.learning_rate", identity, "Peak learning rate, after the warm-up.", MEMBER(train.learning_rate)), 0, 1000));
  keys.push_back(between(
      bind("train.final_learning_rate", identity, "Learning rate at the end of the decay.", MEMBER(train.final_learning_rate)), 0, 1000));
  keys.push_back(among(bind("train.decay", identity, "Shape of the learning rate after the warm-up.", MEMBER(train.decay)),
                       {"cosine", "linear", "wsd", "wsd-cosine", "constant"}));
  keys.push_back(
      between(bind("train.warmup_steps", identity, "Warm-up steps, in which the learning rate rises.", MEMBER(train.warmup_steps)), 0, many,
              "steps"));
  keys.push_back(between(bind("train.decay_steps", identity, "wsd, wsd-cosine: steps of the decay at the end.", MEMBER(train.decay_steps)),
                         0, many, "steps"));
  keys.push_back(
      between(bind("train.beta1", identity, "adamw, adam_pax: decay of the first moment, the gradient's mean.", MEMBER(train.beta1)), 0,
              0.999999999));
  keys.push_back(
      between(bind("train.beta2", identity, "adamw, adam_pax: decay of the second moment, the mean of its square.", MEMBER(train.beta2)), 0,
              0.999999999));
  keys.push_back(
      between(bind("train.epsilon", identity, "adamw, adam_pax: added to the root of the second moment.", MEMBER(train.epsilon)), 0, 1));
  keys.push_back(
      between(bind("train.momentum", identity, "sgd: momentum, the decay of the sum of past gradients. 0: none, and no optimizer state.",
                   MEMBER(train.momentum)),
              0, 0.999999999));
  keys.push_back(bind("train.nesterov", identity, "sgd: Nesterov momentum; requires train.momentum above 0.", MEMBER(train.nesterov)));
  keys.push_back(between(bind("train.weight_decay", identity,
                              "Weight decay. adamw, adam_pax: decoupled, scaled by the learning rate; sgd: added to the gradient. Applies "
                              "to parameters with two or more dimensions; with train.numerics = maxtext to all.",
                              MEMBER(train.weight_decay)),
                         0, 1000));
  keys.push_back(bind("train.decay_mask", identity,
                      "Regular expressions of parameters without weight decay, searched in the name with / in place of its dots.",
                      MEMBER(train.decay_mask)));
  keys.push_back(
      between(bind("train.clip", identity, "Largest global norm of the gradient; larger gradients are scaled down to it. 0: no clipping.",
                   MEMBER(train.clip)),
              0, 1e30));
  keys.push_back(between(
      bind("train.z_loss", identity, "Weight of the squared logarithm of the softmax's sum. 0: none.", MEMBER(train.z_loss)), 0, 1000));
  keys.push_back(
      between(bind("train.balance_loss", identity,
                   "Weight of the loss by which routers spread tokens over their experts, a mean over the layers with experts. 0: none.",
                   MEMBER(train.balance_loss)),
              0, 1000));
  keys.push_back(between(bind("train.router_z_loss", identity,
                              "Weight of the squared logarithm of the sum of a router's softmax, a mean over tokens and layers. 0: none.",
                              MEMBER(train.router_z_loss)),
                         0, 1000));
  keys.push_back(bind("train.find_nan", layout,
                      "Check the results of every operation, and end at the first value that is not finite, with the operation's name. "
                      "Slow. Without it, a step that is not finite is run once more to find the operation.",
                      MEMBER(train.find_nan)));
}

void evaluate_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("evaluate.every", layout, "Steps between evaluations on the held-out data. 0: only at the end.", MEMBER(evaluate.every)),
              0, many, "steps"));
  keys.push_back(
      between(bind("evaluate.batches", layout, "Microbatches per evaluation. 0: the whole held-out set.", MEMBER(evaluate.batches)), 0,
              many, "microbatches"));
}

void pipeline_keys(std::vector<Key>& keys) {
  keys.push_back(
      between(bind("pipeline.ranks", layout, "Number of pipeline ranks, a multiple of the number of processes.", MEMBER(pipeline.ranks)), 1,
              1 << 16));
  keys.push_back(between(bind("pipeline.chunks", layout, "Stages per rank (Megatron: virtual pipeline stages).", MEMBER(pipeline.chunks)),
                         1, 1 << 10));
  keys.push_back(among(bind("pipeline.schedule", layout, "The order of forwards and backwards on each rank.", MEMBER(pipeline.schedule)),
                       {runtime::schedule_choices.begin(), runtime::schedule_choices.end()}));
  keys.push_back(bind("pipeline.layout", layout,
                      "Layers of each stage, such as \"E t*2 | t | t*3 H\". Empty: layers are distributed evenly.",
                      MEMBER(pipeline.layout)));
  keys.push_back(bind("pipeline.plan", layout,
                      "A file with every rank's actions, in place of pipeline.schedule; or a .toml written by millrace plan.",
                      MEMBER(pipeline.plan)));
  keys.push_back(bind("pipeline.costs", layout,
                      "Measured times of the model's parts, written by millrace plan: \"part,F,I,W,B\" in ms per microbatch, where part is "
                      "embedding, layer, layer 0-3 or head. Used by millrace rehearse, ignored by training.",
                      MEMBER(pipeline.costs)));
  keys.push_back(between(
      bind("pipeline.warmup", layout, "1f1b: forwards of rank 0 before its first backward. -1: ranks - 1.", MEMBER(pipeline.warmup)), -1,
      1 << 20, "microbatches"));
  keys.push_back(
      between(bind("pipeline.group", layout,
                   "interleaved, interleaved-zb: microbatches that pass through one chunk before the next. 0: chosen by the schedule.",
                   MEMBER(pipeline.group)),
              0, 1 << 20, "microbatches"));
}

void cuda_keys(std::vector<Key>& keys) {
  keys.push_back(between(
      bind("cuda.device", layout, "Index of the GPU for all ranks of a host. -1: the ranks of a host are assigned to its GPUs in turn.",
           MEMBER(cuda.device)),
      -1, 1023));
  keys.push_back(bind("cuda.graphs", layout, "Launch an action that has run before as one CUDA graph.", MEMBER(cuda.graphs)));
  keys.push_back(bind("cuda.tf32", identity, "Allow matrix products in fp32 to round their operands to tf32.", MEMBER(cuda.tf32)));
  keys.push_back(bind("cuda.algorithms", layout,
                      "File with the algorithm that was measured fastest for each matrix product. auto: products.txt in run.directory. "
                      "Empty (or auto without run.directory): algorithms are not measured.",
                      MEMBER(cuda.algorithms)));
}

void other_keys(std::vector<Key>& keys) {
  keys.push_back(between(bind("checkpoint.every", layout, "Steps between checkpoints. 0: only at the end.", MEMBER(checkpoint.every)), 0,
                         many, "steps"));
  keys.push_back(between(bind("checkpoint.keep", layout, "Number of newest checkpoints to keep.", MEMBER(checkpoint.keep)), 2, 1 << 20,
                         "checkpoints"));

  std::vector<std::string> policies = rematerialization_policies();
  for (const char* label : {"decoder_layer_input", "query_proj", "key_proj", "value_proj", "context", "attention_out", "out_proj",
                            "mlpwi_0", "mlpwi_1", "mlpwo"}) {
    policies.emplace_back(label);
    policies.push_back(fmt::format("offload:{}", label));
  }
  keys.push_back(among(bind("rematerialize.policy", layout,
                            "A policy, or the labels of the values to keep from forward to backward; all others are recomputed. "
                            "offload:LABEL keeps a value in host memory.",
                            MEMBER(rematerialize.policy)),
                       policies));
  keys.push_back(
      bind("rematerialize.stages", layout,
           "A policy for each stage, in order, labels joined with +; replaces rematerialize.policy. Empty: the same policy for all stages.",
           MEMBER(rematerialize.stages)));

  keys.push_back(between(
      bind("cluster.heartbeat_ms", layout, "Interval between two heartbeats of a process.", MEMBER(cluster.heartbeat_ms)), 1, many, "ms"));
  keys.push_back(between(bind("cluster.timeout_ms", layout,
                              "A process is considered lost after this time without a heartbeat. 0: never, for use with a debugger.",
                              MEMBER(cluster.timeout_ms)),
                         0, many, "ms"));
  keys.push_back(between(bind("cluster.stall_ms", layout,
                              "Warn when a step makes no progress for this time, and for 1.5 times the longest pause so far. The warning "
                              "names the rank that waits, its microbatch and the rank that it waits for. 0: never.",
                              MEMBER(cluster.stall_ms)),
                         0, many, "ms"));
  keys.push_back(between(
      bind("cluster.start_timeout_ms", layout, "Time for all processes to join and agree at the start.", MEMBER(cluster.start_timeout_ms)),
      1, many, "ms"));
  keys.push_back(bind("cluster.interface", layout, "The interface or address that process 0 listens on. Empty: chosen automatically.",
                      MEMBER(cluster.interface)));

  keys.push_back(between(bind("status.port", layout,
                              "Port of the status page on process 0 (docs/live.md). 0: a free port, which is printed. -1: no status page.",
                              MEMBER(status.port)),
                         -1, 65535));
  keys.push_back(bind("status.address", layout,
                      "IP address that the status page listens on; any but a loopback address requires status.token_file.",
                      MEMBER(status.address)));
  keys.push_back(bind("status.token_file", layout, "A file with the token that clients must present. Empty: no token is required.",
                      MEMBER(status.token_file)));

  keys.push_back(bind("sample.prompt", layout, "Prompt of the sample that is generated at the end.", MEMBER(sample.prompt)));
  keys.push_back(between(bind("sample.tokens", layout, "Tokens of the sample that the trained model generates at the end. 0: no sample.",
                              MEMBER(sample.tokens)),
                         0, 1 << 20, "tokens"));
  keys.push_back(between(
      bind("sample.temperature", layout, "Sampling temperature. 0: greedy, always the most probable token.", MEMBER(sample.temperature)), 0,
      100));

  keys.push_back(bind("debug.fault", layout, "A fault to inject, for tests of failure handling. Empty: none.", MEMBER(fault)));
}

#undef MEMBER

}  // namespace

const std::vector<Key>& schema() {
  static const std::vector<Key> keys = [] {
    std::vector<Key> all;
    run_keys(all);
    model_keys(all);
    maxtext_keys(all);
    data_keys(all);
    train_keys(all);
    evaluate_keys(all);
    pipeline_keys(all);
    other_keys(all);
    cuda_keys(all);
    return all;
  }();
  return keys;
}

const std::vector<std::string>& key_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const Key& key : schema()) all.push_back(key.name);
    return all;
  }();
  return names;
}

const Key* find_key(std::string_view name) {
  const auto found = std::ranges::find(schema(), name, &Key::name);
  return found == schema().end() ? nullptr : &*found;
}

std::string_view section_of(std::string_view name) {
  const auto dot = name.find('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

const std::vector<std::string>& rematerialization_policies() {
  static const std::vector<std::string> policies = {"none",
                                                    "full",
                                                    "minimal",
                                                    "minimal_with_context",
                                                    "save_dot_with_context_except_mlp",
                                                    "save_dot_except_mlpwi",
                                                    "save_dot_except_mlp",
                                                    "save_qkv_proj",
                                                    "save_out_proj"};
  return policies;
}

}  // namespace millrace::configs
