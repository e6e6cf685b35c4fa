#pragma once

namespace millrace::runtime {

/// Returns the number nearest to `from`, and not below `min`, for which legal(number) holds; of two equally near ones the larger.
/// One must exist. Used to suggest a legal value in an error message.
template <class Legal>
[[nodiscard]] int nearest_legal(int from, int min, Legal&& legal) {
  for (int distance = 0;; ++distance) {
    if (from + distance >= min && legal(from + distance)) return from + distance;
    if (from - distance >= min && legal(from - distance)) return from - distance;
  }
}

}  // namespace millrace::runtime
