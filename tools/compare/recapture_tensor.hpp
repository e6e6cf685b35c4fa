#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/jobs/stepped_run.hpp"
#include "kernels/base/tensor.hpp"
#include "runtime/io/hash_recording.hpp"

namespace millrace::tools {

/// A copy of a tensor.
struct RecapturedTensor {
  kernels::Tensor tensor;  // over `bytes`
  std::vector<std::byte> bytes;
};

/// Runs `run` up to the moment in `step` (counted from 1) when the recorded tensor is there, and copies it; nothing where the run does not
/// come there.
[[nodiscard]] std::optional<RecapturedTensor> recapture_tensor(const actors::SteppedRun& run, std::int64_t step,
                                                               const runtime::RecordedHash& recorded);

}  // namespace millrace::tools
