#include "kernels/matmul.hpp"

#include "kernels/packing.hpp"
#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

/// Element (i, column) of a packed operand with `k` rows.
double load_packed(const Tensor& b, std::int64_t k, std::int64_t i, std::int64_t column) {
  const std::int64_t place = packed_place(k, i, column, packed_dtype(b.dtype));
  return packed_dtype(b.dtype) == DType::bf16 ? static_cast<double>(to_float(b.as<BFloat16>()[place]))
                                              : static_cast<double>(reinterpret_cast<const float*>(b.data)[place]);
}

void matmul(const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options, Scratch /*scratch*/, const Tensor* addend) {
  const std::int64_t m = c.shape[0], n = c.shape[1], k = a.shape[options.transpose_a ? 0 : 1];
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = options.accumulate ? static_cast<double>(c.as<float>()[row * n + column]) : 0.0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double left = load(a, options.transpose_a ? i * m + row : row * k + i);
        const double right =
            options.packed_b ? load_packed(b, k, i, column) : load(b, options.transpose_b ? column * k + i : i * n + column);
        sum += left * right;
      }
      if (addend != nullptr) sum += load(*addend, options.bias ? column : row * n + column);
      store(c, row * n + column, static_cast<float>(sum));
    }
}

const InTable matmul_in_table[] = {
    {Backend::reference, table::matmul, without_context<matmul>},
};

}  // namespace
}  // namespace millrace::kernels::reference
