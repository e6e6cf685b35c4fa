#include "actors/parity.hpp"

#include <caf/actor_system.hpp>
#include <future>
#include <map>
#include <utility>

#include "actors/capture_hook.hpp"
#include "actors/initial_state.hpp"
#include "actors/message_actor.hpp"
#include "actors/parity_report.hpp"
#include "actors/pipeline.hpp"
#include "layers/hugging_face/config.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {
namespace {

/// Drives one step, one logits pass a row, and the collection.
class ParityActor : public MessageActor {
 public:
  struct Setup {
    int ranks = 1;
    std::vector<int> head_ranks;
    std::vector<std::vector<std::int32_t>> rows;
    std::function<void(const ToRank&)> to_ranks;
    std::promise<ParityOutput>* output = nullptr;
  };
  ParityActor(caf::actor_config& config, Setup setup) : MessageActor(config), setup_(std::move(setup)) {}

  caf::behavior make_behavior() override {
    return {[this](const ToCoordinator& message) { std::visit([this](const auto& alternative) { handle(alternative); }, message); },
            [](const CheckpointCommitted&) {}};
  }

 private:
  [[nodiscard]] bool all() {
    if (++answers_ < setup_.ranks) return false;
    answers_ = 0;
    return true;
  }
  void handle(const RankReady&) {
    if (all()) setup_.to_ranks(RunStep{0});
  }
  void handle(const StepReport& report) {
    losses_[report.rank] = report.losses;
    if (!all()) return;
    for (const int head : setup_.head_ranks) output_.losses.insert(output_.losses.end(), losses_[head].begin(), losses_[head].end());
    next_row();
  }
  void handle(const LogitsReport&) {
    if (all()) next_row();
  }
  void next_row() {
    if (row_ == setup_.rows.size()) return setup_.to_ranks(Collect{});
    setup_.to_ranks(ComputeLogits{setup_.rows[row_++], 0});
  }
  void handle(const Collected& collected) {
    if (!collected.last) {
      output_.tensors.push_back(collected.tensor);
      return;
    }
    if (!all()) return;
    setup_.to_ranks(Stop{});
    setup_.output->set_value(std::move(output_));
    quit();
  }
  void handle(const StageFailed& failure) {
    setup_.output->set_exception(
        std::make_exception_ptr(Error(static_cast<ExitCode>(failure.code), fmt::format("rank {}, stage {}, action {}: {}", failure.rank,
                                                                                       failure.stage, failure.action, failure.cause))));
    quit();
  }
  template <class T>
  void handle(const T&) {}

  Setup setup_;
  int answers_ = 0;
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
    return pipeline.system().spawn<ParityActor>(ParityActor::Setup{plan.ranks(), plan.head_ranks(), rows, std::move(to_ranks), &output});
  };
  session.control().agree({{"plan", runtime::hash_of(plan.text()).hex()}});
  pipeline.start(start);
  ParityOutput result;
  try {
    if (session.leads()) result = output.get_future().get();
  } catch (const Error& error) {
    session.fail(error.code(), error.what());  // not thrown: the pipeline's actors are alive, and its destructor would wait for them
  }
  pipeline.wait();
  pipeline.close();
  return !session.leads() || report_parity(settings, plan, golden, std::move(result));
}

}  // namespace millrace::actors
