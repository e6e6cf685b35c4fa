#include "actors/jobs/parity.hpp"

#include <caf/actor_system.hpp>
#include <map>
#include <utility>

#include "actors/driver_actor.hpp"
#include "actors/jobs/parity_report.hpp"
#include "actors/rank/capture_hook.hpp"
#include "actors/rank/device_placement.hpp"
#include "actors/rank/initial_state.hpp"
#include "cluster/host/log.hpp"
#include "layers/formats/config_file.hpp"
#include "runtime/io/file_system.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/io/safetensors.hpp"

namespace millrace::actors {
namespace {

/// Drives one step, one logits pass a microbatch, and the collection.
class ParityActor : public DriverActor<ParityActor, ParityOutput> {
 public:
  ParityActor(caf::actor_config& config, Setup setup, std::vector<int> head_ranks, std::vector<ComputeLogits> logits)
      : DriverActor(config, std::move(setup)), head_ranks_(std::move(head_ranks)), logits_(std::move(logits)) {}

  using DriverActor::handle;
  void handle(const RankReady&) {
    if (all()) tell(RunStep{0});
  }
  void handle(const StepReport& report) {
    losses_[report.rank] = report.losses;
    if (!all()) return;
    for (const int head : head_ranks_) output_.losses.insert(output_.losses.end(), losses_[head].begin(), losses_[head].end());
    next_logits();
  }
  void handle(const LogitsReport&) {
    if (all()) next_logits();
  }
  void handle(const Collected& collected) {
    if (collected.last) {
      if (all()) finish(std::move(output_));
      return;
    }
    auto& tensors = output_.tensors;
    const auto [newest, is_new] = newest_.emplace(collected.rank, tensors.size());
    if (is_new || is_whole(tensors[newest->second])) {
      newest->second = tensors.size();
      return tensors.push_back(collected.tensor);
    }
    auto& values = tensors[newest->second].values;
    values.insert(values.end(), collected.tensor.values.begin(), collected.tensor.values.end());
  }

 private:
  static bool is_whole(const CapturedTensor& tensor) {
    std::int64_t elements = 1;
    for (const auto size : tensor.shape) elements *= size;
    return static_cast<std::int64_t>(tensor.values.size()) >= elements;
  }
  void next_logits() {
    if (next_ == logits_.size()) return tell(Collect{});
    tell(logits_[next_++]);
  }

  const std::vector<int> head_ranks_;
  const std::vector<ComputeLogits> logits_;  // one a microbatch
  std::size_t next_ = 0;
  std::map<int, std::vector<double>> losses_;  // by rank
  std::map<int, std::size_t> newest_;          // tensor that came, by rank
  ParityOutput output_;
};

using Integers = std::vector<std::vector<std::int32_t>>;

/// An integer tensor [rows, sequence] of golden.safetensors.
Integers read_integers(const runtime::SafetensorsFile& golden, const char* name) {
  const auto& entry = golden.at(name);
  const bool wide = entry.dtype == runtime::FileDType::i64;
  MILLRACE_CHECK((wide || entry.dtype == runtime::FileDType::i32) && entry.shape.size() == 2 && entry.shape[0] > 0 && entry.shape[1] > 0,
                 ExitCode::model, "actors.parity", "{}: {} has {} axes, expected int64 or int32 [rows, sequence]", golden.path(), name,
                 entry.shape.size());
  const auto rows = static_cast<std::size_t>(entry.shape[0]), sequence = static_cast<std::size_t>(entry.shape[1]);
  std::vector<std::int64_t> long_values(wide ? rows * sequence : 0);
  std::vector<std::int32_t> values(rows * sequence);
  golden.read_bytes(entry, 0, wide ? std::as_writable_bytes(std::span(long_values)) : std::as_writable_bytes(std::span(values)));
  for (std::size_t i = 0; i < long_values.size(); ++i) {
    MILLRACE_CHECK(long_values[i] >= -1 && long_values[i] <= INT32_MAX, ExitCode::model, "actors.parity",
                   "{}: {}[{}] = {}, expected a token", golden.path(), name, i, long_values[i]);
    values[i] = static_cast<std::int32_t>(long_values[i]);
  }
  Integers result(rows);
  for (std::size_t i = 0; i < values.size(); ++i) result[i / sequence].push_back(values[i]);
  return result;
}

/// The rows of golden.safetensors: packed documents with their own positions and targets where it has them, else a document each.
std::vector<GivenRow> read_rows(const runtime::SafetensorsFile& golden, std::int64_t vocabulary) {
  std::vector<GivenRow> rows;
  for (auto& tokens : read_integers(golden, "input_ids")) {
    for (const auto token : tokens)
      MILLRACE_CHECK(token >= 0 && token < vocabulary, ExitCode::model, "actors.parity",
                     "{}: a token {} in input_ids, the vocabulary has {}", golden.path(), token, vocabulary);
    rows.push_back(GivenRows::document(std::move(tokens)));
  }
  if (golden.find("segment_ids") == nullptr) return rows;
  const auto positions = read_integers(golden, "positions"), segments = read_integers(golden, "segment_ids"),
             targets = read_integers(golden, "targets"), counted = read_integers(golden, "targets_segmentation");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    for (const Integers* other : {&positions, &segments, &targets, &counted})
      MILLRACE_CHECK(other->size() == rows.size() && (*other)[r].size() == rows[r].tokens.size(), ExitCode::model, "actors.parity",
                     "{}: positions, segment_ids, targets and targets_segmentation, expected in the shape of input_ids", golden.path());
    rows[r].positions = positions[r];
    rows[r].segments = segments[r];
    for (std::size_t i = 0; i < targets[r].size(); ++i) rows[r].targets[i] = counted[r][i] != 0 ? targets[r][i] : -1;
  }
  return rows;
}

/// The same rows for the passes that give logits, `rows` of them each.
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

bool run_parity(Session& session, const ParitySettings& settings) {
  const auto config = layers::read_config_file(settings.folder);
  if (session.leads())
    for (const auto& warning : config.warnings) cluster::log_warning("{}", warning);
  const runtime::SafetensorsFile golden(runtime::join_path(settings.folder, "golden.safetensors"));
  const auto all = read_rows(golden, config.model.vocab_size);
  // MaxText rounds a tied table's gradient of the whole batch to bf16: a sum of rounded parts would be another number.
  const bool whole = config.model.numerics == "maxtext" && config.model.tie_word_embeddings;
  const std::size_t rows = whole ? all.size() : 1;
  const GivenRows batches(all, rows);

  PlanRequest request;
  request.model = config.model;
  request.train.dtype = settings.dtype;
  request.device = kernels::device_kind(settings.device);
  request.train.batch = static_cast<std::int64_t>(rows);
  request.train.sequence = static_cast<std::int64_t>(all.front().tokens.size());
  request.train.microbatches = static_cast<std::int64_t>(all.size() / rows);
  request.train.z_loss = config.z_loss;
  request.pipeline.ranks = settings.ranks;
  request.pipeline.chunks = settings.chunks;
  request.pipeline.schedule = settings.schedule;
  request.pipeline.layout = settings.layout;
  request.rematerialize.policy = {settings.rematerialize};
  const auto plan = make_plan(request);

  RankResources needs;
  needs.threads = settings.threads;
  needs.logits = true;
  JobConfig placed;
  placed.device = settings.device;
  place_on_devices(needs, session, placed);
  Pipeline pipeline(session, plan, needs);
  std::map<const Rank*, std::unique_ptr<CaptureHook>> hooks;
  for (auto* rank : pipeline.ranks()) {
    initialize_from_folder(*rank, settings.folder);
    auto& hook = hooks[rank];
    hook = std::make_unique<CaptureHook>(*rank);
    rank->set_hook(hook.get());
  }
  std::promise<ParityOutput> output;
  Pipeline::Start start;
  start.batches = &batches;
  start.steps = 1;
  start.train = request.train;
  start.captured = [&hooks](Rank& rank) { return hooks.at(&rank)->take(); };
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
    return pipeline.system().spawn<ParityActor>(ParityActor::Setup{plan.ranks(), std::move(to_ranks), &output}, plan.head_ranks(),
                                                logits_of(all, rows));
  };
  session.control().agree({{"plan", runtime::hash_of(plan.text()).hex()}});
  auto result = drive(session, pipeline, start, output);
  result.valid_targets = batches.valid_targets(0);
  return !session.leads() || report_parity(settings, plan, golden, std::move(result));
}

}  // namespace millrace::actors
