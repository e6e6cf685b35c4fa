#pragma once

#include <fmt/format.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <string>
#include <vector>

#include "runtime/median.hpp"

namespace millrace::benchmarks {

/// Seconds of processor time used by all threads of this process. Time taken by other guests of the host is not included.
[[nodiscard]] inline double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// Times of two alternatives that alternated in one run.
class PairedTimes {
 public:
  void add(double one, double other) {
    ones_.push_back(one);
    others_.push_back(other);
    ratios_.push_back(one / other);
  }
  /// Prints a line for each in milliseconds, and the ratios of the first to the second; `expected` ends the last line.
  void print(const std::string& one, const std::string& other, const std::string& expected) const {
    double load[3] = {};
    static_cast<void>(getloadavg(load, 3));
    fmt::print("{:>10} {:>10} {:>10}\n", "ms/step", "minimum", "median");
    fmt::print("{:>10} {:>10.3f} {:>10.3f}\n", one, least(ones_) * 1e3, runtime::median(ones_) * 1e3);
    fmt::print("{:>10} {:>10.3f} {:>10.3f}\n", other, least(others_) * 1e3, runtime::median(others_) * 1e3);
    fmt::print("{} / {}: of the least {:.4f}, of the medians {:.4f}, median of the pairs {:.4f}, {}; load {:.2f}\n", one, other,
               least(ones_) / least(others_), runtime::median(ones_) / runtime::median(others_), runtime::median(ratios_), expected,
               load[0]);
  }

 private:
  static double least(const std::vector<double>& values) { return *std::min_element(values.begin(), values.end()); }
  std::vector<double> ones_, others_, ratios_;
};

}  // namespace millrace::benchmarks
