#include "actors/rank/hash_hook.hpp"

#include "kernels/transfer.hpp"

namespace millrace::actors {
namespace {

std::span<const std::byte> bytes_of(const kernels::Tensor& tensor) { return {tensor.data, tensor.bytes()}; }

bool trains(runtime::Pass pass) { return pass != runtime::Pass::evaluate && pass != runtime::Pass::logits; }

}  // namespace

HashHook::HashHook(const Rank& rank, const std::string& run_directory, std::int64_t first_step)
    : rank_(rank), recorder_(run_directory, rank.id().value, rank.plan().ranks(), first_step) {}

void HashHook::before(const Call& call) {
  if (trains(rank_.running().pass) && step_ != rank_.running().step) {
    step_ = rank_.running().step;
    recorder_.begin_step(step_ + 1);
    record_weights();
  }
  if (next != nullptr) next->before(call);
}

void HashHook::record_weights() {
  for (const runtime::Stage* stage : rank_.compute().stages()) {
    for (const auto& tensor : stage->shard().tensors()) {
      if (!tensor.is_owner()) continue;
      runtime::TensorHash record;
      record.name = recorder_.name("", tensor.name);
      record.stage = static_cast<std::uint16_t>(stage->stage().value);
      const auto master = stage->shard().master(tensor);
      recorder_.add(record, bytes_of(kernels::HostCopies(rank_.context(), {&master, 1}).tensors().front()));
    }
  }
}

void HashHook::after(const Call& call) {
  if (trains(rank_.running().pass)) {
    auto& names = result_names_[&call.operation];
    if (names.empty())
      for (const auto id : call.operation.outputs) names.push_back(recorder_.name(call.operation.name, call.programs.value(id).name));
    for (std::size_t output = 0; output < call.outputs.size(); ++output) {
      runtime::TensorHash record;
      record.name = names[output];
      record.microbatch = rank_.running().action.microbatch.value;
      record.operation = static_cast<std::uint32_t>(call.index);
      record.stage = static_cast<std::uint16_t>(rank_.running().action.stage.value);
      record.moment = call.kind == runtime::ProgramKind::forward ? runtime::TensorMoment::forward : runtime::TensorMoment::gradient;
      record.program = static_cast<std::uint8_t>(call.kind);
      recorder_.add(record, bytes_of(call.outputs[output]));
    }
  }
  if (next != nullptr) next->after(call);
}

void HashHook::end_step() {
  recorder_.end_step();
  step_ = -1;
}

}  // namespace millrace::actors
