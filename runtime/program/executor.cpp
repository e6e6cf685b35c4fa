#include "runtime/program/executor.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/base/check.hpp"
#include "kernels/base/range.hpp"
#include "kernels/base/without_component.hpp"
#include "kernels/transfer.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* executor_component = "runtime.executor";

std::size_t index(ValueId id) { return static_cast<std::size_t>(id.index); }
std::size_t index(ProgramKind kind) { return static_cast<std::size_t>(kind); }

}  // namespace

Executor::Executor(const ProgramSet& programs, const MemoryPlan& plan) : programs_(programs), plan_(plan) {
  MILLRACE_CHECK(plan.placements.size() == programs.values.size(), ExitCode::internal, executor_component,
                 "the plan places {} values, the programs have {}", plan.placements.size(), programs.values.size());
  for (const auto& [table, mean] : programs.counts) {
    const Value& value = programs.value(table);
    Place last = plan.placements[index(table)];
    last.offset += bytes_of(value.type) - sizeof(std::int32_t);
    counts_.push_back({last, &value.name});
  }
  for (const auto kind : all_program_kinds) {
    if (!runs(plan.mode, kind)) continue;
    for (const auto& operation : programs.program(kind)) add_step(kind, operation);
    segments_[index(kind)] = programs.segments(kind);
  }
}

void Executor::add_step(ProgramKind kind, const Operation& operation) {
  Step step{&operation,
            static_cast<std::uint32_t>(operands_.size()),
            static_cast<std::uint32_t>(operation.inputs.size()),
            static_cast<std::uint32_t>(operation.outputs.size()),
            false,
            posted_by(operation)};
  const auto add = [&](ValueId id) {
    const auto& type = programs_.value(id).type;
    const Place place = plan_.placements[index(id)];
    operands_.push_back({place, {nullptr, type.dtype, type.shape, kernels::MemorySpace::host}});
    step.bounded = step.bounded || type.shape.bounded();
    touched_[index(kind)][static_cast<std::size_t>(place.region)] = true;
  };
  for (const auto* ids : {&operation.inputs, &operation.outputs})
    for (const auto id : *ids) add(id);
  if (step.posts.valid()) add(programs_.exchange(step.posts).receive);
  steps_[index(kind)].push_back(step);
  if (scratchpad_.size() < step.operands()) scratchpad_.resize(step.operands());
}

/// The shape of this execution: bounded axes get their count and are exact from here on.
void Executor::resolve(kernels::Shape& shape, const Bindings& bindings) const {
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const auto dimension = shape.dimension(axis);
    if (!dimension.bounded()) continue;
    const auto& [last, name] = counts_.at(static_cast<std::size_t>(dimension.count));
    const std::byte* const base = bindings[last.region];
    MILLRACE_CHECK(base != nullptr, ExitCode::internal, executor_component, "'{}' bounds an axis and is in {}, which has no base", *name,
                   to_string(last.region));
    std::int32_t count = 0;
    std::memcpy(&count, base + last.offset, sizeof(count));
    MILLRACE_CHECK(count >= 0 && count <= dimension.capacity / dimension.factor, ExitCode::internal, executor_component,
                   "'{}' ends at {}, expected 0 to {}", *name, count, dimension.capacity / dimension.factor);
    shape.dimension(axis) = kernels::Dimension(std::int64_t{count} * dimension.factor);
  }
}

void Executor::run(ProgramKind kind, const kernels::ExecutionContext& context, const Bindings& bindings, OperationHook* hook) {
  MILLRACE_CHECK(segments(kind).size() <= 1, ExitCode::internal, executor_component,
                 "the {} program has {} segments, expected that they are run one by one", to_string(kind), segments(kind).size());
  run_segment(kind, 0, context, bindings, hook, nullptr);
}

void Executor::run_segment(ProgramKind kind, std::size_t segment, const kernels::ExecutionContext& context, const Bindings& bindings,
                           OperationHook* hook, ExchangePort* port) {
  MILLRACE_CHECK(runs(plan_.mode, kind), ExitCode::internal, executor_component, "the {} program is not part of this plan",
                 to_string(kind));
  MILLRACE_CHECK(segment < segments(kind).size(), ExitCode::internal, executor_component, "segment {} of the {} program, expected 0 to {}",
                 segment, to_string(kind), segments(kind).size() - 1);
  const auto scratch_bytes = plan_.scratch_bytes[index(kind)];
  kernels::Scratch scratch;
  if (scratch_bytes > 0) {
    MILLRACE_CHECK(bindings[Region::workspace] != nullptr, ExitCode::internal, executor_component,
                   "the {} program runs without a workspace", to_string(kind));
    scratch = {bindings[Region::workspace] + plan_.scratch_offset[index(kind)], scratch_bytes};
  }
  const auto& steps = steps_[index(kind)];
  const Segment& part = segments(kind)[segment];
  for (std::size_t i = part.first; i < part.end; ++i) {
    const auto& step = steps[i];
    try {
      for (std::size_t operand = 0; operand < step.operands(); ++operand) {
        const auto& [placement, prototype] = operands_[step.first_operand + operand];
        MILLRACE_CHECK(bindings[placement.region] != nullptr, ExitCode::internal, executor_component,
                       "operand {} is in {}, which has no base", operand, to_string(placement.region));
        auto& tensor = scratchpad_[operand];
        tensor = prototype;
        tensor.data = bindings[placement.region] + placement.offset;
        if (step.bounded) resolve(tensor.shape, bindings);
      }
      run_step(context, kind, i, hook, port, scratch);
    } catch (const Error& error) {
      throw Error(error.code(), step.operation->name + ": " + std::string(without_component(error.what())));
    }
  }
}

/// The operands: what is sent, the tables if there are some, and what is received.
void Executor::post(const Step& step, ExchangePort* port) const {
  MILLRACE_CHECK(port != nullptr, ExitCode::internal, executor_component, "the segment posts an exchange and was run without a port");
  const kernels::Tensor &send = scratchpad_[0], &receive = scratchpad_[step.inputs];
  ExchangePost post{step.posts, send, receive, {}, {}};
  const auto table = [&](std::size_t operand, const kernels::Tensor& rows) {
    const kernels::Tensor& tensor = scratchpad_[operand];
    const std::span<const std::int32_t> entries(tensor.as<std::int32_t>(), static_cast<std::size_t>(tensor.elements()));
    if (post.ranges) return entries;
    MILLRACE_CHECK(entries.front() == 0 && entries.back() == rows.shape[0] && std::ranges::is_sorted(entries), ExitCode::internal,
                   executor_component, "a table goes from row {} to row {} of {}, expected that it rises from the first to the last row",
                   entries.front(), entries.back(), rows.shape[0]);
    return entries;
  };
  if (step.inputs == 3) {
    post.ranges = has_ranges(scratchpad_[1].shape);
    post.send_table = table(1, send);
    post.receive_table = table(2, receive);
  }
  port->post(post);
}

void Executor::run_step(const kernels::ExecutionContext& context, ProgramKind kind, std::size_t index_in_program, OperationHook* hook,
                        ExchangePort* port, kernels::Scratch scratch) {
  const auto& step = steps_[index(kind)][index_in_program];
  const std::span<const kernels::Tensor> inputs{scratchpad_.data(), step.inputs};
  const std::span<const kernels::Tensor> outputs{scratchpad_.data() + step.inputs, step.outputs};
  const OperationHook::Call call{programs_, kind, index_in_program, *step.operation, inputs, outputs};
  const kernels::Range range(step.operation->name.c_str());
  context.device_context().set_breadcrumb(static_cast<std::uint32_t>(index_in_program));
  if (hook != nullptr && !context.host_readable() && hook->sight() != OperationHook::Sight::addresses)
    return run_shown(context, call, *hook, scratch);
  if (hook != nullptr) hook->before(call);
  if (step.posts.valid())
    post(step, port);
  else
    step.operation->rule->run(context, inputs, outputs, step.operation->attributes, scratch);
  if (hook != nullptr) hook->after(call);
}

/// Runs an operation for a hook that reads values: it gets host copies before and after the operation, which is slow.
void Executor::run_shown(const kernels::ExecutionContext& context, const OperationHook::Call& call, OperationHook& hook,
                         kernels::Scratch scratch) {
  const bool go_back = hook.sight() == OperationHook::Sight::copies_that_go_back;
  kernels::HostCopies inputs(context, call.inputs);
  hook.before({call.programs, call.kind, call.index, call.operation, inputs.tensors(), call.outputs});
  if (go_back) inputs.put_back(context);
  call.operation.rule->run(context, call.inputs, call.outputs, call.operation.attributes, scratch);
  kernels::HostCopies outputs(context, call.outputs);
  hook.after({call.programs, call.kind, call.index, call.operation, inputs.tensors(), outputs.tensors()});
  if (go_back) outputs.put_back(context);
}

Bindings Executor::touched(ProgramKind kind, const Bindings& bindings) const {
  Bindings of;
  for (std::size_t region = 0; region < region_count; ++region)
    if (touched_[index(kind)][region]) of.base[region] = bindings.base[region];
  return of;
}

kernels::Tensor Executor::tensor(ValueId value, const Bindings& bindings) const {
  const auto& placement = plan_.placements.at(index(value));
  const auto& type = programs_.value(value).type;
  auto* base = bindings[placement.region];
  return {base == nullptr ? nullptr : base + placement.offset, type.dtype, type.shape, kernels::MemorySpace::host};
}

}  // namespace millrace::runtime
