#pragma once

#include "kernels/base/buffer.hpp"
#include "kernels/base/tensor.hpp"
#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// An operand in the form that its type describes, for display: a packed weight is unpacked into memory of this object.
class PlainOperand {
 public:
  PlainOperand(const Value& value, const kernels::Tensor& operand);
  [[nodiscard]] const kernels::Tensor& tensor() const noexcept { return tensor_; }

 private:
  kernels::Buffer memory_;
  kernels::Tensor tensor_;
};

}  // namespace millrace::runtime
