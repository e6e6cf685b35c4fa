#include "runtime/program/operation.hpp"

namespace millrace::runtime {

void OperationRule::input_gradient(GradientBuilder&) const {}

void OperationRule::weight_gradient(GradientBuilder&) const {}

std::size_t OperationRule::scratch_bytes(std::span<const ValueType>, std::span<const ValueType>, const Attributes&,
                                         const kernels::Processor&) const {
  return 0;
}

std::string_view OperationRule::output_suffix(std::size_t i) const { return i == 0 ? "" : "second"; }

const OperationRule* OperationRule::fused_with(const OperationRule&) const { return nullptr; }

}  // namespace millrace::runtime
