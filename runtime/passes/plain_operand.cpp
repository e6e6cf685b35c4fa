#include "runtime/passes/plain_operand.hpp"

#include "kernels/packing.hpp"

namespace millrace::runtime {

PlainOperand::PlainOperand(const Value& value, const kernels::Tensor& operand) : tensor_(operand) {
  if (value.form == WeightForm::plain) return;
  memory_ = kernels::Buffer(operand.bytes());
  tensor_.data = memory_.data();
  kernels::unpack(operand.data, value.form == WeightForm::packed_turned, tensor_);
}

}  // namespace millrace::runtime
