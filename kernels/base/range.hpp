#pragma once

namespace millrace::kernels {

/// While it lives, NVTX (what Nsight Systems draws) shows a range of this name on the calling thread. Costs nothing without CUDA.
class Range {
 public:
  explicit Range(const char* name) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace millrace::kernels
