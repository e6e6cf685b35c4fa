#include "configs/key_rules.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string_view>
#include <vector>

#include "configs/schema.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "layers/family_traits.hpp"
#include "runtime/optimizers/optimizer_config.hpp"

namespace millrace::configs {
namespace {

constexpr const char* component = "configs.check";

class Checker {
 public:
  Checker(LoadedRun& run, bool complete, bool saves) : run_(run), config_(run.config), complete_(complete), saves_(saves) {}

  void all() {
    data();
    model();
    training();
    pipeline();
    mesh();
    rest();
    no_effect();
  }

 private:
  [[nodiscard]] const std::string& place(const char* key) const { return run_.settings.at(key).origin.place; }
  [[nodiscard]] std::string text(const char* key) const { return to_text(run_.settings.at(key).value); }

  /// "model.experts = 0 (command line)": another key, with its place if it was given somewhere.
  [[nodiscard]] std::string other(const char* key) const {
    const auto& origin = run_.settings.at(key).origin;
    return fmt::format("{} = {}{}", key, text(key), origin.layer == Layer::built_in ? "" : fmt::format(" ({})", origin.place));
  }

  /// "[configs.check] run.toml:3:1: train.accumulators = 3, which …"
  template <class... Arguments>
  void want(bool holds, const char* key, fmt::format_string<Arguments...> format, Arguments&&... arguments) const {
    if (holds) return;
    fail(ExitCode::config, component, "{}: {} = {}, {}", place(key), key, text(key),
         fmt::format(format, std::forward<Arguments>(arguments)...));
  }

  void data() const {
    const auto& data = config_.data;
    if (!data.text.empty() && !data.tokens.empty()) {
      fail(ExitCode::config, component,
           "{}: data.text and data.tokens (at {}) are both given, expected one of them (an empty string unsets one)", place("data.text"),
           place("data.tokens"));
    }
    MILLRACE_CHECK(!complete_ || !data.text.empty() || !data.tokens.empty(), ExitCode::config, component,
                   "neither data.text nor data.tokens is given, expected one of them");
    const auto entries = std::max(data.text.size(), data.tokens.size());
    want(data.weights.empty() || entries == 0 || data.weights.size() == entries, "data.weights", "expected {}, one for each entry of {}",
         counted(entries, "number"), data.text.empty() ? "data.tokens" : "data.text");
    refuse_megatrons_form(data.tokens);
    want(data.validation.empty() || data.held_out == 0, "data.held_out",
         "but data.validation (at {}) names what the run evaluates on, expected one of them", place("data.validation"));
    want(data.evaluates() || config_.evaluate.every == 0, "evaluate.every", "but data.held_out = 0 keeps nothing for evaluation");
    if (config_.model.vocab_size == 0) return;
    want(data.text.empty() || config_.model.vocab_size >= 257, "model.vocab_size",
         "expected 257 or more for data.text (256 bytes and the end of a document)");
    want(data.separator < config_.model.vocab_size, "data.separator", "expected a token of the vocabulary of {}", config_.model.vocab_size);
  }

  /// Weights and paths in turn are Megatron's way to name a mixture.
  void refuse_megatrons_form(const std::vector<std::string>& tokens) const {
    std::vector<std::string> weights, paths;
    for (std::size_t i = 0; i < tokens.size(); ++i) (i % 2 == 0 ? weights : paths).push_back(tokens[i]);
    const auto is_number = [](const std::string& text) {
      return !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
    };
    const bool form = !tokens.empty() && weights.size() == paths.size() && std::ranges::all_of(weights, is_number) &&
                      std::ranges::none_of(paths, is_number);
    want(!form, "data.tokens", "which has weights in it; expected data.tokens={} data.weights={}", fmt::join(paths, ","),
         fmt::join(weights, ","));
  }

  void model() const {
    const auto& model = config_.model;
    if (!config_.model_preset.empty() && !config_.model_from.empty()) {
      fail(ExitCode::config, component,
           "{}: model.preset and model.from (at {}) are both given, expected one of them (an empty string unsets one)",
           place("model.preset"), place("model.from"));
    }
    for (const char* key : {"model.vocab_size", "model.hidden_size", "model.intermediate_size", "model.layers", "model.heads"}) {
      const bool known = std::get<std::int64_t>(run_.settings.at(key).value) > 0;
      MILLRACE_CHECK(known || !complete_, ExitCode::config, component,
                     "{} is not given: name a model with model.preset or model.from, or give all its sizes", key);
      if (!known) return;
    }
    want(model.heads % model.kv_heads == 0, "model.kv_heads", "which does not divide {}", other("model.heads"));
    want(run_.given("model.head_dim") || model.qk_rope_head_dim > 0 || model.hidden_size % model.heads == 0, "model.heads",
         "which does not divide model.hidden_size = {} (and model.head_dim is not given)", model.hidden_size);
    want(model.head_dim >= 2 && model.head_dim % 2 == 0, "model.head_dim", "expected an even number (rotary embedding rotates pairs)");
    layers_of_kinds();
    rotation(model.rope, "model.rope");
    rotation(model.rope_local, "model.rope_local");
    family_keys();
    experts();
    prediction_modules();
    indexers();
  }

  void layers_of_kinds() const {
    const auto& model = config_.model;
    const auto fits = [&](std::size_t entries) { return static_cast<std::int64_t>(entries) <= model.layers; };
    want(fits(model.layer_kinds.size()), "model.layer_types", "expected at most {}", other("model.layers"));
    want(fits(model.layer_positions.size()), "model.layer_positions", "expected at most {}", other("model.layers"));
    want(fits(model.mlp_kinds.size()), "model.mlp_layer_types", "expected at most {}", other("model.layers"));
    const auto any = [&](layers::LayerKind kind) { return std::ranges::find(model.layer_kinds, kind) != model.layer_kinds.end(); };
    const bool slides = any(layers::LayerKind::sliding), chunks = any(layers::LayerKind::chunked);
    want(!slides || model.sliding_window > 0, "model.sliding_window", "expected 1 or more, model.layer_types has sliding layers");
    if (any(layers::LayerKind::linear)) linear_attention();
    want(!chunks || model.attention_chunk > 0, "model.attention_chunk_size", "expected 1 or more, model.layer_types has chunked layers");
  }

  void linear_attention() const {
    const auto& model = config_.model;
    for (const auto& [key, size] : {std::pair{"model.linear_key_heads", model.linear_key_heads},
                                    {"model.linear_value_heads", model.linear_value_heads},
                                    {"model.linear_key_head_dim", model.linear_key_head_dim},
                                    {"model.linear_value_head_dim", model.linear_value_head_dim},
                                    {"model.linear_conv_kernel_dim", model.linear_conv_kernel_dim}})
      want(size > 0, key, "expected 1 or more, model.layer_types has linear layers");
    want(model.linear_value_heads % model.linear_key_heads == 0, "model.linear_value_heads",
         "expected a multiple of model.linear_key_heads = {}", model.linear_key_heads);
  }

  void experts() const {
    const auto& model = config_.model;
    const bool sparse = std::ranges::find(model.mlp_kinds, layers::MlpKind::sparse) != model.mlp_kinds.end();
    want(!sparse || model.experts > 0, "model.experts", "expected 1 or more, model.mlp_layer_types has sparse layers");
    want(model.experts == 0 || model.experts_per_token >= 1, "model.experts_per_token", "expected 1 to {}", other("model.experts"));
    want(model.experts_per_token <= model.experts, "model.experts_per_token", "expected at most {}", other("model.experts"));
    want(model.first_dense_layers <= model.layers, "model.first_dense_layers", "expected at most {}", other("model.layers"));
    want(model.experts % model.routing_groups == 0, "model.routing_groups", "expected a divisor of {}", other("model.experts"));
    want(model.kept_routing_groups <= model.routing_groups, "model.kept_routing_groups", "expected at most {}",
         other("model.routing_groups"));
    const std::int64_t choices = model.experts / model.routing_groups * model.kept_routing_groups;
    want(model.experts_per_token <= choices, "model.experts_per_token", "expected at most the {} of {}", counted(choices, "expert"),
         counted(model.kept_routing_groups, "group"));
    for (const auto& [key, weight] :
         {std::pair{"train.balance_loss", config_.train.balance_loss}, {"train.router_z_loss", config_.train.router_z_loss}})
      want(weight == 0 || model.experts > 0, key, "but the model has no experts: model.experts = 0");
  }

  void prediction_modules() const {
    const std::int64_t modules = config_.model.mtp_layers;
    const runtime::TrainConfig standard;
    for (const auto& [key, same] :
         {std::pair{"train.mtp_loss", config_.train.mtp_loss == standard.mtp_loss},
          {"train.mtp_eval_target_module", config_.train.mtp_eval_target_module == standard.mtp_eval_target_module}})
      want(modules > 0 || same, key, "but the model has no modules that predict further tokens: model.mtp_layers = 0");
    want(modules == 0 || config_.train.mtp_eval_target_module <= modules, "train.mtp_eval_target_module",
         "expected at most model.mtp_layers = {}", modules);
  }

  /// The keys of indexers come together, and their loss needs queries that see more keys than are chosen.
  void indexers() const {
    const auto& model = config_.model;
    const auto& train = config_.train;
    const bool indexes = model.index_topk > 0;
    want(!indexes || model.index_n_heads > 0, "model.index_n_heads", "expected 1 or more with model.index_topk = {}", model.index_topk);
    want(!indexes || model.index_head_dim >= std::max<std::int64_t>(model.qk_rope_head_dim, 1), "model.index_head_dim",
         "expected model.qk_rope_head_dim = {} or more with model.index_topk = {}", model.qk_rope_head_dim, model.index_topk);
    want(!indexes || model.q_lora_rank > 0, "model.q_lora_rank", "expected 1 or more: the indexer's queries are expanded from this vector");
    want(!indexes || model.causal, "model.causal", "expected true with model.index_topk = {}", model.index_topk);
    want(train.indexer_loss == 0 || indexes, "train.indexer_loss", "but the model has no indexer: model.index_topk = 0");
    want(train.indexer_loss == 0 || train.sequence > model.index_topk, "train.indexer_loss",
         "but rows of train.sequence = {} tokens leave model.index_topk = {} nothing to choose", train.sequence, model.index_topk);
    want(!train.indexer_warmup || train.indexer_loss > 0, "train.indexer_warmup",
         "expected train.indexer_loss above 0: nothing else is trained");
  }

  /// Checks the relations between the numbers of a rotation, whose keys begin with `prefix`.
  void rotation(const layers::RopeConfig& rope, const std::string& prefix) const {
    const auto is = [&](layers::RopeKind kind) { return rope.kind == kind; };
    const bool needs_length =
        is(layers::RopeKind::llama3) || is(layers::RopeKind::yarn) || is(layers::RopeKind::dynamic) || is(layers::RopeKind::longrope);
    want(!is(layers::RopeKind::yarn) || rope.beta_fast >= rope.beta_slow, (prefix + "_beta_fast").c_str(),
         "expected {}_beta_slow = {} or more", prefix, rope.beta_slow);
    want(!is(layers::RopeKind::llama3) || rope.high_freq_factor >= rope.low_freq_factor, (prefix + "_high_freq_factor").c_str(),
         "expected {}_low_freq_factor = {} or more", prefix, rope.low_freq_factor);
    const std::int64_t least = is(layers::RopeKind::longrope) ? 2 : 1;
    want(!needs_length || rope.original_max_position >= least, (prefix + "_original_max_position").c_str(),
         "expected {} or more for {} = {}", least, prefix, to_string(rope.kind));
    const bool rotates = rope.kind == layers::RopeKind::proportional || layers::rotary_pairs(rope, config_.model.head_dim) > 0;
    want(rotates, (prefix + "_proportion").c_str(), "which rotates no feature of model.head_dim = {}", config_.model.head_dim);
    const auto pairs = static_cast<std::size_t>(layers::rotary_pairs(rope, config_.model.head_dim));
    const auto one_per_pair = [&](const std::vector<double>& factors, const std::string& key) {
      want(!is(layers::RopeKind::longrope) || factors.size() == pairs, key.c_str(),
           "expected {} numbers, one per rotated pair of model.head_dim = {}", pairs, config_.model.head_dim);
    };
    one_per_pair(rope.short_factors, prefix + "_short_factors");
    one_per_pair(rope.long_factors, prefix + "_long_factors");
    want(rope.kind == layers::RopeKind::none || rope.theta > 0, (prefix + "_theta").c_str(), "expected 1 or more for {} = {}", prefix,
         to_string(rope.kind));
  }

  /// Refuses keys that the family does not read: they would have no effect.
  void family_keys() const {
    const auto& model = config_.model;
    const layers::FamilyTraits* family = layers::find_family_traits(model.family, model.numerics);
    const bool two = family != nullptr && std::ranges::count(layers::family_traits(), family->name, &layers::FamilyTraits::name) > 1;
    const std::string which = two ? fmt::format("{} with model.numerics = {}", model.family, model.numerics) : model.family;
    const RunConfig built_in;
    for (const Key& key : schema()) {
      const bool absent = family != nullptr && layers::is_family_key(key.name) && !family->reads(key.name);
      want(!absent || run_.settings.at(key.name).value == key.fetch(built_in), key.name.c_str(), "which the family {} does not have",
           which);
    }
    const auto any = [&](layers::LayerKind kind) { return std::ranges::find(model.layer_kinds, kind) != model.layer_kinds.end(); };
    const bool by_list = family == nullptr || family->reads("model.layer_types");  // else the family's layers have their windows
    want(model.sliding_window == 0 || !by_list || any(layers::LayerKind::sliding), "model.sliding_window",
         "but no layer has a sliding window, expected some in model.layer_types");
    want(model.attention_chunk == 0 || any(layers::LayerKind::chunked), "model.attention_chunk_size",
         "but no layer is chunked, expected some in model.layer_types");
  }

  void training() const {
    const auto& train = config_.train;
    want(train.microbatches % train.accumulators == 0, "train.accumulators", "which does not divide train.microbatches = {}",
         train.microbatches);
    want(train.leaf == "part" || train.accumulators == 1, "train.accumulators",
         "expected 1 with train.leaf = microbatch, whose gradients are added in one order");
    want(config_.mesh.shard != "gradients" || train.leaf == "microbatch", "mesh.shard",
         "expected train.leaf = \"microbatch\" with it: only finished gradients of microbatches can be divided");
    const std::int64_t steps = runtime::schedule_steps(train);
    const char* steps_key = train.schedule_steps > 0 ? "train.schedule_steps" : "train.steps";
    want(train.warmup_steps <= steps, "train.warmup_steps", "expected at most {} = {}", steps_key, steps);
    want(train.numerics != "maxtext" || train.decay == "cosine" || train.decay.starts_with("wsd"), "train.decay",
         "expected cosine, wsd or wsd-cosine with train.numerics = maxtext: MaxText has no other");
    want(!train.nesterov || train.momentum > 0, "train.nesterov", "expected train.momentum above 0");
    if (train.decay.starts_with("wsd")) {
      want(train.decay_steps >= 1 && train.warmup_steps + train.decay_steps <= steps, "train.decay_steps",
           "expected 1 to {} ({} - train.warmup_steps) for train.decay = {}", steps - train.warmup_steps, steps_key, train.decay);
    }
    // Token indices are 64-bit; a microbatch's are 32-bit in its batch arrays.
    want(train.batch * train.sequence <= (std::int64_t{1} << 31) - 1, "train.batch",
         "times train.sequence = {} is more than 2^31 - 1 tokens", train.sequence);
    const double tokens =
        static_cast<double>(train.steps) * static_cast<double>(train.microbatches) * static_cast<double>(train.batch * train.sequence);
    want(tokens < 4e18, "train.steps", "which makes {} tokens, expected fewer than 4e18", tokens);
  }

  void pipeline() const {
    const auto& pipeline = config_.pipeline;
    const std::int64_t stages = pipeline.ranks * pipeline.chunks;
    const std::int64_t layers = config_.model.layers, modules = config_.model.mtp_layers, most = layers + modules + 2;
    if (layers > 0 && pipeline.layout.empty()) {
      const char* key = run_.given("pipeline.chunks") && pipeline.ranks <= most ? "pipeline.chunks" : "pipeline.ranks";
      want(stages <= most, key, "which makes {} stages of {} layers{}, expected at most {} (the layers, {}embedding and head)", stages,
           layers, modules > 0 ? fmt::format(" and {} modules that predict further tokens", modules) : "", most,
           modules > 0 ? "modules, " : "");
    }
    want(pipeline.warmup == -1 || pipeline.schedule == "1f1b", "pipeline.warmup", "which is for pipeline.schedule = 1f1b, not {}",
         pipeline.schedule);
    const bool grouped = pipeline.schedule == "interleaved" || pipeline.schedule == "interleaved-zb";
    want(pipeline.group == 0 || grouped, "pipeline.group", "which is for pipeline.schedule = interleaved or interleaved-zb, not {}",
         pipeline.schedule);
  }

  void mesh() const {
    const auto& mesh = config_.mesh;
    const std::int64_t copies = mesh.copies(), experts = config_.model.experts;
    const bool follows = !run_.given("mesh.data");  // there are as many copies as ranks that share experts
    want(copies % mesh.expert == 0, "mesh.expert", "expected a divisor of mesh.data = {}; nearest legal: {}", copies,
         divisor(copies, copies, mesh.expert));
    if (config_.model.layers > 0) {
      want(mesh.expert == 1 || experts > 0, "mesh.expert", "but the model has no experts, expected 1");
      want(!follows || mesh.expert == 1 || experts % mesh.expert == 0, "mesh.expert",
           "expected a divisor of model.experts = {}; nearest legal: {}", experts, divisor(experts, experts, mesh.expert));
      want(mesh.expert == 1 || experts % mesh.expert == 0, "mesh.expert",
           "expected a divisor of mesh.data = {} and of model.experts = {}; nearest legal: {}", copies, experts,
           divisor(copies, experts, mesh.expert));
    }
    const std::int64_t microbatches = config_.train.microbatches;
    if (run_.given("train.microbatches"))
      want(microbatches % copies == 0, "train.microbatches", "expected a multiple of the {} copies (mesh.data); nearest legal: {}", copies,
           std::max(copies, (microbatches + copies / 2) / copies * copies));
    want(microbatches % copies == 0, follows ? "mesh.expert" : "mesh.data",
         "expected a divisor of train.microbatches = {}; nearest legal: {}", microbatches, divisor(microbatches, microbatches, copies));
    want(config_.train.microbatches % config_.train.expert_accumulators == 0, "train.expert_accumulators",
         "which does not divide train.microbatches = {}", config_.train.microbatches);
  }

  /// The common divisor of two numbers that is nearest to a third; of two the smaller.
  static std::string divisor(std::int64_t one, std::int64_t other, std::int64_t wanted) {
    std::vector<std::int64_t> nearest{1};
    for (std::int64_t each = 2; each <= std::min(one, other); ++each) {
      const std::int64_t nearer = std::abs(nearest.front() - wanted) - std::abs(each - wanted);
      if (one % each != 0 || other % each != 0 || nearer < 0) continue;
      if (nearer > 0) nearest.clear();
      nearest.push_back(each);
    }
    return fmt::format("{}", fmt::join(nearest, " or "));
  }

  void rest() const {
    want(!saves_ || config_.checkpoint.every == 0 || !config_.directory.empty(), "checkpoint.every",
         "but run.directory, where checkpoints go, is empty");
    const auto& cluster = config_.cluster;
    want(cluster.timeout_ms == 0 || cluster.timeout_ms >= 3 * cluster.heartbeat_ms, "cluster.timeout_ms",
         "expected three heartbeats or more (cluster.heartbeat_ms = {})", cluster.heartbeat_ms);
    const auto& policy = config_.rematerialize.policy;
    want(!policy.empty(), "rematerialize.policy", "expected a policy (\"none\" keeps everything) or labels");
    for (const std::string& name : rematerialization_policies()) {
      const auto words = std::ranges::count_if(policy, [](const std::string& word) { return !word.starts_with("offload:"); });
      const bool mixed = words > 1 && std::ranges::find(policy, name) != policy.end();
      want(!mixed, "rematerialize.policy", "expected one policy or only labels; {} is a policy", name);
    }
  }

  /// A default that a file spells out, as those of `millrace config show` do, is no mistake.
  void warn(const char* key, std::string_view reason) {
    if (!run_.given(key) || run_.settings.at(key).value == find_key(key)->fetch(RunConfig())) return;
    run_.warnings.push_back(fmt::format("{}: {} = {} has no effect: {}", place(key), key, text(key), reason));
  }

  void no_effect() {
    const auto& train = config_.train;
    if (!train.decay.starts_with("wsd") && train.decay_steps > 0) warn("train.decay_steps", "train.decay is not wsd");
    const auto& optimizer = *std::ranges::find(runtime::optimizer_choices, train.optimizer, &runtime::OptimizerChoice::name);
    std::set<std::string> unread;
    for (const auto& other : runtime::optimizer_choices)
      for (const std::string_view key : other.keys)
        if (!key.empty() && !optimizer.reads(key)) unread.emplace(key);
    for (const std::string& key : unread) warn(key.c_str(), fmt::format("train.optimizer is {}", train.optimizer));
    if (train.ramp_microbatches == 0) {
      warn("train.ramp_increment", "train.ramp_microbatches is 0");
      warn("train.ramp_rows", "train.ramp_microbatches is 0");
    }
    if (train.average_decay == 0) warn("evaluate.average", "train.average_decay is 0");
    if (!train.skip_spikes) {
      warn("train.skip_window", "train.skip_spikes is false");
      warn("train.skip_factor", "train.skip_spikes is false");
    }
    if (train.decay == "constant" || train.decay == "rsqrt")
      for (const char* key : {"train.final_learning_rate", "train.schedule_steps"})
        warn(key, fmt::format("train.decay is {}", train.decay));
    if (config_.device == "cpu" && train.offload_states)
      warn("train.offload_states", "device is cpu, and states are in host memory anyway");
    if (train.start_from.empty()) warn("train.start_with", "train.start_from is empty");
    learns_nothing();
    if (train.decay != "constant" && train.decay != "rsqrt" && train.final_learning_rate > train.learning_rate)
      run_.warnings.push_back(
          fmt::format("{}: train.final_learning_rate = {} is above train.learning_rate = {}: the rate rises to it; it is a "
                      "rate, not a fraction of one",
                      place("train.final_learning_rate"), train.final_learning_rate, train.learning_rate));
    if (config_.mesh.expert == 1) {
      warn("pipeline.weave", "mesh.expert is 1");
      warn("experts.capacity", "mesh.expert is 1");
    }
    const bool mirrored = config_.pipeline.schedule == "dualpipe" || !config_.pipeline.plan.empty();  // or perhaps
    if (config_.mesh.copies() == 1 && !mirrored && config_.mesh.shard != "none") warn("mesh.shard", "there is one copy (mesh.data)");
    if (config_.mesh.shard != "parameters") warn("mesh.weight_slots", fmt::format("mesh.shard is {}", config_.mesh.shard));
    if (!config_.pipeline.plan.empty()) warn("pipeline.schedule", "pipeline.plan determines the order of actions");
    if (!config_.rematerialize.stages.empty()) warn("rematerialize.policy", "rematerialize.stages has a policy for each stage");
    if (config_.tensorboard && config_.directory.empty()) warn("run.tensorboard", "run.directory, where the files go, is empty");
    if (config_.status.port < 0) {
      warn("status.address", "status.port is -1");
      warn("status.token_file", "status.port is -1");
    }
    if (config_.model.layers > 0 && config_.model.experts == 0) warn("train.expert_accumulators", "the model has no experts");
    if (config_.sample.tokens == 0 && !config_.sample.prompt.empty()) warn("sample.prompt", "sample.tokens is 0");
    if (!config_.data.text.empty()) warn("data.separator", "documents of data.text have their own end token");
    if (config_.model.layers > 0 && train.sequence > config_.model.max_position_embeddings) {
      run_.warnings.push_back(fmt::format("{}: train.sequence = {} is longer than model.max_position_embeddings = {}",
                                          place("train.sequence"), train.sequence, config_.model.max_position_embeddings));
    }
  }

  /// Warns where the rate has fallen to 0 before the run ends.
  void learns_nothing() {
    const auto& train = config_.train;
    if (train.schedule_steps == 0 || train.steps <= train.schedule_steps || train.decay == "constant" || train.decay == "rsqrt") return;
    const bool maxtext = train.numerics == "maxtext";
    if (!maxtext && train.final_learning_rate > 0) return;
    run_.warnings.push_back(fmt::format(
        "{}: train.schedule_steps = {} is below train.steps = {}: the learning rate is 0 from step {} on, where nothing is learnt{}",
        place("train.schedule_steps"), train.schedule_steps, train.steps, train.schedule_steps + 1,
        maxtext ? " (train.numerics = maxtext)" : "; train.final_learning_rate would be the rate from there on"));
  }

  LoadedRun& run_;
  const RunConfig& config_;
  bool complete_, saves_;
};

}  // namespace

void check_key_rules(LoadedRun& run, bool complete, bool saves) { Checker(run, complete, saves).all(); }

}  // namespace millrace::configs
