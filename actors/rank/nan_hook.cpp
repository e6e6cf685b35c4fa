#include "actors/rank/nan_hook.hpp"

#include <limits>
#include <vector>

#include "kernels/base/check.hpp"
#include "kernels/base/without_component.hpp"
#include "kernels/packing.hpp"
#include "runtime/engine/nan_search.hpp"
#include "runtime/io/fault.hpp"
#include "runtime/io/safetensors.hpp"
#include "runtime/passes/plain_operand.hpp"

namespace millrace::actors {
namespace {

void plant(const runtime::Value& value, const kernels::Tensor& tensor) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  const auto dtype = value.form == runtime::WeightForm::plain ? tensor.dtype : kernels::packed_dtype(tensor.dtype);
  if (dtype == kernels::DType::f32) *tensor.as<float>() = nan;
  if (dtype == kernels::DType::bf16) *tensor.as<kernels::BFloat16>() = kernels::to_bfloat16(nan);
}

}  // namespace

void NanHook::after(const Call& call) {
  const auto finding = runtime::find_not_finite(call);
  if (!finding) return;
  const auto& action = rank_.running().action;
  const auto& plan = rank_.plan();
  const std::int64_t sample = (plan.ramp.before(rank_.running().step) + action.microbatch.value) * plan.rows;
  fail(ExitCode::numerics, "actors.find_nan", "step {}, {} on rank {}, samples {} to {}: {}{}", rank_.running().step + 1, action,
       rank_.id(), sample, sample + plan.rows - 1, finding->text(), save(call));
}

std::string NanHook::save(const Call& call) const {
  if (folder_.empty()) return "";
  std::vector<runtime::TensorToWrite> tensors;
  std::vector<runtime::PlainOperand> operands;
  for (std::size_t index = 0; index < call.inputs.size(); ++index) {
    const auto& value = call.programs.value(call.operation.inputs[index]);
    const auto& tensor = operands.emplace_back(value, call.inputs[index]).tensor();
    tensors.push_back({value.name, runtime::file_dtype(tensor.dtype), tensor.shape.sizes(), {tensor.data, tensor.bytes()}});
  }
  const auto path = runtime::join_path(
      folder_, fmt::format("step-{}-{}-{}.safetensors", rank_.running().step + 1, rank_.running().action, call.operation.name));
  try {
    runtime::make_directories(folder_);
    runtime::write_safetensors(path, tensors);
  } catch (const Error& error) {
    return fmt::format("; its inputs could not be written: {}", without_component(error.what()));
  }
  return "; its inputs are in " + path;
}

void FaultHook::before(const Call& call) {
  for (std::size_t index = 0; index < call.inputs.size(); ++index) {
    const auto& value = call.programs.value(call.operation.inputs[index]);
    if (value.role == runtime::Role::parameter && runtime::value_fault(value.name)) plant(value, call.inputs[index]);
  }
  if (next_ != nullptr) next_->before(call);
}

void FaultHook::after(const Call& call) {
  if (!call.outputs.empty() && runtime::value_fault(call.operation.name))
    plant(call.programs.value(call.operation.outputs.front()), call.outputs.front());
  if (next_ != nullptr) next_->after(call);
}

}  // namespace millrace::actors
