#include "actors/rank/replica_exchange.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "runtime/engine/trace.hpp"
#include "runtime/io/fault.hpp"

namespace millrace::actors {
namespace {

constexpr const char* replica_component = "actors.replica_exchange";
constexpr std::size_t gathers_ahead = 8;

std::size_t place_of(std::int64_t number) noexcept { return static_cast<std::size_t>(number % cluster::Exchanges::max_outstanding); }

}  // namespace

ReplicaExchange::ReplicaExchange(const PipelinePlan& plan, runtime::RankId rank, const runtime::RankCompute& compute)
    : compute_(compute),
      rank_(rank),
      queue_({runtime::reduction_steps_ahead, gathers_ahead}, cluster::Exchanges::max_outstanding),
      gathered_(compute.reduction().gathered.size()) {
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

std::size_t ReplicaExchange::group_of(runtime::StageId stage, bool experts) const {
  return std::ranges::find(stages_, stage, &StageGroups::stage)->groups[experts ? 1 : 0];
}

const runtime::StageTransfers& ReplicaExchange::steps_of(runtime::StageId stage) const {
  const auto& stages = compute_.reduction().reduced;
  const auto found = std::ranges::find(stages, stage, &runtime::StageTransfers::stage);
  MILLRACE_CHECK(found != stages.end(), ExitCode::internal, replica_component, "gradient sums of stage {}, which rank {} does not have",
                 stage, rank_);
  return *found;
}

// -- gradient sums ------------------------------------------------------------------------------------------------------------------------

void ReplicaExchange::begin_list(const ListTransfers& transfers, runtime::StepId step) {
  step_ = step;
  MILLRACE_CHECK(all_sums_added() && residences_here_ == gathers_.size(), ExitCode::internal, replica_component,
                 "rank {} begins a list with {} sums and {} gathers of the last one undone", rank_, sums_.size() - sums_added_,
                 gathers_.size() - residences_here_);
  sums_.clear();
  gathers_.clear();
  sums_added_ = slots_free_ = residences_here_ = 0;
  const std::size_t before = queue_.size();
  auto gather = transfers.gathers.begin();
  for (std::size_t sum = 0; sum <= transfers.sums.size(); ++sum) {
    for (; gather != transfers.gathers.end() && gather->after == sum; ++gather) append_gather(*gather);
    if (sum < transfers.sums.size()) append_sum(transfers.sums[sum]);
  }
  // The optimizer's gathers of the last step may come before them, and those of this one after them.
  const std::size_t most = queue_.size() - before + 2 * compute_.reduction().gathers.size();
  queue_.reserve(most);
  under_way_.reserve(most);
}

void ReplicaExchange::append_sum(const ListedSum& listed) {
  Sum& sum = sums_.emplace_back(Sum{.listed = listed, .begin = queue_.size(), .enabled = queue_.size()});
  const auto& [stage, begin, end] = steps_of(listed.stage);
  for (std::size_t index = begin; index < end; ++index) {
    const runtime::ReductionStep& step = compute_.reduction().steps[index];
    if (step.experts && !listed.last) continue;
    queue_.append({.kind = TransferKind::reduction,
                   .index = index,
                   .exchanges = static_cast<int>(step.sums.size()),
                   .enabled = false,
                   .of = sums_.size() - 1});
  }
  sum.end = queue_.size();
}

void ReplicaExchange::append_gather(const ListedGather& listed) {
  ListGather& gather = gathers_.emplace_back(ListGather{listed.residence.stage, queue_.size()});
  const auto& stages = compute_.reduction().gathered;
  const auto of_stage = std::ranges::find(stages, gather.stage, &runtime::StageTransfers::stage);
  for (std::size_t index = of_stage->begin; index < of_stage->end; ++index)
    queue_.append({.kind = TransferKind::gather, .index = index, .enabled = false, .of = gathers_.size() - 1});
  gather.end = queue_.size();
}

void ReplicaExchange::sum_complete(std::size_t sum) {
  sums_[sum].complete = true;
  while (sums_[sum].enabled < sums_[sum].end) queue_.enable(sums_[sum].enabled++);
}

void ReplicaExchange::operation_done(std::size_t sum, runtime::ProgramKind program, std::size_t operation) {
  Sum& of_list = sums_[sum];
  const auto& buckets = compute_.stage(of_list.listed.stage).shard_layout().buckets;
  const auto complete = [&](std::size_t position) {
    const std::size_t bucket = compute_.reduction().steps[queue_.at(position).index].bucket;
    return buckets[bucket].complete[static_cast<std::size_t>(program)] <= operation;
  };
  while (of_list.enabled < of_list.end && complete(of_list.enabled)) queue_.enable(of_list.enabled++);
}

/// Counts the sums that the list has completed and all of whose steps have been taken, as all transfers before them.
void ReplicaExchange::note_added() {
  while (sums_added_ < sums_.size() && sums_[sums_added_].complete && sums_[sums_added_].end <= queue_.taken()) ++sums_added_;
}

/// What the rank sends in an exchange of a step.
std::byte* ReplicaExchange::sent(const Transfer& transfer, const runtime::ReductionStep::Sum& sum) const {
  const runtime::ReductionStep& step = compute_.reduction().steps[transfer.index];
  if (step.leaves) return compute_.memory().slot(runtime::MemoryKind::leaf, runtime::no_stage, sums_[transfer.of].listed.leaf);
  return sums(step, std::max(sum.set, 0));
}

/// Where a set of gradient sums begins.
std::byte* ReplicaExchange::sums(const runtime::ReductionStep& step, int set) const {
  const auto kind = step.experts ? runtime::MemoryKind::expert_accumulator : runtime::MemoryKind::accumulator;
  return compute_.memory().slot(kind, step.stage, set);
}

/// Where the sums of other replicas arrive.
std::byte* ReplicaExchange::arrivals(const Transfer& transfer) const {
  return compute_.memory().slot_or_null(runtime::MemoryKind::arrivals, runtime::no_stage, static_cast<int>(transfer.arrivals));
}

void ReplicaExchange::add(const kernels::ExecutionContext& context, const Transfer& transfer) const {
  const runtime::ReductionStep& step = compute_.reduction().steps[transfer.index];
  using Operand = runtime::ReductionStep::Operand;
  const auto tensor = [&](const Operand& operand) {
    std::byte* place = operand.set == Operand::arrived ? arrivals(transfer) + operand.place
                       : operand.set == Operand::leaf  ? sent(transfer, step.sums.front()) + step.begin
                                                       : sums(step, operand.set) + step.kept;
    return runtime::float_run(place, step.bytes);
  };
  for (const auto& [into, from] : step.additions) kernels::accumulate(context, tensor(from), tensor(into));
  if (step.last && !step.leaves) clear_others(context, step);
}

/// Zeroes the sums of a bucket that others own: all of it has left.
void ReplicaExchange::clear_others(const kernels::ExecutionContext& context, const runtime::ReductionStep& step) const {
  const runtime::ShardLayout::Bucket& bucket = compute_.stage(step.stage).shard_layout().buckets[step.bucket];
  const auto clear = [&](int set, std::size_t begin, std::size_t end) {
    if (begin < end) kernels::fill_zero(context, runtime::float_run(sums(step, set) + begin, end - begin));
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

// -- parameters ---------------------------------------------------------------------------------------------------------------------------

void ReplicaExchange::slot_free() {
  const ListGather& next = gathers_.at(slots_free_++);
  for (std::size_t position = next.begin; position < next.end; ++position) queue_.enable(position);
}

/// Completes the stages that the list gathers, in order: of the first so many all transfers have been taken.
void ReplicaExchange::note_residences(const kernels::ExecutionContext& context) {
  while (residences_here_ < slots_free_ && gathers_[residences_here_].end <= queue_.taken()) {
    compute_.stage(gathers_[residences_here_].stage).shard().end_gather(context);
    ++residences_here_;
  }
}

void ReplicaExchange::gather(std::function<void(const runtime::StageShard&)> then) {
  MILLRACE_CHECK(gathered_ == compute_.reduction().gathered.size(), ExitCode::internal, replica_component,
                 "rank {} gathers parameters, but those of {} stages are still on their way", rank_,
                 compute_.reduction().gathered.size() - gathered_);
  const std::size_t gathers = compute_.reduction().gathers.size();
  for (std::size_t index = 0; index < gathers; ++index) queue_.append({TransferKind::gather, index});
  then_ = std::move(then);
  gathers_taken_ = gathered_ = 0;
}

/// Completes the stages all of whose parameters are here.
void ReplicaExchange::note_gathered(const kernels::ExecutionContext& context) {
  const auto& stages = compute_.reduction().gathered;
  for (; gathered_ < stages.size() && stages[gathered_].end <= gathers_taken_; ++gathered_) {
    const runtime::StageShard& shard = compute_.stage(stages[gathered_].stage).shard();
    shard.refresh_divided_copies(context);
    then_(shard);
  }
}

// -- transfers ----------------------------------------------------------------------------------------------------------------------------

void ReplicaExchange::advance(const kernels::ExecutionContext& context) {
  note_gathered(context);
  note_residences(context);
  for (bool moved = true; moved;) {
    moved = false;
    note_ends();
    while (const auto position = queue_.to_take()) {
      const Transfer transfer = queue_.at(*position);
      record(*position);
      if (transfer.kind == TransferKind::reduction) {
        add(context, transfer);
      } else if (compute_.reduction().gathers[transfer.index].to_slot) {
        note_residences(context);
      } else {
        ++gathers_taken_;
        note_gathered(context);
      }
      ++completed_;
      moved = true;
    }
    note_added();
    while (const auto position = queue_.to_post()) {
      post_transfer(*position, context);
      moved = true;
    }
  }
}

void ReplicaExchange::post_transfer(std::size_t position, const kernels::ExecutionContext& context) {
  const Transfer transfer = queue_.at(position);
  under_way_.resize(std::max(under_way_.size(), position + 1));
  under_way_[position] = {.begin = runtime::steady_now(), .step = step_, .kind = transfer.kind};
  if (transfer.kind == TransferKind::gather)
    post_gather(position, compute_.reduction().gathers[transfer.index], context);
  else
    post_reduction(position, transfer);
}

void ReplicaExchange::post_reduction(std::size_t position, const Transfer& transfer) {
  runtime::fault_point("replicas.reduce");
  const runtime::ReductionStep& step = compute_.reduction().steps[transfer.index];
  for (const runtime::ReductionStep::Sum& sum : step.sums)
    post(group_of(step.stage, step.experts), position, sent(transfer, sum), arrivals(transfer), sum.table);
}

void ReplicaExchange::post_gather(std::size_t position, const runtime::GatherStep& gather, const kernels::ExecutionContext& context) {
  runtime::fault_point("replicas.gather");
  if (gather.to_slot) {
    const runtime::StageShard& shard = compute_.stage(gather.stage).shard();
    shard.begin_gather(context, shard.layout().buckets[gather.bucket]);
  }
  std::byte* place = compute_.memory().region(gather.to_slot ? runtime::MemoryKind::copy : runtime::MemoryKind::master) + gather.begin;
  post(group_of(gather.stage, gather.experts), position, place, place, gather.table);
}

void ReplicaExchange::post(std::size_t group, std::size_t transfer, const std::byte* from, std::byte* into,
                           const runtime::TransferTable& table) {
  Member& member = members_[group];
  MILLRACE_CHECK(member.exchange != nullptr, ExitCode::internal, replica_component, "rank {} has not joined the group of its replicas",
                 rank_);
  const std::int64_t number = member.next.load(std::memory_order_relaxed);
  const std::int64_t bytes = std::accumulate(table.send_bytes.begin(), table.send_bytes.end(), std::int64_t{0});
  member.under_way[place_of(number)] = {transfer, false, bytes};
  member.next.store(number + 1, std::memory_order_release);
  member.exchange->post(number, from, into, {table.send_at, table.send_bytes, table.receive_at, table.receive_bytes});
}

/// Tells the queue which exchanges have ended.
void ReplicaExchange::note_ends() {
  for (Member& member : members_) {
    const std::int64_t next = member.next.load(std::memory_order_relaxed);
    for (std::int64_t number = member.oldest; number < next; ++number) {
      Member::UnderWay& under_way = member.under_way[place_of(number)];
      if (!under_way.noted && member.ended[place_of(number)].load(std::memory_order_acquire) == number + 1) {
        under_way.noted = true;
        runtime::TransferRecord& record = under_way_[under_way.transfer];
        record.bytes += under_way.bytes;
        record.end = std::max(record.end, member.end[place_of(number)].load(std::memory_order_relaxed));
        queue_.ended(under_way.transfer);
      }
      if (under_way.noted && number == member.oldest) ++member.oldest;
    }
  }
}

/// Adds a transfer that has ended to the trace.
void ReplicaExchange::record(std::size_t position) {
  runtime::TransferRecord& record = under_way_[position];
  const Transfer& transfer = queue_.at(position);
  const auto note = [&](const auto& step) {
    record.stage = step.stage;
    record.bucket = static_cast<std::int32_t>(step.bucket);
    record.experts = step.experts ? 1 : 0;
  };
  if (transfer.kind == TransferKind::reduction)
    note(compute_.reduction().steps[transfer.index]);
  else
    note(compute_.reduction().gathers[transfer.index]);
  record.end = std::max(record.end, record.begin);
  trace_.add(record);
}

void ReplicaExchange::on_exchanged(int group, std::int64_t sequence) {
  const auto index = static_cast<std::size_t>(std::ranges::find(groups_, group, &ReplicaGroup::id) - groups_.begin());
  members_[index].end[place_of(sequence)].store(runtime::steady_now(), std::memory_order_relaxed);
  members_[index].ended[place_of(sequence)].store(sequence + 1, std::memory_order_release);
  if (!told_.exchange(true)) events_->on_replicas_exchanged();
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
