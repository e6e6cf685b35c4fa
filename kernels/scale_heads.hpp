#pragma once

#include <cstdint>
#include <span>

#include "kernels/base/execution_context.hpp"
#include "kernels/base/kernel_table.hpp"
#include "kernels/base/tensor.hpp"

namespace millrace::kernels {

/// How the outputs of a matrix belong to heads: head after head, each with `roots` outputs, then `wholes`, then `rest`.
struct HeadOutputs {
  std::int64_t heads = 0, roots = 0, wholes = 0, rest = 0;
  bool rows = false;  // outputs are the matrix's rows; false: its columns

  [[nodiscard]] constexpr std::int64_t width() const noexcept { return roots + wholes + rest; }
  bool operator==(const HeadOutputs&) const = default;
};

/// Multiplies the weights of every head h of an f32 matrix in place: those of its `roots` outputs with √factors[h], those of its `wholes`
/// with factors[h]; the rest stay as they are, and so do heads whose factor is 1 (QK-clip, arXiv 2507.20534, section 2.1). `factors`, in
/// host memory, has an entry per head, each from 0 to 1. Throws Error(internal) for a matrix that does not have these outputs.
void scale_heads(const ExecutionContext& context, const HeadOutputs& outputs, std::span<const float> factors, const Tensor& matrix);

/// The kernels that backends implement (kernels/base/kernel_table.hpp).
namespace table {
inline constinit Kernel<decltype(scale_heads)> scale_heads("scale_heads");
}  // namespace table

}  // namespace millrace::kernels
