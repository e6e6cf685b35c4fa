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
        twin_(set.values.size()),
        twin_in_place_(set.values.size()) {
    for (std::size_t i = 0; i < forward_.size(); ++i) {
      for (const auto output : forward_[i].outputs) producer_[place_of(output)] = static_cast<int>(i);
      if (const ExchangeId posted = posted_by(forward_[i]); posted.valid()) posts_[posted.index] = static_cast<int>(i);
      if (const ExchangeId exchange = exchange_of(forward_[i]); exchange.valid())
        exchanges_[set.exchange(exchange).receive.index].insert(static_cast<int>(i));
    }
    for (const auto& operation : forward_)
      for (const auto input : operation.inputs)
        if (producer_[place_of(input)] != input_of_stage && layer_of(input) != operation.layer) crosses_[place_of(input)] = true;
  }

  /// Recomputes what the policy does not keep, at the beginning of each layer's backward.
  void recompute_layers() {
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

  /// Recomputes what no policy keeps just before the first operation that reads it.
  void recompute_in_place() {
    if (std::ranges::all_of(forward_, &Operation::kept)) return;
    std::vector<Operation> program;
    for (Operation& operation : input_gradient_) {
      if (!operation.recomputed)
        for (ValueId& input : operation.inputs) input = in_place(input, program);
      program.push_back(std::move(operation));
    }
    input_gradient_ = std::move(program);
  }

 private:
  int layer_of(ValueId id) const { return forward_[static_cast<std::size_t>(producer_[place_of(id)])].layer; }

  [[nodiscard]] bool of_forward(ValueId id) const { return place_of(id) < producer_.size() && producer_[place_of(id)] != input_of_stage; }

  /// Whether the value is recomputed just before it is read.
  bool recomputed_in_place(ValueId id) const { return of_forward(id) && !forward_[static_cast<std::size_t>(producer_[place_of(id)])].kept; }

  /// Whether the value must be recomputed where layer `layer`'s backward reads it.
  bool recomputed(ValueId id, int layer) const {
    if (!of_forward(id) || layer_of(id) != layer || crosses_[place_of(id)]) return false;
    const auto& value = set_.value(id);
    if (value.type.dtype != kernels::DType::f32 && value.type.dtype != kernels::DType::bf16) return false;  // routing decisions
    return std::none_of(value.labels.begin(), value.labels.end(), [&](const std::string& label) { return policy_.keep.contains(label); });
  }

  /// What operations of the layer's backward read, and in place of a value that is recomputed there what that needs.
  std::vector<ValueId> read_by(int layer) const {
    std::vector<ValueId> reads, all;
    for (const auto* program : {&input_gradient_, &weight_gradient_})
      for (const auto& operation : *program)
        if (operation.layer == layer) reads.insert(reads.end(), operation.inputs.begin(), operation.inputs.end());
    std::set<int> in_place;
    while (!reads.empty()) {
      const ValueId id = reads.back();
      reads.pop_back();
      if (!recomputed_in_place(id)) {
        all.push_back(id);
      } else if (in_place.insert(producer_[place_of(id)]).second) {
        const auto& operation = forward_[static_cast<std::size_t>(producer_[place_of(id)])];
        reads.insert(reads.end(), operation.inputs.begin(), operation.inputs.end());
      }
    }
    return all;
  }

  /// The forward operations, by position, that this layer's backward needs again.
  std::set<int> needed(int layer) const {
    std::set<int> operations;
    std::vector<ValueId> open = read_by(layer);
    const auto add = [&](int position) {
      const auto& inputs = forward_[static_cast<std::size_t>(position)].inputs;
      if (operations.insert(position).second) open.insert(open.end(), inputs.begin(), inputs.end());
    };
    while (!open.empty()) {
      const auto id = open.back();
      open.pop_back();
      if (!recomputed(id, layer)) continue;
      add(producer_[place_of(id)]);
      if (const auto exchanges = exchanges_.find(id.index); exchanges != exchanges_.end())
        for (const int position : exchanges->second) add(position);
    }
    return operations;
  }

  /// Clones the operations with new values. Results that are kept anyway (a labelled sibling) get no reader.
  std::vector<Operation> clone(const std::set<int>& operations) {
    std::vector<Operation> clones;
    for (const int position : operations) {
      Operation operation = copy_of(
          position, [&](ValueId input) { return twin(input); }, ".recomputed", again_);
      const auto& outputs = forward_[static_cast<std::size_t>(position)].outputs;
      for (std::size_t i = 0; i < outputs.size(); ++i)
        if (recomputed(outputs[i], operation.layer)) twin_[place_of(outputs[i])] = operation.outputs[i];
      clones.push_back(std::move(operation));
    }
    return clones;
  }

  /// The value to read in place of `id`; appends to `program` what recomputes it, unless that was done before.
  ValueId in_place(ValueId id, std::vector<Operation>& program) {
    if (!recomputed_in_place(id)) return twin(id);
    const ValueId done = twin_in_place_[place_of(id)];
    if (done.valid()) return done;
    const int position = producer_[place_of(id)];
    const auto append = [&](int each) {
      const auto inputs = forward_[static_cast<std::size_t>(each)].inputs;
      for (const ValueId input : inputs) static_cast<void>(in_place(input, program));
      program.push_back(copy_of(
          each, [&](ValueId input) { return in_place(input, program); }, ".recomputed_in_place", again_in_place_));
    };
    if (const ExchangeId awaited = awaited_by(forward_[static_cast<std::size_t>(position)]); awaited.valid())
      append(posts_.at(awaited.index));
    append(position);
    const auto& outputs = forward_[static_cast<std::size_t>(position)].outputs;
    for (std::size_t i = 0; i < outputs.size(); ++i) twin_in_place_[place_of(outputs[i])] = program.back().outputs[i];
    return twin_in_place_[place_of(id)];
  }

  using Again = std::map<std::int32_t, ExchangeId>;  // by exchange of the forward: that of the clones

  template <class Replace>
  Operation copy_of(int position, Replace&& replace, const char* suffix, Again& again) {
    Operation operation = forward_[static_cast<std::size_t>(position)];
    for (auto& input : operation.inputs) input = replace(input);
    for (auto& output : operation.outputs) {
      auto value = set_.value(output);
      value.name += suffix;
      value.labels.clear();
      set_.values.push_back(std::move(value));
      output = {static_cast<std::int32_t>(set_.values.size()) - 1};
    }
    operation.name += suffix;
    operation.recomputed = true;
    clone_exchange(operation, suffix, again);
    return operation;
  }

  /// Rows that were exchanged are exchanged again: the clones of a post and of its await have an exchange of their own.
  void clone_exchange(Operation& operation, const char* suffix, Again& all) {
    const ExchangeId posted = posted_by(operation), awaited = awaited_by(operation), exchange = posted.valid() ? posted : awaited;
    if (!exchange.valid()) return;
    if (posted.valid()) {
      all[exchange.index] = {static_cast<std::int32_t>(set_.exchanges.size())};
      ExchangeSpec spec = set_.exchange(exchange);
      spec.send = operation.inputs.front();
      spec.name += suffix;
      set_.exchanges.push_back(std::move(spec));
    }
    const ValueId received = set_.exchange(exchange).receive;
    operation.attributes =
        exchange_attributes(all.at(exchange.index), set_.value(received).type.shape.dimension(0), awaits_part(operation));
    if (operation.outputs.empty()) return;
    // This await yields what the exchanges that receive parts of it have received, too.
    for (const auto& [of_forward, again] : all)
      if (ExchangeSpec& spec = set_.exchanges[static_cast<std::size_t>(again.index)]; spec.receive == received)
        spec.receive = operation.outputs.front();
  }

  ValueId twin(ValueId id) const {
    const bool has = place_of(id) < twin_.size() && twin_[place_of(id)].valid();
    return has ? twin_[place_of(id)] : id;
  }

  void redirect(std::vector<Operation>& program, int layer) const {
    for (auto& operation : program)
      if (operation.layer == layer)
        for (auto& input : operation.inputs)
          if (!recomputed_in_place(input)) input = twin(input);
  }

  ProgramSet& set_;
  const RematerializationPolicy& policy_;
  const std::vector<Operation>& forward_;
  std::vector<Operation>& input_gradient_;
  std::vector<Operation>& weight_gradient_;
  std::vector<int> producer_;                        // by value: position in the forward, or input_of_stage
  std::vector<bool> crosses_;                        // by value: a forward operation of another layer reads it
  std::vector<ValueId> twin_;                        // by value: its recomputed copy
  std::vector<ValueId> twin_in_place_;               // by value: its copy that was recomputed just before it is read
  std::map<std::int32_t, int> posts_;                // by exchange of the forward: the position of its post
  std::map<std::int32_t, std::set<int>> exchanges_;  // by value that is received: the positions of its posts and awaits
  Again again_, again_in_place_;
};

}  // namespace

void insert_recomputation(ProgramSet& set, const RematerializationPolicy& policy) {
  Recomputation recomputation(set, policy);
  if (!policy.keep_everything) recomputation.recompute_layers();
  recomputation.recompute_in_place();
}

}  // namespace millrace::runtime
