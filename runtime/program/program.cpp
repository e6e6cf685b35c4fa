#include "runtime/program/program.hpp"

#include <algorithm>

namespace millrace::runtime {

std::string_view to_string(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::forward:
      return "forward";
    case ProgramKind::input_gradient:
      return "input_gradient";
    case ProgramKind::weight_gradient:
      return "weight_gradient";
    case ProgramKind::backward:
      return "backward";
    case ProgramKind::evaluate:
      return "evaluate";
  }
  return "?";
}

ValueType mean_type(const ProgramSet& programs, ValueId id) {
  ValueType type = programs.value(id).type;
  for (std::size_t axis = 0; axis < type.shape.rank(); ++axis)
    if (const auto dimension = type.shape.dimension(axis); dimension.bounded())
      type.shape.dimension(axis) = programs.counts.at(static_cast<std::size_t>(dimension.count)).mean * dimension.factor;
  return type;
}

Cost cost(const ProgramSet& programs, const Operation& operation) {
  std::vector<ValueType> inputs, outputs;
  for (const auto id : operation.inputs) inputs.push_back(mean_type(programs, id));
  for (const auto id : operation.outputs) outputs.push_back(mean_type(programs, id));
  return operation.rule->cost(inputs, outputs, operation.attributes);
}

std::vector<ValueType> ProgramSet::types(const std::vector<Port>& ports) const {
  std::vector<ValueType> types;
  for (const Port& port : ports) types.push_back(value(port.value).type);
  return types;
}

const StageLoss* ProgramSet::loss_of(ValueId id) const {
  const auto found = std::ranges::find(losses, id, &StageLoss::value);
  return found != losses.end() ? &*found : nullptr;
}

bool ProgramSet::is_result(ValueId id) const {
  return loss_of(id) != nullptr || std::ranges::find(observations, id, &StageObservation::value) != observations.end();
}

Cost ProgramSet::cost(ProgramKind kind) const {
  Cost sum;
  for (const auto& operation : program(kind)) {
    const auto one = runtime::cost(*this, operation);
    sum.flops += one.flops;
    sum.bytes += one.bytes;
  }
  return sum;
}

}  // namespace millrace::runtime
