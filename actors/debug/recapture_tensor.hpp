#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "actors/jobs/stepped_run.hpp"
#include "kernels/base/tensor.hpp"
#include "runtime/io/hash_recording.hpp"

namespace millrace::actors {

/// A tensor together with the memory that it lies in.
struct RecapturedTensor {
  kernels::Tensor tensor;  // refers to `bytes`
  std::vector<std::byte> bytes;
};

/// Runs `run` up to the moment in `step` (counted from 1) at which the recorded tensor exists, and copies it. Returns nothing if
/// the run does not reach that moment.
[[nodiscard]] std::optional<RecapturedTensor> recapture_tensor(const SteppedRun& run, std::int64_t step,
                                                               const runtime::RecordedHash& recorded);

}  // namespace millrace::actors
