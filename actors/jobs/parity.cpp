#include "actors/jobs/parity.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "actors/jobs/captured_pipeline.hpp"
#include "actors/jobs/golden_rows.hpp"
#include "actors/jobs/parity_report.hpp"
#include "actors/jobs/recorded_steps.hpp"
#include "actors/jobs/tensor_gather.hpp"
#include "actors/setup/token_compression.hpp"
#include "cluster/host/log.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {
namespace {

/// Runs one training step, then a forward pass per microbatch for the logits, and then collects captured tensors and gradients.
class ParityActor : public DriverActor<ParityActor, ParityOutput> {
 public:
  ParityActor(caf::actor_config& config, Setup setup, std::vector<ComputeLogits> logits)
      : DriverActor(config, std::move(setup)), logits_(std::move(logits)) {}

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (all()) broadcast(RunStep{0});
  }
  void handle(const StepReport& report) {
    output_.losses.insert(output_.losses.end(), report.losses.begin(), report.losses.end());
    if (all()) request_next_logits();
  }
  // The ranks' hooks capture the logits; the report says only that the pass has ended.
  void handle(const LogitsReport&) {
    if (all()) request_next_logits();
  }
  void handle(const Collected& collected) {
    if (collected.last) {
      if (!all()) return;
      output_.tensors = tensors_.take();
      return finish(std::move(output_));
    }
    tensors_.add(collected);
  }

 private:
  void request_next_logits() {
    if (next_request_ == logits_.size()) return broadcast(Collect{});
    broadcast(logits_[next_request_++]);
  }

  const std::vector<ComputeLogits> logits_;  // one per microbatch
  std::size_t next_request_ = 0;
  TensorGather tensors_;
  ParityOutput output_;
};

/// One request per microbatch, with `rows` consecutive rows of `all`, whose number `rows` divides.
std::vector<ComputeLogits> logits_requests(const std::vector<GivenRow>& all, std::size_t rows) {
  std::vector<ComputeLogits> requests(all.size() / rows);
  for (std::size_t r = 0; r < all.size(); ++r) {
    auto& request = requests[r / rows];
    request.tokens.insert(request.tokens.end(), all[r].tokens.begin(), all[r].tokens.end());
    request.positions.insert(request.positions.end(), all[r].positions.begin(), all[r].positions.end());
    request.segments.insert(request.segments.end(), all[r].segments.begin(), all[r].segments.end());
  }
  return requests;
}

}  // namespace

// With tied embeddings MaxText rounds the table's gradient once for the whole batch. A sum over microbatches whose gradients are rounded
// one by one would be a different number, so there all rows are one microbatch.
std::size_t parity_rows(const layers::ModelConfig& model, std::size_t all) {
  return model.numerics == "maxtext" && model.tie_word_embeddings ? all : 1;
}

PlanRequest parity_request(const ParitySettings& settings, const layers::ConfigFile& config, const runtime::TrainConfig& train,
                           const std::vector<GivenRow>& all, std::size_t rows) {
  PlanRequest request;
  request.model = config.model;
  request.train = train;
  request.train.dtype = settings.dtype;
  request.device = kernels::device_kind(settings.device);
  request.train.batch = static_cast<std::int64_t>(rows);
  request.train.sequence = static_cast<std::int64_t>(all.front().tokens.size());
  request.train.microbatches = static_cast<std::int64_t>(all.size() / rows);
  request.train.z_loss = config.losses.z_loss;
  request.train.balance_loss = config.losses.balance_loss;
  request.train.router_z_loss = config.losses.router_z_loss;
  request.train.indexer_loss = config.losses.indexer_loss;
  request.train.indexer_warmup = config.losses.indexer_warmup;
  request.train.mtp_loss = config.losses.mtp_loss;
  request.pipeline.ranks = settings.ranks;
  request.pipeline.chunks = settings.chunks;
  request.pipeline.schedule = settings.schedule;
  request.pipeline.layout = settings.layout;
  request.rematerialize.policy = {settings.rematerialize};
  request.mesh.expert = settings.expert;
  request.train.accumulators = settings.accumulators > 0 ? settings.accumulators : settings.expert;
  return request;
}

namespace {

/// Runs the comparison in fp32 and returns the choices that routers and indexers of this process's ranks make in it. Collective.
RouterChoices choices_in_fp32(Session& session, ParitySettings settings, const layers::ConfigFile& config, const GivenRows& batches,
                              const std::vector<GivenRow>& all, std::size_t rows) {
  settings.dtype = "fp32";
  RankResources resources;
  resources.logits = true;
  const auto plan = make_plan(parity_request(settings, config, {}, all, rows));
  CapturedPipeline pipeline(session, settings, plan, std::move(resources));
  static_cast<void>(pipeline.run<ParityActor, ParityOutput>(batches, 1, logits_requests(all, rows)));
  return pipeline.take_choices();
}

/// Checks that the compressed ids derived from the folder's tokenizer are those of the reference, if the golden file has them. Throws
/// Error(model) at the first difference.
void check_compression(const ParitySettings& settings, const layers::ModelConfig& model, const runtime::SafetensorsFile& golden) {
  const runtime::FileTensor* table = golden.find("engram.lookup_table");
  const auto compression = open_compression(model, settings.folder);
  if (table == nullptr || !compression) return;
  MILLRACE_CHECK(table->dtype == runtime::FileDType::i32, ExitCode::model, "actors.parity", "{}: engram.lookup_table is {}, expected {}",
                 golden.path(), to_string(table->dtype), to_string(runtime::FileDType::i32));
  std::vector<std::int32_t> expected(table->elements());
  golden.read_bytes(*table, 0, std::as_writable_bytes(std::span(expected)));
  for (std::size_t token = 0; token < std::max(expected.size(), compression->ids.size()); ++token) {
    const auto id_in = [&](const std::vector<std::int32_t>& ids) { return token < ids.size() ? std::to_string(ids[token]) : "none"; };
    MILLRACE_CHECK(id_in(compression->ids) == id_in(expected), ExitCode::model, "actors.parity",
                   "{}: token {} has the compressed id {}, expected {} ({})", settings.folder, token, id_in(compression->ids),
                   id_in(expected), golden.path());
  }
}

/// The file with the outputs of a reference. A folder of a published model has none, which is no mistake of the user's.
std::string reference_of(const std::string& folder) {
  auto path = runtime::join_path(folder, "golden.safetensors");
  std::error_code error;
  MILLRACE_CHECK(
      std::filesystem::exists(path, error), ExitCode::model, "actors.parity",
      "{} has no golden.safetensors, expected the outputs of a reference that the model is compared with. PyTorch and transformers "
      "make them: python3 tools/reference/make_golden.py {} FOLDER, then millrace parity FOLDER (docs/models.md)",
      folder, folder);
  return path;
}

}  // namespace

bool run_parity(Session& session, const ParitySettings& settings) {
  const auto config = layers::read_config_file(settings.folder);
  if (session.leads())
    for (const auto& warning : config.warnings) cluster::log_warning("{}", warning);
  const runtime::SafetensorsFile golden(reference_of(settings.folder));
  check_compression(settings, config.model, golden);
  if (has_recorded_steps(golden)) return run_recorded_steps(session, settings, config, golden);
  const auto steps = read_golden_rows(golden, config.model.vocab_size);
  MILLRACE_CHECK(steps.size() == 1, ExitCode::model, "actors.parity",
                 "{}: input_ids has {} steps but no tensor step.* is recorded, expected input_ids [rows, sequence]", golden.path(),
                 steps.size());
  const auto& all = steps.front();
  const std::size_t rows = parity_rows(config.model, all.size());
  const GivenRows batches(all, rows, mtp_modules(config.model));
  std::optional<RouterChoices> choices;
  const bool has_router = config.model.experts > 0, has_indexer = config.model.index_topk > 0;
  // A rounding error of bf16 can change what is chosen, and with it everything after it.
  if (settings.dtype == "bf16" && (has_router || has_indexer)) {
    choices = choices_in_fp32(session, settings, config, batches, all, rows);
    if (session.leads()) fmt::print("{}   those that the same run chooses in fp32\n", has_indexer ? "choices" : "experts");
  }
  RankResources resources;
  resources.logits = true;
  const auto plan = make_plan(parity_request(settings, config, {}, all, rows));
  CapturedPipeline pipeline(session, settings, plan, resources, choices ? &*choices : nullptr);
  auto result = pipeline.run<ParityActor, ParityOutput>(batches, 1, logits_requests(all, rows));
  result.counts = {
      .valid_targets = batches.valid_targets(0), .microbatches = plan.schedule.microbatches, .mtp_targets = batches.mtp_targets(0)};
  if (!session.leads()) return true;  // process 0 has all tensors and compares them
  return report_parity(settings, plan, golden, std::move(result));
}

}  // namespace millrace::actors
