#include "actors/rank/rank.hpp"

#include <algorithm>
#include <utility>

#include "actors/rank/action_runner.hpp"
#include "actors/rank/transfer_path.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/device_type.hpp"

namespace millrace::actors {

Rank::Rank(const PipelinePlan& plan, const RankSetup& setup)
    : plan_(plan),
      setup_(setup),
      blueprint_(plan, setup.id, setup.needs),
      device_used_before_(kernels::device_type(setup.device()).memory_in_use(setup.device()).used),
      compute_(blueprint_.build(false)),
      exchange_trace_(blueprint_.training.exchanges.empty() ? 2 : runtime::ExchangeRing::default_capacity),
      runner_(std::make_unique<ProgramRunner>()),
      exchange_(plan.mesh.expert, plan.expert_group(setup.id).group.member),
      channels_(plan.channels()) {
  if (plan.divides_update() && setup_.needs.training) replicas_ = std::make_unique<ReplicaExchange>(plan, setup_.id, *compute_);
  for (auto& channel : channels_) channel = carried(channel, setup_.needs);
  worker_ = std::make_unique<ComputeWorker>(
      queue_capacity(),
      [this] {
        team_ = std::make_unique<kernels::ThreadTeam>(setup_.needs.threads, setup_.cores);
        open_device();
        if (asynchronous()) completions_ = std::make_unique<Completions>(*device_context_);
        context_ = std::make_unique<kernels::ExecutionContext>(*team_, setup_.implementation, device_context_.get());
      },
      [this] {
        context_.reset();
        completions_.reset();
        device_context_.reset();
        team_.reset();
      },
      setup_.computing, asynchronous() ? [this] { return completions_->poll(); } : std::function<bool()>());
}

Rank::~Rank() = default;

void Rank::complete(const runtime::BatchView& batch) const {
  if (setup_.needs.compression) return setup_.needs.compression->compress(batch.tokens, batch.compressed);
  MILLRACE_CHECK(plan_.model.engram.layers.empty(), ExitCode::internal, "actors.rank",
                 "the model has n-gram memories and this job has no token compression, expected RankResources::compression");
  std::ranges::fill(batch.compressed, 0);
}

/// An upper bound of the number of waiting tasks: for each slot of each ring a boundary with all its parts and a credit, plus a
/// constant for the other tasks of a step.
std::size_t Rank::queue_capacity() const {
  std::size_t tasks = 1024;
  for (const auto& channel : channels_) {
    if (channel.from_rank != id().value && channel.to_rank != id().value) continue;
    const std::size_t parts = channel.part_bytes == 0 ? 0 : channel.bytes / channel.part_bytes + 1;
    tasks += static_cast<std::size_t>(channel.depth) * (2 + parts);
  }
  return tasks;
}

void Rank::replace_runner(std::unique_ptr<ActionRunner> runner) {
  worker_->run([&] { runner_ = std::move(runner); });  // it belongs to the worker
}

std::size_t Rank::planned_bytes() const noexcept {
  return compute_->memory_plan().total_bytes() + kernels::device_type(device()).context_bytes(setup_.needs.device_options);
}

/// Creates the device context. An out-of-memory error also reports what the plan has already reserved.
void Rank::open_device() {
  try {
    device_context_ = kernels::make_context(device(), setup_.needs.device_options);
  } catch (const Error& error) {
    if (error.code() != ExitCode::memory) throw;
    throw Error(ExitCode::memory, fmt::format("{}; the plan needs {}", error.what(), compute_->memory_plan().needs()));
  }
}

void Rank::set_breadcrumb(const Execute& execute) {
  works_[works_begun_ % works_.size()] = {execute.action, execute.pass};
  device_context_->set_action(works_begun_++);
}

Rank::LastWork Rank::last_work() const {
  auto work = works_[device_context_->last_action() % works_.size()];
  if (work.action.stage == runtime::no_stage) return work;
  const auto& program = compute_->stage(work.action.stage).programs(work.pass).program(runtime::program_of(work.pass));
  if (device_context_->last_operation() < program.size()) work.operation = program[device_context_->last_operation()].name;
  return work;
}

TaskFailed Rank::failure_of(const Error& error, const runtime::Action* heard_by) const {
  TaskFailed failure{heard_by == nullptr ? runtime::Action{} : *heard_by, heard_by != nullptr, static_cast<std::int32_t>(error.code()),
                     error.what()};
  if (error.code() != ExitCode::device) return failure;
  const auto work = last_work();
  if (work.action.stage == runtime::no_stage) return failure;
  failure.action = work.action;
  failure.in_action = true;
  if (!work.operation.empty() && !failure.cause.starts_with(work.operation))
    failure.cause = fmt::format("{}: {}", work.operation, failure.cause);
  return failure;
}

void Rank::add_ends(cluster::ChannelEnds& ends, RankEvents& events) const {
  const auto way = transfer_path(ends.spec, setup_.needs);
  if (ends.spec.to_rank == id().value) {
    ends.receive_ring = compute_->memory().link_ring(ends.spec.id);
    ends.receiver = &events;
  }
  if (ends.spec.from_rank == id().value) {
    ends.sender = &events;
    if (way == TransferPath::direct || way == TransferPath::staged) ends.send_ring = compute_->memory().link_ring(ends.spec.id);
  }
}

std::byte* Rank::program_place(int channel, std::byte* at, bool incoming) const {
  const auto way = transfer_path(channels_[static_cast<std::size_t>(channel)], setup_.needs);
  if (way == TransferPath::shared || way == TransferPath::direct || (way == TransferPath::peer && incoming)) return at;
  const auto ring = compute_->memory().ring(channel);
  // Within a process the link's ring is the receiver's, at the same offset as in ours.
  const std::byte* base =
      way == TransferPath::peer ? link(channel).slot(0) - cluster::slot_payload_offset : compute_->memory().link_ring(channel).data();
  return ring.data() + (at - base);
}

SlotCopy Rank::incoming(int channel, std::byte* at, std::size_t bytes) const {
  std::byte* place = program_place(channel, at, true);
  if (place == at) return {};
  return {place, at, bytes, channels_[static_cast<std::size_t>(channel)].part_bytes, channel, 0};
}

SlotCopy Rank::outgoing(int channel, std::byte* at, std::size_t bytes, std::int64_t sequence) const {
  std::byte* place = program_place(channel, at, false);
  if (place == at) return {};
  return {at, place, bytes, channels_[static_cast<std::size_t>(channel)].part_bytes, channel, sequence};
}

void Rank::copy_in(const SlotCopy& copy) const {
  if (!copy.present()) return;
  // Parts are already being copied since they arrived.
  if (copy.part_bytes == 0) device_context_->copy(kernels::StreamKind::copy_in, copy.to, copy.from, copy.bytes);
  device_context_->wait(kernels::StreamKind::compute, kernels::StreamKind::copy_in);
}

void Rank::part_came(const cluster::Arrival& part) {
  worker_->post(ComputeWorker::Load::decides, [this, part] {
    try {
      device_context_->copy(kernels::StreamKind::copy_in, program_place(part.channel, part.data, true), part.data, part.bytes);
    } catch (const Error& error) {
      events_->failed(failure_of(error));
    }
  });
}

void Rank::copy_out(const SlotCopy& copy) {
  if (!copy.present()) return;
  device_context_->wait(kernels::StreamKind::copy_out, kernels::StreamKind::compute);
  const std::size_t step = copy.part_bytes == 0 ? copy.bytes : copy.part_bytes;
  for (std::size_t from = 0; from < copy.bytes; from += step) {
    const std::size_t end = std::min(from + step, copy.bytes);
    device_context_->copy(kernels::StreamKind::copy_out, copy.to + from, copy.from + from, end - from);
    if (copy.part_bytes == 0) continue;
    const auto leave = [this, from, end, channel = copy.channel, sequence = copy.sequence, bytes = copy.bytes](const Completion& done) {
      if (done.error != nullptr) return;  // the action after it reports the error
      try {
        auto& out = link(channel);
        if (from == 0) out.begin(sequence, bytes, done.end);
        out.ready(sequence, end);
      } catch (const Error& error) {
        events_->failed(failure_of(error));
      }
    };
    if (completions_)
      completions_->add_part(kernels::StreamKind::copy_out, "a copy to the host", leave);
    else
      leave(Completion{work_begin_, runtime::steady_now(), nullptr});
  }
}

bool Rank::leaves_in_parts(int channel) const { return channels_[static_cast<std::size_t>(channel)].part_bytes > 0; }

void Rank::set_progress(const cluster::Progress& progress) {
  const std::int64_t now = runtime::steady_now();
  progress_.write({progress, now, now});
}

std::unique_ptr<cluster::Links> connect(const PipelinePlan& plan, const cluster::Topology& topology, cluster::Transport* transport,
                                        const std::vector<HostedRank>& ranks) {
  std::vector<cluster::ChannelEnds> channels;
  for (const auto& spec : plan.channels()) {
    cluster::ChannelEnds ends;
    ends.spec = ranks.empty() ? spec : ranks.front().rank->carried_channel(spec.id);
    for (const auto& hosted : ranks) hosted.rank->add_ends(ends, *hosted.events);
    channels.push_back(ends);
  }
  auto links = std::make_unique<cluster::Links>(topology, transport, channels);
  for (const auto& hosted : ranks) hosted.rank->join(*links, *hosted.events);
  return links;
}

std::unique_ptr<cluster::Exchanges> connect_exchanges(const PipelinePlan& plan, const cluster::Topology& topology,
                                                      cluster::Transport* transport, const std::vector<HostedRank>& ranks) {
  if (plan.mesh.expert == 1) return nullptr;
  // All stages of a rank share their experts with stages of the same ranks, so a rank has one group, named by its first member.
  const auto group_of = [](const ExpertRanks& group) { return group.ranks.front().value; };
  std::vector<cluster::ExchangeGroup> groups;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const ExpertRanks group = plan.expert_group(runtime::RankId(rank));
    if (group_of(group) != rank) continue;
    cluster::ExchangeGroup& added = groups.emplace_back(cluster::ExchangeGroup{rank, "expert", {}});
    for (const auto member : group.ranks) added.ranks.push_back(member.value);
  }
  for (const cluster::ExchangeGroup& group : groups) {  // of this process; processes compare their plans
    std::vector<const runtime::RankPlan*> lists;
    for (const auto& hosted : ranks)
      if (std::ranges::find(group.ranks, hosted.rank->id().value) != group.ranks.end()) lists.push_back(&hosted.rank->training_plan());
    runtime::check_members(lists);
  }
  std::vector<cluster::Exchanges::Member> members;
  for (const auto& hosted : ranks) members.push_back({hosted.rank->id().value, &hosted.rank->exchange()});
  auto exchanges = std::make_unique<cluster::Exchanges>(topology, transport, groups, members);
  for (const auto& hosted : ranks) {
    const int rank = hosted.rank->id().value, group = group_of(plan.expert_group(hosted.rank->id()));
    hosted.rank->exchange().join(exchanges->exchange(group, rank), std::ranges::find(groups, group, &cluster::ExchangeGroup::id)->ranks,
                                 *hosted.events);
  }
  return exchanges;
}

std::unique_ptr<cluster::Exchanges> connect_replicas(const PipelinePlan& plan, const cluster::Topology& topology,
                                                     cluster::Transport* transport, const std::vector<HostedRank>& ranks) {
  if (ranks.empty() || ranks.front().rank->replicas() == nullptr) return nullptr;
  std::vector<cluster::ExchangeGroup> groups;
  for (int stage = 0; stage < plan.stages(); ++stage) {
    for (const ReplicaGroup& group : plan.replica_groups(runtime::StageId(stage))) {
      if (std::ranges::find(groups, group.id, &cluster::ExchangeGroup::id) != groups.end()) continue;
      cluster::ExchangeGroup& added = groups.emplace_back(cluster::ExchangeGroup{group.id, "replicas", {}});
      for (const runtime::RankId rank : group.ranks) added.ranks.push_back(rank.value);
    }
  }
  std::ranges::sort(groups, {}, &cluster::ExchangeGroup::id);
  std::vector<cluster::Exchanges::Member> members;
  for (const auto& hosted : ranks) members.push_back({hosted.rank->id().value, hosted.rank->replicas()});
  auto exchanges = std::make_unique<cluster::Exchanges>(topology, transport, groups, members, cluster::ExchangeUse::replicas);
  for (const auto& hosted : ranks) hosted.rank->replicas()->join(*exchanges, *hosted.events);
  return exchanges;
}

}  // namespace millrace::actors
