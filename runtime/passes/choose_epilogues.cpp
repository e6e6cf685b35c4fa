#include "runtime/passes/choose_epilogues.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "kernels/matmul.hpp"
#include "kernels/packing.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

constexpr int no_producer = -1;

std::size_t place(ValueId id) { return static_cast<std::size_t>(id.index); }

/// The number of reads of each value, over all programs; what leaves the stage counts as read, and so does what would leave it if the
/// model were cut there.
std::vector<int> count_readers(const ProgramSet& set) {
  std::vector<int> readers(set.values.size(), 0);
  for (const auto& program : set.programs)
    for (const auto& operation : program)
      for (const auto input : operation.inputs) ++readers[place(input)];
  for (const auto id : set.handed_on) ++readers[place(id)];
  for (const auto& port : set.outputs) ++readers[place(port.value)];
  for (const auto& port : set.inputs)
    if (port.gradient.valid()) ++readers[place(port.gradient)];
  if (set.logits.valid()) ++readers[place(set.logits)];
  for (const auto& loss : set.losses) ++readers[place(loss.value)];
  for (const auto& observation : set.observations) ++readers[place(observation.value)];
  return readers;
}

class EpilogueChooser {
 public:
  EpilogueChooser(ProgramSet& set, std::vector<Operation>& program)
      : set_(set), program_(program), readers_(count_readers(set)), producer_(set.values.size(), no_producer) {}

  void run(kernels::Device device) {
    gone_.assign(program_.size(), false);
    for (std::size_t i = 0; i < program_.size(); ++i) {
      if (program_[i].rule == &bias_rule()) join_bias(i, device);
      if (!gone_[i])
        for (const auto output : program_[i].outputs) producer_[place(output)] = static_cast<int>(i);
    }
    drop_gone();
    for (std::size_t i = 0; i < program_.size(); ++i) {
      for (const auto output : program_[i].outputs) producer_[place(output)] = static_cast<int>(i);
      if (program_[i].rule == &add_rule()) join_sum(i);
    }
    drop_gone();
  }

 private:
  /// The operation whose only result is `value`, if the value is read only once and no addition is fused into the operation yet;
  /// else nullptr.
  Operation* sole_source(ValueId value) {
    const int source = producer_[place(value)];
    if (source == no_producer || readers_[place(value)] != 1) return nullptr;
    auto& operation = program_[static_cast<std::size_t>(source)];
    const bool free = operation.outputs.size() == 1 && operation.attributes.epilogue.add == Epilogue::Add::none;
    return free ? &operation : nullptr;
  }

  void take_labels(ValueId result, ValueId part) {
    auto& labels = set_.values[place(result)].labels;
    const auto& added = set_.value(part).labels;
    labels.insert(labels.end(), added.begin(), added.end());
  }

  /// The product itself adds the bias and need not move: a bias is a parameter, so it exists from the start.
  void join_bias(std::size_t position, kernels::Device device) {
    const Operation& bias = program_[position];
    const ValueId part = bias.inputs[0];
    if (!kernels::products_add_bias(device, set_.value(part).type.dtype)) return;
    Operation* const product = sole_source(part);
    if (product == nullptr || !product->rule->epilogues().bias) return;
    take_labels(bias.outputs[0], part);
    product->attributes.epilogue.add = Epilogue::Add::bias;
    product->inputs.push_back(bias.inputs[1]);
    product->outputs = bias.outputs;
    producer_[place(bias.outputs[0])] = static_cast<int>(product - program_.data());
    gone_[position] = true;
  }

  /// The source's operation moves to the sum's position, where all of its operands exist.
  void join_sum(std::size_t position) {
    Operation& sum = program_[position];
    // The operand that is computed later comes first, since at its position the other one exists already.
    for (const std::size_t operand : {std::size_t{1}, std::size_t{0}}) {
      const ValueId part = sum.inputs[operand], addend = sum.inputs[1 - operand];
      Operation* const source = part == addend ? nullptr : sole_source(part);
      if (source == nullptr || source->layer != sum.layer || !source->rule->epilogues().addend) continue;
      take_labels(sum.outputs[0], part);
      sum.rule = source->rule;
      sum.inputs = std::move(source->inputs);
      sum.inputs.push_back(addend);
      sum.attributes = std::move(source->attributes);
      sum.attributes.epilogue.add = Epilogue::Add::addend;
      sum.name = source->name;
      gone_[static_cast<std::size_t>(source - program_.data())] = true;
      return;
    }
  }

  void drop_gone() {
    std::size_t kept = 0;
    for (std::size_t i = 0; i < program_.size(); ++i)
      if (!gone_[i]) {
        if (kept != i) program_[kept] = std::move(program_[i]);
        ++kept;
      }
    program_.resize(kept);
    gone_.assign(kept, false);
    std::fill(producer_.begin(), producer_.end(), no_producer);
  }

  ProgramSet& set_;
  std::vector<Operation>& program_;
  std::vector<int> readers_;
  std::vector<int> producer_;  // by value: position in the program, or no_producer
  std::vector<bool> gone_;     // by position: another operation does its work
};

/// The packed forms of parameters as values, created on first use.
class PackedValues {
 public:
  explicit PackedValues(ProgramSet& set) : set_(set) {}

  ValueId of(ValueId parameter, WeightForm form) {
    const auto [found, is_new] = known_.try_emplace({parameter.index, form});
    if (is_new) {
      Value value = set_.value(parameter);
      value.form = form;
      found->second = {static_cast<std::int32_t>(set_.values.size())};
      set_.values.push_back(std::move(value));
    }
    return found->second;
  }

 private:
  ProgramSet& set_;
  std::map<std::pair<std::int32_t, WeightForm>, ValueId> known_;
};

}  // namespace

void choose_epilogues(ProgramSet& set, ProgramKind kind, kernels::Device device) {
  EpilogueChooser(set, set.programs[static_cast<std::size_t>(kind)]).run(device);
}

void choose_packed_weights(ProgramSet& set, kernels::Device device) {
  if (!kernels::packs_operands(device)) return;
  PackedValues packed_values(set);
  for (auto& program : set.programs)
    for (auto& operation : program) {
      const auto packed = operation.rule->epilogues().packed;
      if (!packed) continue;
      ValueId& weight = operation.inputs.at(packed->operand);
      if (set.value(weight).role != Role::parameter) continue;
      weight = packed_values.of(weight, packed->form);
      operation.attributes.epilogue.packed = true;
    }
}

}  // namespace millrace::runtime
