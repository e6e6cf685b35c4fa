#pragma once

#include <string>
#include <vector>

#include "tests/support/temporary_folder.hpp"

namespace millrace::tests {

/// Writes sixty short documents below `folder`; with packing, most rows contain parts of two or more.
void write_small_texts(const TemporaryFolder& folder, const std::string& name);

/// The numbers of a run: the metrics.jsonl line of each step and evaluation without times, and the checkpoint's hash.
struct Outcome {
  int code = -1;
  std::string said;  // the output, if the command failed
  std::vector<std::string> lines;
  std::string hash;
};

/// Ten steps of the smallest model with clipping, accumulation, packing, warm-up and evaluation, changed by `words`.
[[nodiscard]] Outcome run_small(int processes, const std::vector<std::string>& words);

}  // namespace millrace::tests
