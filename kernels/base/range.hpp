#pragma once

namespace millrace::kernels {

/// Shows an NVTX range of this name (drawn by Nsight Systems) on the calling thread during its lifetime. Without CUDA it does
/// nothing.
class Range {
 public:
  explicit Range(const char* name) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace millrace::kernels
