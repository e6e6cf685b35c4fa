#include "runtime/program/executor.hpp"

#include <algorithm>

#include "kernels/base/check.hpp"
#include "kernels/base/range.hpp"
#include "kernels/transfer.hpp"

namespace millrace::runtime {
namespace {

constexpr const char* executor_component = "runtime.executor";

std::size_t index(ValueId id) { return static_cast<std::size_t>(id.index); }
std::size_t index(ProgramKind kind) { return static_cast<std::size_t>(kind); }

/// The shape of this execution: bounded axes get their count and are exact from here on.
void resolve(kernels::Shape& shape, std::span<const std::int64_t> counts) {
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    const auto dimension = shape.dimension(axis);
    if (!dimension.bounded()) continue;
    const auto count = static_cast<std::size_t>(dimension.count);
    MILLRACE_CHECK(count < counts.size(), ExitCode::internal, executor_component, "runtime count {} bounds an axis, and {} were given",
                   count, counts.size());
    MILLRACE_CHECK(counts[count] >= 0 && counts[count] <= dimension.capacity / dimension.factor, ExitCode::internal, executor_component,
                   "runtime count {} is {}, expected 0 to {}", count, counts[count], dimension.capacity / dimension.factor);
    shape.dimension(axis) = kernels::Dimension(counts[count] * dimension.factor);
  }
}

}  // namespace

Executor::Executor(const ProgramSet& programs, const MemoryPlan& plan) : programs_(programs), plan_(plan) {
  MILLRACE_CHECK(plan.placements.size() == programs.values.size(), ExitCode::internal, executor_component,
                 "the plan places {} values, the programs have {}", plan.placements.size(), programs.values.size());
  std::size_t widest = 0;
  for (const auto kind : all_program_kinds) {
    if (!runs(plan.mode, kind)) continue;
    for (const auto& operation : programs.program(kind)) {
      Step step{&operation, static_cast<std::uint32_t>(operands_.size()), static_cast<std::uint32_t>(operation.inputs.size()),
                static_cast<std::uint32_t>(operation.outputs.size()), false};
      for (const auto* ids : {&operation.inputs, &operation.outputs})
        for (const auto id : *ids) {
          const auto& type = programs.value(id).type;
          operands_.push_back({plan.placements[index(id)], {nullptr, type.dtype, type.shape, kernels::MemorySpace::host}});
          step.bounded = step.bounded || type.shape.bounded();
          touched_[index(kind)][static_cast<std::size_t>(plan.placements[index(id)].region)] = true;
        }
      widest = std::max(widest, operation.inputs.size() + operation.outputs.size());
      steps_[index(kind)].push_back(step);
    }
  }
  scratchpad_.resize(widest);
}

void Executor::run(ProgramKind kind, const kernels::ExecutionContext& context, const Bindings& bindings, OperationHook* hook,
                   std::span<const std::int64_t> counts) {
  MILLRACE_CHECK(runs(plan_.mode, kind), ExitCode::internal, executor_component, "the {} program is not part of this plan",
                 to_string(kind));
  const auto scratch_bytes = plan_.scratch_bytes[index(kind)];
  kernels::Scratch scratch;
  if (scratch_bytes > 0) {
    MILLRACE_CHECK(bindings[Region::workspace] != nullptr, ExitCode::internal, executor_component,
                   "the {} program runs without a workspace", to_string(kind));
    scratch = {bindings[Region::workspace] + plan_.scratch_offset[index(kind)], scratch_bytes};
  }
  const auto& steps = steps_[index(kind)];
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const auto& step = steps[i];
    const std::size_t operands = step.inputs + step.outputs;
    try {
      for (std::size_t operand = 0; operand < operands; ++operand) {
        const auto& [placement, prototype] = operands_[step.first_operand + operand];
        MILLRACE_CHECK(bindings[placement.region] != nullptr, ExitCode::internal, executor_component,
                       "operand {} is in {}, which has no base", operand, to_string(placement.region));
        auto& tensor = scratchpad_[operand];
        tensor = prototype;
        tensor.data = bindings[placement.region] + placement.offset;
        if (step.bounded) resolve(tensor.shape, counts);
      }
      run_step(context, kind, i, hook, scratch);
    } catch (const Error& error) {
      throw Error(error.code(), step.operation->name + ": " + error.what());
    }
  }
}

void Executor::run_step(const kernels::ExecutionContext& context, ProgramKind kind, std::size_t index_in_program, OperationHook* hook,
                        kernels::Scratch scratch) {
  const auto& step = steps_[index(kind)][index_in_program];
  const std::span<const kernels::Tensor> inputs{scratchpad_.data(), step.inputs};
  const std::span<const kernels::Tensor> outputs{scratchpad_.data() + step.inputs, step.outputs};
  const OperationHook::Call call{programs_, kind, index_in_program, *step.operation, inputs, outputs};
  const kernels::Range range(step.operation->name.c_str());
  context.device_context().set_breadcrumb(static_cast<std::uint32_t>(index_in_program));
  if (hook != nullptr && !context.host_readable() && hook->sight() != OperationHook::Sight::addresses)
    return run_shown(context, call, *hook, scratch);
  if (hook != nullptr) hook->before(call);
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
