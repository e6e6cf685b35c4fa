#include "kernels/transfer.hpp"

#include "kernels/base/operands.hpp"

namespace millrace::kernels {
namespace {

void check_bytes(const char* component, const Tensor& x, std::size_t bytes) {
  MILLRACE_CHECK(bytes == x.bytes(), ExitCode::internal, component, "{} bytes for a tensor of {}", bytes, x.bytes());
}

}  // namespace

void fetch(const ExecutionContext& context, const Tensor& x, std::span<std::byte> to) {
  check_bytes("kernels.fetch", x, to.size());
  if (to.empty()) return;
  context.device_context().copy(StreamKind::compute, to.data(), x.data, to.size());
  context.device_context().drain();
}

void put(const ExecutionContext& context, std::span<const std::byte> from, const Tensor& x) {
  check_bytes("kernels.put", x, from.size());
  if (from.empty()) return;
  context.device_context().copy(StreamKind::compute, x.data, from.data(), from.size());
  context.device_context().drain();
}

void fill(const ExecutionContext& context, const Tensor& x, const std::function<void(std::span<std::byte>)>& write) {
  if (context.host_readable()) return write({x.data, x.bytes()});
  std::vector<std::byte> elements(x.bytes());
  write(elements);
  put(context, elements, x);
}

void write_now(Device device, std::byte* to, std::span<const std::byte> from) { device_type(device).write(device, to, from); }

HostCopies::HostCopies(const ExecutionContext& context, std::span<const Tensor> originals)
    : originals_(originals.begin(), originals.end()), tensors_(originals_) {
  if (context.host_readable()) return;
  for (Tensor& tensor : tensors_) {
    auto& bytes = bytes_.emplace_back(tensor.bytes());
    fetch(context, tensor, bytes);
    tensor.data = bytes.data();
    tensor.space = MemorySpace::host;
  }
}

void HostCopies::put_back(const ExecutionContext& context) const {
  for (std::size_t i = 0; i < bytes_.size(); ++i) put(context, bytes_[i], originals_[i]);
}

}  // namespace millrace::kernels
