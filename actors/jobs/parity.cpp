#include "actors/jobs/parity.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
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

/// Drives one step, one logits pass per microbatch, and the collection.
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
    if (all()) next_logits();
  }
  void handle(const LogitsReport&) {
    if (all()) next_logits();
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
  void next_logits() {
    if (next_ == logits_.size()) return broadcast(Collect{});
    broadcast(logits_[next_++]);
  }

  const std::vector<ComputeLogits> logits_;  // one per microbatch
  std::size_t next_ = 0;
  TensorGather tensors_;
  ParityOutput output_;
};

/// The same rows for the passes that compute logits, `rows` rows each.
std::vector<ComputeLogits> logits_of(const std::vector<GivenRow>& all, std::size_t rows) {
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

// MaxText rounds a tied table's gradient once for the whole batch; a sum of rounded parts would be a different number.
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
  return request;
}

namespace {

/// Collective: what routers and indexers of this process's ranks choose in the same run in fp32.
RouterChoices choices_in_fp32(Session& session, ParitySettings settings, const layers::ConfigFile& config, const GivenRows& batches,
                              const std::vector<GivenRow>& all, std::size_t rows) {
  settings.dtype = "fp32";
  RankResources needs;
  needs.logits = true;
  const auto plan = make_plan(parity_request(settings, config, {}, all, rows));
  CapturedPipeline pipeline(session, settings, plan, std::move(needs));
  static_cast<void>(pipeline.run<ParityActor, ParityOutput>(batches, 1, logits_of(all, rows)));
  return pipeline.take_choices();
}

/// Compares the compressed ids of the folder's tokenizer with those of the reference.
void check_compression(const ParitySettings& settings, const layers::ModelConfig& model, const runtime::SafetensorsFile& golden) {
  const runtime::FileTensor* table = golden.find("engram.lookup_table");
  const auto compression = open_compression(model, settings.folder);
  if (table == nullptr || !compression) return;
  std::vector<std::int32_t> expected(table->elements());
  golden.read_bytes(*table, 0, std::as_writable_bytes(std::span(expected)));
  for (std::size_t token = 0; token < std::max(expected.size(), compression->ids.size()); ++token) {
    const auto id_in = [&](const std::vector<std::int32_t>& ids) { return token < ids.size() ? std::to_string(ids[token]) : "none"; };
    MILLRACE_CHECK(id_in(compression->ids) == id_in(expected), ExitCode::model, "actors.parity",
                   "{}: the compressed id of token {} is {}, expected {} as in {}", settings.folder, token, id_in(compression->ids),
                   id_in(expected), golden.path());
  }
}

}  // namespace

bool run_parity(Session& session, const ParitySettings& settings) {
  const auto config = layers::read_config_file(settings.folder);
  if (session.leads())
    for (const auto& warning : config.warnings) cluster::log_warning("{}", warning);
  const runtime::SafetensorsFile golden(runtime::join_path(settings.folder, "golden.safetensors"));
  if (has_recorded_steps(golden)) return run_recorded_steps(session, settings, config, golden);
  const auto steps = read_golden_rows(golden, config.model.vocab_size);
  MILLRACE_CHECK(steps.size() == 1, ExitCode::model, "actors.parity", "{}: {} steps of input_ids without step.*, expected [rows, sequence]",
                 golden.path(), steps.size());
  check_compression(settings, config.model, golden);
  const auto& all = steps.front();
  const std::size_t rows = parity_rows(config.model, all.size());
  const GivenRows batches(all, rows, mtp_modules(config.model));
  std::optional<RouterChoices> choices;
  const bool routes = config.model.experts > 0, indexes = config.model.index_topk > 0;
  if (settings.dtype == "bf16" && (routes || indexes)) {
    choices = choices_in_fp32(session, settings, config, batches, all, rows);
    if (session.leads()) fmt::print("{}   as the same run chooses them in fp32\n", indexes ? "choices" : "experts");
  }
  RankResources needs;
  needs.logits = true;
  const auto plan = make_plan(parity_request(settings, config, {}, all, rows));
  CapturedPipeline pipeline(session, settings, plan, needs, choices ? &*choices : nullptr);
  auto result = pipeline.run<ParityActor, ParityOutput>(batches, 1, logits_of(all, rows));
  result.counts = {
      .valid_targets = batches.valid_targets(0), .microbatches = plan.schedule.microbatches, .mtp_targets = batches.mtp_targets(0)};
  return !session.leads() || report_parity(settings, plan, golden, std::move(result));
}

}  // namespace millrace::actors
