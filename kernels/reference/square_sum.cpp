#include "kernels/reference/square_sum.hpp"

#include <algorithm>

namespace millrace::kernels::reference {

double square_sum(const Tensor& x) {
  constexpr std::int64_t chunk = 4096;
  const float* values = x.as<float>();
  double sum = 0;
  for (std::int64_t begin = 0; begin < x.elements(); begin += chunk) {
    double part = 0;
    for (std::int64_t i = begin; i < std::min(begin + chunk, x.elements()); ++i)
      part += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    sum += part;
  }
  return sum;
}

}  // namespace millrace::kernels::reference
