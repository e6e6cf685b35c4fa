#include "actors/jobs/run_setup.hpp"

#include "actors/rank/initial_state.hpp"
#include "runtime/data/byte_tokenizer.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::actors {

CoordinatorSetup coordinator_setup(const RunSettings& settings, const PipelinePlan& plan, const BatchProvider& batches,
                                   std::int64_t first_step, std::int64_t evaluation_microbatches) {
  CoordinatorSetup setup;
  setup.ranks = plan.ranks();
  setup.model_stages = plan.schedule.placement.model_stages();
  setup.first_step = first_step;
  setup.train = settings.train;
  setup.evaluate = settings.evaluate;
  setup.checkpoint = settings.checkpoint;
  setup.sample = settings.sample;
  setup.writes_checkpoints = !settings.directory.empty();
  setup.evaluation_microbatches = evaluation_microbatches;
  setup.evaluation_targets = batches.evaluation_targets(evaluation_microbatches);
  for (const auto& parameter : plan.parameters) setup.tensors.push_back(parameter.name);
  for (const char letter : settings.sample.prompt) setup.prompt.push_back(static_cast<unsigned char>(letter));
  if (setup.prompt.empty()) setup.prompt.push_back(runtime::ByteTokenizer::end_of_document);
  setup.vocabulary = plan.model.vocab_size;
  setup.flops_per_step = plan.model_flops(settings.train.microbatches);
  setup.valid_targets = [&batches](std::int64_t step) { return batches.valid_targets(step); };
  setup.learning_rate = [rule = runtime::learning_rate(settings.train)](std::int64_t step) { return rule.at(step); };
  return setup;
}

std::map<std::string, std::string> run_identity(const RunSettings& settings, const PipelinePlan& plan, const DatasetBatches& batches,
                                                std::int64_t threads) {
  auto identity = settings.identity(threads);
  identity["data"] = batches.dataset().fingerprint;
  identity["train.accumulators"] = std::to_string(plan.parts());  // replicas have separate sums of their own
  return identity;
}

bool held_nothing_out(const std::map<std::string, std::string>& identity) {
  const auto data = identity.find("data");
  return data != identity.end() && data->second.ends_with("-0");  // the fingerprint's last number is the number of held-out tokens
}

runtime::Dataset open_data(const RunSettings& settings, bool whole) {
  auto config = settings.data;
  if (whole) config.held_out = 0;
  auto data = runtime::open_dataset(config, settings.model.vocab_size);
  if (whole && settings.data.held_out > 0) data.held_out_text = "nothing, as since the run's beginning";
  return data;
}

std::int64_t noted_threads(const runtime::CheckpointReader& checkpoint) {
  const auto& notes = checkpoint.meta().notes;
  const auto found = notes.find("train.threads");
  return found == notes.end() ? 0 : std::stoll(found->second);
}

runtime::BatchShape batch_shape(const JobConfig& settings) {
  runtime::BatchShape shape;
  shape.rows = settings.train.batch;
  shape.sequence = settings.train.sequence;
  shape.microbatches = settings.train.microbatches;
  shape.seed = static_cast<std::uint64_t>(settings.train.seed);
  shape.packing = settings.data.packing;
  return shape;
}

void initialize(Rank& rank, const RunSettings& settings, const runtime::CheckpointReader* checkpoint) {
  if (checkpoint != nullptr) return initialize_from_checkpoint(rank, *checkpoint);
  if (!settings.model_from.empty()) return initialize_from_folder(rank, settings.model_from);
  initialize_from_seed(rank, static_cast<std::uint64_t>(settings.train.seed));
}

}  // namespace millrace::actors
