#include "cluster/host/log.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "cluster/host/console.hpp"
#include "tests/support/expect_error.hpp"

namespace millrace::cluster {
namespace {

/// The text on stderr that `action` causes by logging.
template <class Action>
std::string shown(Action action) {
  ::testing::internal::CaptureStderr();
  action();
  EXPECT_TRUE(drain_console(std::chrono::seconds(60)));
  return ::testing::internal::GetCapturedStderr();
}

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override {
    forward_log({}, {});
    set_log_level(LogLevel::info);
  }
};

TEST_F(LogTest, ALineHasItsLevelAndWhereItComesFrom) {
  EXPECT_EQ(shown([] { log_warning("the disk has {} GiB left", 3); }), "warning: the disk has 3 GiB left\n");
  EXPECT_EQ(shown([] { log(LogLevel::error, {.rank = 5}, "no more"); }), "error: [rank 5] no more\n");
  EXPECT_EQ(shown([] { log(LogLevel::info, {.stage = 2, .rank = 5}, "{not a format}"); }), "info: [stage 2 rank 5] {not a format}\n");
}

TEST_F(LogTest, LessImportantLinesAreDropped) {
  set_log_level(LogLevel::warning);
  EXPECT_EQ(shown([] {
              log_debug({}, "{}", 1);
              log_info("two");
              log_warning("three");
            }),
            "warning: three\n");
  set_log_level(LogLevel::off);
  EXPECT_EQ(shown([] { log(LogLevel::error, {}, "four"); }), "");
}

TEST_F(LogTest, DebugLinesBeginWithTheTime) {
  set_log_level(LogLevel::debug);
  const auto text = shown([] { log_debug({.rank = 1}, "{} threads", 2); });
  ASSERT_EQ(text.size(), std::string("12:34:56.789 debug: [rank 1] 2 threads\n").size()) << text;
  EXPECT_EQ(text.substr(12), " debug: [rank 1] 2 threads\n");
  EXPECT_EQ(text[2], ':');
  EXPECT_EQ(text[8], '.');
}

TEST_F(LogTest, ALevelIsNamed) {
  EXPECT_EQ(parse_log_level("debug", "--log-level"), LogLevel::debug);
  EXPECT_EQ(parse_log_level("off", "--log-level"), LogLevel::off);
  tests::expect_error([] { (void)parse_log_level("warnin", "MILLRACE_LOG_LEVEL"); }, ExitCode::usage,
                      {"MILLRACE_LOG_LEVEL = warnin, expected debug, info, warning, error, off", "did you mean warning?"});
}

TEST_F(LogTest, WarningsGoToProcessZeroAndTheRestStays) {
  std::vector<ForwardedLog> sent;
  bool reachable = true;
  forward_log("ranks 2-3", [&](const ForwardedLog& line) {
    if (reachable) sent.push_back(line);
    return reachable;
  });
  EXPECT_EQ(shown([] {
              log_info("stays");
              log_warning("goes");
              log(LogLevel::error, {.stage = 6, .rank = 3}, "goes too");
            }),
            "info: [ranks 2-3] stays\n");
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].level, LogLevel::warning);
  EXPECT_EQ(sent[0].source, "ranks 2-3");
  EXPECT_EQ(sent[0].message, "goes");
  EXPECT_EQ(sent[1].level, LogLevel::error);
  EXPECT_EQ(sent[1].source, "stage 6 rank 3");
  reachable = false;
  EXPECT_EQ(shown([] { log_warning("cannot go"); }), "warning: [ranks 2-3] cannot go\n");
  EXPECT_EQ(sent.size(), 2u);
}

TEST_F(LogTest, WhatSeveralProcessesSayIsPrintedOnce) {
  const auto say = [](int process) { log_forwarded(process, {LogLevel::warning, fmt::format("rank {}", process), "the clock jumped"}); };
  EXPECT_EQ(shown([&] {
              for (const int process : {2, 1, 3}) say(process);
              log_warning("the clock jumped");
            }),
            "warning: [rank 2] the clock jumped\n");
  EXPECT_EQ(shown([&] {
              for (const int process : {1, 3}) say(process);
              log_warning("the clock jumped");
            }),
            "warning: [rank 1] the clock jumped\n")
      << "the second time that it happened is printed once as well";
  EXPECT_EQ(shown([&] {
              say(3);
              say(3);
            }),
            "warning: [rank 3] the clock jumped\nwarning: [rank 3] the clock jumped\n");
}

TEST_F(LogTest, AForwardedLineHasALevelToo) {
  set_log_level(LogLevel::error);
  EXPECT_EQ(shown([] { log_forwarded(1, {LogLevel::warning, "rank 1", "not shown"}); }), "");
}

}  // namespace
}  // namespace millrace::cluster
