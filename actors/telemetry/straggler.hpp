#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "actors/messages/messages.hpp"

namespace millrace::actors {

/// The copy of the pipeline that computes slowest. All copies do the same work on as many tokens, and at the end of a step the others wait
/// for it.
struct Straggler {
  int copy = 0;
  int rank = 0;       // of its ranks the one that is slow
  double slower = 0;  // how much longer that rank computes than those at its position in the other copies (their median): 0.1 is 10 %
};

/// Finds it from the ranks' times of each step, smoothed over some steps.
class StragglerWatch {
 public:
  /// `copies`: with as many of the ranks each, in order. With one there is none.
  explicit StragglerWatch(int copies) : copies_(copies) {}

  void add(std::span<const StepTimes> ranks);
  /// Empty during the first steps, and if no copy is slower by `least` or more.
  [[nodiscard]] std::optional<Straggler> slowest(double least = 0.05) const;

 private:
  [[nodiscard]] double excess(std::size_t rank, std::size_t positions) const;

  static constexpr int first_steps = 3;  // which build kernels, and touch memory for the first time
  int copies_;
  std::int64_t steps_ = 0;
  std::vector<double> compute_;  // by rank: nanoseconds of a step, smoothed
};

}  // namespace millrace::actors
