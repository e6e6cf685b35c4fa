#include "runtime/passes/merge_backward.hpp"

#include <algorithm>

namespace millrace::runtime {
namespace {

/// For each W operation the position in I (1 + index) after which it may run; 0: before everything.
std::vector<std::size_t> anchors(const std::vector<Operation>& input_gradient, const std::vector<Operation>& weight_gradient,
                                 std::size_t values) {
  std::vector<std::size_t> ready(values, 0);  // by value: the anchor of its last writer
  const auto index = [](ValueId id) { return static_cast<std::size_t>(id.index); };
  for (std::size_t i = 0; i < input_gradient.size(); ++i)
    for (const auto output : input_gradient[i].outputs) ready[index(output)] = i + 1;
  std::vector<std::size_t> result;
  for (const auto& operation : weight_gradient) {
    std::size_t anchor = 0;
    for (const auto input : operation.inputs) anchor = std::max(anchor, ready[index(input)]);
    // after earlier additions to the same accumulator
    for (const auto output : operation.outputs) anchor = std::max(anchor, ready[index(output)]);
    for (const auto output : operation.outputs) ready[index(output)] = anchor;
    result.push_back(anchor);
  }
  return result;
}

/// Fuses two adjacent operations if the input gradient's rule supports it and has all operands that the weight gradient reads.
bool fuse(const Operation& input_gradient, const Operation& weight_gradient, Operation& fused) {
  const auto able = input_gradient.rule->epilogues();
  if (able.both == nullptr || able.weight_gradient != weight_gradient.rule) return false;
  const auto has = [&](ValueId id) {
    const auto among = [id](const std::vector<ValueId>& ids) { return std::find(ids.begin(), ids.end(), id) != ids.end(); };
    return among(input_gradient.inputs) || among(input_gradient.outputs);
  };
  if (!std::all_of(weight_gradient.inputs.begin(), weight_gradient.inputs.end(), has)) return false;
  fused = input_gradient;
  fused.rule = able.both;
  fused.outputs.insert(fused.outputs.end(), weight_gradient.outputs.begin(), weight_gradient.outputs.end());
  fused.name += "+dw";
  return true;
}

}  // namespace

std::vector<Operation> merge_backward(const std::vector<Operation>& input_gradient, const std::vector<Operation>& weight_gradient,
                                      std::size_t values) {
  const auto places = anchors(input_gradient, weight_gradient, values);
  std::vector<Operation> merged;
  const auto push = [&](const Operation& operation) {
    Operation fused;
    if (!merged.empty() && fuse(merged.back(), operation, fused))
      merged.back() = std::move(fused);
    else
      merged.push_back(operation);
  };
  for (std::size_t position = 0; position <= input_gradient.size(); ++position) {
    if (position > 0) push(input_gradient[position - 1]);
    for (std::size_t w = 0; w < weight_gradient.size(); ++w)
      if (places[w] == position) push(weight_gradient[w]);
  }
  return merged;
}

}  // namespace millrace::runtime
