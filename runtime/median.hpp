#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace millrace::runtime {

/// The median of the values; the upper of the two middle values if their number is even, 0 if there are none.
[[nodiscard]] inline double median(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> ordered(values.begin(), values.end());
  const auto middle = ordered.begin() + static_cast<std::ptrdiff_t>(ordered.size() / 2);
  std::nth_element(ordered.begin(), middle, ordered.end());
  return *middle;
}

}  // namespace millrace::runtime
