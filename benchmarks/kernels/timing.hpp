#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace millrace::benchmarks {

/// Seconds of one call: the best of several rounds, each long enough for the clock's resolution. The best, because disturbances
/// only ever slow a run down.
template <class Call>
double seconds_of(Call&& call, double round_seconds = 0.1, int rounds = 7) {
  using Clock = std::chrono::steady_clock;
  const auto elapsed = [](Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  call();
  auto begin = Clock::now();
  call();
  const int repeats = std::max(1, static_cast<int>(round_seconds / std::max(elapsed(begin), 1e-7)));
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    begin = Clock::now();
    for (int i = 0; i < repeats; ++i) call();
    best = std::min(best, elapsed(begin) / repeats);
  }
  return best;
}

/// The first argument as a number of threads; 2 if there is none.
inline int threads_from(int count, char** arguments) { return count > 1 ? std::max(1, std::atoi(arguments[1])) : 2; }

}  // namespace millrace::benchmarks
