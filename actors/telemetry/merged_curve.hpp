#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace millrace::actors {

/// N curves over all steps of a run in a bounded number of points: each point has the means of several steps, the last of which is its
/// `step`. When the points are full, pairs of them are merged, and every later point covers twice as many steps.
template <std::size_t N>
class MergedCurve {
 public:
  static constexpr std::size_t most_points = 512;
  using Values = std::array<double, N>;
  struct Point {
    std::int64_t step = 0;
    Values values{};
  };

  void add(std::int64_t step, const Values& values) {
    for (std::size_t i = 0; i < N; ++i) sums_[i] += values[i];
    if (++steps_ < steps_of_a_point_) return;
    Point& point = points_.emplace_back(Point{step, sums_});
    for (double& value : point.values) value /= static_cast<double>(steps_);
    sums_ = {};
    steps_ = 0;
    if (points_.size() == most_points) merge();
  }
  [[nodiscard]] const std::vector<Point>& points() const noexcept { return points_; }

 private:
  void merge() {
    for (std::size_t pair = 0; pair < most_points / 2; ++pair) {
      Point merged = points_[2 * pair + 1];
      for (std::size_t i = 0; i < N; ++i) merged.values[i] = (points_[2 * pair].values[i] + merged.values[i]) / 2;
      points_[pair] = merged;
    }
    points_.resize(most_points / 2);
    steps_of_a_point_ *= 2;
  }

  std::vector<Point> points_;
  Values sums_{};  // of the steps that are not part of a point yet
  std::int64_t steps_ = 0, steps_of_a_point_ = 1;
};

}  // namespace millrace::actors
