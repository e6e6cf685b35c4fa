#include "cluster/control/sleep_watch.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

namespace millrace::cluster {
namespace {

/// The other end's last messages and closed connections are read within milliseconds, the failure is reported a little later.
constexpr auto shown_for = std::chrono::seconds(5);

}  // namespace

SleepWatch::Time SleepWatch::now() {
  timespec time{};
  ::clock_gettime(CLOCK_BOOTTIME, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

SleepWatch::Time SleepWatch::fired(Time now, Time next) {
  const Time late = next_.count() == 0 ? Time(0) : std::max(now - next_, Time(0));
  // A sleep is remembered for a while, and a shorter one that follows does not hide it.
  if (late >= slept(now)) {
    last_ = late;
    last_end_ = now;
  }
  next_ = next;
  return late;
}

SleepWatch::Time SleepWatch::slept(Time now) const {
  const Time overdue = next_.count() == 0 ? Time(0) : std::max(now - next_, Time(0));
  return now - last_end_ <= shown_for ? std::max(overdue, last_) : overdue;
}

double SleepWatch::seconds_beyond(Time limit, Time now) const {
  const Time time = slept(now);
  return limit.count() > 0 && time > limit ? std::chrono::duration<double>(time).count() : 0;
}

std::string sleep_text(SleepWatch::Time slept) {
  return fmt::format(
      "did not run for {:.1f} s: it was stopped by a signal or a debugger, its machine was suspended, or the machine had no time for it",
      std::chrono::duration<double>(slept).count());
}

}  // namespace millrace::cluster
