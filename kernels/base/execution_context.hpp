#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/base/backend.hpp"
#include "kernels/base/device.hpp"
#include "kernels/base/device_context.hpp"
#include "kernels/base/device_type.hpp"
#include "kernels/base/processor.hpp"
#include "kernels/base/thread_team.hpp"

namespace millrace::kernels {

/// Implementation of kernels on a CPU: the plain loops that define correct results, or the fast ones.
enum class Implementation : std::uint8_t { fast, reference };

/// Where kernels run, in order. On a CPU a call returns when its work is done, on the calling thread and its team; on a GPU it
/// returns when the work is enqueued on the compute stream, and operands are in device memory. A context belongs to one rank and
/// is used only from that rank's worker thread.
class ExecutionContext {
 public:
  /// `device_context` must outlive this object; null: the CPU's.
  explicit ExecutionContext(ThreadTeam& team, Implementation implementation = Implementation::fast, DeviceContext* device_context = nullptr)
      : team_(&team),
        implementation_(implementation),
        device_context_(device_context != nullptr ? device_context : &cpu_context()),
        facts_(&device_type(device_context_->device()).facts()),
        backend_(implementation == Implementation::reference && facts_->backend == Backend::cpu ? Backend::reference : facts_->backend) {}

  [[nodiscard]] Device device() const noexcept { return device_context_->device(); }
  /// Whether the host can access operands.
  [[nodiscard]] bool host_readable() const noexcept { return facts_->host_readable; }
  [[nodiscard]] DeviceContext& device_context() const noexcept { return *device_context_; }
  [[nodiscard]] ThreadTeam& team() const noexcept { return *team_; }
  [[nodiscard]] int threads() const noexcept { return team_->size(); }
  [[nodiscard]] Processor processor() const noexcept { return {device(), threads()}; }
  [[nodiscard]] Implementation implementation() const noexcept { return implementation_; }
  /// The backend whose kernels are called.
  [[nodiscard]] Backend backend() const noexcept { return backend_; }

 private:
  ThreadTeam* team_;
  Implementation implementation_;
  DeviceContext* device_context_;
  const DeviceFacts* facts_;
  Backend backend_;
};

/// Memory that a kernel may use while it runs; it is planned with the program and at least as large as the kernel's
/// *_scratch_bytes returns.
using Scratch = std::span<std::byte>;

}  // namespace millrace::kernels
