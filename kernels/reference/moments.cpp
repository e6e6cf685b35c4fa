#include "kernels/moments.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void moments(const Tensor& x, const Tensor& sums) {
  double zeros = 0, sum = 0, squares = 0;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const double value = load(x, i);
    zeros += value == 0 ? 1 : 0;
    sum += value;
    squares += value * value;
  }
  double* const out = sums.as<double>();
  out[0] = static_cast<double>(x.elements());
  out[1] = zeros;
  out[2] = sum;
  out[3] = squares;
}

const InTable moments_in_table[] = {
    {Backend::reference, table::moments, without_context<moments>},
};

}  // namespace
}  // namespace millrace::kernels::reference
