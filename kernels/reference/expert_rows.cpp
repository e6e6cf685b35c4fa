#include "kernels/expert_rows.hpp"

#include "kernels/reference/element.hpp"

namespace millrace::kernels::reference {
namespace {

void sort_by_expert(const Tensor& experts, const Tensor& places, const Tensor& offsets) {
  std::int32_t row = 0;
  for (std::int64_t expert = 0; expert + 1 < offsets.shape[0]; ++expert) {
    offsets.as<std::int32_t>()[expert] = row;
    for (std::int64_t choice = 0; choice < experts.elements(); ++choice)
      if (experts.as<std::int32_t>()[choice] == expert) places.as<std::int32_t>()[choice] = row++;
  }
  offsets.as<std::int32_t>()[offsets.shape[0] - 1] = row;
}

/// Element `d` of the choice's row.
std::int64_t in_row(const Tensor& places, std::int64_t choice, std::int64_t width, std::int64_t d) {
  return places.as<std::int32_t>()[choice] * width + d;
}

void gather_rows(const Tensor& x, const Tensor& places, const Tensor* weights, const Tensor& rows) {
  const std::int64_t chosen = places.shape[1], width = x.shape[1];
  for (std::int64_t choice = 0; choice < places.elements(); ++choice)
    for (std::int64_t d = 0; d < width; ++d) {
      const float value = load(x, choice / chosen * width + d);
      store(rows, in_row(places, choice, width, d), weights == nullptr ? value : weights->as<float>()[choice] * value);
    }
}

void combine_rows(const Tensor& rows, const Tensor& places, const Tensor* weights, const Tensor& y) {
  const std::int64_t chosen = places.shape[1], width = y.shape[1];
  for (std::int64_t t = 0; t < y.shape[0]; ++t)
    for (std::int64_t d = 0; d < width; ++d) {
      float sum = 0;
      for (std::int64_t choice = t * chosen; choice < (t + 1) * chosen; ++choice) {
        const float value = load(rows, in_row(places, choice, width, d));
        sum += weights == nullptr ? value : weights->as<float>()[choice] * value;
      }
      store(y, t * width + d, sum);
    }
}

void row_products(const Tensor& x, const Tensor& rows, const Tensor& places, const Tensor& products) {
  const std::int64_t chosen = places.shape[1], width = x.shape[1];
  for (std::int64_t choice = 0; choice < places.elements(); ++choice) {
    double sum = 0;
    for (std::int64_t d = 0; d < width; ++d)
      sum += static_cast<double>(load(x, choice / chosen * width + d)) * load(rows, in_row(places, choice, width, d));
    products.as<float>()[choice] = static_cast<float>(sum);
  }
}

const InTable expert_rows_in_table[] = {
    {Backend::reference, table::sort_by_expert, without_context<sort_by_expert>},
    {Backend::reference, table::gather_rows, without_context<gather_rows>},
    {Backend::reference, table::combine_rows, without_context<combine_rows>},
    {Backend::reference, table::row_products, without_context<row_products>},
};

}  // namespace
}  // namespace millrace::kernels::reference
