#pragma once

#include <cstdint>
#include <optional>

#include "runtime/io/hash_recording.hpp"

namespace millrace::tools {

/// One tensor as both runs have it.
struct Difference {
  std::int64_t step = 0;
  runtime::RecordedHash left, right;
  std::uint64_t differing = 0, compared = 0;  // tensors of this step
};

/// What comparing two recordings found.
struct Comparison {
  std::int64_t first_step = 0, last_step = 0;   // of the steps that both have
  std::int64_t equal_steps = 0;                 // before the difference; all, where there is none
  std::uint64_t equal_tensors = 0;              // of those
  std::uint64_t only_left = 0, only_right = 0;  // tensors that the other did not make, as another rematerialisation does
  std::optional<Difference> first;
};

/// The first tensor that differs: by the steps' sums to the step, by its hashes to the tensor, in the order in which the left run's
/// microbatches meet them. Errors: Error(data) where the recordings have no step in common.
[[nodiscard]] Comparison first_difference(const runtime::HashRecording& left, const runtime::HashRecording& right);

}  // namespace millrace::tools
