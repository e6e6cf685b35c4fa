#include "kernels/columns.hpp"

#include <cstring>

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kRowGrain = 16;

// Calls copy(bytes of a row of the whole, bytes of the part's row, their number) for every row and part.
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

void split_columns(const ExecutionContext& context, const Tensor& x, std::span<const Tensor> parts) {
  for_pieces(context, x, parts, [](const std::byte* whole, std::byte* part, std::size_t bytes) { std::memcpy(part, whole, bytes); });
}

void join_columns(const ExecutionContext& context, std::span<const Tensor> parts, const Tensor& y) {
  for_pieces(context, y, parts, [](std::byte* whole, const std::byte* part, std::size_t bytes) { std::memcpy(whole, part, bytes); });
}

// One loop is both the reference and the fast implementation: it has no sum whose order could differ.
const InTable in_table[] = {
    {Backend::reference, table::split_columns, split_columns},
    {Backend::reference, table::join_columns, join_columns},
    {Backend::cpu, table::split_columns, split_columns},
    {Backend::cpu, table::join_columns, join_columns},
};

}  // namespace
}  // namespace millrace::kernels::cpu
