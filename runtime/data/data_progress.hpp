#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::runtime {

/// What a run has read of one source of its training data.
struct SourceProgress {
  std::string name;
  std::int64_t tokens = 0;
  double epochs = 0;  // how often each of its tokens was read, on average
};

/// What a run has read since its first step, resumed or not: a function of the number of steps.
struct DataProgress {
  std::int64_t tokens = 0;              // of all sources
  std::vector<SourceProgress> sources;  // in the order of data.text or data.tokens; empty for batches that are not from files
};

}  // namespace millrace::runtime
