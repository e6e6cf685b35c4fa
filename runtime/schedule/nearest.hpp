#pragma once

namespace millrace::runtime {

/// The number nearest to `from` and not below `least` for which legal(number) holds; of two equally near ones the larger.
/// There must be one: advice for people whose number is not legal.
template <class Legal>
[[nodiscard]] int nearest_legal(int from, int least, Legal&& legal) {
  for (int distance = 0;; ++distance) {
    if (from + distance >= least && legal(from + distance)) return from + distance;
    if (from - distance >= least && legal(from - distance)) return from - distance;
  }
}

}  // namespace millrace::runtime
