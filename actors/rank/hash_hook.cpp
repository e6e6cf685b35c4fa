#include "actors/rank/hash_hook.hpp"

#include <algorithm>

#include "kernels/transfer.hpp"
#include "runtime/program/expert_slices.hpp"

namespace millrace::actors {
namespace {

std::span<const std::byte> bytes_of(const kernels::Tensor& tensor) { return {tensor.data, tensor.bytes()}; }

bool trains(runtime::Pass pass) { return pass != runtime::Pass::evaluate && pass != runtime::Pass::logits; }

}  // namespace

HashHook::HashHook(const Rank& rank, const std::string& run_directory, std::int64_t first_step, SourceMicrobatches sources)
    : rank_(rank), recorder_(run_directory, rank.id().value, rank.plan().ranks(), first_step), parts_(sources) {}

void HashHook::before(const Call& call) {
  if (trains(rank_.running().pass) && step_ != rank_.running().step) {
    step_ = rank_.running().step;
    recorder_.begin_step(step_ + 1);
    recorded_.clear();
  }
  if (trains(rank_.running().pass)) record_weights(rank_.running().action.stage);
  if (next != nullptr) next->before(call);
}

/// The weights of a stage, at its first operation in the step: those of other stages may still be on their way from other replicas.
void HashHook::record_weights(runtime::StageId stage) {
  if (std::ranges::find(recorded_, stage) != recorded_.end()) return;
  recorded_.push_back(stage);
  const runtime::StageShard& shard = rank_.compute().stage(stage).shard();
  for (const auto& tensor : shard.tensors()) {
    if (!tensor.is_owner()) continue;
    if (tensor.masters_divided && tensor.copied) continue;  // nobody has all of it in fp32
    runtime::TensorHash record;
    record.stage = static_cast<std::uint16_t>(stage.value);
    const auto values = tensor.masters_divided ? shard.gathered(tensor) : shard.master(tensor);
    const kernels::HostCopies copies(rank_.context(), {&values, 1});
    for (const RecordedPart& part : parts_of(tensor)) {
      record.name = recorder_.name("", part.expert < 0 ? tensor.name : runtime::expert_name(tensor.name, part.expert));
      recorder_.add(record, bytes_of(copies.tensors().front()).subspan(part.begin, part.bytes));
    }
  }
}

void HashHook::after(const Call& call) {
  if (trains(rank_.running().pass)) {
    const runtime::Action& action = rank_.running().action;
    parts_.note(call, action);
    // Rounds have the rows of experts in parts, which one rank has not.
    const bool of_exchange = call.operation.rule->is_of_exchange() || call.operation.round >= 0;
    const std::size_t outputs = of_exchange ? 0 : call.outputs.size();
    for (std::size_t output = 0; output < outputs; ++output) {
      runtime::TensorHash record;
      record.operation = static_cast<std::uint32_t>(call.index);
      record.stage = static_cast<std::uint16_t>(action.stage.value);
      record.moment = call.kind == runtime::ProgramKind::forward ? runtime::TensorMoment::forward : runtime::TensorMoment::gradient;
      record.program = static_cast<std::uint8_t>(call.kind);
      for (const RecordedPart& part : parts_.parts_of(call, output, action)) {
        record.name = name_of(call, output, part.expert);
        record.microbatch = part.microbatch;
        recorder_.add(record, bytes_of(call.outputs[output]).subspan(part.begin, part.bytes));
      }
    }
  }
  if (next != nullptr) next->after(call);
}

std::uint32_t HashHook::name_of(const Call& call, std::size_t output, std::int64_t expert) {
  const auto [place, fresh] = result_names_[&call.operation].try_emplace({output, expert}, 0);
  if (fresh) {
    const std::string& tensor = call.programs.value(call.operation.outputs[output]).name;
    place->second = recorder_.name(call.operation.name, expert < 0 ? tensor : runtime::expert_name(tensor, expert));
  }
  return place->second;
}

void HashHook::end_step() {
  recorder_.end_step();
  parts_.clear();
  step_ = -1;
}

}  // namespace millrace::actors
