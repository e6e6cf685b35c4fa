#include "runtime/passes/fuse_sums.hpp"

#include <algorithm>
#include <utility>

#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

constexpr int no_producer = -1;

std::size_t index(ValueId id) { return static_cast<std::size_t>(id.index); }

/// How often each value is read, over all programs; what leaves the stage counts as read.
std::vector<int> count_readers(const ProgramSet& set) {
  std::vector<int> readers(set.values.size(), 0);
  for (const auto& program : set.programs)
    for (const auto& operation : program)
      for (const auto input : operation.inputs) ++readers[index(input)];
  for (const auto id : {set.boundary_out, set.loss, set.logits, set.gradient_out})
    if (id.valid()) ++readers[index(id)];
  return readers;
}

class SumFuser {
 public:
  SumFuser(ProgramSet& set, std::vector<Operation>& program)
      : set_(set), program_(program), readers_(count_readers(set)), producer_(set.values.size(), no_producer) {}

  void run() {
    std::vector<bool> gone(program_.size(), false);
    for (std::size_t i = 0; i < program_.size(); ++i) {
      Operation& operation = program_[i];
      for (const auto output : operation.outputs) producer_[index(output)] = static_cast<int>(i);
      if (operation.rule != &add_rule()) continue;
      // The younger operand first: what it is added to is there already.
      for (const std::size_t operand : {std::size_t{1}, std::size_t{0}}) {
        const int source = fusible(operation, operand);
        if (source == no_producer) continue;
        fuse(operation, program_[static_cast<std::size_t>(source)], operation.inputs[1 - operand]);
        gone[static_cast<std::size_t>(source)] = true;
        break;
      }
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < program_.size(); ++i)
      if (!gone[i]) {
        if (kept != i) program_[kept] = std::move(program_[i]);
        ++kept;
      }
    program_.resize(kept);
  }

 private:
  /// Position of the operation that can add the sum's other operand by itself, or no_producer.
  int fusible(const Operation& sum, std::size_t operand) const {
    const ValueId value = sum.inputs[operand];
    if (value == sum.inputs[1 - operand] || readers_[index(value)] != 1) return no_producer;
    const int source = producer_[index(value)];
    if (source == no_producer) return no_producer;
    const Operation& operation = program_[static_cast<std::size_t>(source)];
    const bool able = operation.rule->plus() != nullptr && operation.outputs.size() == 1 && operation.layer == sum.layer;
    return able ? source : no_producer;
  }

  /// The sum's line becomes the source's operation: by then all of its operands exist.
  void fuse(Operation& sum, Operation& source, ValueId addend) {
    auto& result = set_.values[index(sum.outputs[0])];
    auto& part = set_.values[index(source.outputs[0])];
    result.labels.insert(result.labels.end(), part.labels.begin(), part.labels.end());
    sum.rule = source.rule->plus();
    sum.inputs = std::move(source.inputs);
    sum.inputs.push_back(addend);
    sum.attributes = std::move(source.attributes);
    sum.name = source.name;
  }

  ProgramSet& set_;
  std::vector<Operation>& program_;
  std::vector<int> readers_;
  std::vector<int> producer_;  // by value: position in the program, or no_producer
};

}  // namespace

void fuse_sums(ProgramSet& set, ProgramKind kind) { SumFuser(set, set.programs[static_cast<std::size_t>(kind)]).run(); }

}  // namespace millrace::runtime
