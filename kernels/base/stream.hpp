#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/base/device.hpp"
#include "kernels/base/thread_team.hpp"

namespace millrace::kernels {

/// Which implementation answers on a CPU: the plain loops that define the truth, or the fast ones.
enum class Implementation : std::uint8_t { fast, reference };

/// Where kernels run, in order. On a CPU a call returns when its work is done, on the calling thread and its team; on a GPU it returns when
/// the work is queued. A stream belongs to one rank and is used from that rank's worker thread only.
class Stream {
 public:
  explicit Stream(ThreadTeam& team, Implementation implementation = Implementation::fast, Device device = {})
      : team_(&team), implementation_(implementation), device_(device) {}

  [[nodiscard]] Device device() const noexcept { return device_; }
  [[nodiscard]] ThreadTeam& team() const noexcept { return *team_; }
  [[nodiscard]] int threads() const noexcept { return team_->size(); }
  [[nodiscard]] Implementation implementation() const noexcept { return implementation_; }

 private:
  ThreadTeam* team_;
  Implementation implementation_;
  Device device_;
};

/// A point in a stream. On a CPU everything before it is done when it is recorded.
class Event {
 public:
  void record(const Stream& stream) noexcept { recorded_ = stream.device().kind == DeviceKind::cpu; }
  /// True when all work before the point is complete. Never blocks.
  [[nodiscard]] bool complete() const noexcept { return recorded_; }

 private:
  bool recorded_ = false;
};

/// Memory that a kernel may use while it runs; planned with the program, at least as large as the kernel's *_scratch_bytes says.
using Scratch = std::span<std::byte>;

}  // namespace millrace::kernels
