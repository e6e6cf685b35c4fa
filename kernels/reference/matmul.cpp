#include "kernels/reference/matmul.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {

void matmul(const Tensor& a, const Tensor& b, const Tensor& c, MatmulOptions options) {
  const std::int64_t m = c.shape[0], n = c.shape[1], k = a.shape[options.transpose_a ? 0 : 1];
  for (std::int64_t row = 0; row < m; ++row)
    for (std::int64_t column = 0; column < n; ++column) {
      double sum = options.accumulate ? static_cast<double>(c.as<float>()[row * n + column]) : 0.0;
      for (std::int64_t i = 0; i < k; ++i) {
        const double left = load(a, options.transpose_a ? i * m + row : row * k + i);
        const double right = load(b, options.transpose_b ? column * k + i : i * n + column);
        sum += left * right;
      }
      store(c, row * n + column, static_cast<float>(sum));
    }
}

}  // namespace millrace::kernels::reference
