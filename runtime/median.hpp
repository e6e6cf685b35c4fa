#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace millrace::runtime {

/// The value in the middle of their order: of an even number the upper of the two, of none 0.
[[nodiscard]] inline double median(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> ordered(values.begin(), values.end());
  const auto middle = ordered.begin() + static_cast<std::ptrdiff_t>(ordered.size() / 2);
  std::nth_element(ordered.begin(), middle, ordered.end());
  return *middle;
}

}  // namespace millrace::runtime
