#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/tensor.hpp"

/// Blocking copies between a program's memory and ordinary host memory: for initial values, captures and hooks, not for steady
/// steps.
namespace millrace::kernels {

/// Waits for all work enqueued on the context, then copies `x` to `to`, which has the same size.
void fetch(const ExecutionContext& context, const Tensor& x, std::span<std::byte> to);
/// Copies `from` to `x`, which has the same size; returns when the copy is done.
void put(const ExecutionContext& context, std::span<const std::byte> from, const Tensor& x);

/// Has `write` fill the elements of `x`, wherever they lie; returns when they are there.
void fill(const ExecutionContext& context, const Tensor& x, const std::function<void(std::span<std::byte>)>& write);

/// Copies to memory of `device` without a context; returns when the copy is done. For use before a run, from any thread.
void write_now(Device device, std::byte* to, std::span<const std::byte> from);

/// Copies of tensors' elements in host memory; the tensors themselves where the host can read them.
class HostCopies {
 public:
  HostCopies(const ExecutionContext& context, std::span<const Tensor> originals);
  [[nodiscard]] std::span<const Tensor> tensors() const noexcept { return tensors_; }
  /// Copies the elements back to the originals.
  void put_back(const ExecutionContext& context) const;

 private:
  std::vector<Tensor> originals_, tensors_;
  std::vector<std::vector<std::byte>> bytes_;
};

}  // namespace millrace::kernels
