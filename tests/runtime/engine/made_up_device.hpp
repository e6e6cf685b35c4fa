#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

#include "kernels/base/device_context.hpp"
#include "kernels/base/device_type.hpp"

/// A device that exists only in tests: a row of the table of devices, with the CPU's kernels. Its memory counts as inaccessible to
/// the host. It delays every copy as long as possible: a copy on a stream other than `compute` is done only when another stream or
/// the host waits for that stream. Code that forgets a wait or a copy therefore computes wrong numbers.
namespace millrace::runtime::testing {

inline constexpr auto made_up_kind = static_cast<kernels::DeviceKind>(kernels::backend_count - 1);  // the first kind that is not built in
inline constexpr kernels::Device made_up_device{made_up_kind, 0};

class MadeUpContext final : public kernels::DeviceContext {
 public:
  MadeUpContext() noexcept : DeviceContext(made_up_device) {}

  void copy(kernels::StreamKind stream, std::byte* to, const std::byte* from, std::size_t bytes) override;
  void zero(kernels::StreamKind stream, std::byte* to, std::size_t bytes) override;
  void wait(kernels::StreamKind waiting, kernels::StreamKind on) override;
  void drain() override;
  void check(const char*) override {}
  void set_breadcrumb(std::uint32_t number) override { operation_ = number; }
  [[nodiscard]] std::uint32_t last_operation() const noexcept override { return operation_; }
  void set_action(std::uint32_t number) override { action_ = number; }
  [[nodiscard]] std::uint32_t last_action() const noexcept override { return action_; }
  [[nodiscard]] std::unique_ptr<kernels::EventState> make_event(bool timed) override;

  [[nodiscard]] int copies(kernels::StreamKind stream) const { return copies_[static_cast<std::size_t>(stream)]; }
  [[nodiscard]] int waits(kernels::StreamKind waiting, kernels::StreamKind on) const {
    const auto found = waits_.find({waiting, on});
    return found == waits_.end() ? 0 : found->second;
  }

 private:
  struct Copy {
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  void flush(kernels::StreamKind stream);
  std::array<std::deque<Copy>, kernels::stream_kind_count> put_off_;
  std::array<int, kernels::stream_kind_count> copies_{};
  std::map<std::pair<kernels::StreamKind, kernels::StreamKind>, int> waits_;
  std::uint32_t operation_ = 0, action_ = 0;
};

}  // namespace millrace::runtime::testing
