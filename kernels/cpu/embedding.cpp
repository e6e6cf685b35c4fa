#include "kernels/embedding.hpp"

#include <cstring>

#include "kernels/cpu/embedding_loops.hpp"

namespace millrace::kernels::cpu {
namespace {

void copy_rows(const std::int32_t* tokens, const Tensor& table, const Tensor& y, std::int64_t begin, std::int64_t end) {
  const std::int64_t width = table.shape[1];
  const std::size_t bytes = static_cast<std::size_t>(width) * size_of(table.dtype);
  for (std::int64_t t = begin; t < end; ++t) {
    if (table.dtype == y.dtype)
      std::memcpy(y.data + static_cast<std::size_t>(t) * bytes, table.data + static_cast<std::size_t>(tokens[t]) * bytes, bytes);
    else if (y.dtype == DType::bf16)
      pick_narrow_row()(table.as<float>() + tokens[t] * width, y.as<BFloat16>() + t * width, width);
    else
      pick_widen_row()(table.as<BFloat16>() + tokens[t] * width, y.as<float>() + t * width, width);
  }
}

void embedding_forward(const ExecutionContext& context, const Tensor& tokens, const Tensor& table, const Tensor& y) {
  context.team().for_ranges(tokens.elements(), 16,
                            [&](std::int64_t begin, std::int64_t end) { copy_rows(tokens.as<std::int32_t>(), table, y, begin, end); });
}

void embedding_weight_gradient(const ExecutionContext& context, const Tensor& tokens, const Tensor& dy, const Tensor& gradient) {
  const std::int64_t width = gradient.shape[1];
  // Each thread owns columns, so every element adds its tokens in order, whatever the number of threads.
  context.team().for_ranges(width, 16, [&](std::int64_t begin, std::int64_t end) {
    if (dy.dtype == DType::f32)
      pick_embedding_gradient_f32()(tokens.as<std::int32_t>(), tokens.elements(), dy.as<float>(), gradient.as<float>(), width, begin, end);
    else
      pick_embedding_gradient_bf16()(tokens.as<std::int32_t>(), tokens.elements(), dy.as<BFloat16>(), gradient.as<float>(), width, begin,
                                     end);
  });
}

const InTable in_table[] = {
    {Backend::cpu, table::embedding_forward, embedding_forward},
    {Backend::cpu, table::embedding_weight_gradient, embedding_weight_gradient},
};

}  // namespace
}  // namespace millrace::kernels::cpu
