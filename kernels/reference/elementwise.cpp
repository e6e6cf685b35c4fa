#include "kernels/elementwise.hpp"

#include <cstring>

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void add(const Tensor& a, const Tensor& b, const Tensor& y) {
  for (std::int64_t i = 0; i < y.elements(); ++i) store(y, i, load(a, i) + load(b, i));
}

void scale(const Tensor& x, ScaleOptions options, const Tensor& y) {
  for (std::int64_t i = 0; i < y.elements(); ++i) store(y, i, load(x, i) * options.factor);
}

void accumulate(const Tensor& x, const Tensor& accumulator) {
  for (std::int64_t i = 0; i < x.elements(); ++i) accumulator.as<float>()[i] += load(x, i);
}

void convert(const Tensor& x, const Tensor& y) {
  if (x.dtype == y.dtype) {
    if (x.bytes() > 0) std::memmove(y.data, x.data, x.bytes());
    return;
  }
  for (std::int64_t i = 0; i < x.elements(); ++i) store(y, i, load(x, i));
}

void fill_zero(const Tensor& y) {
  if (y.bytes() > 0) std::memset(y.data, 0, y.bytes());
}

const InTable elementwise_in_table[] = {
    {Backend::reference, table::add, without_context<add>},
    {Backend::reference, table::scale, without_context<scale>},
    {Backend::reference, table::accumulate, without_context<accumulate>},
    {Backend::reference, table::convert, without_context<convert>},
    {Backend::reference, table::fill_zero, without_context<fill_zero>},
};

}  // namespace
}  // namespace millrace::kernels::reference
