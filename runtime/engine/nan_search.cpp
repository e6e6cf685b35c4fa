#include "runtime/engine/nan_search.hpp"

#include <fmt/format.h>

#include <cmath>
#include <span>

#include "runtime/passes/plain_operand.hpp"

namespace millrace::runtime {
namespace {

template <class Element, class ToDouble>
std::optional<NotFinite> scan(const kernels::Tensor& tensor, ToDouble to_double) {
  NotFinite found;
  const auto* elements = tensor.as<Element>();
  for (std::int64_t index = 0; index < tensor.elements(); ++index) {
    const double value = to_double(elements[index]);
    if (std::isfinite(value)) continue;
    if (found.count++ == 0) {
      found.element = index;
      found.value = value;
    }
  }
  if (found.count == 0) return std::nullopt;
  return found;
}

std::optional<NotFinite> scan(const kernels::Tensor& tensor) {
  switch (tensor.dtype) {
    case kernels::DType::f32:
      return scan<float>(tensor, [](float value) { return static_cast<double>(value); });
    case kernels::DType::bf16:
      return scan<kernels::BFloat16>(tensor, [](kernels::BFloat16 value) { return static_cast<double>(kernels::to_float(value)); });
    case kernels::DType::f64:
      return scan<double>(tensor, [](double value) { return value; });
    default:
      return std::nullopt;
  }
}

std::vector<NotFinite> scan(const ProgramSet& programs, const std::vector<ValueId>& values, std::span<const kernels::Tensor> tensors) {
  std::vector<NotFinite> found;
  for (std::size_t index = 0; index < tensors.size(); ++index) {
    const auto& value = programs.value(values[index]);
    if (auto one = scan(PlainOperand(value, tensors[index]).tensor())) {
      one->name = value.name;
      found.push_back(*one);
    }
  }
  return found;
}

std::string text_of(const NotFinite& found) {
  return fmt::format("{} in {}, the first {} at element {}", found.count, found.name, found.value, found.element);
}

}  // namespace

std::optional<NanFinding> find_not_finite(const OperationHook::Call& call) {
  NanFinding finding;
  finding.results = scan(call.programs, call.operation.outputs, call.outputs);
  if (finding.results.empty()) return std::nullopt;
  finding.operation = call.operation.name;
  finding.layer = call.operation.layer;
  finding.operands = scan(call.programs, call.operation.inputs, call.inputs);
  return finding;
}

std::string NanFinding::text() const {
  auto text = fmt::format("operation {}{} left values that are not finite: {}", operation,
                          layer < 0 ? "" : fmt::format(" (layer {})", layer), text_of(results.front()));
  if (operands.empty()) return text + "; its operands are finite";
  for (std::size_t index = 0; index < operands.size(); ++index)
    text += fmt::format("{} {}", index == 0 ? "; its operands have" : ", and", text_of(operands[index]));
  return text;
}

}  // namespace millrace::runtime
