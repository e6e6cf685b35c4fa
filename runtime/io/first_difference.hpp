#pragma once

#include <cstdint>
#include <optional>

#include "runtime/io/hash_recording.hpp"

namespace millrace::runtime {

/// One tensor in which the runs differ.
struct Difference {
  std::int64_t step = 0;
  RecordedHash left, right;
  std::uint64_t differing = 0, compared = 0;  // number of tensors of this step
};

/// The result of comparing two recordings.
struct Comparison {
  std::int64_t first_step = 0, last_step = 0;  // the steps that both runs have
  std::int64_t equal_steps = 0;                // number of equal steps before the difference, or of all steps if there is none
  std::uint64_t equal_tensors = 0;             // number of tensors in those steps
  // number of tensors that the other run does not have, for example because of another rematerialisation policy
  std::uint64_t only_left = 0, only_right = 0;
  std::optional<Difference> first;
};

/// Finds the first tensor that differs: the step by the steps' sums, then the tensor by that step's hashes, in the order in which
/// the left run's microbatches meet them. Errors: Error(data) if the recordings have no step in common.
[[nodiscard]] Comparison first_difference(const HashRecording& left, const HashRecording& right);

}  // namespace millrace::runtime
