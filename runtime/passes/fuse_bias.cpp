#include "runtime/passes/fuse_bias.hpp"

#include <algorithm>
#include <vector>

#include "kernels/matmul.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

/// How often operations read the value.
std::ptrdiff_t readers(const std::vector<Operation>& program, ValueId id) {
  std::ptrdiff_t count = 0;
  for (const Operation& operation : program) count += std::count(operation.inputs.begin(), operation.inputs.end(), id);
  return count;
}

bool leaves(const ProgramSet& set, ValueId id) {
  return id == set.boundary_out || id == set.gradient_out || id == set.logits || id == set.loss;
}

}  // namespace

void fuse_bias(ProgramSet& set, kernels::Device device) {
  auto& program = set.programs[static_cast<std::size_t>(ProgramKind::forward)];
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (program[i].rule != &bias_rule()) continue;
    const ValueId sum = program[i].inputs[0];
    if (!kernels::products_add_bias(device, set.value(sum).type.dtype)) continue;
    const auto product = std::find_if(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(i), [sum](const Operation& operation) {
      return operation.outputs.size() == 1 && operation.outputs[0] == sum;
    });
    if (product == program.begin() + static_cast<std::ptrdiff_t>(i) || product->rule->biased() == nullptr) continue;
    if (readers(program, sum) != 1 || leaves(set, sum)) continue;
    auto& labels = set.values[static_cast<std::size_t>(program[i].outputs[0].index)].labels;
    labels.insert(labels.end(), set.value(sum).labels.begin(), set.value(sum).labels.end());
    product->rule = product->rule->biased();
    product->inputs.push_back(program[i].inputs[1]);
    product->outputs = program[i].outputs;
    program.erase(program.begin() + static_cast<std::ptrdiff_t>(i--));
  }
}

}  // namespace millrace::runtime
