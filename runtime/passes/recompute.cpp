#include "runtime/passes/recompute.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

constexpr int input_of_stage = -1;

std::size_t place_of(ValueId id) { return static_cast<std::size_t>(id.index); }

class Recomputation {
 public:
  Recomputation(ProgramSet& set, const RematerializationPolicy& policy)
      : set_(set),
        policy_(policy),
        forward_(set.program(ProgramKind::forward)),
        input_gradient_(set.programs[static_cast<std::size_t>(ProgramKind::input_gradient)]),
        weight_gradient_(set.programs[static_cast<std::size_t>(ProgramKind::weight_gradient)]),
        producer_(set.values.size(), input_of_stage),
        crosses_(set.values.size(), false),
        twin_(set.values.size()) {
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      for (const auto output : forward_[i].outputs) producer_[place_of(output)] = static_cast<int>(i);
      if (const ExchangeId posted = posted_by(forward_[i]); posted.valid()) posts_[posted.index] = static_cast<int>(i);
    }
    for (const auto& operation : forward_)
      for (const auto input : operation.inputs)
        if (producer_[place_of(input)] != input_of_stage && layer_of(input) != operation.layer) crosses_[place_of(input)] = true;
  }

  void run() {
    std::set<int> layers;
    for (const auto& operation : forward_)
      if (operation.layer >= 0) layers.insert(operation.layer);
    for (const int layer : layers) {
      auto clones = clone(needed(layer));
      if (clones.empty()) continue;
      redirect(input_gradient_, layer);
      redirect(weight_gradient_, layer);
      const auto first = std::find_if(input_gradient_.begin(), input_gradient_.end(),
                                      [layer](const Operation& operation) { return operation.layer == layer; });
      input_gradient_.insert(first, std::make_move_iterator(clones.begin()), std::make_move_iterator(clones.end()));
    }
  }

 private:
  int layer_of(ValueId id) const { return forward_[static_cast<std::size_t>(producer_[place_of(id)])].layer; }

  /// Whether the value must be recomputed where layer `layer`'s backward reads it.
  bool recomputed(ValueId id, int layer) const {
    if (producer_[place_of(id)] == input_of_stage || layer_of(id) != layer || crosses_[place_of(id)]) return false;
    const auto& value = set_.value(id);
    if (value.type.dtype != kernels::DType::f32 && value.type.dtype != kernels::DType::bf16) return false;  // routing decisions
    return std::none_of(value.labels.begin(), value.labels.end(), [&](const std::string& label) { return policy_.keep.contains(label); });
  }

  /// The forward operations, by position, that this layer's backward needs again.
  std::set<int> needed(int layer) const {
    std::set<int> operations;
    std::vector<ValueId> open;
    for (const auto* program : {&input_gradient_, &weight_gradient_})
      for (const auto& operation : *program)
        if (operation.layer == layer) open.insert(open.end(), operation.inputs.begin(), operation.inputs.end());
    while (!open.empty()) {
      const auto id = open.back();
      open.pop_back();
      if (!recomputed(id, layer) || !operations.insert(producer_[place_of(id)]).second) continue;
      const auto& operation = forward_[static_cast<std::size_t>(producer_[place_of(id)])];
      open.insert(open.end(), operation.inputs.begin(), operation.inputs.end());
      if (const ExchangeId awaited = awaited_by(operation); awaited.valid()) operations.insert(posts_.at(awaited.index));
    }
    return operations;
  }

  /// Clones the operations with new values. Results that are kept anyway (a labelled sibling) get no reader.
  std::vector<Operation> clone(const std::set<int>& operations) {
    std::vector<Operation> clones;
    for (const int position : operations) {
      auto operation = forward_[static_cast<std::size_t>(position)];
      const int layer = operation.layer;
      for (auto& input : operation.inputs) input = twin(input);
      for (auto& output : operation.outputs) {
        auto value = set_.value(output);
        value.name += ".recomputed";
        value.labels.clear();
        set_.values.push_back(std::move(value));
        const ValueId copy{static_cast<std::int32_t>(set_.values.size()) - 1};
        if (recomputed(output, layer)) twin_[place_of(output)] = copy;
        output = copy;
      }
      operation.name += ".recomputed";
      operation.recomputed = true;
      clone_exchange(operation);
      clones.push_back(std::move(operation));
    }
    return clones;
  }

  /// Rows that were exchanged are exchanged again: the clones of a post and of its await have an exchange of their own.
  void clone_exchange(Operation& operation) {
    const ExchangeId posted = posted_by(operation), awaited = awaited_by(operation), exchange = posted.valid() ? posted : awaited;
    if (!exchange.valid()) return;
    if (posted.valid()) {
      again_[exchange.index] = {static_cast<std::int32_t>(set_.exchanges.size())};
      ExchangeSpec spec = set_.exchange(exchange);
      spec.send = operation.inputs.front();
      spec.name += ".recomputed";
      set_.exchanges.push_back(std::move(spec));
    }
    const ExchangeId again = again_.at(exchange.index);
    const ExchangeSpec& first = set_.exchange(exchange);
    operation.attributes = exchange_attributes(again, set_.value(first.receive).type.shape.dimension(0));
    if (awaited.valid()) set_.exchanges[static_cast<std::size_t>(again.index)].receive = operation.outputs.front();
  }

  ValueId twin(ValueId id) const {
    const bool has = place_of(id) < twin_.size() && twin_[place_of(id)].valid();
    return has ? twin_[place_of(id)] : id;
  }

  void redirect(std::vector<Operation>& program, int layer) const {
    for (auto& operation : program)
      if (operation.layer == layer)
        for (auto& input : operation.inputs) input = twin(input);
  }

  ProgramSet& set_;
  const RematerializationPolicy& policy_;
  const std::vector<Operation>& forward_;
  std::vector<Operation>& input_gradient_;
  std::vector<Operation>& weight_gradient_;
  std::vector<int> producer_;                 // by value: position in the forward, or input_of_stage
  std::vector<bool> crosses_;                 // by value: a forward operation of another layer reads it
  std::vector<ValueId> twin_;                 // by value: its recomputed copy
  std::map<std::int32_t, int> posts_;         // by exchange of the forward: the position of its post
  std::map<std::int32_t, ExchangeId> again_;  // by exchange of the forward: that of the clones
};

}  // namespace

void insert_recomputation(ProgramSet& set, const RematerializationPolicy& policy) {
  if (!policy.keep_everything) Recomputation(set, policy).run();
}

}  // namespace millrace::runtime
