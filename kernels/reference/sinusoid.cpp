#include "kernels/sinusoid.hpp"

#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void add_sinusoid(const Tensor& x, const Tensor& positions, const Tensor& inverse_timescales, const Tensor& y) {
  const std::int64_t width = x.shape[1], half = width / 2;
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    const std::int64_t token = i / width, column = i % width;
    const float angle = static_cast<float>(positions.as<std::int32_t>()[token]) * inverse_timescales.as<float>()[column % half];
    const double added = column < half ? std::sin(double{angle}) : std::cos(double{angle});
    store(y, i, static_cast<float>(double{load(x, i)} + added));
  }
}

const InTable sinusoid_in_table[] = {
    {Backend::reference, table::add_sinusoid, without_context<add_sinusoid>},
};

}  // namespace
}  // namespace millrace::kernels::reference
