#include "kernels/columns.hpp"

#include "kernels/cuda/device_context.hpp"
#include "kernels/cuda/status.hpp"

namespace millrace::kernels::cuda {
namespace {

// Calls copy(the whole from the part's first column on, bytes of its rows; the part, bytes of its rows) for every part that is
// not empty.
template <class Copy>
void for_parts(const Tensor& whole, std::span<const Tensor> parts, Copy&& copy) {
  const std::size_t pitch = static_cast<std::size_t>(whole.shape[1]) * size_of(whole.dtype);
  std::byte* at = whole.data;
  for (const Tensor& part : parts) {
    const std::size_t bytes = static_cast<std::size_t>(part.shape[1]) * size_of(whole.dtype);
    if (part.elements() > 0) copy(at, pitch, part, bytes);
    at += bytes;
  }
}

void split_columns(const ExecutionContext& context, const Tensor& x, std::span<const Tensor> parts) {
  for_parts(x, parts, [&](const std::byte* whole, std::size_t pitch, const Tensor& part, std::size_t bytes) {
    check_cuda(cudaMemcpy2DAsync(part.data, bytes, whole, pitch, bytes, static_cast<std::size_t>(x.shape[0]), cudaMemcpyDefault,
                                 state_of(context).lane(StreamKind::compute)),
               "kernels.split_columns", "copy");
  });
}

void join_columns(const ExecutionContext& context, std::span<const Tensor> parts, const Tensor& y) {
  for_parts(y, parts, [&](std::byte* whole, std::size_t pitch, const Tensor& part, std::size_t bytes) {
    check_cuda(cudaMemcpy2DAsync(whole, pitch, part.data, bytes, bytes, static_cast<std::size_t>(y.shape[0]), cudaMemcpyDefault,
                                 state_of(context).lane(StreamKind::compute)),
               "kernels.join_columns", "copy");
  });
}

const InTable in_table[] = {
    {Backend::cuda, table::split_columns, split_columns},
    {Backend::cuda, table::join_columns, join_columns},
};

}  // namespace
}  // namespace millrace::kernels::cuda
