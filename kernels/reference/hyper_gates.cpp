#include "kernels/hyper_gates.hpp"

#include <cmath>
#include <vector>

#include "kernels/base/hyper_gates_token.hpp"
#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

double exponential(double x) { return std::exp(x); }

std::vector<double> row_of(const Tensor& x, std::int64_t token) {
  std::vector<double> row(static_cast<std::size_t>(x.shape[1]));
  for (std::int64_t i = 0; i < x.shape[1]; ++i) row[static_cast<std::size_t>(i)] = load(x, token * x.shape[1] + i);
  return row;
}

void put_row(const std::vector<double>& row, const Tensor& y, std::int64_t token) {
  for (std::int64_t i = 0; i < y.shape[1]; ++i) store(y, token * y.shape[1] + i, static_cast<float>(row[static_cast<std::size_t>(i)]));
}

void hyper_gates(const Tensor& x, HyperGatesOptions options, const Tensor& y) {
  const auto round = [&](double value) {
    return x.dtype == DType::bf16 ? static_cast<double>(to_float(to_bfloat16(static_cast<float>(value)))) : value;
  };
  std::vector<double> row(static_cast<std::size_t>(y.shape[1]));
  for (std::int64_t token = 0; token < x.shape[0]; ++token) {
    hyper_gates_of_token(row_of(x, token).data(), options, row.data(), exponential, round);
    put_row(row, y, token);
  }
}

void hyper_gates_input_gradient(const Tensor& dy, const Tensor& x, HyperGatesOptions options, const Tensor& dx) {
  std::vector<double> row(static_cast<std::size_t>(x.shape[1]));
  for (std::int64_t token = 0; token < x.shape[0]; ++token) {
    hyper_gates_gradient_of_token<double>(row_of(dy, token).data(), row_of(x, token).data(), options, nullptr, row.data(), exponential);
    put_row(row, dx, token);
  }
}

const InTable hyper_gates_in_table[] = {
    {Backend::reference, table::hyper_gates, without_context<hyper_gates>},
    {Backend::reference, table::hyper_gates_input_gradient, without_context<hyper_gates_input_gradient>},
};

}  // namespace
}  // namespace millrace::kernels::reference
