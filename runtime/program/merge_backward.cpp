#include "runtime/program/merge_backward.hpp"

#include <algorithm>

namespace millrace::runtime {
namespace {

/// Position in I (1 + index) after which each W operation may run; 0: before everything.
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
    for (const auto output : operation.outputs) anchor = std::max(anchor, ready[index(output)]);  // an accumulator's adds before this one
    for (const auto output : operation.outputs) ready[index(output)] = anchor;
    result.push_back(anchor);
  }
  return result;
}

}  // namespace

std::vector<Operation> merge_backward(const std::vector<Operation>& input_gradient, const std::vector<Operation>& weight_gradient,
                                      std::size_t values) {
  const auto places = anchors(input_gradient, weight_gradient, values);
  std::vector<Operation> merged;
  for (std::size_t position = 0; position <= input_gradient.size(); ++position) {
    if (position > 0) merged.push_back(input_gradient[position - 1]);
    for (std::size_t w = 0; w < weight_gradient.size(); ++w)
      if (places[w] == position) merged.push_back(weight_gradient[w]);
  }
  return merged;
}

}  // namespace millrace::runtime
