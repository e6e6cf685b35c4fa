#include "runtime/passes/differentiate.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "kernels/base/check.hpp"
#include "runtime/passes/choose_epilogues.hpp"
#include "runtime/passes/hide_exchanges.hpp"
#include "runtime/passes/merge_backward.hpp"
#include "runtime/passes/offload.hpp"
#include "runtime/passes/recompute.hpp"
#include "runtime/passes/row_groups.hpp"
#include "runtime/program/gradient_builder.hpp"
#include "runtime/program/ops/rules.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* differentiate_component = "runtime.differentiate";

std::size_t index(ValueId id) { return static_cast<std::size_t>(id.index); }

/// Walks the forward in reverse and lets every rule write its part of I and W.
class Differentiator final : public GradientBuilder {
 public:
  explicit Differentiator(ProgramSet& set) : set_(set), wanted_(wanted_values(set)), gradients_(set.values.size()) {
    for (const auto& value : set.values) names_.insert(value.name);
  }

  void run() {
    for (Port& port : set_.outputs) {
      if (!has_gradient(set_.value(port.value).type)) continue;
      Value value;
      value.type = set_.value(port.value).type;
      value.role = Role::gradient_in;
      value.name = port_value_name("gradient_in", port.name);
      port.gradient = add_value(std::move(value));
      gradients_[index(port.value)] = port.gradient;
    }
    const auto& forward_operations = set_.program(ProgramKind::forward);
    for (auto operation = forward_operations.rbegin(); operation != forward_operations.rend(); ++operation) {
      forward_ = &*operation;
      if (!reached()) continue;
      program_ = ProgramKind::input_gradient;
      operation->rule->input_gradient(*this);
      pass_to_addend();
      // I has the rows of a round only until those of the next one come.
      if (operation->round < 0) program_ = ProgramKind::weight_gradient;
      sum_into_bias();
      operation->rule->weight_gradient(*this);
    }
    for (Port& port : set_.inputs) port.gradient = gradients_[index(port.value)];
  }

  const Operation& forward() const override { return *forward_; }
  const ValueType& type(ValueId id) const override { return set_.value(id).type; }
  const Value& value(ValueId id) const override { return set_.value(id); }
  ValueId input(std::size_t i) override { return forward_->inputs.at(i); }
  ValueId output(std::size_t i) override { return forward_->outputs.at(i); }
  ValueId output_gradient(std::size_t i) override { return gradients_[index(forward_->outputs.at(i))]; }
  bool wants(std::size_t i) const override { return wanted_[index(forward_->inputs.at(i))]; }

  ValueId loss_scale() override {
    StageLoss* found = nullptr;
    for (const auto output : forward_->outputs) {
      const auto loss = std::ranges::find(set_.losses, output, &StageLoss::value);
      if (loss == set_.losses.end()) continue;
      MILLRACE_CHECK(found == nullptr, ExitCode::internal, differentiate_component,
                     "{}: '{}' and '{}' are both loss terms, expected one of an operation", forward_->name, found->term.name,
                     loss->term.name);
      found = &*loss;
    }
    MILLRACE_CHECK(found != nullptr, ExitCode::internal, differentiate_component, "{}: no result is a loss term, so it has no scale",
                   forward_->name);
    if (!found->scale.valid()) {
      Value value;
      value.type = {kernels::DType::f32, {1}};
      value.role = Role::scalar;
      value.name = unique("loss_scale");
      found->scale = add_value(std::move(value));
    }
    return found->scale;
  }

  ValueId accumulator(std::size_t i) override {
    const auto id = forward_->inputs.at(i);
    const auto found = accumulators_.find(id.index);
    if (found != accumulators_.end()) return found->second;
    const auto& parameter = set_.value(id);
    MILLRACE_CHECK(parameter.role == Role::parameter, ExitCode::internal, differentiate_component,
                   "{}: input {} is '{}', expected a parameter", forward_->name, i, parameter.name);
    MILLRACE_CHECK(parameter.trained, ExitCode::internal, differentiate_component, "{}: a gradient flows to '{}', which is not trained",
                   forward_->name, parameter.name);
    Value value;
    value.type = {kernels::DType::f32, parameter.type.shape};
    value.role = Role::accumulator;
    value.name = parameter.name;
    value.layer = parameter.layer;
    value.use = parameter.use;
    value.experts = parameter.experts;
    return accumulators_[id.index] = add_value(std::move(value));
  }

  std::vector<ValueId> append(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                              std::string_view suffix) override {
    Operation operation = started(rule, std::move(inputs), std::move(attributes), forward_->name + "." + std::string(suffix));
    const auto results = rule.infer(types(operation.inputs), operation.attributes);
    for (std::size_t i = 0; i < results.size(); ++i) {
      Value value;
      value.type = results[i];
      value.name = unique(i == 0 ? operation.name : operation.name + "." + std::string(rule.output_suffix(i)));
      value.layer = forward_->layer;
      operation.outputs.push_back(add_value(std::move(value)));
    }
    program().push_back(operation);
    return operation.outputs;
  }

  std::vector<ValueId> append_for_forward(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                                          std::string_view suffix) override {
    MILLRACE_CHECK(program_ == ProgramKind::input_gradient, ExitCode::internal, differentiate_component,
                   "{}: stands in for a forward operation outside of I", forward_->name);
    const auto results = append(rule, std::move(inputs), std::move(attributes), suffix);
    auto& written = program().back().outputs;
    const auto own = results.size() - forward_->outputs.size();
    MILLRACE_CHECK(types({results.begin() + static_cast<std::ptrdiff_t>(own), results.end()}) == types(forward_->outputs),
                   ExitCode::internal, differentiate_component, "{}: the results do not end in those of {}", program().back().name,
                   forward_->name);
    std::copy(forward_->outputs.begin(), forward_->outputs.end(), written.begin() + static_cast<std::ptrdiff_t>(own));
    return written;
  }

  void append_accumulate(const OperationRule& rule, std::vector<ValueId> inputs, std::vector<ValueId> accumulators, Attributes attributes,
                         std::string_view suffix) override {
    MILLRACE_CHECK(program_ == ProgramKind::weight_gradient || forward_->round >= 0, ExitCode::internal, differentiate_component,
                   "{}: an accumulator is added to outside of W", forward_->name);
    Operation operation = started(rule, std::move(inputs), std::move(attributes), forward_->name + "." + std::string(suffix));
    MILLRACE_CHECK(rule.infer(types(operation.inputs), operation.attributes) == types(accumulators), ExitCode::internal,
                   differentiate_component, "{}: the sum does not have the accumulator's shape", operation.name);
    operation.outputs = std::move(accumulators);
    program().push_back(std::move(operation));
  }

  void post_gradient() override {
    const ExchangeId exchange = awaited_by(*forward_);
    // A copy, since the set's list grows: what was received from a member goes back to it.
    const ExchangeSpec spec = set_.exchange(exchange);
    ExchangeSpec back{.send = gradients_[index(spec.receive)],
                      .send_table = spec.receive_table,
                      .receive_table = spec.send_table,
                      .layer = spec.layer,
                      .name = spec.name + ".dx"};
    const ExchangeId id{static_cast<std::int32_t>(set_.exchanges.size())};
    program().push_back(
        started(post_rule(), exchange_operands(back), exchange_attributes(id, type(spec.send).shape.dimension(0)), back.name + ".post"));
    set_.exchanges.push_back(std::move(back));
    gradient_exchanges_[exchange.index] = id;
  }

  void await_gradient() override {
    const ExchangeSpec spec = set_.exchange(posted_by(*forward_));
    const ExchangeId id = gradient_exchanges_.at(posted_by(*forward_).index);
    auto& back = set_.exchanges.at(static_cast<std::size_t>(id.index));
    const bool part = sent_before(spec);
    Operation operation = started(await_rule(), exchange_operands(back), exchange_attributes(id, type(spec.send).shape.dimension(0), part),
                                  back.name + ".await");
    if (part) {
      parts_[spec.send.index].push_back(id);
      program().push_back(std::move(operation));
      return;
    }
    Value value;
    value.type = type(spec.send);
    value.name = unique(operation.name);
    value.layer = forward_->layer;
    const ValueId received = back.receive = add_value(std::move(value));
    for (const ExchangeId other : parts_[spec.send.index]) set_.exchanges[static_cast<std::size_t>(other.index)].receive = received;
    operation.outputs = {received};
    program().push_back(std::move(operation));
    add_gradient(0, received);
  }

  void add_gradient(std::size_t i, ValueId gradient) override {
    const auto target = forward_->inputs.at(i);
    MILLRACE_CHECK(type(gradient) == type(target), ExitCode::internal, differentiate_component,
                   "{}: the gradient of '{}' is {} {}, expected {} {}", forward_->name, value(target).name,
                   kernels::to_string(type(gradient).dtype), kernels::to_string(type(gradient).shape),
                   kernels::to_string(type(target).dtype), kernels::to_string(type(target).shape));
    auto& sum = gradients_[index(target)];
    sum = sum.valid() ? append(add_rule(), {sum, gradient}, {}, "dx_sum")[0] : gradient;
  }

 private:
  /// The gradient of an addend is the result's.
  void pass_to_addend() {
    const auto last = forward_->inputs.size() - 1;
    if (forward_->attributes.epilogue.add == Epilogue::Add::addend && wants(last)) add_gradient(last, output_gradient(0));
  }

  /// The gradient of a bias is the result's, summed over tokens.
  void sum_into_bias() {
    if (forward_->attributes.epilogue.add != Epilogue::Add::bias) return;
    append_accumulate(bias_weight_gradient_rule(), {output_gradient(0)}, {accumulator(forward_->inputs.size() - 1)}, {}, "db");
  }

  /// The activations that depend on a parameter or on the stage's input, as far as operations are differentiable.
  static std::vector<bool> wanted_values(const ProgramSet& set) {
    std::vector<bool> wanted(set.values.size(), false);
    for (const Port& port : set.inputs) wanted[index(port.value)] = has_gradient(set.value(port.value).type);
    for (const auto& operation : set.program(ProgramKind::forward)) {
      const bool depends = operation.rule->differentiable() && std::ranges::any_of(operation.inputs, [&](ValueId id) {
                             return wanted[index(id)] || set.value(id).role == Role::parameter;
                           });
      for (const auto output : operation.outputs) wanted[index(output)] = depends && has_gradient(set.value(output).type);
    }
    return wanted;
  }

  /// Whether an earlier operation of F sends other rows of the same value: in the rounds of an exchange each sends some.
  bool sent_before(const ExchangeSpec& spec) const {
    if (!spec.send_table.valid() || !has_ranges(type(spec.send_table).shape)) return false;
    const Operation* const first = set_.program(ProgramKind::forward).data();
    return std::any_of(first, forward_, [&](const Operation& operation) {
      const ExchangeId posted = posted_by(operation);
      return posted.valid() && set_.exchange(posted).send == spec.send;
    });
  }

  /// Whether a gradient flows into the operation, or begins there. A post has no result; the gradient flows from its await.
  bool reached() const {
    if (const ExchangeId posted = posted_by(*forward_); posted.valid()) return gradient_exchanges_.contains(posted.index);
    if (const ExchangeId awaited = awaited_by(*forward_); awaited.valid()) return gradients_[index(set_.exchange(awaited).receive)].valid();
    return std::ranges::any_of(forward_->outputs, [&](ValueId id) {
      const StageLoss* loss = set_.loss_of(id);
      return gradients_[index(id)].valid() || (loss != nullptr && !loss->term.evaluation_only);
    });
  }

  ValueId add_value(Value value) {
    set_.values.push_back(std::move(value));
    return {static_cast<std::int32_t>(set_.values.size()) - 1};
  }

  std::vector<ValueType> types(const std::vector<ValueId>& ids) const {
    std::vector<ValueType> result;
    for (const auto id : ids) result.push_back(type(id));
    return result;
  }

  Operation started(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes, std::string name) const {
    for (const auto id : inputs)
      MILLRACE_CHECK(id.valid(), ExitCode::internal, differentiate_component, "{}: {} reads a gradient that does not exist", name,
                     rule.name());
    Operation operation;
    operation.rule = &rule;
    operation.inputs = std::move(inputs);
    operation.attributes = std::move(attributes);
    operation.name = std::move(name);
    operation.layer = forward_->layer;
    operation.round = forward_->round;
    return operation;
  }

  std::string unique(std::string name) {
    auto candidate = name;
    for (int number = 2; !names_.insert(candidate).second; ++number) candidate = name + std::to_string(number);
    return candidate;
  }

  std::vector<Operation>& program() { return set_.programs[static_cast<std::size_t>(program_)]; }

  ProgramSet& set_;
  std::vector<bool> wanted_;        // by forward value
  std::vector<ValueId> gradients_;  // by forward value
  std::map<std::int32_t, ValueId> accumulators_;
  std::map<std::int32_t, ExchangeId> gradient_exchanges_;  // by forward exchange
  std::map<std::int32_t, std::vector<ExchangeId>> parts_;  // by value of F: exchanges that receive parts of its gradient
  std::unordered_set<std::string> names_;
  const Operation* forward_ = nullptr;
  ProgramKind program_ = ProgramKind::input_gradient;
};

bool writes(const std::vector<Operation>& program, ValueId id) {
  return std::any_of(program.begin(), program.end(), [&](const Operation& operation) {
    return std::find(operation.outputs.begin(), operation.outputs.end(), id) != operation.outputs.end();
  });
}

bool reads(const std::vector<Operation>& program, ValueId id) {
  return std::any_of(program.begin(), program.end(), [&](const Operation& operation) {
    return std::find(operation.inputs.begin(), operation.inputs.end(), id) != operation.inputs.end();
  });
}

/// Appends an operation with one new value at the end of a program.
ValueId append(ProgramSet& set, ProgramKind kind, const OperationRule& rule, std::vector<ValueId> inputs, const ValueType& type,
               const std::string& name) {
  Value value;
  value.type = type;
  value.name = name;
  set.values.push_back(std::move(value));
  Operation operation;
  operation.rule = &rule;
  operation.inputs = std::move(inputs);
  operation.outputs = {{static_cast<std::int32_t>(set.values.size()) - 1}};
  operation.name = name;
  const auto result = operation.outputs[0];
  set.programs[static_cast<std::size_t>(kind)].push_back(std::move(operation));
  return result;
}

/// Appends a new value with `id`'s bits.
ValueId append_copy(ProgramSet& set, ProgramKind kind, ValueId id, const std::string& name) {
  return append(set, kind, copy_rule(), {id}, set.value(id).type, name);
}

/// Whether a port before this one leaves in the same value.
bool leaves_before(const std::vector<Port>& ports, std::size_t port, ValueId Port::*member) {
  const auto end = ports.begin() + static_cast<std::ptrdiff_t>(port);
  return std::find_if(ports.begin(), end, [&](const Port& other) { return other.*member == ports[port].*member; }) != end;
}

/// An input that is handed on unchanged, and a value that is several ports, leave as copies: each port has a place of its own, and the
/// gradients that come back are added like those of any value that is read several times.
void copy_what_passes(ProgramSet& set) {
  for (std::size_t i = 0; i < set.outputs.size(); ++i) {
    Port& port = set.outputs[i];
    if (!writes(set.program(ProgramKind::forward), port.value) || leaves_before(set.outputs, i, &Port::value))
      port.value = append_copy(set, ProgramKind::forward, port.value, port_value_name("boundary_out", port.name));
  }
}

/// What leaves the stage is written to its ring slot, which is gone afterwards: an activation that the backward reads leaves as a copy, and
/// so does a gradient that W reads, that is itself an input, or that is the gradient of several ports.
void copy_what_stays(ProgramSet& set) {
  const auto& input_gradient = set.program(ProgramKind::input_gradient);
  const auto& weight_gradient = set.program(ProgramKind::weight_gradient);
  for (Port& port : set.outputs) {
    if (reads(input_gradient, port.value) || reads(weight_gradient, port.value))
      port.value = append_copy(set, ProgramKind::forward, port.value, port_value_name("boundary_out", port.name));
  }
  for (std::size_t i = 0; i < set.inputs.size(); ++i) {
    Port& port = set.inputs[i];
    if (port.gradient.valid() &&
        (!writes(input_gradient, port.gradient) || reads(weight_gradient, port.gradient) || leaves_before(set.inputs, i, &Port::gradient)))
      port.gradient = append_copy(set, ProgramKind::input_gradient, port.gradient, port_value_name("gradient_out", port.name));
  }
}

/// An input that no gradient reaches has a gradient of zeros, unless the stage has no backward.
void fill_missing_gradients(ProgramSet& set) {
  if (set.logits.valid()) return;
  for (Port& port : set.inputs) {
    const ValueType type = set.value(port.value).type;
    if (!port.gradient.valid() && has_gradient(type))
      port.gradient = append(set, ProgramKind::input_gradient, zeros_rule(), {}, type, port_value_name("gradient_out", port.name));
  }
}

/// Removes the operations of F from which nothing follows but metrics, which only evaluations compute.
void leave_metrics_to_evaluation(ProgramSet& set, std::vector<Operation>& forward) {
  std::vector<bool> needed(set.values.size(), false), of_metric(set.values.size(), false);
  const auto mark = [](std::vector<bool>& values, ValueId id) {
    if (id.valid()) values[index(id)] = true;
  };
  for (const StageLoss& loss : set.losses) mark(loss.term.metric() ? of_metric : needed, loss.value);
  for (const Port& port : set.outputs) mark(needed, port.value);
  for (const StageObservation& observation : set.observations) mark(needed, observation.value);
  mark(needed, set.logits);
  for (const ProgramKind kind : {ProgramKind::input_gradient, ProgramKind::weight_gradient})
    for (const Operation& operation : set.program(kind))
      for (const ValueId input : operation.inputs) mark(needed, input);
  // A post has no result, nor has the await of a part; they go with what is received.
  const auto any = [&](const std::vector<bool>& values, const Operation& operation) {
    if (const ExchangeId exchange = exchange_of(operation); exchange.valid())
      return static_cast<bool>(values[index(set.exchange(exchange).receive)]);
    return std::ranges::any_of(operation.outputs, [&](ValueId id) { return values[index(id)]; });
  };
  std::vector<Operation> kept;
  for (auto operation = forward.rbegin(); operation != forward.rend(); ++operation) {
    const bool only_metric = any(of_metric, *operation) && !any(needed, *operation);
    for (const ValueId input : operation->inputs) mark(only_metric ? of_metric : needed, input);
    if (!only_metric) kept.push_back(std::move(*operation));
  }
  forward.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
}

/// Separates F from the evaluation: operations whose results I computes are not part of F.
void leave_to_input_gradient(ProgramSet& set) {
  auto& forward = set.programs[static_cast<std::size_t>(ProgramKind::forward)];
  set.programs[static_cast<std::size_t>(ProgramKind::evaluate)] = forward;
  leave_metrics_to_evaluation(set, forward);
  std::vector<bool> yielded(set.values.size());  // by I
  for (const auto& operation : set.program(ProgramKind::input_gradient))
    for (const auto output : operation.outputs) yielded[static_cast<std::size_t>(output.index)] = true;
  const auto by_input_gradient = [&](ValueId id) { return id.valid() && yielded[static_cast<std::size_t>(id.index)]; };
  std::erase_if(forward,
                [&](const Operation& operation) { return !operation.outputs.empty() && by_input_gradient(operation.outputs.front()); });
  for (const auto& operation : forward)
    for (const auto input : operation.inputs)
      MILLRACE_CHECK(!by_input_gradient(input), ExitCode::internal, differentiate_component, "{} reads '{}', which I yields",
                     operation.name, set.value(input).name);
}

/// The operands of posts are what passes have made of them.
void note_operands_of_exchanges(ProgramSet& set) {
  for (const ProgramKind kind : all_program_kinds)
    for (const Operation& operation : set.program(kind)) {
      const ExchangeId posted = posted_by(operation);
      if (!posted.valid()) continue;
      ExchangeSpec& exchange = set.exchanges.at(static_cast<std::size_t>(posted.index));
      exchange.send = operation.inputs.front();
      if (operation.inputs.size() == 3) exchange.send_table = operation.inputs[1], exchange.receive_table = operation.inputs[2];
    }
}

}  // namespace

ProgramSet differentiate(ForwardProgram forward, const RematerializationPolicy& policy, kernels::Device device) {
  ProgramSet set;
  set.values = std::move(forward.values);
  set.programs[static_cast<std::size_t>(ProgramKind::forward)] = std::move(forward.operations);
  set.tokens = forward.tokens;
  set.inputs = std::move(forward.inputs);
  set.outputs = std::move(forward.outputs);
  set.handed_on = std::move(forward.handed_on);
  set.losses = std::move(forward.losses);
  set.observations = std::move(forward.observations);
  set.exchanges = std::move(forward.exchanges);
  set.counts = std::move(forward.counts);
  set.logits = forward.logits;
  copy_what_passes(set);
  choose_epilogues(set, ProgramKind::forward, device);
  Differentiator(set).run();
  choose_epilogues(set, ProgramKind::input_gradient, device);
  insert_recomputation(set, policy);
  copy_what_stays(set);
  fill_missing_gradients(set);
  choose_packed_weights(set, device);
  leave_to_input_gradient(set);
  insert_offload(set, policy);
  note_operands_of_exchanges(set);
  find_row_groups(set);
  set.programs[static_cast<std::size_t>(ProgramKind::backward)] =
      merge_backward(set.program(ProgramKind::input_gradient), set.program(ProgramKind::weight_gradient), set.values.size());
  hide_exchanges(set);
  return set;
}

}  // namespace millrace::runtime
