#include "actors/rank/replica_exchange.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::actors {
namespace {

constexpr const char* replica_component = "actors.replica_exchange";

/// Bytes of f32 numbers as a tensor.
kernels::Tensor numbers(std::byte* place, std::size_t bytes) {
  return {place, kernels::DType::f32, {static_cast<std::int64_t>(bytes / sizeof(float))}};
}

}  // namespace

ReplicaExchange::ReplicaExchange(const PipelinePlan& plan, runtime::RankId rank, const runtime::RankCompute& compute)
    : compute_(compute), rank_(rank) {
  for (const runtime::StageId stage : plan.schedule.placement.stages_of(rank)) {
    StageGroups& of_stage = stages_.emplace_back(StageGroups{stage});
    for (const ReplicaGroup& group : plan.replica_groups(stage)) {
      auto known = std::ranges::find(groups_, group.id, &ReplicaGroup::id);
      if (known == groups_.end()) known = groups_.insert(groups_.end(), group);
      of_stage.groups[group.experts ? 1 : 0] = static_cast<std::size_t>(known - groups_.begin());
    }
  }
  members_ = std::vector<Member>(groups_.size());
}

void ReplicaExchange::join(const cluster::Exchanges& exchanges, ReplicaEvents& events) {
  events_ = &events;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    members_[group].exchange = &exchanges.exchange(groups_[group].id, rank_.value);
}

std::vector<int> ReplicaExchange::reduction_exchanges() const {
  std::vector<int> exchanges;
  for (const runtime::ReductionStep& step : compute_.reduction().steps) exchanges.push_back(static_cast<int>(step.sums.size()));
  return exchanges;
}

std::vector<int> ReplicaExchange::gather_exchanges() const { return std::vector<int>(compute_.reduction().gathers.size(), 1); }

std::size_t ReplicaExchange::group_of(runtime::StageId stage, bool experts) const {
  return std::ranges::find(stages_, stage, &StageGroups::stage)->groups[experts ? 1 : 0];
}

void ReplicaExchange::post(std::size_t group, std::size_t transfer, const std::byte* from, std::byte* into,
                           const runtime::TransferTable& table) {
  Member& member = members_[group];
  MILLRACE_CHECK(member.exchange != nullptr, ExitCode::internal, replica_component, "rank {} has not joined the group of its replicas",
                 rank_);
  const std::int64_t number = member.next.load(std::memory_order_relaxed);
  member.transfers[static_cast<std::size_t>(number) % member.transfers.size()].store(transfer, std::memory_order_relaxed);
  member.next.store(number + 1, std::memory_order_release);
  member.exchange->post(number, from, into, {table.send_at, table.send_bytes, table.receive_at, table.receive_bytes});
}

/// Where a set of gradient sums begins.
std::byte* ReplicaExchange::sums(const runtime::ReductionStep& step, int set) const {
  const auto kind = step.experts ? runtime::MemoryKind::expert_accumulator : runtime::MemoryKind::accumulator;
  return compute_.memory().slot(kind, step.stage, set);
}

void ReplicaExchange::post_reduction(std::size_t number) {
  runtime::fault_point("replicas.reduce");
  const runtime::ReductionStep& step = compute_.reduction().steps[number];
  std::byte* arrivals = compute_.memory().slot_or_null(runtime::MemoryKind::arrivals, runtime::no_stage,
                                                       static_cast<int>(number % runtime::reduction_steps_ahead));
  for (const runtime::ReductionStep::Sum& sum : step.sums)
    post(group_of(step.stage, step.experts), number, sums(step, std::max(sum.set, 0)), arrivals, sum.table);
}

void ReplicaExchange::add(const kernels::ExecutionContext& context, std::size_t number) const {
  const runtime::ReductionStep& step = compute_.reduction().steps[number];
  std::byte* arrivals = compute_.memory().slot_or_null(runtime::MemoryKind::arrivals, runtime::no_stage,
                                                       static_cast<int>(number % runtime::reduction_steps_ahead));
  const auto tensor = [&](const runtime::ReductionStep::Operand& operand) {
    return numbers(operand.set < 0 ? arrivals + operand.place : sums(step, operand.set) + step.begin, step.bytes);
  };
  for (const auto& [into, from] : step.additions) kernels::accumulate(context, tensor(from), tensor(into));
  if (!step.last) return;
  const runtime::ShardLayout::Bucket& bucket = compute_.stage(step.stage).shard_layout().buckets[step.bucket];
  const auto clear = [&](int set, std::size_t begin, std::size_t end) {
    if (begin < end) kernels::fill_zero(context, numbers(sums(step, set) + begin, end - begin));
  };
  const auto& group = groups_[group_of(step.stage, step.experts)];
  const auto own = static_cast<std::size_t>(group.place_of(rank_));
  for (const runtime::ReductionStep::Sum& sum : step.sums) {
    if (sum.set > 0) clear(sum.set, bucket.cuts.front(), bucket.cuts.back());
    if (sum.set != 0) continue;
    clear(0, bucket.cuts.front(), bucket.cuts[own]);
    clear(0, bucket.cuts[own + 1], bucket.cuts.back());
  }
}

void ReplicaExchange::post_gather(std::size_t number) {
  runtime::fault_point("replicas.gather");
  const runtime::GatherStep& gather = compute_.reduction().gathers[number];
  std::byte* place = compute_.memory().region(runtime::MemoryKind::master) + gather.master;
  post(group_of(gather.stage, gather.experts), number, place, place, gather.table);
}

void ReplicaExchange::on_exchanged(int group, std::int64_t sequence) {
  const auto index = static_cast<std::size_t>(std::ranges::find(groups_, group, &ReplicaGroup::id) - groups_.begin());
  const auto& transfers = members_[index].transfers;
  events_->on_replicas_exchanged(transfers[static_cast<std::size_t>(sequence) % transfers.size()].load(std::memory_order_relaxed));
}

std::int64_t ReplicaExchange::bytes_sent() const noexcept {
  std::int64_t bytes = 0;
  for (const Member& member : members_)
    if (member.exchange != nullptr) bytes += member.exchange->counters().bytes_sent;
  return bytes;
}

ReplicaExchange::Missing ReplicaExchange::missing() const {
  for (std::size_t group = 0; group < groups_.size(); ++group) {
    const Member& member = members_[group];
    if (member.exchange == nullptr) continue;
    const std::int64_t next = member.next.load(std::memory_order_acquire);
    for (std::int64_t number = std::max<std::int64_t>(0, next - cluster::Exchanges::max_outstanding); number < next; ++number) {
      Missing missing{{}, groups_[group].ranks.size()};
      for (const int place : member.exchange->missing(number))
        missing.ranks.push_back(groups_[group].ranks[static_cast<std::size_t>(place)].value);
      if (!missing.ranks.empty()) return missing;
    }
  }
  return {};
}

}  // namespace millrace::actors
