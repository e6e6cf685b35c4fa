#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {

/// Sixty short documents below `folder`: with packing, most rows hold parts of two or more.
void write_small_texts(const TemporaryFolder& folder, const std::string& name);

/// All that a run says of its numbers: each step's and evaluation's line of metrics.jsonl without times, and the checkpoint's hash.
struct Outcome {
  int code = -1;
  std::string said;  // where the command failed
  std::vector<std::string> lines;
  std::string hash;
};

/// Ten steps of the smallest model with clipping, accumulation, packing, warm-up and evaluation, as `words` change it.
[[nodiscard]] Outcome run_small(int processes, const std::vector<std::string>& words);

}  // namespace millrace::tests
