#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/training/examined_run.hpp"
#include "tests/training/schedules.hpp"
#include "tests/training/small_run.hpp"

// A run uses exactly the memory that the schedule's ledger says: it writes all slots that it has, and at some moment holds all of
// them.
namespace millrace::tests {
namespace {

using runtime::MemoryKind;
using runtime::SpanKind;

class Memory : public ::testing::TestWithParam<ScheduleCase> {};

/// Bytes of a slot up to the last one that a run has written, since the arena is zero-initialised.
std::size_t touched(std::span<const std::byte> slot) {
  const auto last = std::find_if(slot.rbegin(), slot.rend(), [](std::byte byte) { return byte != std::byte{0}; });
  return static_cast<std::size_t>(slot.rend() - last);
}

/// The bytes of each kind that were touched, rounded up to the alignment of slots.
std::map<MemoryKind, std::size_t> high_water(const runtime::RankMemory& memory) {
  std::map<MemoryKind, std::size_t> bytes;
  for (const auto& section : memory.plan().sections()) {
    for (int slot = 0; slot < section.slots; ++slot) {
      const auto place = memory.bytes().subspan(section.offset + static_cast<std::size_t>(slot) * section.slot_bytes, section.slot_bytes);
      bytes[section.kind] += kernels::align_up(touched(place));
    }
  }
  return bytes;
}

/// From the trace of one step: the maximum number of microbatches of a stage that were at one moment between the begin of an
/// action of kind `from` and the end of one of a kind in `to`.
int most_held(const std::vector<runtime::TraceRecord>& records, runtime::StageId stage, std::initializer_list<SpanKind> from,
              std::initializer_list<SpanKind> to) {
  int held = 0, most = 0;
  for (const auto& record : records) {  // in chronological order
    if (record.stage != stage || record.kind == SpanKind::wait) continue;
    if (std::ranges::find(from, record.kind) != from.end()) most = std::max(most, ++held);
    if (std::ranges::find(to, record.kind) != to.end()) --held;
  }
  EXPECT_EQ(held, 0);
  return most;
}

/// Trains a model of eight layers and compares what every rank used with its plan.
void expect_what_the_ledger_says(std::vector<std::string> words) {
  const TemporaryFolder folder;
  write_small_texts(folder, "text");
  words.insert(words.end(), {"model.layers=8", "train.microbatches=8", "train.steps=3", "train.z_loss=0.001", "sample.tokens=0"});
  run_examined(folder / "text", words, [](actors::Pipeline& pipeline) {
    for (auto* rank : pipeline.ranks()) {
      SCOPED_TRACE("rank " + std::to_string(rank->id().value));
      const auto& memory = rank->compute().memory();
      const auto measured = high_water(memory);
      for (const auto kind :
           {MemoryKind::stash_input, MemoryKind::stash_weight, MemoryKind::handoff, MemoryKind::ring, MemoryKind::result}) {
        const auto found = measured.find(kind);
        EXPECT_EQ(found == measured.end() ? 0 : found->second, memory.plan().bytes(kind)) << to_string(kind);
      }

      const auto& plan = rank->plan();
      const auto records = rank->trace().snapshot();
      for (const auto stage : plan.schedule.placement.stages_of(rank->id())) {
        SCOPED_TRACE("stage " + std::to_string(stage.value));
        const auto& slots = plan.ledger.stages[stage.index()];
        EXPECT_EQ(most_held(records, stage, {SpanKind::forward}, {SpanKind::input_gradient, SpanKind::backward}), slots.stash_input);
        EXPECT_EQ(most_held(records, stage, {SpanKind::forward}, {SpanKind::weight_gradient, SpanKind::backward}), slots.stash_weight);
        EXPECT_EQ(most_held(records, stage, {SpanKind::input_gradient}, {SpanKind::weight_gradient}), slots.handoff);
      }
    }
  });
}

TEST_P(Memory, ARunTakesWhatTheLedgerSays) { expect_what_the_ledger_says(GetParam().words); }

TEST(MemoryOfExperts, ARunTakesWhatTheLedgerSays) {
  for (const char* schedule : {"1f1b", "zb-h1"})
    expect_what_the_ledger_says({"pipeline.ranks=4", fmt::format("pipeline.schedule={}", schedule), "model.family=mixtral",
                                 "model.experts=6", "model.experts_per_token=2", "train.balance_loss=0.01"});
}

INSTANTIATE_TEST_SUITE_P(Of, Memory, ::testing::ValuesIn(schedule_cases()), [](const auto& one) { return one.param.name; });

}  // namespace
}  // namespace millrace::tests
