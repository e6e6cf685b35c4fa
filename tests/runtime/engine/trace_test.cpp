#include "runtime/engine/trace.hpp"

#include <thread>

#include "tests/runtime/schedule/schedule_support.hpp"

namespace millrace::runtime {
namespace {

TraceRecord record(std::int64_t number) {
  TraceRecord made;
  made.begin = number;
  made.end = 3 * number + 1;
  made.produced = ~number;
  made.step = StepId{number};
  made.microbatch = MicrobatchId{number % 100};
  made.kind = SpanKind::forward;
  return made;
}

TEST(TraceRing, KeepsTheNewest) {
  TraceRing ring(8);
  EXPECT_TRUE(ring.snapshot().empty());
  for (int number = 0; number < 5; ++number) ring.add(record(number));
  std::uint64_t first = 99;
  auto records = ring.snapshot(0, &first);
  ASSERT_EQ(records.size(), 5u);
  EXPECT_EQ(first, 0u);
  EXPECT_EQ(records[4], record(4));
  for (int number = 5; number < 20; ++number) ring.add(record(number));
  records = ring.snapshot(0, &first);
  ASSERT_EQ(records.size(), 8u);
  EXPECT_EQ(first, 12u);
  EXPECT_EQ(records.front(), record(12));
  EXPECT_EQ(records.back(), record(19));
  EXPECT_EQ(ring.snapshot(18).size(), 2u);
  EXPECT_TRUE(ring.snapshot(20).empty());
  EXPECT_EQ(ring.count(), 20u);
}

TEST(TraceRing, KeepsNothingWhileToldSo) {
  TraceRing ring(8);
  ring.add(record(1));
  ring.keep(false);
  ring.add(record(2));
  ring.keep(true);
  ring.add(record(3));
  const auto records = ring.snapshot();
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records.back(), record(3));
}

TEST(TraceRing, RefusesAnOddCapacity) {
  for (std::size_t capacity : {std::size_t{0}, std::size_t{1}, std::size_t{48}}) {
    expect_contains(error_of(ExitCode::internal, [&] { TraceRing ring(capacity); }), "expected a power of two");
  }
}

TEST(TraceRing, ASnapshotBesideTheWriterHasWholeRecordsOnly) {
  TraceRing ring(16);
  constexpr std::int64_t total = 1'000'000;
  std::jthread writer([&] {
    for (std::int64_t number = 0; number < total; ++number) ring.add(record(number));
  });
  std::uint64_t seen = 0;
  while (ring.count() < total) {
    std::uint64_t first = 0;
    const auto records = ring.snapshot(seen, &first);
    for (std::size_t i = 0; i < records.size(); ++i) ASSERT_EQ(records[i], record(static_cast<std::int64_t>(first + i)));
    seen = first + records.size();
  }
  writer.join();
  EXPECT_EQ(ring.snapshot().back(), record(total - 1));
}

TEST(Trace, KindsHaveNames) {
  EXPECT_STREQ(to_string(span_of(ActionKind::weight_gradient)), "weight_gradient");
  EXPECT_STREQ(to_string(SpanKind::checkpoint_write), "checkpoint_write");
  EXPECT_STREQ(to_string(WaitReason::credit), "credit");
}

}  // namespace
}  // namespace millrace::runtime
