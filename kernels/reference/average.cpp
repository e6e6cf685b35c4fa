#include "kernels/average.hpp"

#include <utility>

namespace millrace::kernels::reference {
namespace {

void move_average(float share, const Tensor& x, const Tensor& average) {
  for (std::int64_t i = 0; i < x.elements(); ++i) {
    float& value = average.as<float>()[i];
    value = value + share * (x.as<float>()[i] - value);
  }
}

void exchange(const Tensor& a, const Tensor& b) {
  for (std::int64_t i = 0; i < a.elements(); ++i) std::swap(a.as<float>()[i], b.as<float>()[i]);
}

const InTable average_in_table[] = {
    {Backend::reference, table::move_average, without_context<move_average>},
    {Backend::reference, table::exchange, without_context<exchange>},
};

}  // namespace
}  // namespace millrace::kernels::reference
