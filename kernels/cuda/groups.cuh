#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {

/// The groups of rows. Offsets that are not increasing or end behind the last row are reported, and read as the nearest possible ones.
struct Groups {
  const std::int32_t* offsets;
  std::int64_t experts, rows;
  FaultSlot* fault;

  /// The end of group e, which begins at `begin`.
  __device__ __forceinline__ std::int64_t end(std::int64_t e, std::int64_t begin) const {
    const std::int64_t offset = offsets[e + 1];
    return offset < begin ? begin : offset < rows ? offset : rows;
  }
  /// Reports offset e if it is wrong.
  __device__ __forceinline__ void check(std::int64_t e) const {
    const std::int64_t min = e == 0 ? 0 : offsets[e - 1], max = e == 0 ? 0 : rows;
    if (offsets[e] < min || offsets[e] > max) report(fault, FaultSlot::offset, offsets[e], e, rows);
  }
};

}  // namespace millrace::kernels::cuda
