#include "actors/jobs/stepper.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/start_source.hpp"
#include "actors/rank/action_runner.hpp"
#include "actors/rank/memory_check.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/schedule/simulator/simulate.hpp"

namespace millrace::actors {
namespace {

constexpr const char* stepper_component = "actors.stepper";
constexpr std::array state_kinds{runtime::MemoryKind::master, runtime::MemoryKind::state};

std::vector<std::span<std::byte>> state_of(const Rank& rank) {
  std::vector<std::span<std::byte>> parts;
  for (const auto& section : rank.compute().memory_plan().sections())
    if (std::ranges::find(state_kinds, section.kind) != state_kinds.end())
      parts.emplace_back(rank.compute().memory().slot(section.kind, section.stage), section.bytes());
  return parts;
}

std::vector<std::byte> copy_of(const Rank& rank) {
  std::vector<std::byte> bytes;
  for (const auto part : state_of(rank)) bytes.insert(bytes.end(), part.begin(), part.end());
  return bytes;
}

void refresh_copies(const runtime::RankCompute& compute, const kernels::ExecutionContext& context) {
  for (const auto* stage : compute.stages()) stage->shard().refresh_copies(context);
}

void restore(Rank& rank, const std::vector<std::byte>& bytes) {
  const std::byte* from = bytes.data();
  for (const auto part : state_of(rank)) {
    std::copy_n(from, part.size(), part.begin());
    from += part.size();
  }
  rank.worker().run([&rank] { refresh_copies(rank.compute(), rank.context()); });
}

RankResources needs_of(const StepperSetup& setup) {
  RankResources needs;
  needs.threads = setup.threads;
  needs.ranks_per_process = setup.plan->ranks();
  needs.compression = setup.compression;
  return needs;
}

}  // namespace

/// The state of one rank.
struct Stepper::SteppedRank {
  std::unique_ptr<Rank> rank;
  std::unique_ptr<SteppedRankPort> port;
  std::unique_ptr<RankControl> control;
  std::deque<Execute> waiting;  // actions that may run, in order
  std::size_t done = 0;         // number of completed actions of the list
  std::vector<double> begins;   // planned begin times, by entry of the training list
};

/// Queues actions, and turns everything else into events that settle() processes: no call re-enters the control that made it.
class Stepper::SteppedRankPort final : public RankPort, public RankEvents {
 public:
  SteppedRankPort(Stepper& stepper, SteppedRank& stepped) : stepper_(stepper), stepped_(stepped) {}

  void execute(const Execute& execute) override { stepped_.waiting.push_back(execute); }
  void work(const RankTask& task) override {
    stepper_.post([this, task] {
      const std::int64_t begin = runtime::steady_now();
      stepped_.rank->worker().run([&] {
        stepped_.control->perform(task);
        stepped_.control->perform_then(task, {});
      });
      stepped_.control->work_done({task.work, begin, runtime::steady_now()});
    });
  }
  void load(const LoadBatch& request) override {
    stepper_.post([this, request] {
      const auto batch = stepped_.rank->compute().batch(request.slot);
      stepper_.setup_.batches->fill(request.step, request.microbatch, batch);
      stepped_.rank->complete(batch);
      stepped_.control->batch_ready(request);
    });
  }
  void report(const ToCoordinator& message) override {
    stepper_.post([this, message] { stepper_.coordinator_->receive(message); });
  }
  void write_shard(const WriteShard& request) override {
    fail(ExitCode::internal, stepper_component, "rank {} is to write {}, but a stepper saves nothing", request.rank, request.folder);
  }
  void stopped() override {}

  void on_arrival(const cluster::Arrival& arrival) override {
    stepper_.post([this, arrival] { stepped_.control->boundary_arrived(arrival); });
  }
  void on_writable(int channel, std::int64_t sequence) override {
    stepper_.post([this, channel, sequence] { stepped_.control->slot_writable(channel, sequence); });
  }
  void on_exchanged(int, std::int64_t sequence) override {
    stepper_.post([this, sequence] { stepped_.control->exchange_ended(sequence); });
  }
  void on_replicas_exchanged() override {
    stepper_.post([this] { stepped_.control->replicas_exchanged(); });
  }
  void failed(const TaskFailed& failure) override {
    stepper_.post([this, failure] { stepped_.control->failed(failure); });
  }

 private:
  Stepper& stepper_;
  SteppedRank& stepped_;
};

class Stepper::SteppedCoordinatorPort final : public CoordinatorPort {
 public:
  explicit SteppedCoordinatorPort(Stepper& stepper) : stepper_(stepper) {}

  void to_ranks(const ToRank& message) override {
    if (const auto* run = std::get_if<RunStep>(&message)) stepper_.post([this, step = run->step] { stepper_.begin_step(step); });
    for (auto& stepped : stepper_.stepped_ranks_) stepper_.post([target = stepped->control.get(), message] { target->receive(message); });
  }
  void ready(std::uint64_t) override {}
  CheckpointAttempt begin_checkpoint(std::int64_t) override { return {{}, "checkpoints are not written here"}; }
  void commit_checkpoint(std::int64_t, std::vector<std::string>) override {}
  void discard_checkpoint(std::int64_t, const std::string&) override {}
  void step_done(const StepRecord& record) override { stepper_.newest_ = record; }
  void evaluated(const EvaluationRecord&) override {}
  void sampled(const std::vector<std::int32_t>&) override {}
  bool stop_requested() override { return false; }
  std::int64_t now() override { return runtime::steady_now(); }
  void finished(ExitCode code, const std::string& message) override {
    stepper_.ended_ = code == ExitCode::ok && message.empty() ? "the last step is done" : message;
  }

 private:
  Stepper& stepper_;
};

Stepper::Stepper(const StepperSetup& setup) : setup_(setup), step_(setup.first_step) {
  const auto& plan = *setup.plan;
  runtime::Costs costs;
  costs.stages.resize(static_cast<std::size_t>(plan.schedule.placement.stages()));
  const auto planned = runtime::simulate(plan.schedule, costs, false);
  if (setup.state == nullptr) check_memory(plan, needs_of(setup));
  const auto cores = cluster::cores_to_compute_on();
  for (int index = 0; index < plan.ranks(); ++index) {
    stepped_ranks_.push_back(std::make_unique<SteppedRank>());
    auto& stepped = *stepped_ranks_.back();
    RankSetup rank;
    rank.id = runtime::RankId(index);
    rank.needs = needs_of(setup);
    if (setup.threads > static_cast<int>(cores.size())) rank.cores = cores;  // ranks share the cores
    stepped.rank = std::make_unique<Rank>(plan, rank);
    if (setup.state != nullptr) {
      restore(*stepped.rank, setup.state->ranks.at(static_cast<std::size_t>(index)));
    } else {
      const bool resumes = setup.checkpoint != nullptr;
      initialize(*stepped.rank, {resumes ? setup.checkpoint : setup.source, resumes || takes_state(setup.train), setup.model_from,
                                 setup.overruled_model, setup.train.seed});
    }
    // The segments of an action have its time.
    const auto& list = plan.schedule.ranks[static_cast<std::size_t>(index)];
    for (const auto& entry : stepped.rank->training_plan().entries) {
      const auto place = static_cast<std::size_t>(std::ranges::find(list, entry.action) - list.begin());
      stepped.begins.push_back(planned.begin.at(planned.first[static_cast<std::size_t>(index)] + place));
    }
    stepped.port = std::make_unique<SteppedRankPort>(*this, stepped);
    RankControlSetup control;
    control.rank = stepped.rank.get();
    control.batches = setup.batches;
    control.first_step = setup.first_step;
    control.steps = setup.train.steps;
    control.gathers_first = true;  // a step's beginning is copied
    stepped.control = std::make_unique<RankControl>(control, *stepped.port);
  }
  std::vector<HostedRank> ranks;
  for (const auto& stepped : stepped_ranks_) ranks.push_back({stepped->rank.get(), stepped->port.get()});
  links_ = connect(plan, cluster::Topology(plan.ranks(), 1, 0), nullptr, ranks);
  exchanges_ = connect_exchanges(plan, cluster::Topology(plan.ranks(), 1, 0), nullptr, ranks);
  replicas_ = connect_replicas(plan, cluster::Topology(plan.ranks(), 1, 0), nullptr, ranks);

  auto coordinator = coordinator_setup(setup.train, plan, *setup.batches, setup.first_step);
  coordinator.replays = false;
  coordinator.train.find_nan = false;  // break points serve this purpose
  if (setup.state != nullptr)
    coordinator.run_state = setup.state->run;
  else if (setup.checkpoint != nullptr)
    coordinator.run_state = run_state_of(*setup.checkpoint);
  if (setup.source != nullptr && takes_state(setup.train)) coordinator.updates_before = updates_seen(*setup.source);
  desk_ = std::make_unique<SteppedCoordinatorPort>(*this);
  coordinator_ = std::make_unique<Coordinator>(std::move(coordinator), *desk_);
  for (auto& stepped : stepped_ranks_) stepped->control->begin();
  settle();
}

Stepper::~Stepper() = default;

void Stepper::settle() {
  while (!events_.empty()) {
    const auto event = std::move(events_.front());
    events_.pop_front();
    event();
  }
}

/// Between steps nothing runs: all parameters are those after the previous step.
void Stepper::begin_step(std::int64_t step) {
  step_ = step;
  position_ = 0;
  auto state = std::make_shared<StateCopy>();
  state->step = step;
  for (const auto& stepped : stepped_ranks_) {
    stepped->done = 0;
    state->ranks.push_back(copy_of(*stepped->rank));
  }
  state->run = coordinator_->run_state();
  beginning_ = std::move(state);
}

double Stepper::planned_begin(const SteppedRank& stepped) const {
  return stepped.begins[std::min(stepped.done, stepped.begins.size() - 1)];
}

const Execute* Stepper::next(runtime::RankId rank) const {
  const auto& waiting = stepped_ranks_.at(rank.index())->waiting;
  return waiting.empty() || ended_ ? nullptr : &waiting.front();
}

runtime::RankId Stepper::next_rank() const {
  const SteppedRank* first = nullptr;
  for (const auto& stepped : stepped_ranks_)
    if (!stepped->waiting.empty() && (first == nullptr || planned_begin(*stepped) < planned_begin(*first))) first = stepped.get();
  return first == nullptr || ended_ ? runtime::no_rank : first->rank->id();
}

const Execute* Stepper::next() const {
  const auto rank = next_rank();
  return rank == runtime::no_rank ? nullptr : next(rank);
}

void Stepper::run(runtime::RankId rank) {
  auto& stepped = *stepped_ranks_.at(rank.index());
  MILLRACE_CHECK(!stepped.waiting.empty() && !ended_, ExitCode::internal, stepper_component, "rank {} has no action to run", rank);
  const Execute execute = stepped.waiting.front();
  stepped.waiting.pop_front();
  try {
    const std::int64_t begin = runtime::steady_now();
    stepped.rank->worker().run(
        [&] { stepped.rank->runner().run(*stepped.rank, stepped.rank->compute().stage(execute.action.stage), execute); });
    ++position_;
    ++stepped.done;
    stepped.control->action_done({execute.action, execute.segment, begin, runtime::steady_now()});
    settle();
  } catch (const std::exception& error) {
    ended_ = fmt::format("{} on rank {} failed: {}", execute.action, rank, without_component(error.what()));
    events_.clear();
    throw;
  }
}

Rank& Stepper::rank(runtime::RankId id) const { return *stepped_ranks_.at(id.index())->rank; }
const RankControl& Stepper::control(runtime::RankId id) const { return *stepped_ranks_.at(id.index())->control; }

void Stepper::refresh_copies() {
  // Uses a separate team, since the ranks' workers may be in the middle of an operation.
  kernels::ThreadTeam team(1);
  const kernels::ExecutionContext context(team);
  for (auto& stepped : stepped_ranks_) actors::refresh_copies(stepped->rank->compute(), context);
}

void Stepper::set_hook(runtime::OperationHook* hook) {
  for (auto& stepped : stepped_ranks_) stepped->rank->set_hook(hook);
}

}  // namespace millrace::actors
