#include "actors/jobs/profiled_run.hpp"

#include <unistd.h>

#include <algorithm>
#include <caf/actor_system.hpp>
#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "actors/jobs/config_agreement.hpp"
#include "actors/jobs/data_content.hpp"
#include "actors/jobs/machine_peak.hpp"
#include "actors/jobs/other_programs.hpp"
#include "actors/jobs/run_beginning.hpp"
#include "actors/jobs/run_setup.hpp"
#include "actors/jobs/start_source.hpp"
#include "actors/message_actor.hpp"
#include "actors/pipeline.hpp"
#include "actors/rank/device_placement.hpp"
#include "actors/rank/operation_clock.hpp"
#include "actors/setup/token_compression.hpp"
#include "actors/telemetry/measured_run.hpp"
#include "actors/telemetry/profile_gather.hpp"
#include "cluster/host/host_cores.hpp"
#include "kernels/bandwidth.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/system_refusal.hpp"
#include "runtime/io/hash.hpp"
#include "runtime/optimizers/learning_rate.hpp"

namespace millrace::actors {
namespace {

constexpr const char* profiled_run_component = "actors.profile";
constexpr std::int64_t warm_up = 1;  // steps before the first profiled one

/// How the steps ended, with the record of each.
struct Outcome {
  ExitCode code = ExitCode::ok;
  std::string message;
  std::vector<StepRecord> steps;
};

/// A run's coordinator that stops after a number of steps and keeps their records; it saves, evaluates and samples nothing.
class ProfileActor : public MessageActor, private CoordinatorPort {
 public:
  struct Setup {
    CoordinatorSetup coordinator;
    std::size_t steps = 0;
    std::function<void(const ToRank&)> to_ranks;
    std::function<void(const StepRecord&)> stepped;
    std::promise<Outcome>* outcome = nullptr;  // must outlive the actor
  };
  ProfileActor(caf::actor_config& config, Setup setup)
      : MessageActor(config), setup_(std::move(setup)), coordinator_(setup_.coordinator, *this) {}

  caf::behavior make_behavior() override {
    return {[this](const ToCoordinator& message) {
              try {
                coordinator_.receive(message);
              } catch (const std::exception& thrown) {
                const auto error = as_error(thrown, "actors.profile");
                finished(error.code(), error.what());
              }
            },
            [](const CheckpointCommitted&) {}};
  }

 private:
  void to_ranks(const ToRank& message) override { setup_.to_ranks(message); }
  void ready(std::uint64_t) override {}
  CheckpointAttempt begin_checkpoint(std::int64_t) override { return {{}, "checkpoints are not written here"}; }
  void commit_checkpoint(std::int64_t, std::vector<std::string>) override {}
  void discard_checkpoint(std::int64_t, const std::string&) override {}
  void step_done(const StepRecord& record) override {
    outcome_.steps.push_back(record);
    if (!setup_.stepped) return;
    StepRecord shown = record;
    shown.steps = static_cast<std::int64_t>(setup_.steps);  // of the profile, not of the run
    setup_.stepped(shown);
  }
  void evaluated(const EvaluationRecord&) override {}
  void sampled(const std::vector<std::int32_t>&) override {}
  bool stop_requested() override { return outcome_.steps.size() >= setup_.steps; }
  std::int64_t now() override { return runtime::steady_now(); }
  void finished(ExitCode code, const std::string& message) override {
    if (auto* outcome = std::exchange(setup_.outcome, nullptr)) {
      outcome_.code = code;
      outcome_.message = message;
      outcome->set_value(std::move(outcome_));
    }
    quit();
  }

  Setup setup_;
  Coordinator coordinator_;
  Outcome outcome_;
};

/// The training of a profile: as many steps as requested, and none is run again.
runtime::TrainConfig only_steps(runtime::TrainConfig train, int steps) {
  train.find_nan = false;
  train.ramp_microbatches = 0;  // steps of the full batch are what the rest of the run consists of
  train.steps = std::max<std::int64_t>(train.steps, steps + warm_up);
  return train;
}

/// Gives every rank the state with which the run begins: that of another run, of a model's folder, or of its seed.
void initialize_all(Pipeline& pipeline, const RunSettings& run, const RunBeginning& beginning) {
  std::optional<runtime::CheckpointReader> source;
  if (!beginning.source.empty()) source.emplace(beginning.source);
  MILLRACE_CHECK(!source || source->state_hash().hex() == beginning.source_hash, ExitCode::start, profiled_run_component,
                 "{} = {}: its state has the hash {}, that of process 0 has {}: the hosts see different files", start_key, beginning.source,
                 source->state_hash().hex(), beginning.source_hash);
  const InitialState state{source ? &*source : nullptr, takes_state(run.train), run.model_from, run.overruled_model, run.train.seed};
  for (auto* rank : pipeline.ranks()) initialize(*rank, state);
}

/// Keeps the best of this and earlier measurements, since other programs may use the machine for a while.
void measure_machine(const Session& session, const CudaConfig& cuda, const PipelinePlan& plan, const RankResources& needs,
                     runtime::Machine& machine) {
  const auto now = machine_peak(session, cuda, plan, needs);
  machine.peak_flops = std::max(machine.peak_flops, now.peak_flops);
  machine.job_peak_flops = std::max(machine.job_peak_flops, now.job_peak_flops);
  if (!needs.devices.empty()) return;
  const auto teams = cluster::host_teams(session.topology(), session.launch(), cluster::usable_cores(), needs.threads);
  const double host = kernels::measured_copy_bandwidth(teams.computing());
  machine.memory_bandwidth = std::max(machine.memory_bandwidth, host * teams.threads_at_once() / teams.computing());
}

}  // namespace

void check_ring(const PipelinePlan& plan, int steps) {
  std::size_t longest = 0;
  for (const auto& list : plan.schedule.ranks) longest = std::max(longest, list.size());
  std::size_t step = 2 * longest + 8;  // one action and one wait per entry, and the records at the end of a step
  if (plan.divides_update()) {
    // Each run of gradients leaves at most eight records: two tasks and two waits for it, and as many for the parameters that it belongs
    // to. Twice as many runs as the bytes make are allowed for, since some are shorter.
    std::size_t bytes = 0;
    for (const auto& parameter : plan.parameters) bytes += static_cast<std::size_t>(parameter.shape.elements()) * sizeof(float);
    const auto ranks = static_cast<std::size_t>(plan.schedule.placement.positions() * plan.replicas());
    const std::size_t runs = 2 * bytes / (plan.mesh.window * ranks) + 8;
    // Where the sums are divided, the gradients of each microbatch are.
    const auto times = plan.divides_sums() ? static_cast<std::size_t>(plan.schedule.microbatches / plan.replicas()) : std::size_t{1};
    step += 8 * runs * times;
    // Where parameters are divided, those of a stage are gathered at each of its actions at most: a share of the runs, and a wait.
    const auto chunks = static_cast<std::size_t>(plan.schedule.placement.stages() / plan.schedule.placement.ranks());
    if (plan.divides_masters()) step += 4 * longest * (runs / chunks + 1);
  }
  const std::size_t fit = runtime::TraceRing::default_capacity / step;
  MILLRACE_CHECK(static_cast<std::size_t>(steps) + warm_up <= fit, ExitCode::usage, profiled_run_component,
                 "{} steps of {} actions, expected {} at most: a rank's trace keeps {} records", steps, longest,
                 counted(fit > warm_up ? fit - warm_up : 0, "step"), runtime::TraceRing::default_capacity);
}

std::optional<runtime::Measured> profile_training(Session& session, const ProfileSettings& settings) {
  const auto& run = settings.run;
  const auto train = only_steps(run.train, settings.steps);
  auto request = run.plan_request();
  request.train = train;
  const auto plan = make_plan(request);
  check_ring(plan, settings.steps);
  runtime::learning_rate(train).validate();
  const DatasetBatches batches(open_data(run.data, run.model.vocab_size, false), batch_shape(train, run.data, run.model));
  static_cast<void>(agree_on_content(session, batches.dataset().files, batches.dataset().fingerprint, "", false));
  const auto beginning = agree_on_beginning(session, train, plan, nullptr);
  RankResources needs;
  needs.threads = static_cast<int>(beginning.threads);
  needs.compression = open_compression(run.model, compression_source(run.data, run.model_from));
  place_on_devices(needs, session, kernels::device_kind(run.device), run.cuda, "");
  runtime::Machine machine;
  if (session.leads()) measure_machine(session, run.cuda, plan, needs, machine);
  session.control().agree({});  // until then the other processes sleep
  Pipeline pipeline(session, plan, needs);
  initialize_all(pipeline, run, beginning);
  std::map<const Rank*, std::unique_ptr<OperationClock>> clocks;
  std::map<const Rank*, ActionCosts> action_costs;
  for (auto* rank : pipeline.ranks()) {
    rank->set_hook((clocks[rank] = std::make_unique<OperationClock>(*rank, warm_up)).get());
    if (rank->asynchronous()) action_costs.try_emplace(rank, plan.schedule.placement, rank->id(), warm_up);
  }

  std::promise<Outcome> promise;
  Pipeline::Start start;
  start.batches = &batches;
  start.steps = train.steps;
  for (auto& [rank, costs] : action_costs) start.action_costs[rank] = &costs;
  start.coordinator = [&](std::function<void(const ToRank&)> to_ranks, const caf::actor&) {
    ProfileActor::Setup setup;
    setup.coordinator = coordinator_setup(train, plan, batches, 0);
    setup.coordinator.updates_before = beginning.updates_before;
    setup.steps = static_cast<std::size_t>(settings.steps + warm_up);
    setup.to_ranks = std::move(to_ranks);
    setup.stepped = settings.stepped;
    setup.outcome = &promise;
    return pipeline.system().spawn<ProfileActor, caf::detached>(std::move(setup));
  };
  agree_on_config(session, run.identity.text);
  session.control().agree(
      {{"plan", runtime::hash_of(plan.text()).hex()}, {"build", run.identity.build}, {"steps", std::to_string(settings.steps)}});
  OtherPrograms others;
  pipeline.start(start);
  Outcome outcome;
  std::string doubt;
  if (session.leads()) {
    outcome = promise.get_future().get();
    if (needs.devices.empty()) doubt = others.doubt(session, needs.threads);
    // Not thrown: the pipeline's actors are running and its destructor would wait for them.
    if (outcome.code != ExitCode::ok) session.fail(outcome.code, outcome.message);
  }
  pipeline.wait();
  auto gathered = gather_records(session, pipeline, warm_up, [&](const Rank& rank) {
    RankCosts costs{clocks.at(&rank)->sums(), {}, clocks.at(&rank)->launch_gaps()};
    if (const auto own = action_costs.find(&rank); own != action_costs.end()) costs.actions = own->second.sums();
    return costs;
  });
  pipeline.close();
  if (!gathered) return std::nullopt;
  measure_machine(session, run.cuda, plan, needs, machine);

  auto measured = measured_of(plan, needs, session.topology(), run.identity.build, std::move(*gathered));
  measured.machine = machine;
  measured.doubt = std::move(doubt);
  for (std::size_t step = warm_up; step < outcome.steps.size(); ++step) {
    measured.steps.emplace_back(step);
    measured.losses.push_back(outcome.steps[step].loss);
    runtime::add_loads(measured.experts, outcome.steps[step].experts);
  }
  return measured;
}

}  // namespace millrace::actors
