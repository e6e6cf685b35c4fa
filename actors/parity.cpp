#include "actors/parity.hpp"

#include <caf/actor_system.hpp>
#include <map>
#include <utility>

#include "actors/capture_hook.hpp"
#include "actors/driver_actor.hpp"
#include "actors/initial_state.hpp"
#include "actors/parity_report.hpp"
#include "layers/hugging_face/config.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {
namespace {

/// Drives one step, one logits pass a row, and the collection.
class ParityActor : public DriverActor<ParityActor, ParityOutput> {
 public:
  ParityActor(caf::actor_config& config, Setup setup, std::vector<int> head_ranks, std::vector<std::vector<std::int32_t>> rows)
      : DriverActor(config, std::move(setup)), head_ranks_(std::move(head_ranks)), rows_(std::move(rows)) {}

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (all()) tell(RunStep{0});
  }
  void handle(const StepReport& report) {
    losses_[report.rank] = report.losses;
    if (!all()) return;
    for (const int head : head_ranks_) output_.losses.insert(output_.losses.end(), losses_[head].begin(), losses_[head].end());
    next_row();
  }
  void handle(const LogitsReport&) {
    if (all()) next_row();
  }
  void handle(const Collected& collected) {
    if (!collected.last) {
      output_.tensors.push_back(collected.tensor);
    } else if (all()) {
      finish(std::move(output_));
    }
  }

 private:
  void next_row() {
    if (row_ == rows_.size()) return tell(Collect{});
    tell(ComputeLogits{rows_[row_++], 0});
  }

  const std::vector<int> head_ranks_;
  const std::vector<std::vector<std::int32_t>> rows_;
  std::size_t row_ = 0;
  std::map<int, std::vector<double>> losses_;  // by rank
  ParityOutput output_;
};

std::vector<std::vector<std::int32_t>> read_rows(const runtime::SafetensorsFile& golden, std::int64_t vocabulary) {
  const auto& ids = golden.at("input_ids");
  MILLRACE_CHECK(ids.dtype == runtime::FileDType::i64 && ids.shape.size() == 2, ExitCode::model, "actors.parity",
                 "{}: input_ids has {} axes, wanted int64 [rows, sequence]", golden.path(), ids.shape.size());
  std::vector<std::int64_t> flat(static_cast<std::size_t>(ids.shape[0] * ids.shape[1]));
  golden.read_bytes(ids, 0, std::as_writable_bytes(std::span(flat)));
  std::vector<std::vector<std::int32_t>> rows(static_cast<std::size_t>(ids.shape[0]));
  for (std::size_t i = 0; i < flat.size(); ++i) {
    MILLRACE_CHECK(flat[i] >= 0 && flat[i] < vocabulary, ExitCode::model, "actors.parity", "{}: input_ids[{}] = {}, the vocabulary has {}",
                   golden.path(), i, flat[i], vocabulary);
    rows[i / static_cast<std::size_t>(ids.shape[1])].push_back(static_cast<std::int32_t>(flat[i]));
  }
  return rows;
}

}  // namespace

bool run_parity(Session& session, const ParitySettings& settings) {
  const auto config = layers::read_hugging_face_config(settings.folder);
  if (session.leads())
    for (const auto& warning : config.warnings) fmt::print(stderr, "warning: {}\n", warning);
  const runtime::SafetensorsFile golden(runtime::join_path(settings.folder, "golden.safetensors"));
  const GivenRows batches(read_rows(golden, config.model.vocab_size));
  const auto rows = read_rows(golden, config.model.vocab_size);

  PlanRequest request;
  request.model = config.model;
  request.train.dtype = settings.dtype;
  request.train.batch = 1;
  request.train.sequence = static_cast<std::int64_t>(rows.front().size());
  request.train.microbatches = static_cast<std::int64_t>(rows.size());
  request.pipeline.ranks = settings.ranks;
  request.pipeline.chunks = settings.chunks;
  request.pipeline.schedule = settings.schedule;
  request.pipeline.layout = settings.layout;
  request.rematerialize.policy = {settings.rematerialize};
  const auto plan = make_plan(request);

  RankNeeds needs;
  needs.threads = settings.threads;
  needs.logits = true;
  Pipeline pipeline(session, plan, needs);
  std::map<const Rank*, std::unique_ptr<CaptureHook>> hooks;
  for (auto* rank : pipeline.ranks()) {
    initialize_from_folder(*rank, settings.folder);
    auto& hook = hooks[rank];
    hook = std::make_unique<CaptureHook>(*rank);
    rank->hook = hook.get();
  }
  std::promise<ParityOutput> output;
  Pipeline::Start start;
  start.batches = &batches;
  start.steps = 1;
  start.train = request.train;
  start.captured = [&hooks](Rank& rank) { return hooks.at(&rank)->take(); };
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
    return pipeline.system().spawn<ParityActor>(ParityActor::Setup{plan.ranks(), std::move(to_ranks), &output}, plan.head_ranks(), rows);
  };
  session.control().agree({{"plan", runtime::hash_of(plan.text()).hex()}});
  auto result = drive(session, pipeline, start, output);
  return !session.leads() || report_parity(settings, plan, golden, std::move(result));
}

}  // namespace millrace::actors
