#include "kernels/columns.hpp"

#include <cstring>

#include "kernels/base/operands.hpp"
#include "kernels/cuda/operations.hpp"

namespace millrace::kernels {
namespace {

constexpr std::int64_t kRowGrain = 16;

void check(const char* who, const Tensor& whole, std::span<const Tensor> parts) {
  check_rank(who, "the whole", whole, 2);
  check_operand(who, "the whole", whole, whole.shape, {DType::f32, DType::bf16});
  std::int64_t width = 0;
  for (const Tensor& part : parts) {
    check_rank(who, "a part", part, 2);
    check_operand(who, "a part", part, {whole.shape[0], part.shape[1]}, {whole.dtype});
    width += part.shape[1];
  }
  MILLRACE_CHECK(width == whole.shape[1], ExitCode::internal, who, "parts of {} columns together, expected {}", width, whole.shape[1]);
}

// copy(bytes of the whole's row, bytes of the part's row, their number) for every row and part.
template <class Copy>
void for_pieces(const ExecutionContext& context, const Tensor& whole, std::span<const Tensor> parts, Copy&& copy) {
  const std::size_t size = size_of(whole.dtype);
  const std::size_t step = static_cast<std::size_t>(whole.shape[1]) * size;
  context.team().for_ranges(whole.shape[0], kRowGrain, [&](std::int64_t begin, std::int64_t end) {
    for (auto row = static_cast<std::size_t>(begin); row < static_cast<std::size_t>(end); ++row) {
      std::byte* at = whole.data + row * step;
      for (const Tensor& part : parts) {
        const std::size_t bytes = static_cast<std::size_t>(part.shape[1]) * size;
        copy(at, part.data + row * bytes, bytes);
        at += bytes;
      }
    }
  });
}

}  // namespace

void split_columns(const ExecutionContext& context, const Tensor& x, std::span<const Tensor> parts) {
  check("kernels.split_columns", x, parts);
  if (context.on_cuda()) return cuda::split_columns(context, x, parts);
  for_pieces(context, x, parts, [](const std::byte* whole, std::byte* part, std::size_t bytes) { std::memcpy(part, whole, bytes); });
}

void join_columns(const ExecutionContext& context, std::span<const Tensor> parts, const Tensor& y) {
  check("kernels.join_columns", y, parts);
  if (context.on_cuda()) return cuda::join_columns(context, parts, y);
  for_pieces(context, y, parts, [](std::byte* whole, const std::byte* part, std::size_t bytes) { std::memcpy(whole, part, bytes); });
}

}  // namespace millrace::kernels
