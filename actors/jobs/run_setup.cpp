#include "actors/jobs/run_setup.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>

#include "actors/jobs/data_content.hpp"
#include "actors/jobs/run_tokenizer.hpp"
#include "actors/rank/initial_state.hpp"
#include "actors/setup/token_compression.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/checkpoint/found_checkpoint.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"
#include "runtime/optimizers/learning_rate.hpp"
#include "runtime/units.hpp"

namespace millrace::actors {

CoordinatorSetup coordinator_setup(const runtime::TrainConfig& train, const PipelinePlan& plan, const BatchProvider& batches,
                                   std::int64_t first_step) {
  CoordinatorSetup setup;
  setup.ranks = plan.ranks();
  setup.rank_text = [placement = plan.schedule.placement](std::int64_t rank) { return placement.rank_text(runtime::RankId(rank)); };
  setup.model_stages = plan.schedule.placement.model_stages();
  setup.first_step = first_step;
  setup.train = train;
  for (const auto& parameter : plan.parameters) setup.tensors.push_back(parameter.name);
  setup.vocabulary = plan.model.vocab_size;
  setup.flops_per_step = plan.model_flops(train.microbatches);
  setup.valid_targets = [&batches](std::int64_t step) { return batches.valid_targets(step); };
  setup.mtp_targets = [&batches](std::int64_t step) { return batches.mtp_targets(step); };
  setup.data_progress = [&batches](std::int64_t steps) { return batches.progress(steps); };
  setup.learning_rate = [rule = runtime::learning_rate(train)](std::int64_t step) { return rule.at(step); };
  return setup;
}

IdentityKeys run_identity(IdentityKeys keys, const PipelinePlan& plan, const DataSource& batches,
                          const runtime::TokenCompression* compression) {
  keys[data_key] = batches.fingerprint();
  keys["train.accumulators"] = std::to_string(plan.parts());  // two directions always have separate sums of their own
  if (plan.has_experts()) keys["train.expert_accumulators"] = std::to_string(plan.expert_parts());
  if (compression != nullptr) keys["data.token_compression"] = compression_hash(*compression);
  return keys;
}

bool held_nothing_out(const IdentityKeys& identity) {
  const auto data = identity.find(data_key);
  return data != identity.end() && data->second.ends_with("-0");  // the fingerprint's last number is the number of held-out tokens
}

namespace {

/// Whether the data can be opened with any vocabulary.
bool opens(const runtime::DataConfig& data) {
  try {
    static_cast<void>(runtime::open_dataset(data, std::numeric_limits<std::int32_t>::max()));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// How large the vocabulary would have to be for these token files.
std::string vocabulary_advice(const runtime::DataConfig& data, std::int64_t vocabulary) {
  try {
    const auto files = find_run_tokenizer(data, "").files;
    if (!files.empty()) {
      const auto ids = runtime::open_tokenizer(files.source)->vocabulary();
      if (ids > vocabulary) return fmt::format("; their tokenizer {} has {} ids: model.vocab_size={}", files.source, ids, ids);
    }
  } catch (const Error&) {  // of a kind that is not read: its ids are not known
  }
  return ", or a model.vocab_size above that token";
}

/// An error about the model's vocabulary says which size the tokens need.
runtime::Dataset opened_dataset(const runtime::DataConfig& data, std::int64_t vocabulary) {
  try {
    return runtime::open_dataset(data, vocabulary);
  } catch (const Error& error) {
    if (error.code() != ExitCode::data || data.tokens.empty() || !opens(data)) throw;
    throw Error(error.code(), error.what() + vocabulary_advice(data, vocabulary));
  }
}

}  // namespace

runtime::Dataset open_data(runtime::DataConfig data, std::int64_t vocabulary, bool whole) {
  const bool differs = whole && data.held_out > 0;
  if (whole) data.held_out = 0;
  auto opened = opened_dataset(data, vocabulary);
  if (differs) opened.held_out_text = "nothing, as since the run's start";
  return opened;
}

HeldOut held_out(const runtime::EvaluateConfig& evaluate, const DataSource& batches) {
  HeldOut result{batches.evaluation_microbatches(), batches.held_out_text()};
  if (evaluate.batches > 0) result.microbatches = std::min(result.microbatches, evaluate.batches);
  if (result.microbatches > 0 && batches.evaluation_targets(result.microbatches) == 0) {
    result.microbatches = 0;
    result.text += ", none of which has a next token in its document";
  }
  return result;
}

runtime::BatchShape batch_shape(const runtime::TrainConfig& train, const runtime::DataConfig& data, const layers::ModelConfig& model) {
  runtime::BatchShape shape;
  shape.rows = train.batch;
  shape.sequence = train.sequence;
  shape.microbatches = runtime::BatchRamp(train);
  shape.seed = static_cast<std::uint64_t>(train.seed);
  shape.packing = data.packing;
  shape.modules = mtp_modules(model);
  return shape;
}

runtime::RunState run_state_of(const runtime::CheckpointReader& checkpoint) {
  runtime::RunState state;
  for (const auto& record : checkpoint.manifest().tensors) {
    if (!record.name.starts_with(runtime::run_state_prefix)) continue;
    auto& tensor = state.emplace_back();
    tensor.name = record.name;
    tensor.values.resize(static_cast<std::size_t>(record.shape.at(0)));
    checkpoint.read_bytes(record.name, std::as_writable_bytes(std::span(tensor.values)));
  }
  return state;
}

void initialize(Rank& rank, const InitialState& state) {
  if (state.checkpoint != nullptr)
    return runtime::read_from(*state.checkpoint,
                              [&] { initialize_from_checkpoint(rank, *state.checkpoint, {.states = state.optimizer_states}); });
  if (state.model_from.empty()) return initialize_from_seed(rank, static_cast<std::uint64_t>(state.seed));
  try {
    initialize_from_folder(rank, state.model_from);
  } catch (const Error& error) {
    if (error.code() != ExitCode::model || state.overruled.empty()) throw;
    throw Error(error.code(),
                fmt::format("[actors.initial_state] {}\nkeys overrule model.from = {}, but the weights are its own; remove the "
                            "keys of sizes:{}",
                            without_component(error.what()), state.model_from, state.overruled));
  }
}

}  // namespace millrace::actors
