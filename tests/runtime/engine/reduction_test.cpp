#include "runtime/engine/reduction.hpp"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "kernels/base/buffer.hpp"
#include "runtime/schedule/global_order.hpp"
#include "runtime/schedule/sum_tree.hpp"

namespace millrace::runtime {
namespace {

constexpr StageId only{0};
constexpr std::array<StageId, 1> stages{only};

std::vector<StageParameter> parameters() {
  std::vector<StageParameter> list;
  const auto add = [&](std::string name, kernels::Shape shape) {
    StageParameter& parameter = list.emplace_back();
    parameter.name = std::move(name);
    parameter.shape = shape;
    parameter.stage = only;
    parameter.order = static_cast<int>(list.size());
  };
  add("table", {40, 16});
  add("norm", {3});
  add("up", {16, 24});
  add("down", {24, 16});
  add("bias", {17});
  return list;
}

/// Replicas of a stage with their gradient sums, whose exchanges are carried out as the tables say.
struct Replica {
  RankShards shards;
  Reduction reduction;
  std::vector<std::vector<float>> sets;
  std::vector<float> leaf;
};

std::vector<Replica> replicas(int members, int sets, std::size_t window, std::size_t bucket) {
  std::vector<Replica> all;
  std::mt19937 random(3);
  for (int member = 0; member < members; ++member) {
    Replica& replica = all.emplace_back();
    replica.shards = lay_out_shards(stages, parameters(), kernels::DType::f32, nullptr, {{members, member}, {}, bucket});
    StageReplicas group{only, false, {}, member};
    for (int copy = 0; copy < members; ++copy) group.copies.push_back(copy);
    replica.reduction = make_reduction({replica.shards.stages, std::span(&group, 1), sets, 1, members, 1, window});
    for (int set = 0; set < sets; ++set) {
      auto& sums = replica.sets.emplace_back(replica.shards.stages[0].accumulator_bytes / sizeof(float));
      for (float& sum : sums) sum = std::uniform_real_distribution<float>(-1, 1)(random);
    }
  }
  return all;
}

/// The sums of all parts in the order of the tree, as one rank adds them.
std::vector<float> whole_sum(const std::vector<Replica>& all, int sets) {
  const auto members = static_cast<int>(all.size());
  std::vector<std::vector<float>> parts;
  for (int part = 0; part < members * sets; ++part)
    parts.push_back(all[static_cast<std::size_t>(part % members)].sets[static_cast<std::size_t>(part / members)]);
  for (const auto& [into, from] : sum_tree(members * sets))
    for (std::size_t i = 0; i < parts[0].size(); ++i) parts[static_cast<std::size_t>(into)][i] += parts[static_cast<std::size_t>(from)][i];
  return parts[0];
}

void add_own(Replica& replica, int members, int sets) {
  const DividedSumTree tree = divide_sum_tree(members * sets, members);
  for (const auto& [into, from] : tree.own[0])
    for (std::size_t i = 0; i < replica.sets[0].size(); ++i)
      replica.sets[static_cast<std::size_t>(into / members)][i] += replica.sets[static_cast<std::size_t>(from / members)][i];
}

/// Carries out one step on all members.
void run_step(std::vector<Replica>& all, std::size_t number) {
  std::vector<std::vector<std::byte>> arrivals;
  for (const Replica& replica : all) arrivals.emplace_back(replica.reduction.steps[number].arrivals);
  for (std::size_t to = 0; to < all.size(); ++to) {
    const ReductionStep& step = all[to].reduction.steps[number];
    for (std::size_t sum = 0; sum < step.sums.size(); ++sum) {
      for (std::size_t from = 0; from < all.size(); ++from) {
        const ReductionStep& theirs = all[from].reduction.steps[number];
        const auto& sent = theirs.sums[sum];
        ASSERT_EQ(sent.table.send_bytes[to], step.sums[sum].table.receive_bytes[from]) << "both sides know the size";
        if (sent.table.send_bytes[to] == 0) continue;
        const auto* source = reinterpret_cast<const std::byte*>(theirs.leaves ? all[from].leaf.data()
                                                                              : all[from].sets[static_cast<std::size_t>(sent.set)].data());
        std::copy_n(source + sent.table.send_at[to], sent.table.send_bytes[to],
                    arrivals[to].begin() + step.sums[sum].table.receive_at[from]);
      }
    }
  }
  for (std::size_t member = 0; member < all.size(); ++member) {
    const ReductionStep& step = all[member].reduction.steps[number];
    const auto place = [&](const ReductionStep::Operand& operand) {
      if (operand.set == ReductionStep::Operand::arrived) return reinterpret_cast<float*>(arrivals[member].data() + operand.place);
      if (operand.set == ReductionStep::Operand::leaf) return all[member].leaf.data() + step.begin / sizeof(float);
      return all[member].sets[static_cast<std::size_t>(operand.set)].data() + step.kept / sizeof(float);
    };
    for (const auto& [into, from] : step.additions)
      for (std::size_t i = 0; i < step.bytes / sizeof(float); ++i) place(into)[i] += place(from)[i];
  }
}

TEST(Reduction, GivesEachMemberItsPartOfTheSumOfOneRank) {
  for (const auto& [members, sets] : std::vector<std::pair<int, int>>{{2, 1}, {2, 3}, {3, 1}, {3, 2}, {4, 2}, {6, 2}}) {
    for (const std::size_t window : {std::size_t{64}, std::size_t{320}, std::size_t{1} << 20}) {
      for (const std::size_t bucket : {std::size_t{0}, std::size_t{1500}, std::size_t{1} << 20}) {
        auto all = replicas(members, sets, window, bucket);
        const auto expected = whole_sum(all, sets);
        for (Replica& replica : all) add_own(replica, members, sets);
        const std::size_t steps = all[0].reduction.steps.size();
        for (std::size_t step = 0; step < steps; ++step) run_step(all, step);
        std::size_t owned = 0;
        for (const Replica& replica : all) {
          ASSERT_EQ(replica.reduction.steps.size(), steps);
          std::size_t own = 0;
          for (const StoredParameter& tensor : replica.shards.stages[0].tensors) {
            own += static_cast<std::size_t>(tensor.owned.count);
            const auto begin = tensor.uses[0].accumulator / sizeof(float) + static_cast<std::size_t>(tensor.owned.first);
            for (std::size_t i = begin; i < begin + static_cast<std::size_t>(tensor.owned.count); ++i)
              ASSERT_EQ(replica.sets[0][i], expected[i]) << tensor.name << " of " << members << " members, window " << window;
          }
          owned += own;
        }
        EXPECT_EQ(owned, 40U * 16 + 3 + 16 * 24 + 24 * 16 + 17) << "every element has one owner";
      }
    }
  }
}

// Rounds of gradients, one of each member: added in the order of their numbers, each element by its owner, who has only those sums.
TEST(Reduction, AddsLeavesInTheOrderOfMicrobatches) {
  std::mt19937 random(5);
  for (const int members : {2, 3, 4}) {
    std::vector<Replica> all;
    for (int member = 0; member < members; ++member) {
      Replica& replica = all.emplace_back();
      replica.shards = lay_out_shards(stages, parameters(), kernels::DType::f32, nullptr, {{members, member}, {}, 1500, true});
      ShardLayout& shard = replica.shards.stages[0];
      shard.leaves = true;
      StageReplicas group{only, false, {}, member};
      for (int copy = 0; copy < members; ++copy) group.copies.push_back(copy);
      replica.reduction =
          make_reduction({.shards = replica.shards.stages, .replicas = std::span(&group, 1), .copies = members, .window = 320});
      replica.sets.emplace_back(shard.kept_bytes / sizeof(float));
      replica.leaf.resize(shard.accumulator_bytes / sizeof(float));
    }
    std::vector<float> expected(all[0].leaf.size());
    for (int round = 0; round < 3; ++round) {
      for (Replica& replica : all) {
        for (std::size_t i = 0; i < expected.size(); ++i) {
          replica.leaf[i] = std::uniform_real_distribution<float>(-1, 1)(random);
          expected[i] += replica.leaf[i];
        }
      }
      for (std::size_t step = 0; step < all[0].reduction.steps.size(); ++step) run_step(all, step);
    }
    std::size_t owned = 0;
    for (const Replica& replica : all) {
      for (const StoredParameter& tensor : replica.shards.stages[0].tensors) {
        owned += static_cast<std::size_t>(tensor.owned.count);
        for (std::int64_t i = 0; i < tensor.owned.count; ++i)
          ASSERT_EQ(replica.sets[0][tensor.uses[0].kept / sizeof(float) + static_cast<std::size_t>(i)],
                    expected[tensor.uses[0].accumulator / sizeof(float) + static_cast<std::size_t>(tensor.owned.first + i)])
              << tensor.name << " of " << members << " members";
      }
    }
    EXPECT_EQ(owned, 40U * 16 + 3 + 16 * 24 + 24 * 16 + 17);
  }
}

TEST(Reduction, ClosesEachBucketOnce) {
  const auto all = replicas(2, 1, 64, 1500);
  std::map<std::size_t, int> closed;
  for (const ReductionStep& step : all[0].reduction.steps) closed[step.bucket] += step.last ? 1 : 0;
  EXPECT_EQ(closed.size(), all[0].shards.stages[0].buckets.size());
  EXPECT_GT(closed.size(), 1U);
  for (const auto& [bucket, times] : closed) EXPECT_EQ(times, 1) << bucket;
}

// Buckets are reduced as a backward pass completes them, from the last layer to the first; parameters are gathered from the first on.
TEST(Reduction, FollowsTheBackwardPass) {
  constexpr std::array<StageId, 2> both{StageId{0}, StageId{1}};
  auto list = parameters();
  for (auto& parameter : parameters()) {
    parameter.stage = both[1];
    parameter.name += " of stage 1";
    parameter.order += 5;
    list.push_back(parameter);
  }
  RankShards shards = lay_out_shards(both, list, kernels::DType::f32, nullptr, {{2, 0}, {}, 1500});
  for (ShardLayout& shard : shards.stages)
    for (std::size_t index = 0; index < shard.buckets.size(); ++index)
      shard.buckets[index].complete[static_cast<std::size_t>(ProgramKind::weight_gradient)] = 10 - index;
  // The list completes stage 1 first.
  const std::vector<StageReplicas> groups{{both[1], false, {0, 1}, 0, 1}, {both[0], false, {0, 1}, 0, 0}};
  const Reduction reduction =
      make_reduction({.shards = shards.stages, .replicas = groups, .copies = 2, .window = 64, .backward = ProgramKind::weight_gradient});
  const std::size_t buckets = shards.stages[0].buckets.size();
  ASSERT_GT(buckets, 1U);
  ASSERT_EQ(reduction.reduced.size(), 2U);
  EXPECT_EQ(reduction.reduced[0].stage, both[1]);
  EXPECT_EQ(reduction.reduced[1].begin, reduction.reduced[0].end);
  EXPECT_EQ(reduction.reduced[1].end, reduction.steps.size());
  for (const auto& [stage, begin, end] : reduction.reduced) {
    std::size_t bucket = buckets - 1;
    for (std::size_t step = begin; step < end; ++step) {
      EXPECT_EQ(reduction.steps[step].stage, stage);
      EXPECT_EQ(reduction.steps[step].bucket, bucket);
      if (reduction.steps[step].last) --bucket;
    }
  }
  ASSERT_EQ(reduction.gathered.size(), 2U);
  EXPECT_EQ(reduction.gathered[0].stage, both[0]);
  EXPECT_EQ(reduction.gathered[1].stage, both[1]);
  EXPECT_EQ(reduction.gathers.front().begin, shards.stages[0].buckets.front().master);
}

// A module of the model's stage 2 reads the table of the head, stage 3, on the same rank: it has to be here first.
TEST(Reduction, GathersATableBeforeThoseWhoReadIt) {
  constexpr std::array<StageId, 2> both{StageId{2}, StageId{3}};
  std::vector<StageParameter> list;
  const auto add = [&](const std::string& name, StageId stage, int use, int order) {
    StageParameter& parameter = list.emplace_back();
    parameter.name = name;
    parameter.shape = {16, 8};
    parameter.stage = stage;
    parameter.use = use;
    parameter.order = order;
    parameter.tied = name == "table";
  };
  add("table", both[1], 1, 0);
  add("table", both[0], 2, 0);
  add("module", both[0], 0, 1);
  add("head", both[1], 0, 2);
  const RankShards shards = lay_out_shards(both, list, kernels::DType::f32, nullptr, {{2, 0}, {}, 1500});
  ASSERT_EQ(shards.stages[0].borrowed.size(), 1U);
  const std::vector<StageReplicas> groups{{both[1], false, {0, 1}, 0, 3}, {both[0], false, {0, 1}, 0, 2}};
  const Reduction reduction = make_reduction({.shards = shards.stages, .replicas = groups, .copies = 2, .window = 64});
  ASSERT_EQ(reduction.gathered.size(), 2U);
  EXPECT_EQ(reduction.gathered[0].stage, both[1]);
  EXPECT_EQ(reduction.gathered[1].stage, both[0]);
}

// What a member updated goes to the same place of all others.
TEST(Reduction, GathersEveryPartFromItsOwner) {
  const auto all = replicas(3, 1, 64, 1500);
  const std::size_t floats = all[0].shards.stages[0].master.bytes / sizeof(float);
  std::vector<std::vector<int>> holder(3, std::vector<int>(floats, -1));  // by member: whose value it has
  for (std::size_t member = 0; member < 3; ++member)
    for (const StoredParameter& tensor : all[member].shards.stages[0].tensors)
      for (std::int64_t i = tensor.owned.first; i < tensor.owned.end(); ++i)
        holder[member][tensor.offset / sizeof(float) + static_cast<std::size_t>(i)] = static_cast<int>(member);
  const auto before = holder;
  for (std::size_t gather = 0; gather < all[0].reduction.gathers.size(); ++gather) {
    for (std::size_t to = 0; to < 3; ++to) {
      for (std::size_t from = 0; from < 3; ++from) {
        const GatherStep &sender = all[from].reduction.gathers[gather], &receiver = all[to].reduction.gathers[gather];
        ASSERT_EQ(sender.table.send_bytes[to], receiver.table.receive_bytes[from]);
        const auto bytes = static_cast<std::size_t>(sender.table.send_bytes[to]);
        const std::size_t source = sender.begin + static_cast<std::size_t>(sender.table.send_at[to]);
        const std::size_t place = receiver.begin + static_cast<std::size_t>(receiver.table.receive_at[from]);
        EXPECT_TRUE(bytes == 0 || source == place);
        std::copy_n(before[from].begin() + static_cast<std::ptrdiff_t>(source / sizeof(float)), bytes / sizeof(float),
                    holder[to].begin() + static_cast<std::ptrdiff_t>(place / sizeof(float)));
      }
    }
  }
  for (const StoredParameter& tensor : all[0].shards.stages[0].tensors) {
    for (std::size_t i = 0; i < tensor.elements(); ++i) {
      const std::size_t at = tensor.offset / sizeof(float) + i;
      EXPECT_GE(holder[0][at], 0) << tensor.name;
      EXPECT_EQ(holder[0][at], holder[1][at]);
      EXPECT_EQ(holder[0][at], holder[2][at]);
    }
  }
}

// (D − 1) / D of the gradients leave each member, and as much of the parameters, whatever the window is.
TEST(Reduction, SendsAsMuchAsARing) {
  for (const int members : {2, 4}) {
    for (const std::size_t window : {std::size_t{64}, std::size_t{1} << 20}) {
      const auto all = replicas(members, 1, window, std::size_t{1} << 20);
      std::int64_t sums = 0, values = 0;
      for (const Replica& replica : all) {
        for (const ReductionStep& step : replica.reduction.steps)
          for (const std::int64_t bytes : step.sums.at(0).table.send_bytes) sums += bytes;
        for (const GatherStep& gather : replica.reduction.gathers)
          for (const std::int64_t bytes : gather.table.send_bytes) values += bytes;
      }
      const auto all_bytes = static_cast<std::int64_t>(all[0].shards.stages[0].accumulator_bytes);
      EXPECT_EQ(sums, (members - 1) * all_bytes);
      EXPECT_EQ(values, (members - 1) * all_bytes);
    }
  }
}

}  // namespace
}  // namespace millrace::runtime
