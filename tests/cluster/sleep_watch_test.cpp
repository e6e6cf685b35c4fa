#include "cluster/control/sleep_watch.hpp"

#include <gtest/gtest.h>

namespace millrace::cluster {
namespace {

using namespace std::chrono_literals;

TEST(SleepWatch, AnOrderlyTimerHasNotSlept) {
  SleepWatch watch;
  EXPECT_EQ(watch.slept(1h).count(), 0) << "before the first time";
  EXPECT_EQ(watch.fired(1h, 1h + 100ms).count(), 0);
  EXPECT_EQ(watch.slept(1h + 60ms).count(), 0);
  EXPECT_EQ(watch.fired(1h + 100ms, 1h + 200ms).count(), 0);
  EXPECT_EQ(watch.slept(1h + 200ms).count(), 0);
}

TEST(SleepWatch, IsNoticedBeforeTheTimerFiresAndForAWhileAfter) {
  SleepWatch watch;
  static_cast<void>(watch.fired(10s, 10s + 100ms));
  EXPECT_EQ(watch.slept(20s + 100ms), 10s) << "a closed connection may be read first";
  EXPECT_EQ(watch.fired(20s + 100ms, 20s + 200ms), 10s);
  EXPECT_EQ(watch.slept(20s + 150ms), 10s);
  EXPECT_EQ(watch.seconds_beyond(3s, 20s + 150ms), 10.0);
  EXPECT_EQ(watch.seconds_beyond(11s, 20s + 150ms), 0.0);
  EXPECT_EQ(watch.seconds_beyond(0s, 20s + 150ms), 0.0) << "no time-out: it does not matter";
  EXPECT_EQ(watch.fired(20s + 300ms, 20s + 400ms), 100ms) << "a shorter one does not hide it";
  EXPECT_EQ(watch.slept(20s + 400ms), 10s);
  EXPECT_EQ(watch.fired(20s + 400ms, 26s).count(), 0);
  EXPECT_EQ(watch.slept(26s).count(), 0) << "long ago";
}

TEST(SleepWatch, SaysWhatItMayHaveBeen) { EXPECT_EQ(sleep_text(12'340ms).substr(0, 42), "did not run for 12.3 s: it was stopped by "); }

}  // namespace
}  // namespace millrace::cluster
