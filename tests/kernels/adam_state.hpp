#pragma once

#include <cstdint>

#include "kernels/optimizer_tensors.hpp"
#include "tests/kernels/fixture.hpp"

/// Shared by the tests of Adam's variants.
namespace millrace::kernels::testing {

/// A tensor's parameters with both moments, its gradient and the copy in bf16.
struct AdamState {
  Data p, m, v, gradient, copy;
  explicit AdamState(std::int64_t size)
      : p(DType::f32, {size}, 1),
        m(DType::f32, {size}, 2, 0.1F),
        v(DType::f32, {size}),
        gradient(DType::f32, {size}, 4),
        copy(DType::bf16, {size}) {
    for (std::int64_t i = 0; i < size; ++i) v.set(i, m.get(i) * m.get(i));
  }
  [[nodiscard]] OptimizerTensors tensors(bool decays = true) const { return {*p, *gradient, *copy, {*m, *v}, decays}; }
};

}  // namespace millrace::kernels::testing
