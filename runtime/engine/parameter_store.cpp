#include "runtime/engine/parameter_store.hpp"

#include <algorithm>
#include <utility>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/packing.hpp"
#include "kernels/transfer.hpp"

namespace millrace::runtime {
namespace {

std::span<float> elements(const kernels::Tensor& tensor) { return {tensor.as<float>(), static_cast<std::size_t>(tensor.elements())}; }

}  // namespace

ParameterStore::ParameterStore(const ParameterLayout& layout, const RankMemory& memory, std::shared_ptr<const Optimizer> optimizer)
    : layout_(layout), memory_(memory), optimizer_(std::move(optimizer)) {
  if (memory_.plan().find(MemoryKind::accumulator) == nullptr) return;
  for (const StoredParameter& tensor : layout_.tensors()) {
    packs_ = packs_ || std::ranges::count(tensor.packed, true) > 0;
    if (tensor.is_owner()) owned_gradients_.push_back(gradient(tensor));
    auto& update = updates_.emplace_back();
    update.parameter = master(tensor);
    update.gradient = gradient(tensor);
    update.copy = copy(tensor);
    update.decays = tensor.decays;
    for (std::size_t i = 0; i < states().size(); ++i) update.states.at(i) = state(tensor, i);
  }
}

const Optimizer& ParameterStore::optimizer() const {
  MILLRACE_CHECK(optimizer_ != nullptr, ExitCode::internal, "runtime.parameter_store", "an update of a rank that has no optimizer");
  return *optimizer_;
}

std::span<const OptimizerState> ParameterStore::states() const noexcept {
  if (optimizer_ == nullptr || memory_.plan().find(MemoryKind::accumulator) == nullptr) return {};
  return optimizer_->states();
}

kernels::Tensor ParameterStore::square_sums() const {
  const auto count = static_cast<std::int64_t>(owned_gradients_.size());
  return {memory_.slot_or_null(MemoryKind::square),
          kernels::DType::f64,
          {count},
          memory_.plan().find(MemoryKind::square) == nullptr ? kernels::MemorySpace::host : memory_.plan().find(MemoryKind::square)->space};
}

kernels::Tensor ParameterStore::fp32(MemoryKind kind, int slot, std::size_t offset, const StoredParameter& tensor) const {
  return {memory_.slot(kind, no_stage, slot) + offset, kernels::DType::f32, tensor.shape};
}

int ParameterStore::accumulator_sets() const noexcept {
  const MemorySection* section = memory_.plan().find(MemoryKind::accumulator);
  return section != nullptr ? section->slots : 0;
}

kernels::Tensor ParameterStore::master(const StoredParameter& tensor) const { return fp32(MemoryKind::master, 0, tensor.offset, tensor); }
kernels::Tensor ParameterStore::state(const StoredParameter& tensor, std::size_t state) const {
  return fp32(MemoryKind::state, static_cast<int>(state), tensor.offset, tensor);
}

kernels::Tensor ParameterStore::copy(const StoredParameter& tensor) const {
  if (!tensor.copied) return {};
  return {memory_.slot(MemoryKind::copy) + tensor.copy, kernels::DType::bf16, tensor.shape};
}

kernels::Tensor ParameterStore::accumulator(const StoredParameter& tensor, int use, int set) const {
  for (const StoredParameter::Use& each : tensor.uses) {
    if (each.use == use) return fp32(MemoryKind::accumulator, set, each.accumulator, tensor);
  }
  fail(ExitCode::internal, "runtime.parameter_store", "use {} of {} is not on this rank", use, tensor.name);
}

void ParameterStore::zero_accumulators(const kernels::ExecutionContext& context) const {
  for (int set = 0; set < accumulator_sets(); ++set) {
    for (const StoredParameter& tensor : layout_.tensors()) {
      for (const StoredParameter::Use& use : tensor.uses) kernels::fill_zero(context, accumulator(tensor, use.use, set));
    }
  }
}

void ParameterStore::add_accumulator_sets(const kernels::ExecutionContext& context) const {
  for (int set = 1; set < accumulator_sets(); ++set) {
    for (const StoredParameter& tensor : layout_.tensors()) {
      for (const StoredParameter::Use& use : tensor.uses) {
        const kernels::Tensor part = accumulator(tensor, use.use, set);
        kernels::accumulate(context, part, accumulator(tensor, use.use, 0));
        kernels::fill_zero(context, part);
      }
    }
  }
}

void ParameterStore::add_local_uses(const kernels::ExecutionContext& context) const {
  for (const StoredParameter& tensor : layout_.tensors()) {
    for (std::size_t i = 1; i < tensor.uses.size(); ++i) {
      const kernels::Tensor other = accumulator(tensor, tensor.uses[i].use);
      kernels::accumulate(context, other, gradient(tensor));
      kernels::fill_zero(context, other);
    }
  }
}

void ParameterStore::refresh_copies(const kernels::ExecutionContext& context) const {
  for (const StoredParameter& tensor : layout_.tensors()) {
    if (tensor.copied) kernels::convert(context, master(tensor), copy(tensor));
    pack_copies(context, tensor);
  }
}

void ParameterStore::pack_copies(const kernels::ExecutionContext& context, const StoredParameter& tensor) const {
  for (std::size_t form = 0; form < tensor.packed.size(); ++form) {
    if (!tensor.packed[form]) continue;
    kernels::pack(context, tensor.copied ? copy(tensor) : master(tensor), form == 1,
                  memory_.slot(MemoryKind::copy) + tensor.packed_copy[form]);
  }
}

void ParameterStore::take_snapshot(const kernels::ExecutionContext& context) const {
  const std::size_t bytes = layout_.master_bytes();
  if (bytes == 0) return;
  auto& device = context.device_context();
  device.wait(kernels::StreamKind::background, kernels::StreamKind::compute);
  const auto stage = [&](int slot, const std::byte* from) {
    device.copy(kernels::StreamKind::background, memory_.slot(MemoryKind::staging, no_stage, slot), from, bytes);
  };
  stage(0, memory_.slot(MemoryKind::master));
  for (int state = 0; state < static_cast<int>(states().size()); ++state)
    stage(1 + state, memory_.slot(MemoryKind::state, no_stage, state));
}

void ParameterStore::after_snapshot(const kernels::ExecutionContext& context) const {
  context.device_context().wait(kernels::StreamKind::compute, kernels::StreamKind::background);
}

void ParameterStore::fill(const kernels::ExecutionContext& context, const kernels::Tensor& place,
                          const std::function<void(std::span<float>)>& write) const {
  kernels::fill(context, place, [&](std::span<std::byte> bytes) {
    write({reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
  });
}

std::span<const std::byte> ParameterStore::staged(const StoredParameter& tensor, int slot) const {
  return {memory_.slot(MemoryKind::staging, no_stage, slot) + tensor.offset, tensor.bytes()};
}

std::span<const std::byte> ParameterStore::snapshot_master(const StoredParameter& tensor) const { return staged(tensor, 0); }
std::span<const std::byte> ParameterStore::snapshot_state(const StoredParameter& tensor, std::size_t state) const {
  return staged(tensor, 1 + static_cast<int>(state));
}

std::span<float> ParameterStore::master(std::string_view name) const { return elements(master(layout_.at(name))); }
std::span<float> ParameterStore::state(std::string_view name, std::size_t index) const { return elements(state(layout_.at(name), index)); }

}  // namespace millrace::runtime
