#pragma once

#include <chrono>
#include <string>

namespace millrace::cluster {

/// Notices that this process did not run for a while: it was stopped by a signal or a debugger, its machine was suspended, or nothing was
/// left for it on an overloaded one. The sign is a timer that fires late. Whoever slept must not blame the others for what they did
/// meanwhile: to them it was the silent one. Thread: that of the timer.
class SleepWatch {
 public:
  /// Time that also passes while the machine is suspended.
  using Time = std::chrono::nanoseconds;
  [[nodiscard]] static Time now();

  /// The timer has fired and will fire again at `next`. Returns by how much it was late.
  Time fired(Time now, Time next);
  /// How long this process slept: until now, if its timer is overdue (whatever woke it came first), or until a short while ago, in which
  /// what happened meanwhile still comes to light. 0 if it did not.
  [[nodiscard]] Time slept(Time now) const;
  /// The same in seconds, if that is longer than `limit`, which is above 0; else 0.
  [[nodiscard]] double seconds_beyond(Time limit, Time now) const;

 private:
  Time next_{0};  // 0: the timer has not been set yet
  Time last_{0}, last_end_{0};
};

/// "did not run for 12.3 s: it was stopped by a signal or a debugger, …".
[[nodiscard]] std::string sleep_text(SleepWatch::Time slept);

}  // namespace millrace::cluster
