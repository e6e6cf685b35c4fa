#include "runtime/engine/reduction.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "kernels/base/buffer.hpp"
#include "kernels/base/check.hpp"
#include "runtime/schedule/global_order.hpp"
#include "runtime/schedule/sum_tree.hpp"

namespace millrace::runtime {
namespace {

/// The sums that each member sends, and how they are added, the same for all buckets of a stage's weights.
struct Tree {
  std::vector<std::vector<int>> parts;  // by member: those that hold its sums
  std::vector<PartAddition> additions;
  int copies = 1;
};

Tree tree_of(const StageReplicas& replicas, int sets, int copies) {
  const DividedSumTree divided = divide_sum_tree(sets * copies, copies);
  Tree tree{{}, divided.across, copies};
  for (const int copy : replicas.copies) tree.parts.push_back(divided.sums.at(static_cast<std::size_t>(copy)));
  return tree;
}

/// Bytes [begin, begin + bytes) of a set.
struct Run {
  std::size_t begin = 0, bytes = 0;
};

Run run_of(const ShardLayout::Bucket& bucket, std::size_t member, std::size_t step, std::size_t window) {
  const std::size_t end = bucket.cuts[member + 1];
  const std::size_t begin = std::min(bucket.cuts[member] + step * window, end);
  return {begin, std::min(window, end - begin)};
}

/// The additions of a step as this rank performs them. A sum of two numbers has the same bits in either order, so an addition writes to the
/// side that the rank's own first sum is in: the result ends there, and the arrivals hold what is between.
std::vector<ReductionStep::Addition> additions_of(const Tree& tree, std::map<int, ReductionStep::Operand> operands, int first) {
  std::vector<ReductionStep::Addition> additions;
  int own = first;  // the part that the first sum is in now
  for (const PartAddition& parts : tree.additions) {
    auto& into = operands.at(parts.into);
    auto& from = operands.at(parts.from);
    if (parts.from == own) {
      std::swap(into, from);
      own = parts.into;
    }
    additions.push_back({into, from});
  }
  return additions;
}

/// With leaves: the gradients of the copies' microbatches of a round, which have consecutive numbers, in order.
std::vector<ReductionStep::Addition> additions_of_round(const std::map<int, ReductionStep::Operand>& leaves) {
  std::vector<ReductionStep::Addition> additions;
  for (const auto& [copy, leaf] : leaves) additions.push_back({{0, 0}, leaf});
  return additions;
}

ReductionStep make_step(const StageReplicas& replicas, const ShardLayout::Bucket& bucket, const Tree& tree, bool leaves, std::size_t number,
                        std::size_t window) {
  const std::size_t members = replicas.copies.size(), own = static_cast<std::size_t>(replicas.own);
  const GlobalOrder order(tree.copies);
  const Run run = run_of(bucket, own, number, window);
  ReductionStep step{.stage = replicas.stage,
                     .experts = bucket.experts,
                     .leaves = leaves,
                     .sums = {},
                     .begin = run.begin,
                     .bytes = run.bytes,
                     .kept = bucket.kept + (run.begin - bucket.cuts[own])};
  std::map<int, ReductionStep::Operand> operands;  // by the part that holds the sum
  for (const int part : tree.parts[own]) operands[part] = {leaves ? ReductionStep::Operand::leaf : order.set_of_part(part), 0};
  std::size_t most = 0;
  for (const auto& parts : tree.parts) most = std::max(most, parts.size());
  for (std::size_t sum = 0; sum < most; ++sum) {
    ReductionStep::Sum& exchange = step.sums.emplace_back(ReductionStep::Sum{-1, TransferTable(members)});
    const bool sends = sum < tree.parts[own].size();
    if (sends) exchange.set = order.set_of_part(tree.parts[own][sum]);
    for (std::size_t member = 0; member < members; ++member) {
      if (member == own) continue;
      const Run theirs = run_of(bucket, member, number, window);
      if (sends) {
        exchange.table.send_at[member] = static_cast<std::int64_t>(theirs.begin);
        exchange.table.send_bytes[member] = static_cast<std::int64_t>(theirs.bytes);
      }
      if (sum >= tree.parts[member].size()) continue;
      exchange.table.receive_at[member] = static_cast<std::int64_t>(step.arrivals);
      exchange.table.receive_bytes[member] = static_cast<std::int64_t>(run.bytes);
      operands[tree.parts[member][sum]] = {ReductionStep::Operand::arrived, step.arrivals};
      step.arrivals += kernels::align_up(run.bytes);
    }
  }
  if (run.bytes > 0)
    step.additions = leaves ? additions_of_round(operands) : additions_of(tree, std::move(operands), tree.parts[own].front());
  return step;
}

GatherStep make_gather(const StageReplicas& replicas, const ShardLayout::Bucket& bucket, std::size_t index) {
  const std::size_t members = replicas.copies.size(), own = static_cast<std::size_t>(replicas.own);
  const bool to_slot = !bucket.gathered.empty();
  const std::vector<std::size_t>& cuts = to_slot ? bucket.gathered : bucket.cuts;
  GatherStep gather{replicas.stage, bucket.experts, to_slot, to_slot ? cuts.front() : bucket.master, index, TransferTable(members)};
  const auto place = [&](std::size_t member) { return static_cast<std::int64_t>(cuts[member] - cuts.front()); };
  for (std::size_t member = 0; member < members; ++member) {
    if (member == own) continue;
    gather.table.send_at[member] = place(own);
    gather.table.send_bytes[member] = place(own + 1) - place(own);
    gather.table.receive_at[member] = place(member);
    gather.table.receive_bytes[member] = place(member + 1) - place(member);
  }
  return gather;
}

}  // namespace

std::size_t Reduction::arrivals() const noexcept {
  std::size_t most = 0;
  for (const ReductionStep& step : steps) most = std::max(most, step.arrivals);
  return most;
}

namespace {

/// The shard of a stage.
const ShardLayout& shard_of(const ReductionInput& input, StageId stage) {
  const auto shard = std::ranges::find(input.shards, stage, &ShardLayout::stage);
  MILLRACE_CHECK(shard != input.shards.end(), ExitCode::internal, "runtime.reduction", "stage {} is not on this rank", stage);
  return *shard;
}

/// Appends the steps of one bucket.
void add_steps(const ReductionInput& input, const StageReplicas& replicas, std::size_t index, std::vector<ReductionStep>& steps) {
  const ShardLayout& shard = shard_of(input, replicas.stage);
  const ShardLayout::Bucket& bucket = shard.buckets[index];
  const Tree tree =
      tree_of(replicas, replicas.experts ? input.expert_sets : input.sets, replicas.experts ? input.expert_copies : input.copies);
  std::size_t count = 0;
  for (std::size_t member = 0; member < replicas.copies.size(); ++member)
    count = std::max(count, (bucket.cuts[member + 1] - bucket.cuts[member] + input.window - 1) / input.window);
  for (std::size_t number = 0; number < count; ++number) {
    ReductionStep& step = steps.emplace_back(make_step(replicas, bucket, tree, shard.leaves && !bucket.experts, number, input.window));
    step.bucket = index;
    step.last = number + 1 == count;
  }
}

/// The buckets of a stage in the order in which a backward pass completes them.
std::vector<std::size_t> completed_order(const ShardLayout& shard, ProgramKind backward) {
  std::vector<std::size_t> order(shard.buckets.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t index) { return shard.buckets[index].complete[static_cast<std::size_t>(backward)]; });
  return order;
}

/// The groups of each stage, in the order in which the list has the stages.
std::vector<std::vector<StageReplicas>> by_stage(std::span<const StageReplicas> replicas) {
  std::vector<std::vector<StageReplicas>> stages;
  for (const StageReplicas& each : replicas) {
    if (stages.empty() || stages.back().front().stage != each.stage) stages.emplace_back();
    stages.back().push_back(each);
  }
  return stages;
}

/// By which stages are ordered for the gathers: as in the model, but a stage whose table another one of the rank reads comes before it.
std::pair<int, int> gather_place(const ReductionInput& input, const StageReplicas& replicas) {
  int first = replicas.model_stage;
  for (const StageReplicas& other : input.replicas)
    for (const StoredParameter& table : shard_of(input, other.stage).borrowed)
      if (table.home() == replicas.stage) first = std::min(first, other.model_stage);
  return {first, -replicas.model_stage};
}

}  // namespace

Reduction make_reduction(const ReductionInput& input) {
  Reduction reduction;
  auto stages = by_stage(input.replicas);
  for (const auto& groups : stages) {
    const ShardLayout& shard = shard_of(input, groups.front().stage);
    const std::size_t begin = reduction.steps.size();
    for (const std::size_t bucket : completed_order(shard, input.backward)) {
      const auto group = std::ranges::find(groups, shard.buckets[bucket].experts, &StageReplicas::experts);
      if (group != groups.end()) add_steps(input, *group, bucket, reduction.steps);
    }
    reduction.reduced.push_back({shard.stage, begin, reduction.steps.size()});
  }
  std::ranges::stable_sort(stages, {}, [&](const auto& groups) { return gather_place(input, groups.front()); });
  for (const auto& groups : stages) {
    const ShardLayout& shard = shard_of(input, groups.front().stage);
    const std::size_t begin = reduction.gathers.size();
    for (std::size_t index = 0; index < shard.buckets.size(); ++index) {
      const ShardLayout::Bucket& bucket = shard.buckets[index];
      const auto group = std::ranges::find(groups, bucket.experts, &StageReplicas::experts);
      const bool gathers = bucket.master != ShardLayout::nowhere || !bucket.gathered.empty();
      if (group != groups.end() && gathers) reduction.gathers.push_back(make_gather(*group, bucket, index));
    }
    reduction.gathered.push_back({shard.stage, begin, reduction.gathers.size()});
  }
  return reduction;
}

}  // namespace millrace::runtime
