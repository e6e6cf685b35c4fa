#include "runtime/engine/optimizer_step.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/square_sum.hpp"

namespace millrace::runtime {

std::vector<TensorSquareSum> square_sums(const kernels::Stream& stream, const ParameterStore& store) {
  std::vector<TensorSquareSum> sums;
  square_sums(stream, store, sums);
  return sums;
}

void square_sums(const kernels::Stream& stream, const ParameterStore& store, std::vector<TensorSquareSum>& sums) {
  sums.clear();
  for (const StoredParameter& tensor : store.layout().tensors()) {
    if (tensor.speaks()) sums.push_back({tensor.order, kernels::square_sum(stream, store.gradient(tensor))});
  }
}

double global_norm(std::span<const TensorSquareSum> sums) {
  std::vector<TensorSquareSum> sorted(sums.begin(), sums.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.order < b.order; });
  double total = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    MILLRACE_CHECK(i == 0 || sorted[i].order != sorted[i - 1].order, ExitCode::internal, "runtime.optimizer_step",
                   "tensor {} has two square sums, wanted each tensor once", sorted[i].order);
    total += sorted[i].value;
  }
  return std::sqrt(total);
}

float clip_scale(double norm, double limit) {
  if (limit <= 0) return 1.0F;
  return static_cast<float>(std::min(1.0, limit / (norm + 1e-6)));
}

void apply_adamw(const kernels::Stream& stream, const kernels::AdamwScalars& scalars, const ParameterStore& store) {
  for (const StoredParameter& tensor : store.layout().tensors()) {
    kernels::AdamwScalars own = scalars;
    if (!tensor.decays) own.weight_decay = 0;
    kernels::adamw(stream, own, store.master(tensor), store.first_moment(tensor), store.second_moment(tensor), store.gradient(tensor),
                   store.copy(tensor));
    store.pack_copies(stream, tensor);
  }
}

}  // namespace millrace::runtime
