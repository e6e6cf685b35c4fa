#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

/// Numbers between a program's memory and ordinary memory of the host, now: for initial values, captures and hooks, not for a steady step.
namespace millrace::kernels {

/// Waits for what the context has queued, then copies `x` to `to`, which is as large.
void fetch(const ExecutionContext& context, const Tensor& x, std::span<std::byte> to);
/// Copies `from` to `x`, which is as large; done when it returns.
void put(const ExecutionContext& context, std::span<const std::byte> from, const Tensor& x);

/// Copies to memory of `device` without a context; done when it returns. Before a run, from any thread.
void write_now(Device device, std::byte* to, std::span<const std::byte> from);

/// Tensors with copies of their elements in host memory; on a CPU the originals themselves.
class HostCopies {
 public:
  HostCopies(const ExecutionContext& context, std::span<const Tensor> originals);
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  /// Writes the copies over the originals.
  void put_back(const ExecutionContext& context) const;

 private:
  std::vector<Tensor> originals_, tensors_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace millrace::kernels
