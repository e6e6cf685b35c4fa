#include "kernels/grouped_matmul.hpp"

#include "kernels/packing.hpp"
#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// The element `place` of packed matrix e of a stack of op(b) [k, n].
double load_packed(const Tensor& b, std::int64_t e, std::int64_t k, std::int64_t n, std::int64_t place) {
  const std::byte* const matrix = b.data + static_cast<std::size_t>(e) * packed_bytes(k, n, b.dtype);
  return packed_dtype(b.dtype) == DType::bf16 ? to_float(reinterpret_cast<const BFloat16*>(matrix)[place])
                                              : reinterpret_cast<const float*>(matrix)[place];
}

void grouped_matmul(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c, const GroupedMatmulOptions& options,
                    Scratch /*scratch*/, const Tensor* bias) {
  const std::int64_t k = a.shape[1], n = c.shape[1];
  const auto* offset = offsets.as<std::int32_t>();
  for (std::int64_t group = 0; group + 1 < offsets.shape[0]; ++group) {
    const std::int64_t e = group % b.shape[0];
    for (std::int64_t row = offset[group]; row < offset[group + 1]; ++row)
      for (std::int64_t column = 0; column < n; ++column) {
        double sum = 0;
        for (std::int64_t i = 0; i < k; ++i) {
          const double right = options.packed_b ? load_packed(b, e, k, n, packed_place(k, i, column, packed_dtype(b.dtype)))
                                                : load(b, e * k * n + (options.transpose_b ? column * k + i : i * n + column));
          sum += load(a, row * k + i) * right;
        }
        if (bias != nullptr) sum += bias->as<float>()[e * n + column];
        store(c, row * n + column, static_cast<float>(sum));
      }
  }
}

void grouped_weight_gradient(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c, Scratch /*scratch*/) {
  const std::int64_t m = c.shape[1], n = c.shape[2];
  const auto* offset = offsets.as<std::int32_t>();
  for (std::int64_t group = 0; group + 1 < offsets.shape[0]; ++group) {
    const std::int64_t e = group % c.shape[0];
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t column = 0; column < n; ++column) {
        float& total = c.as<float>()[(e * m + i) * n + column];
        double sum = total;
        for (std::int64_t row = offset[group]; row < offset[group + 1]; ++row)
          sum += static_cast<double>(load(a, row * m + i)) * load(b, row * n + column);
        total = static_cast<float>(sum);
      }
  }
}

void grouped_bias_gradient(const Tensor& a, const Tensor& offsets, const Tensor& c) {
  const std::int64_t n = c.shape[1];
  const auto* offset = offsets.as<std::int32_t>();
  for (std::int64_t group = 0; group + 1 < offsets.shape[0]; ++group) {
    if (offset[group] == offset[group + 1]) continue;
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (std::int64_t row = offset[group]; row < offset[group + 1]; ++row) sum += load(a, row * n + column);
      c.as<float>()[group % c.shape[0] * n + column] += static_cast<float>(sum);
    }
  }
}

const InTable grouped_matmul_in_table[] = {
    {Backend::reference, table::grouped_matmul, without_context<grouped_matmul>},
    {Backend::reference, table::grouped_weight_gradient, without_context<grouped_weight_gradient>},
    {Backend::reference, table::grouped_bias_gradient, without_context<grouped_bias_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
