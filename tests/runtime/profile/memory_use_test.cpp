#include "runtime/profile/memory_use.hpp"

#include <gtest/gtest.h>

#include "tests/runtime/profile/made_up.hpp"

namespace millrace::runtime {
namespace {

MemoryOfRank memory() {
  MemoryOfRank memory;
  memory.fixed = {{"master", 1000}};
  StageMemory stage;
  stage.stage = StageId(0);
  stage.stash_input = {{"query_proj", 30}, {"context", 10}};
  stage.stash_weight = {{"mlpwi", 7}};
  stage.handoff = {{"unlabelled", 100}};
  stage.workspace = {5, 6, 2, 0};
  memory.stages = {stage};
  return memory;
}

TEST(MemoryUse, CountsWhatIsHeldFromWhenToWhen) {
  // F0 F1 I0 W0 I1 W1 of one stage.
  const std::vector<std::pair<ActionKind, int>> wanted = {{ActionKind::forward, 0},        {ActionKind::forward, 1},
                                                          {ActionKind::input_gradient, 0}, {ActionKind::weight_gradient, 0},
                                                          {ActionKind::input_gradient, 1}, {ActionKind::weight_gradient, 1}};
  std::vector<Action> list;
  std::vector<TraceRecord> records;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    list.push_back({StageId(0), wanted[i].first, MicrobatchId(wanted[i].second)});
    TraceRecord record;
    record.begin = static_cast<std::int64_t>(10 * i);
    record.end = record.begin + 10;
    records.push_back(record);
  }
  const auto use = memory_use(memory(), list, records);
  std::vector<std::int64_t> bytes;
  for (const auto& [time, alive] : use.alive) bytes.push_back(alive - 1000);
  EXPECT_EQ(bytes,
            (std::vector<std::int64_t>{47 + 5, 47, 94 + 5, 94, 94 + 100 + 6, 54 + 100, 54 + 100 + 2, 47, 47 + 100 + 6, 107, 109, 0}));
  EXPECT_EQ(use.peak, 1200);
  EXPECT_EQ(use.peak_time, 20);
  std::int64_t sum = 0;
  for (const auto& [name, part] : use.at_peak) sum += part;
  EXPECT_EQ(sum, use.peak);
  ASSERT_EQ(use.at_peak.size(), 6U);
  EXPECT_EQ(use.at_peak[0], NamedBytes("master", 1000));
  EXPECT_EQ(use.at_peak[1], NamedBytes("unlabelled of 1 microbatch, stage 0, I to W", 100));
  EXPECT_EQ(use.at_peak[2], NamedBytes("query_proj of 2 microbatches, stage 0, F to I", 60));
}

}  // namespace
}  // namespace millrace::runtime
