#include "kernels/square_sum.hpp"

#include <algorithm>

namespace millrace::kernels::reference {
namespace {

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

void square_sums(std::span<const Tensor> tensors, const Tensor& sums) {
  for (std::size_t i = 0; i < tensors.size(); ++i) sums.as<double>()[i] = square_sum(tensors[i]);
}

const InTable square_sum_in_table[] = {
    {Backend::reference, table::square_sums, without_context<square_sums>},
};

}  // namespace
}  // namespace millrace::kernels::reference
