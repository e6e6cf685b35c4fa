#include "kernels/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/base/dtype.hpp"

namespace millrace::kernels {
namespace {

double element(const Tensor& x, std::int64_t index) {
  switch (x.dtype) {
    case DType::f32:
      return x.as<float>()[index];
    case DType::bf16:
      return to_float(x.as<BFloat16>()[index]);
    case DType::i32:
      return x.as<std::int32_t>()[index];
    case DType::i64:
      return static_cast<double>(x.as<std::int64_t>()[index]);
    case DType::f64:
      return x.as<double>()[index];
  }
  return 0;
}

}  // namespace

// Minimum, maximum, mean and norm cover only the finite elements, so that one NaN does not hide the rest.
Statistics statistics(const Tensor& x) {
  Statistics result;
  double minimum = std::numeric_limits<double>::infinity();
  double maximum = -minimum;
  double sum = 0;
  double square_sum = 0;
  std::int64_t finite = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double value = element(x, i);
    if (!std::isfinite(value)) continue;
    ++finite;
    minimum = std::min(minimum, value);
    maximum = std::max(maximum, value);
    sum += value;
    square_sum += value * value;
  }
  result.not_finite = x.elements() - finite;
  if (finite == 0) return result;
  result.minimum = minimum;
  result.maximum = maximum;
  result.mean = sum / static_cast<double>(finite);
  result.norm = std::sqrt(square_sum);
  return result;
}

}  // namespace millrace::kernels
