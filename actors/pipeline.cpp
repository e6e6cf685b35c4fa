#include "actors/pipeline.hpp"

#include <algorithm>
#include <caf/actor_system_config.hpp>
#include <caf/atom.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <exception>
#include <utility>

#include "actors/messages/wire.hpp"
#include "actors/rank/memory_check.hpp"
#include "actors/rank_actor.hpp"
#include "cluster/host/affinity.hpp"
#include "cluster/host/host_cores.hpp"
#include "cluster/host/log.hpp"
#include "cluster/links/transport.hpp"
#include "kernels/base/count.hpp"
#include "kernels/base/system_refusal.hpp"
#include "layers/partition.hpp"

namespace millrace::actors {
namespace {

constexpr int scheduler_threads = 2;

/// The threads of a process's actors: the scheduler's, CAF's clock, the coordinator's and the checkpoint's, and a loader for each rank.
int threads_of_actors(int ranks) { return scheduler_threads + 3 + ranks; }

void log_rank(const PipelinePlan& plan, const RankSetup& rank) {
  cluster::log_debug({.rank = rank.id.value}, "{}, pinned to {}", counted(rank.needs.threads, "thread"),
                     counted(rank.cores.size(), "core"));
  for (const auto stage : plan.schedule.placement.stages_of(rank.id))
    cluster::log_debug({.stage = stage.value, .rank = rank.id.value}, "{}", layers::print_layout({plan.layout[stage.index()]}));
}

}  // namespace

Pipeline::Pipeline(Session& session, const PipelinePlan& plan, const RankResources& needs)
    : session_(session), plan_(plan), watch_(plan.schedule, session.topology(), session.stall_limit()) {
  const auto& topology = session.topology();
  check_memory(session, plan, needs);
  const auto teams = cluster::host_teams(topology, session.launch(), cluster::usable_cores(), needs.threads);
  if (session.launch().local_process == 0 && needs.devices.empty() && teams.threads > teams.threads_at_once())
    cluster::log_warning("{}", teams.crowded(needs.threads_by_option ? "--threads" : "train.threads ="));
  const auto cores = cluster::worker_cores(topology, session.launch(), session.cores(), teams.threads_at_once());
  auto* transport = session.transport();
  if (transport != nullptr) transport->set_workers(topology.ranks_per_process());
  for (int index = 0; index < topology.ranks_per_process(); ++index) {
    RankSetup rank;
    if (transport != nullptr) rank.computing = [transport](bool begins) { transport->computing(begins); };
    rank.id = runtime::RankId(topology.first_rank() + index);
    if (static_cast<std::size_t>(index) < cores.size()) rank.cores = cores[static_cast<std::size_t>(index)];
    // A thread team has one system thread for each core that it is given; if there are too many threads, it gets its share of the
    // cores, or a shared one.
    if (rank.cores.empty() && teams.threads > teams.threads_at_once()) {
      const auto place = static_cast<std::size_t>(session.launch().local_process * topology.ranks_per_process() + index);
      rank.cores = {session.cores()[place % session.cores().size()]};
    }
    rank.needs = needs;
    rank.needs.ranks_per_process = topology.ranks_per_process();
    ranks_.push_back(std::make_unique<Rank>(plan, rank));
    log_rank(plan, rank);
  }
  system_config_ = std::make_unique<caf::actor_system_config>();
  // The sharing policy: with work stealing a message may stay in a busy worker's queue for milliseconds.
  system_config_->set("scheduler.policy", caf::atom("sharing"));
  system_config_->set("scheduler.max-threads", scheduler_threads);
  if (one_message_a_turn) system_config_->set("scheduler.max-throughput", 1);
  system_config_->set("logger.verbosity", caf::atom("quiet"));
  // CAF ends the process, or waits for ever, if one of the scheduler's threads is refused.
  check_threads_start(threads_of_actors(topology.ranks_per_process()), "actors.pipeline", "the actor system");
  system_ = std::make_unique<caf::actor_system>(*system_config_);
}

Pipeline::~Pipeline() {
  for (const auto type : {to_ranks_type, to_coordinator_type}) session_.on_message(type, nullptr);
  session_.on_progress(nullptr);
  session_.on_heard(this, nullptr);
  session_.on_waits(nullptr);
  replicas_.reset();
  exchanges_.reset();  // destroyed first, since they notify the inboxes, and so do links
  links_.reset();
  inboxes_.clear();
  rank_actors_.clear();
  checkpoint_ = coordinator_ = nullptr;
  system_->await_all_actors_done();
  settle_workers();
  system_.reset();
}

/// Returns when the workers have handled every message sent to their actors so far, and have released the actors that ended. CAF
/// counts an actor as done in the middle of its last task, and the rest of that task still uses the actor system.
void Pipeline::settle_workers() {
  for (const auto& rank : ranks_) rank->worker().run([] {});
}

std::vector<Rank*> Pipeline::ranks() const {
  std::vector<Rank*> ranks;
  for (const auto& rank : ranks_) ranks.push_back(rank.get());
  return ranks;
}

void Pipeline::deliver(const ToRank& message) {
  for (const auto& rank : rank_actors_) caf::anon_send(rank, message);
}

void Pipeline::start(const Start& start) {
  // Not thrown: once there are actors, unwinding would wait for them.
  try {
    begin(start);
  } catch (const std::exception& thrown) {
    const auto error = as_error(thrown, "actors.pipeline");
    session_.fail(error.code(), error.what());
  }
}

void Pipeline::begin(const Start& start) {
  const auto& topology = session_.topology();
  auto checkpoint = start.checkpoint;
  checkpoint.ranks = ranks();
  checkpoint.trace = &checkpoint_trace_;
  checkpoint_ = system_->spawn<CheckpointActor, caf::detached>(checkpoint);

  if (session_.leads()) {
    coordinator_ = start.coordinator(
        [this, &topology](const ToRank& message) {
          deliver(message);
          if (topology.processes() == 1) return;
          const auto bytes = encode(message);
          for (int process = 1; process < topology.processes(); ++process) session_.control().send(process, to_ranks_type, bytes);
        },
        checkpoint_);
  }
  auto report = [this](const ToCoordinator& message) {
    if (session_.leads()) {
      caf::anon_send(coordinator_, message);
    } else {
      session_.control().send(0, to_coordinator_type, encode(message));
    }
  };
  session_.on_message(to_ranks_type, [this, decode = Decoder<ToRank>()](int, std::uint16_t, std::span<const std::byte> bytes) mutable {
    deliver(decode(bytes));
  });
  session_.on_message(to_coordinator_type,
                      [this, decode = Decoder<ToCoordinator>()](int, std::uint16_t, std::span<const std::byte> bytes) mutable {
                        caf::anon_send(coordinator_, decode(bytes));
                      });
  session_.on_progress([this](std::span<cluster::Progress> progress) {
    const std::size_t count = std::min(progress.size(), ranks_.size());
    for (std::size_t index = 0; index < count; ++index) progress[index] = this->progress(index).progress;
    watch(progress.first(count));
    return count;
  });
  session_.on_heard(this, [this](std::span<const cluster::Progress> progress) { watch_.heard(progress, StallWatch::Clock::now()); });
  session_.on_waits([this](std::span<const cluster::PeerFailure> lost) { return watch_.waits(StallWatch::Clock::now(), lost); });

  // Actors are created before links, which notify the ranks' inboxes of arrivals.
  std::vector<HostedRank> hosted;
  for (auto& rank : ranks_) {
    RankActorSetup setup;
    auto& control = setup.control;
    control.rank = rank.get();
    control.batches = start.batches;
    control.first_step = start.first_step;
    control.steps = start.steps;
    control.nan_folder = start.nan_folder;
    control.hash_directory = start.hash_directory;
    control.device_memory = [device = rank->device()] { return kernels::device_type(device).memory_in_use(device); };
    if (start.captured) control.captured = [captured = start.captured, target = rank.get()] { return captured(*target); };
    if (const auto costs = start.action_costs.find(rank.get()); costs != start.action_costs.end()) control.action_costs = costs->second;
    setup.report = report;
    // so that a process that is lost before the next heartbeat has reported its state
    setup.begun = [this] { session_.control().beat(); };
    setup.checkpoint = checkpoint_;
    rank_actors_.push_back(system_->spawn<RankActor>(setup));
    inboxes_.push_back(std::make_unique<RankInbox>(*rank, rank_actors_.back(), start.links));
    hosted.push_back({rank.get(), inboxes_.back().get()});
  }

  // Orders everything that was created and set so far (actors, hooks) before everything that the workers run. Messages do this too,
  // but ThreadSanitizer cannot see the synchronisation inside CAF.
  settle_workers();

  links_ = connect(plan_, topology, session_.transport(), hosted);
  exchanges_ = connect_exchanges(plan_, topology, session_.transport(), hosted);
  replicas_ = connect_replicas(plan_, topology, session_.transport(), hosted);
  find_rings();
  session_.control().agree({{"start", "ready"}});  // every process listens before any process sends
  for (const auto& rank : rank_actors_) caf::anon_send(rank, Begin{});
}

/// Runs on the control thread, at each heartbeat.
void Pipeline::watch(std::span<const cluster::Progress> ranks) {
  const auto now = StallWatch::Clock::now();
  watch_.heard(ranks, now);
  if (!session_.leads()) return;
  if (const auto message = watch_.look(now)) cluster::log_warning("{}", *message);
}

void Pipeline::find_rings() {
  rings_.resize(ranks_.size());
  const int first = session_.topology().first_rank();
  for (const auto& spec : plan_.channels()) {
    if (spec.from_rank == spec.to_rank || !session_.topology().hosts(spec.to_rank)) continue;  // transfers within a rank have no queue
    if (spec.kind != cluster::ChannelKind::sums) rings_[static_cast<std::size_t>(spec.to_rank - first)].push_back(&links_->link(spec.id));
  }
  rings_known_.store(true, std::memory_order_release);
}

ProgressSlot::Reading Pipeline::progress(std::size_t index) const {
  auto reading = ranks_[index]->progress();
  if (reading.since == 0) return reading;
  auto& progress = reading.progress;
  reading.reported = runtime::steady_now();
  progress.for_ms = static_cast<std::int32_t>(std::min<std::int64_t>((reading.reported - reading.since) / 1'000'000, 2'000'000'000));
  if (!rings_known_.load(std::memory_order_acquire)) return reading;
  const auto note_missing = [&progress](const std::vector<int>& missing, std::size_t members) {
    progress.members = static_cast<std::int32_t>(members);
    progress.missing = static_cast<std::int32_t>(missing.size());
    for (const int rank : missing)
      if (rank != progress.rank && progress.peer < 0) progress.peer = rank;
  };
  if (progress.exchange >= 0) {
    note_missing(ranks_[index]->exchange().missing(progress.exchange), ranks_[index]->exchange().members());
  } else if (is_for_replicas(static_cast<runtime::WaitReason>(progress.wait))) {
    const ReplicaExchange::Missing missing = ranks_[index]->replicas()->missing();
    note_missing(missing.ranks, missing.members);
  }
  for (const auto* link : rings_[index]) {
    auto& ring = link->spec().kind == cluster::ChannelKind::activation ? progress.activations : progress.gradients;
    const auto counters = link->counters();
    ring.tokens += static_cast<std::int32_t>(counters.messages_received - counters.messages_released);
    ring.slots += link->spec().depth;
  }
  return reading;
}

void Pipeline::wait() {
  caf::scoped_actor self(*system_);
  self->wait_for(rank_actors_);
  settle_workers();  // the stage actors have ended too, and have given their stages back to the ranks
  caf::anon_send_exit(checkpoint_, caf::exit_reason::user_shutdown);
}

void Pipeline::close() {
  if (replicas_) replicas_->close();
  if (exchanges_) exchanges_->close();
  links_->close();
}

}  // namespace millrace::actors
