#include "kernels/softmax.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void softmax(const Tensor& x, const Tensor& y) {
  const std::int64_t width = x.shape[1];
  for (std::int64_t begin = 0; begin < x.elements(); begin += width) {
    double maximum = load(x, begin), sum = 0;
    for (std::int64_t i = begin; i < begin + width; ++i) maximum = std::max<double>(maximum, load(x, i));
    for (std::int64_t i = begin; i < begin + width; ++i) sum += std::exp(load(x, i) - maximum);
    for (std::int64_t i = begin; i < begin + width; ++i) store(y, i, static_cast<float>(std::exp(load(x, i) - maximum) / sum));
  }
}

void softmax_input_gradient(const Tensor& dy, const Tensor& y, const Tensor& dx) {
  const std::int64_t width = y.shape[1];
  for (std::int64_t begin = 0; begin < y.elements(); begin += width) {
    double mean = 0;
    for (std::int64_t i = begin; i < begin + width; ++i) mean += double{load(dy, i)} * load(y, i);
    for (std::int64_t i = begin; i < begin + width; ++i) store(dx, i, static_cast<float>(load(y, i) * (load(dy, i) - mean)));
  }
}

const InTable softmax_in_table[] = {
    {Backend::reference, table::softmax, without_context<softmax>},
    {Backend::reference, table::softmax_input_gradient, without_context<softmax_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
