#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace millrace::kernels::cuda {

/// The groups of rows. Offsets that are not increasing or end behind the last row are reported, and read as the nearest possible ones.
struct Groups {
  const std::int32_t* offsets;
  std::int64_t count, rows;
  FaultSlot* fault;
  bool later = false;  // other groups are before them, so that the first one need not begin at row 0

  /// The beginning of group e.
  __device__ __forceinline__ std::int64_t begin(std::int64_t e) const {
    if (e > 0) return end(e - 1, 0);
    if (!later) return 0;
    const std::int64_t offset = offsets[0];
    return offset < 0 ? 0 : offset < rows ? offset : rows;
  }

  /// The end of group e, which begins at `begin`.
  __device__ __forceinline__ std::int64_t end(std::int64_t e, std::int64_t begin) const {
    const std::int64_t offset = offsets[e + 1];
    return offset < begin ? begin : offset < rows ? offset : rows;
  }
  /// Reports offset e if it is wrong.
  __device__ __forceinline__ void check(std::int64_t e) const {
    const std::int64_t min = e == 0 ? 0 : offsets[e - 1], max = e == 0 && !later ? 0 : rows;
    if (offsets[e] < min || offsets[e] > max) report(fault, FaultSlot::offset, offsets[e], e, rows);
  }
};

/// The groups of all sources, or those of one of them.
inline Groups groups_of(const ExecutionContext& context, const Tensor& offsets, std::int64_t rows) {
  return {offsets.as<std::int32_t>(), offsets.shape[0] - 1, rows, state_of(context).fault};
}
inline Groups groups_of_source(const ExecutionContext& context, const Tensor& offsets, std::int64_t rows, std::int64_t experts,
                               std::int64_t source) {
  return {offsets.as<std::int32_t>() + source * experts, experts, rows, state_of(context).fault, source > 0};
}

}  // namespace millrace::kernels::cuda
