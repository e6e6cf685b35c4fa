#include "actors/rank/capture_hook.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/base/thread_team.hpp"
#include "kernels/route.hpp"
#include "layers/models/mtp.hpp"

namespace millrace::actors {
namespace {

bool labelled(const runtime::Value& value, std::string_view label) {
  return std::find(value.labels.begin(), value.labels.end(), label) != value.labels.end();
}

float element(const kernels::Tensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case kernels::DType::bf16:
      return kernels::to_float(tensor.as<kernels::BFloat16>()[i]);
    case kernels::DType::f64:
      return static_cast<float>(tensor.as<double>()[i]);
    default:
      return tensor.as<float>()[i];
  }
}

}  // namespace

void CaptureHook::keep(const std::string& name, const kernels::Tensor& tensor) {
  auto [place, fresh] = kept_.try_emplace(name);
  if (!fresh) return;
  auto& captured = place->second;
  captured.name = name;
  captured.shape = tensor.shape.sizes();
  captured.values.resize(static_cast<std::size_t>(tensor.elements()));
  for (std::size_t i = 0; i < captured.values.size(); ++i) captured.values[i] = element(tensor, i);
}

void CaptureHook::before(const Call& call) {
  if (rank_.running().pass != runtime::Pass::forward || call.kind != runtime::ProgramKind::forward) return;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    const auto& value = call.programs.value(call.operation.inputs[i]);
    std::int64_t index = -1;
    const bool in_layer = call.operation.layer >= 0 && call.operation.layer < rank_.plan().model.layers;
    if (in_layer && labelled(value, "decoder_layer_input")) index = call.operation.layer - (counts_outputs() ? 1 : 0);
    if (call.operation.layer < 0 && labelled(value, "decoder_output") && counts_outputs()) index = rank_.plan().model.layers - 1;
    if (index >= 0) keep(fmt::format("hidden.{}/{}", index, rank_.running().action.microbatch), call.inputs[i]);
  }
}

bool CaptureHook::exchange_choice(const Call& call, const kernels::Tensor& choice) {
  constexpr const char* component = "actors.parity";
  const std::string key = trains() ? fmt::format("{}/{}", call.operation.name, rank_.running().action.microbatch)
                                   : fmt::format("{}/logits/{}", call.operation.name, logits_passes_[call.operation.name]++);
  auto* const chosen = choice.as<std::int32_t>();
  const auto count = static_cast<std::size_t>(choice.elements());
  if (imposed_ == nullptr) {
    choices_.try_emplace(key, chosen, chosen + count);
    return false;
  }
  const auto imposed = imposed_->find(key);
  MILLRACE_CHECK(imposed != imposed_->end() && imposed->second.size() == count, ExitCode::internal, component,
                 "no choice of {} indices is recorded for {}", count, key);
  std::ranges::copy(imposed->second, chosen);
  return true;
}

/// A router's results are its weights and its experts.
void CaptureHook::route(const Call& call) {
  if (!exchange_choice(call, call.outputs[1])) return;
  auto options = call.operation.attributes.as<kernels::RouteOptions>();
  options.given = true;
  kernels::ThreadTeam team(1);
  kernels::route(kernels::ExecutionContext(team), call.inputs[0], call.inputs.size() > 1 ? &call.inputs[1] : nullptr, options,
                 call.outputs[0], call.outputs[1]);
}

/// An indexer's result is the list of keys of each query.
void CaptureHook::choose_keys(const Call& call) { exchange_choice(call, call.outputs[0]); }

void CaptureHook::after(const Call& call) {
  if (call.operation.rule->name() == "route") route(call);
  if (call.operation.rule->name() == "choose_keys") choose_keys(call);
  const bool forward = rank_.running().pass == runtime::Pass::forward;
  for (std::size_t i = 0; i < call.outputs.size(); ++i) {
    const auto id = call.operation.outputs[i];
    if (forward && labelled(call.programs.value(id), "final_norm") && !counts_outputs())
      keep(fmt::format("hidden.{}/{}", rank_.plan().model.layers, rank_.running().action.microbatch), call.outputs[i]);
    if (forward && labelled(call.programs.value(id), layers::mtp_output_label))
      keep(fmt::format("hidden.{}/{}", layers::mtp_stream(call.operation.layer - static_cast<int>(rank_.plan().model.layers) + 1),
                       rank_.running().action.microbatch),
           call.outputs[i]);
    const runtime::StageLoss* loss = trains() ? call.programs.loss_of(id) : nullptr;
    // Terms of one name in several places of the model differ in their value's name.
    if (loss != nullptr)
      keep(fmt::format("loss_sums.{}.{}/{}", loss->term.name, call.programs.value(id).name, rank_.running().action.microbatch),
           call.outputs[i]);
    const bool first = rank_.plan().schedule.placement.replica_of(rank_.running().action.stage) == 0;  // others have the same
    if (rank_.running().pass == runtime::Pass::logits && id == call.programs.logits && first)
      keep(fmt::format("logits/{}", logits_microbatch_++), call.outputs[i]);
  }
}

std::vector<CapturedTensor> CaptureHook::take() {
  std::vector<CapturedTensor> tensors;
  for (auto& [name, tensor] : kept_) tensors.push_back(std::move(tensor));
  kept_.clear();
  return tensors;
}

}  // namespace millrace::actors
