#include "runtime/io/hash_recording.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "runtime/io/hash_recorder.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/temporary_folder.hpp"

namespace millrace::runtime {
namespace {

constexpr int kMicrobatches = 3;

/// Two stages, each with one weight and one operation forward and backward, on `ranks` ranks; steps [first, last].
void record(const std::string& run, int ranks, std::int64_t after, std::int64_t last, int seed = 0) {
  for (int rank = 0; rank < ranks; ++rank) {
    HashRecorder recorder(run, rank, ranks, after);
    for (std::int64_t step = after + 1; step <= last; ++step) {
      recorder.begin_step(step);
      for (int stage = rank; stage < 2; stage += ranks) {
        const auto add = [&](TensorMoment moment, int microbatch, const std::string& operation, const std::string& tensor) {
          TensorHash record;
          record.moment = moment;
          record.microbatch = microbatch;
          record.stage = static_cast<std::uint16_t>(stage);
          record.name = recorder.name(operation, tensor);
          const std::array<std::int64_t, 4> bytes{step, stage, microbatch, seed};
          recorder.add(record, std::as_bytes(std::span(bytes)));
        };
        const auto name = "stage" + std::to_string(stage);
        add(TensorMoment::weight, -1, "", name + ".weight");
        for (int microbatch = 0; microbatch < kMicrobatches; ++microbatch) {
          add(TensorMoment::forward, microbatch, name + ".fused" + std::to_string(ranks), name + ".out");
          add(TensorMoment::gradient, microbatch, name + ".dx", name + ".dx");
        }
      }
      recorder.end_step();
    }
  }
}

TEST(HashRecording, SumsAreThoseOfEveryLayout) {
  const tests::TemporaryFolder folder;
  record(folder / "one", 1, 0, 4);
  record(folder / "two", 2, 0, 4);
  record(folder / "other", 2, 0, 4, 1);
  const HashRecording one(folder / "one"), two(folder / "two"), other(folder / "other");
  EXPECT_EQ(one.steps().size(), 4U);
  EXPECT_EQ(one.steps(), two.steps());
  for (const auto& [step, sum] : other.steps()) EXPECT_NE(sum, one.steps().at(step));
  EXPECT_EQ(two.count(2), 2U + 2U * 2U * kMicrobatches);
}

TEST(HashRecording, ReadsInTheOrderOfAMicrobatch) {
  const tests::TemporaryFolder folder;
  record(folder / "run", 2, 0, 1);
  const auto records = HashRecording(folder / "run").read(1);
  std::vector<std::string> names;
  for (const auto& recorded : records)
    if (recorded.place.microbatch <= 0) names.push_back(recorded.place.tensor);
  EXPECT_EQ(names, (std::vector<std::string>{"stage0.weight", "stage1.weight", "stage0.out", "stage1.out", "stage1.dx", "stage0.dx"}));
  EXPECT_EQ(records[2].operation, "stage0.fused2");
  EXPECT_EQ(records[0].operation, "");
}

TEST(HashRecording, TheNewerStartCountsAndForgottenOnesDoNot) {
  const tests::TemporaryFolder folder;
  record(folder / "run", 2, 0, 5, 7);  // killed in step 6
  record(folder / "run", 1, 3, 6, 8);  // resumed after step 3, on one rank
  record(folder / "plain", 1, 0, 6, 8);
  const HashRecording resumed(folder / "run"), plain(folder / "plain");
  ASSERT_EQ(resumed.steps().size(), 6U);
  EXPECT_NE(resumed.steps().at(3), plain.steps().at(3));
  for (const std::int64_t step : {4, 5, 6}) EXPECT_EQ(resumed.steps().at(step), plain.steps().at(step)) << step;
  forget_hashes(folder / "run", 2);  // removes the one that began after step 3
  EXPECT_EQ(HashRecording(folder / "run").steps().size(), 5U);
}

TEST(HashRecording, WhatIsTornOrLacksARankIsLeftOut) {
  const tests::TemporaryFolder folder;
  record(folder / "run", 2, 0, 3);
  const auto path = folder / "run" + std::string("/hashes/after-00000000.rank-1");
  const auto whole = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, whole - 1);
  EXPECT_EQ(HashRecording(folder / "run").steps().size(), 2U);
  std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(static_cast<std::streamoff>(whole / 2)).put('\x55');
  EXPECT_EQ(HashRecording(folder / "run").steps().size(), 1U);
  std::filesystem::remove(path);
  tests::expect_error([&] { HashRecording(folder / "run"); }, ExitCode::data, {"no step that all ranks recorded"});
  std::ofstream(path) << R"({"kind":7,"schema":1})"
                         "\n";
  tests::expect_error([&] { HashRecording(folder / "run"); }, ExitCode::data, {"rank-1: kind = 7, expected a string"});
  std::ofstream(path) << R"({"kind":"millrace.hashes","schema":1,"after":"0"})"
                         "\n";
  tests::expect_error([&] { HashRecording(folder / "run"); }, ExitCode::data, {"rank-1: after = \"0\", expected an integer from 0"});
  std::ofstream(path) << "something else\n";
  tests::expect_error([&] { HashRecording(folder / "run"); }, ExitCode::data, {"rank-1 begins with something else"});
}

}  // namespace
}  // namespace millrace::runtime
