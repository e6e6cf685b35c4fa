#include "kernels/scale_heads.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::kernels::cpu {
namespace {

constexpr std::int64_t kGrain = 4096;  // elements

void multiply(float* x, std::int64_t count, float factor) {
  for (std::int64_t i = 0; i < count; ++i) x[i] *= factor;
}

/// Outputs [0, roots) and [roots, roots + wholes) of a head, which lie one after another with `stride` elements each.
void scale_head(const HeadOutputs& outputs, float factor, float* head, std::int64_t stride) {
  multiply(head, outputs.roots * stride, std::sqrt(factor));
  multiply(head + outputs.roots * stride, outputs.wholes * stride, factor);
}

void scale_heads(const ExecutionContext& context, const HeadOutputs& outputs, std::span<const float> factors, const Tensor& matrix) {
  const std::int64_t rows = matrix.shape[0], columns = matrix.shape[1], width = outputs.width();
  auto* const elements = matrix.as<float>();
  const auto is_scaled = [&](std::int64_t head) { return factors[static_cast<std::size_t>(head)] != 1.0F; };
  if (outputs.rows) {
    context.team().for_ranges(outputs.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t head = begin; head < end; ++head)
        if (is_scaled(head)) scale_head(outputs, factors[static_cast<std::size_t>(head)], elements + head * width * columns, columns);
    });
    return;
  }
  context.team().for_ranges(rows, std::max<std::int64_t>(1, kGrain / columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t head = 0; head < outputs.heads; ++head)
        if (is_scaled(head)) scale_head(outputs, factors[static_cast<std::size_t>(head)], elements + row * columns + head * width, 1);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::scale_heads, scale_heads},
};

}  // namespace
}  // namespace millrace::kernels::cpu
