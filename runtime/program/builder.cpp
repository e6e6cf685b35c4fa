#include "runtime/program/builder.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "runtime/batch.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* builder_component = "runtime.builder";

std::vector<ValueType> infer(const OperationRule& rule, std::span<const ValueType> types, const Attributes& attributes,
                             const std::string& name) {
  try {
    return rule.infer(types, attributes);
  } catch (const Error& error) {
    fail(ExitCode::internal, builder_component, "operation '{}': {}", name, without_component(error.what()));
  }
}

/// Links carry slots of bytes, so any shape and either kind of number can pass; f64 sums belong to losses.
void check_port(std::string_view boundary, std::string_view name, const ValueType& type) {
  MILLRACE_CHECK(!name.empty(), ExitCode::internal, builder_component, "{} has a port without a name", boundary);
  MILLRACE_CHECK((has_gradient(type) || type.dtype == kernels::DType::i32) && type.shape.rank() >= 1, ExitCode::internal, builder_component,
                 "the port '{}' of {} is {} {}, expected f32, bf16 or i32 with one or more axes", name, boundary,
                 kernels::to_string(type.dtype), kernels::to_string(type.shape));
}

}  // namespace

ProgramBuilder::ProgramBuilder(Options options) : options_(options) {
  MILLRACE_CHECK(options.compute == kernels::DType::f32 || options.compute == kernels::DType::bf16, ExitCode::internal, builder_component,
                 "programs compute in {}, expected f32 or bf16", kernels::to_string(options.compute));
  MILLRACE_CHECK(options.rows >= 1 && options.sequence >= 1, ExitCode::internal, builder_component,
                 "{} rows of {} tokens, expected 1 or more of each", options.rows, options.sequence);
}

ValueId ProgramBuilder::add_value(Value value) {
  program_.values.push_back(std::move(value));
  return {static_cast<std::int32_t>(program_.values.size()) - 1};
}

ValueId ProgramBuilder::add_named(std::string key, Value value) {
  const auto found = named_.find(key);
  if (found == named_.end()) {
    const auto id = add_value(std::move(value));
    named_.emplace(std::move(key), id);
    return id;
  }
  const auto& known = program_.value(found->second);
  MILLRACE_CHECK(known.type == value.type && known.data == value.data, ExitCode::internal, builder_component,
                 "'{}' is asked for as {}, and was {} before", value.name, kernels::to_string(value.type.shape),
                 kernels::to_string(known.type.shape));
  return found->second;
}

Value& ProgramBuilder::checked(ValueId value, std::string_view what) {
  MILLRACE_CHECK(value.valid() && static_cast<std::size_t>(value.index) < program_.values.size(), ExitCode::internal, builder_component,
                 "{}: value {} is not of this program of {} values", what, value.index, program_.values.size());
  return program_.values[static_cast<std::size_t>(value.index)];
}

ValueId ProgramBuilder::batch(std::string_view field) {
  MILLRACE_CHECK(batch_field_index(field) < batch_fields.size(), ExitCode::internal, builder_component,
                 "a batch has no field '{}', expected one of batch_fields (runtime/batch.hpp)", field);
  Value value;
  value.type = {kernels::DType::i32, {tokens_dimension()}};
  value.role = Role::batch;
  value.name = field;
  const auto key = "batch " + value.name;
  return add_named(key, std::move(value));
}

ValueId ProgramBuilder::boundary_in(std::string_view name, const ValueType& type) {
  check_port("boundary_in", name, type);
  Value value;
  value.type = type;
  value.role = Role::boundary_in;
  value.name = port_value_name("boundary_in", name);
  const auto key = "boundary_in " + value.name;
  const auto id = add_named(key, std::move(value));
  if (std::ranges::find(program_.inputs, name, &Port::name) == program_.inputs.end())
    program_.inputs.push_back({std::string(name), id, {}});
  return id;
}

ValueId ProgramBuilder::boundary_in(std::int64_t width) {
  return boundary_in(hidden_port, {options_.compute, {tokens_dimension(), width}});
}

ValueId ProgramBuilder::parameter(std::string name, kernels::Shape shape, const ParameterForm& form) {
  Value value;
  value.stored = form.stored;
  const auto& [first, all] = form.experts;
  MILLRACE_CHECK(all == 0 || (shape.rank() >= 1 && first >= 0 && first + shape[0] <= all), ExitCode::internal, builder_component,
                 "'{}' is {} from expert {} on, expected experts of the {} along its first axis", name, kernels::to_string(shape), first,
                 all);
  const kernels::Shape whole = whole_shape(shape, form.experts);
  if (value.stored.shape.rank() == 0) value.stored.shape = whole;
  const auto& [stored, transposed, parts] = value.stored;
  const auto count = static_cast<std::int64_t>(std::max<std::size_t>(parts.size(), 1));
  MILLRACE_CHECK(stored.elements() * count == whole.elements(), ExitCode::internal, builder_component,
                 "'{}' is {} and stored as {} tensors {}, expected as many elements", name, kernels::to_string(whole), count,
                 kernels::to_string(stored));
  MILLRACE_CHECK(parts.empty() || whole[0] % count == 0, ExitCode::internal, builder_component,
                 "'{}' is {} and stored in {} parts of its first axis", name, kernels::to_string(whole), count);
  MILLRACE_CHECK(!transposed || stored.rank() >= 2, ExitCode::internal, builder_component,
                 "'{}' is stored transposed as {}, expected two axes or more", name, kernels::to_string(stored));
  value.type = {form.dtype.value_or(options_.compute), shape};
  value.role = Role::parameter;
  value.name = name;
  value.layer = layer_;
  value.use = form.use;
  value.active = form.active;
  value.experts = form.experts;
  value.trained = form.trained;
  if (form.chooses_experts) value.router = scope_;
  if (form.heads.heads > 0) value.scores = {scope_, form.heads};
  return add_named("parameter " + std::to_string(form.use) + " " + name, std::move(value));
}

ValueId ProgramBuilder::constant(std::string name, std::vector<float> data) {
  Value value;
  value.type = {kernels::DType::f32, {static_cast<std::int64_t>(data.size())}};
  value.role = Role::constant;
  value.name = name;
  value.data = std::move(data);
  return add_named("constant " + name, std::move(value));
}

void ProgramBuilder::enter(int layer, std::string scope) {
  layer_ = layer;
  scope_ = std::move(scope);
}

std::vector<ValueId> ProgramBuilder::append(const OperationRule& rule, std::vector<ValueId> inputs, Attributes attributes,
                                            std::string_view name) {
  Operation operation;
  operation.rule = &rule;
  operation.name = scope_.empty() ? std::string(name) : scope_ + "." + std::string(name);
  operation.layer = layer_;
  operation.round = round_;
  operation.kept = kept_;
  std::vector<ValueType> types;
  for (const auto input : inputs) types.push_back(checked(input, operation.name).type);
  const auto results = infer(rule, types, attributes, operation.name);
  for (std::size_t i = 0; i < results.size(); ++i) {
    Value value;
    value.type = results[i];
    value.name = i == 0 ? operation.name : operation.name + "." + std::string(rule.output_suffix(i));
    value.layer = layer_;
    const auto key = "result " + value.name;
    MILLRACE_CHECK(!named_.contains(key), ExitCode::internal, builder_component, "two operations are named '{}'", operation.name);
    operation.outputs.push_back(add_named(key, std::move(value)));
  }
  operation.inputs = std::move(inputs);
  operation.attributes = std::move(attributes);
  program_.operations.push_back(operation);
  return operation.outputs;
}

void ProgramBuilder::label(ValueId value, std::string_view label) {
  const auto add = [&](ValueId id) {
    auto& labels = checked(id, label).labels;
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.emplace_back(label);
  };
  add(value);
  // From the end: what is labelled was made a moment ago, and a program may have a thousand layers.
  const auto makes = [&](const Operation& operation) {
    return std::find(operation.outputs.begin(), operation.outputs.end(), value) != operation.outputs.end();
  };
  const auto made = std::find_if(program_.operations.rbegin(), program_.operations.rend(), makes);
  if (made == program_.operations.rend()) return;
  for (const auto sibling : made->outputs) add(sibling);
}

kernels::Dimension ProgramBuilder::bounded_by(ValueId table, std::int64_t capacity, std::int64_t mean) {
  const auto& type = checked(table, "bounded_by").type;
  MILLRACE_CHECK(type.dtype == kernels::DType::i32 && type.shape.rank() == 1 && !type.shape.bounded() && type.shape[0] >= 1,
                 ExitCode::internal, builder_component, "'{}' bounds an axis and is {} {}, expected i32 [n]", program_.value(table).name,
                 kernels::to_string(type.dtype), kernels::to_string(type.shape));
  auto& counts = program_.counts;
  const auto found = std::ranges::find(counts, table, &RowCount::table);
  const auto count = static_cast<std::int16_t>(found - counts.begin());
  if (found == counts.end()) counts.push_back({table, mean});
  return {capacity, count};
}

ExchangeId ProgramBuilder::add_exchange(ExchangeSpec exchange, std::string_view name) {
  exchange.layer = layer_;
  exchange.name = scope_.empty() ? std::string(name) : scope_ + "." + std::string(name);
  program_.exchanges.push_back(std::move(exchange));
  return {static_cast<std::int32_t>(program_.exchanges.size()) - 1};
}

void ProgramBuilder::set_expert_rows(ValueId table, const ExpertRows& rows) {
  Value& value = checked(table, "expert_rows");
  const ValueType& type = value.type;
  const bool fits = type.dtype == kernels::DType::i32 && type.shape.rank() == 1 && rows.experts >= 1 && type.shape[0] > 1 &&
                    (type.shape[0] - 1) % rows.experts == 0;
  MILLRACE_CHECK(fits, ExitCode::internal, builder_component, "'{}' is {} {}, expected a table i32 [S * {} + 1]", value.name,
                 kernels::to_string(type.dtype), kernels::to_string(type.shape), rows.experts);
  value.expert_rows = rows;
}

const ValueType& ProgramBuilder::type(ValueId value) const { return const_cast<ProgramBuilder*>(this)->checked(value, "type").type; }

void ProgramBuilder::set_boundary_out(std::string_view name, ValueId value) {
  const auto& type = checked(value, "boundary_out").type;
  check_port("boundary_out", name, type);
  // The residual stream has one dtype from the embedding to the head; a stream of another form has another name.
  const bool residual = type.dtype == options_.compute && type.shape.rank() == 2 && type.shape.dimension(0) == tokens_dimension();
  MILLRACE_CHECK(name != hidden_port || residual, ExitCode::internal, builder_component, "boundary_out is {} {}, expected {} [{}, width]",
                 kernels::to_string(type.dtype), kernels::to_string(type.shape), kernels::to_string(options_.compute), tokens_count());
  MILLRACE_CHECK(std::ranges::find(program_.outputs, name, &Port::name) == program_.outputs.end(), ExitCode::internal, builder_component,
                 "boundary_out has two ports '{}', expected different names", name);
  program_.outputs.push_back({std::string(name), value, {}});
}

void ProgramBuilder::hand_on(ValueId value) {
  static_cast<void>(checked(value, "hand_on"));
  program_.handed_on.push_back(value);
}

void ProgramBuilder::loss_term(LossTerm term, ValueId value) {
  const auto& type = checked(value, term.name).type;
  MILLRACE_CHECK(type.dtype == kernels::DType::f64 && type.shape.rank() == 1 && type.shape[0] >= 1, ExitCode::internal, builder_component,
                 "the loss term '{}' is {} {}, expected f64 [1] or more entries", term.name, kernels::to_string(type.dtype),
                 kernels::to_string(type.shape));
  MILLRACE_CHECK(!term.name.empty() && term.divisor > 0, ExitCode::internal, builder_component,
                 "a loss term has the name '{}' and the divisor {}, expected a name and a divisor above 0", term.name, term.divisor);
  for (const StageLoss& other : program_.losses)
    MILLRACE_CHECK(other.value != value, ExitCode::internal, builder_component, "the loss terms '{}' and '{}' are the same value",
                   other.term.name, term.name);
  program_.losses.push_back({std::move(term), value, {}});
}

void ProgramBuilder::observe(std::string_view name, ValueId value) {
  const auto& type = checked(value, name).type;
  const bool number = type.dtype == kernels::DType::f64 || type.dtype == kernels::DType::i32;
  MILLRACE_CHECK(number && type.shape.rank() == 1 && !type.shape.bounded(), ExitCode::internal, builder_component,
                 "the observation '{}' is {} {}, expected i32 or f64 [n]", name, kernels::to_string(type.dtype),
                 kernels::to_string(type.shape));
  program_.observations.push_back({std::string(name), layer_, scope_, value});
}

void ProgramBuilder::set_logits(ValueId value) {
  const auto& type = checked(value, "logits").type;
  MILLRACE_CHECK(type.dtype == kernels::DType::f32 && type.shape.rank() == 2, ExitCode::internal, builder_component,
                 "logits are {} {}, expected f32 [T, V]", kernels::to_string(type.dtype), kernels::to_string(type.shape));
  program_.logits = value;
}

ForwardProgram ProgramBuilder::finish() {
  if (program_.logits.valid()) {
    program_.losses.clear();
    program_.observations.clear();
  }
  for (const StageObservation& observation : program_.observations)
    for (const Operation& operation : program_.operations)
      MILLRACE_CHECK(std::ranges::find(operation.inputs, observation.value) == operation.inputs.end(), ExitCode::internal,
                     builder_component, "{} reads '{}', which is observed; expected that it reads what the observation is a copy of",
                     operation.name, program_.value(observation.value).name);
  for (const ExchangeSpec& exchange : program_.exchanges)
    MILLRACE_CHECK(exchange.receive.valid(), ExitCode::internal, builder_component, "'{}' is posted and never awaited, expected an await",
                   exchange.name);
  const bool boundary = !program_.outputs.empty(), logits = program_.logits.valid();
  MILLRACE_CHECK(!(boundary && logits), ExitCode::internal, builder_component,
                 "the program ends in boundary_out and in logits, expected one of them");
  MILLRACE_CHECK(boundary || logits || !program_.losses.empty(), ExitCode::internal, builder_component,
                 "the program has no end, expected boundary_out, a loss term or logits");
  program_.tokens = tokens_count();
  named_.clear();
  layer_ = -1;
  leave_rounds();
  scope_.clear();
  return std::exchange(program_, {});
}

}  // namespace millrace::runtime
