#pragma once

#include <atomic>

namespace millrace::kernels {

/// The interface to a profiler that shows named ranges on its timeline. A device's folder installs its implementation at namespace
/// scope.
struct RangeMarker {
  void (*push)(const char* name) noexcept;
  void (*pop)() noexcept;
};
inline std::atomic<const RangeMarker*> range_marker{nullptr};

/// Shows a range of this name on the calling thread during its lifetime, with CUDA by NVTX (drawn by Nsight Systems). Does nothing without
/// a marker.
class Range {
 public:
  explicit Range(const char* name) noexcept {
    if (marker_ != nullptr) marker_->push(name);
  }
  ~Range() {
    if (marker_ != nullptr) marker_->pop();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  const RangeMarker* marker_ = range_marker.load(std::memory_order_relaxed);
};

}  // namespace millrace::kernels
