#pragma once

#include <string>
#include <vector>

namespace millrace::tests {

/// What the numbers of a run may depend on, as far as these tests vary it.
struct Numbers {
  std::string dtype = "fp32";
  bool tied = false;
  int threads = 1;
  int accumulators = 1;
  int layers = 4, microbatches = 4, steps = 10;
  bool leaves = false;  // train.leaf = microbatch

  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] std::string name() const;
};

/// What they must not depend on.
struct Layout {
  std::string name;
  int processes = 1;
  std::vector<std::string> words;
};

/// Every tested layout, by name: schedules, processes, chunks, uneven and empty stages, rematerialisation.
[[nodiscard]] const std::vector<Layout>& layouts();
[[nodiscard]] const Layout& layout(const std::string& name);

struct LayoutCase {
  Numbers numbers;
  Layout layout;
};
[[nodiscard]] std::string name_of(const LayoutCase& one);

/// Runs the case, and once per `numbers` one rank in one process; expects the same bits.
void expect_the_bits_of_one_rank(const LayoutCase& one);

}  // namespace millrace::tests
