#include "runtime/program/operation.hpp"

namespace millrace::runtime {

void OperationRule::input_gradient(GradientBuilder&) const {}

void OperationRule::weight_gradient(GradientBuilder&) const {}

std::size_t OperationRule::scratch_bytes(std::span<const ValueType>, std::span<const ValueType>, const Attributes&,
                                         const kernels::Processor&) const {
  return 0;
}

std::string_view OperationRule::output_suffix(std::size_t i) const { return i == 0 ? "" : "second"; }

std::string kind_of(const Operation& operation) {
  const auto add = operation.attributes.epilogue.add;
  return std::string(operation.rule->name()) + (add == Epilogue::Add::addend ? " + addend" : add == Epilogue::Add::bias ? " + bias" : "");
}

}  // namespace millrace::runtime
