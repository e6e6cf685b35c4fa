#include "runtime/passes/offload.hpp"

#include <algorithm>
#include <utility>

#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

using Operations = std::vector<Operation>;

bool reads(const Operation& operation, ValueId id) {
  return std::find(operation.inputs.begin(), operation.inputs.end(), id) != operation.inputs.end();
}

/// Position of the first operation that `matches`, or the end.
template <class Matches>
std::ptrdiff_t first(const Operations& program, Matches matches) {
  return std::find_if(program.begin(), program.end(), matches) - program.begin();
}

class Offload {
 public:
  explicit Offload(ProgramSet& set)
      : set_(set),
        forward_(program(ProgramKind::forward)),
        input_gradient_(program(ProgramKind::input_gradient)),
        weight_gradient_(program(ProgramKind::weight_gradient)) {}

  void put_out(ValueId id) {
    const auto reads_it = [id](const Operation& operation) { return reads(operation, id); };
    const bool later = std::any_of(input_gradient_.begin(), input_gradient_.end(), reads_it) ||
                       std::any_of(weight_gradient_.begin(), weight_gradient_.end(), reads_it);
    const auto producer = first(forward_, [id](const Operation& operation) {
      return std::find(operation.outputs.begin(), operation.outputs.end(), id) != operation.outputs.end();
    });
    if (!later || producer == std::ssize(forward_)) return;
    const int layer = forward_[static_cast<std::size_t>(producer)].layer;
    // A layer's input was computed by the previous layer, whose backward comes later. What only W reads is available when I ends.
    const auto reader = first(input_gradient_, reads_it);
    const int reading = layer_at(reader, layer);
    const std::string name = set_.value(id).name;
    const ValueId host = add_value(id, name + ".offloaded", true);
    const ValueId back = add_value(id, name + ".fetched", false);
    for (Operations* program : {&input_gradient_, &weight_gradient_})
      for (Operation& operation : *program) std::replace(operation.inputs.begin(), operation.inputs.end(), id, back);

    // From the end to the beginning, so that positions stay valid.
    const auto released =
        std::max(producer + 1, first(forward_, [layer](const Operation& operation) { return operation.layer > layer + 1; }));
    insert(forward_, released, offload_end_rule(), {id}, {host}, name + ".offload_end", layer);
    insert(forward_, producer + 1, offload_begin_rule(), {id, host}, {}, name + ".offload", layer);

    // Before the whole reading layer, including copies for the next one: compute waits for all copies begun so far.
    const auto needed =
        std::min(reader, first(input_gradient_, [reading](const Operation& operation) { return operation.layer == reading; }));
    const auto begun = begin_before(needed, reading);
    insert(input_gradient_, needed, fetch_end_rule(), {host}, {back}, name + ".fetch_end", reading);
    insert(input_gradient_, begun, fetch_begin_rule(), {host, back}, {}, name + ".fetch", layer_at(begun, reading));
  }

 private:
  Operations& program(ProgramKind kind) { return set_.programs[static_cast<std::size_t>(kind)]; }
  /// The position in I at which the copy for an operation of `layer` at `needed` begins: with the layer that is computed before
  /// it, or at the beginning of the program.
  [[nodiscard]] std::ptrdiff_t begin_before(std::ptrdiff_t needed, int layer) const {
    const auto above = first(input_gradient_, [layer](const Operation& operation) { return operation.layer == layer + 1; });
    if (above < std::ssize(input_gradient_)) return std::min(needed, above);
    return layer < 0 ? needed : 0;
  }
  /// An operation that is inserted there belongs to the same layer.
  [[nodiscard]] int layer_at(std::ptrdiff_t position, int otherwise) const {
    return position < std::ssize(input_gradient_) ? input_gradient_[static_cast<std::size_t>(position)].layer : otherwise;
  }

  ValueId add_value(ValueId like, std::string name, bool offloaded) {
    Value value;
    value.type = set_.value(like).type;
    value.name = std::move(name);
    value.layer = set_.value(like).layer;
    value.offloaded = offloaded;
    set_.values.push_back(std::move(value));
    return {static_cast<std::int32_t>(set_.values.size()) - 1};
  }

  static void insert(Operations& program, std::ptrdiff_t position, const OperationRule& rule, std::vector<ValueId> inputs,
                     std::vector<ValueId> outputs, std::string name, int layer) {
    Operation operation;
    operation.rule = &rule;
    operation.inputs = std::move(inputs);
    operation.outputs = std::move(outputs);
    operation.name = std::move(name);
    operation.layer = layer;
    program.insert(program.begin() + position, std::move(operation));
  }

  ProgramSet& set_;
  Operations& forward_;
  Operations& input_gradient_;
  Operations& weight_gradient_;
};

}  // namespace

void insert_offload(ProgramSet& set, const RematerializationPolicy& policy) {
  if (policy.offload.empty()) return;
  Offload offload(set);
  const std::size_t values = set.values.size();  // the values that it adds come after these
  for (std::size_t i = 0; i < values; ++i) {
    const auto& labels = set.values[i].labels;
    const bool wanted = std::any_of(labels.begin(), labels.end(), [&](const std::string& label) { return policy.offload.contains(label); });
    if (wanted && set.values[i].role == Role::intermediate) offload.put_out({static_cast<std::int32_t>(i)});
  }
}

}  // namespace millrace::runtime
