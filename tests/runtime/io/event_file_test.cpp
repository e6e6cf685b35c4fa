#include "runtime/io/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>
#include <algorithm>
#include <array>
#include <limits>

#include "runtime/io/crc32c.hpp"
#include "tests/runtime/io/event_reader.hpp"
#include "tests/runtime/io/scratch.hpp"

namespace millrace::runtime {
namespace {

using testing::error_of;
using testing::EventReader;
using testing::fault_at;
using testing::Scratch;
using testing::slurp;

std::uint32_t crc_of(std::string_view text) { return crc32c(std::as_bytes(std::span(text))); }

// The values of RFC 3720, B.4, and the check value of the CRC catalogue.
TEST(Crc32c, HasTheKnownValues) {
  EXPECT_EQ(crc_of(""), 0U);
  EXPECT_EQ(crc_of("123456789"), 0xe3069283U);
  EXPECT_EQ(crc_of(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(crc_of(std::string(32, '\xff')), 0x62a8ab43U);
  std::string rising(32, '\0');
  for (std::size_t i = 0; i < rising.size(); ++i) rising[i] = static_cast<char>(i);
  EXPECT_EQ(crc_of(rising), 0x46dd794eU);
  EXPECT_EQ(crc_of(std::string(rising.rbegin(), rising.rend())), 0x113fdb5cU);
  EXPECT_EQ(masked_crc(0), 0xa282ead8U);
}

// The bytes that TensorFlow writes for an empty record: 8 bytes of length, their CRC, no data, the CRC of nothing.
TEST(EventFile, FramesARecordByteByByte) {
  EXPECT_EQ(to_record(""), std::string("\0\0\0\0\0\0\0\0\x29\x03\x98\x07\xd8\xea\x82\xa2", 16));
  const auto record = to_record("abc");
  ASSERT_EQ(record.size(), 19U);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
}

TEST(EventFile, EncodesEventsByteByByte) {
  const Scratch scratch;
  EventFile file(scratch.path(), 300, 2.0);
  const auto bytes = slurp(file.path());
  // wall_time 2.0, file_version; wall_time 2.0, step 300, session_log {status: START}
  const std::string version(
      "\x09\0\0\0\0\0\0\0\x40\x1a\x0d"
      "brain.Event:2",
      24);
  const std::string start("\x09\0\0\0\0\0\0\0\x40\x10\xac\x02\x3a\x02\x08\x01", 16);
  EXPECT_EQ(bytes, to_record(version) + to_record(start));
  file.append(1, 2.0, {{"a", 1.0}});
  // wall_time, step 1, summary {value {tag "a", simple_value 1.0}}
  const std::string scalar(
      "\x09\0\0\0\0\0\0\0\x40\x10\x01\x2a\x0a\x0a\x08\x0a\x01"
      "a\x15\0\0\x80\x3f",
      23);
  EXPECT_EQ(slurp(file.path()).substr(bytes.size()), to_record(scalar));
}

TEST(EventFile, IsReadBack) {
  const Scratch scratch;
  EventFile file(scratch.path(), 1, 1700000000.25);
  file.append(1, 1700000001.5, {{"train/loss", 5.5}, {"train/gradient_norm", 0.1}});
  file.append(1'000'000'000'000, 1700000002.0, {{"train/loss", std::numeric_limits<double>::infinity()}});
  const auto events = EventReader::read(slurp(file.path()));
  ASSERT_EQ(events.size(), 4U);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_EQ(events[0].wall_time, 1700000000.25);
  EXPECT_TRUE(events[1].starts);
  EXPECT_EQ(events[1].step, 1);
  EXPECT_EQ(events[2].step, 1);
  EXPECT_EQ(events[2].wall_time, 1700000001.5);
  EXPECT_EQ(events[2].scalars, (std::map<std::string, float>{{"train/loss", 5.5F}, {"train/gradient_norm", 0.1F}}));
  EXPECT_EQ(events[3].step, 1'000'000'000'000);
  EXPECT_EQ(events[3].scalars.at("train/loss"), std::numeric_limits<float>::infinity());
}

TEST(EventFile, AHistogramHasABucketAroundEveryNumber) {
  const Scratch scratch;
  EventFile file(scratch.path(), 1, 1.0);
  file.append(7, 2.0, {{"loss", 1.0}}, {{"tokens/a", {5, 0, 3}}, {"tokens/b", {1}}});
  const auto event = EventReader::read(slurp(file.path())).at(2);
  EXPECT_EQ(event.scalars, (std::map<std::string, float>{{"loss", 1.0F}}));
  ASSERT_EQ(event.histograms.size(), 2U);
  const auto& histogram = event.histograms.at("tokens/a");
  EXPECT_EQ(histogram.least, -0.5);
  EXPECT_EQ(histogram.most, 2.5);
  EXPECT_EQ(histogram.count, 8);
  EXPECT_EQ(histogram.sum, 6);
  EXPECT_EQ(histogram.squares, 12);
  EXPECT_EQ(histogram.limits, (std::vector<double>{0.5, 1.5, 2.5}));
  EXPECT_EQ(histogram.buckets, (std::vector<double>{5, 0, 3}));
}

TEST(EventFile, EachStartHasAFileBehindTheOthers) {
  const Scratch scratch;
  std::vector<std::string> paths;
  // Times within one second, and a clock that was set back.
  for (const double now : {1700000000.0, 1700000000.9, 1600000000.0, 1800000000.0})
    paths.push_back(EventFile(scratch / "tensorboard", 5, now).path());
  EXPECT_TRUE(std::ranges::is_sorted(paths));
  EXPECT_EQ(std::ranges::adjacent_find(paths), paths.end());
  EXPECT_NE(paths[0].find("events.out.tfevents.1700000000."), std::string::npos) << paths[0];
  EXPECT_NE(paths[3].find("events.out.tfevents.1800000000."), std::string::npos) << paths[3];
  std::array<char, 256> host{};
  ASSERT_EQ(gethostname(host.data(), host.size() - 1), 0);
  const auto named = fmt::format("1700000000.{:.63}.millrace", host.data());
  EXPECT_TRUE(paths[0].ends_with(named)) << paths[0] << ", expected the end " << named;
  for (const auto& path : paths) EXPECT_EQ(EventReader::read(slurp(path)).at(1).step, 5);
}

TEST(EventFile, AFullDiskLeavesWholeRecords) {
  const Scratch scratch;
  EventFile file(scratch.path(), 1, 1.0);
  file.append(1, 1.0, {{"loss", 1.0}});
  const auto before = slurp(file.path());
  set_file_hook(fault_at(1, FileFault::no_space));
  EXPECT_NE(error_of(ExitCode::storage, [&] { file.append(2, 1.0, {{"loss", 2.0}}); }), "");
  set_file_hook({});
  EXPECT_EQ(slurp(file.path()), before);
  file.append(2, 1.0, {{"loss", 2.0}});
  std::size_t torn = 1;
  EXPECT_EQ(EventReader::read(slurp(file.path()), &torn).size(), 4U);
  EXPECT_EQ(torn, 0U);
}

TEST(EventFile, EveryFailureOfABeginningIsAnError) {
  const Scratch scratch;
  set_file_hook([](const FileCall&) { return FileFault::none; });
  { const EventFile file(scratch / "first", 1, 1.0); }
  const auto calls = file_calls();
  EXPECT_GT(calls, 3U);
  for (std::uint64_t k = 1; k <= calls; ++k) {
    set_file_hook(fault_at(k, FileFault::no_space));
    EXPECT_NE(error_of(ExitCode::storage, [&] { const EventFile file(scratch / ("run" + std::to_string(k)), 1, 1.0); }), "") << k;
  }
}

}  // namespace
}  // namespace millrace::runtime
