#include "runtime/engine/parameter_store.hpp"

#include <cstring>

#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/packing.hpp"
#include "kernels/transfer.hpp"

namespace millrace::runtime {
namespace {

std::span<float> elements(const kernels::Tensor& tensor) { return {tensor.as<float>(), static_cast<std::size_t>(tensor.elements())}; }

}  // namespace

ParameterStore::ParameterStore(const ParameterLayout& layout, const RankMemory& memory) : layout_(layout), memory_(memory) {
  if (memory_.plan().find(MemoryKind::accumulator) == nullptr) return;
  for (const StoredParameter& tensor : layout_.tensors()) {
    if (tensor.is_owner()) spoken_gradients_.push_back(gradient(tensor));
    updates_.push_back({master(tensor), first_moment(tensor), second_moment(tensor), gradient(tensor), copy(tensor), tensor.decays});
  }
}

kernels::Tensor ParameterStore::square_sums() const {
  const auto count = static_cast<std::int64_t>(spoken_gradients_.size());
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
kernels::Tensor ParameterStore::first_moment(const StoredParameter& tensor) const {
  return fp32(MemoryKind::first_moment, 0, tensor.offset, tensor);
}
kernels::Tensor ParameterStore::second_moment(const StoredParameter& tensor) const {
  return fp32(MemoryKind::second_moment, 0, tensor.offset, tensor);
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
  if (context.on_cuda()) context.device_context().wait(kernels::StreamKind::background, kernels::StreamKind::compute);
  int slot = 0;
  for (const auto kind : {MemoryKind::master, MemoryKind::first_moment, MemoryKind::second_moment}) {
    if (memory_.plan().find(kind) == nullptr) continue;
    std::byte* to = memory_.slot(MemoryKind::staging, no_stage, slot++);
    if (context.on_cuda())
      context.device_context().copy(kernels::StreamKind::background, to, memory_.slot(kind), bytes);
    else
      std::memcpy(to, memory_.slot(kind), bytes);
  }
}

void ParameterStore::after_snapshot(const kernels::ExecutionContext& context) const {
  if (context.on_cuda()) context.device_context().wait(kernels::StreamKind::compute, kernels::StreamKind::background);
}

void ParameterStore::fill(const kernels::ExecutionContext& context, std::string_view name, Part part,
                          const std::function<void(std::span<float>)>& write) const {
  const StoredParameter& tensor = layout_.at(name);
  const kernels::Tensor place = part == Part::master         ? master(tensor)
                                : part == Part::first_moment ? first_moment(tensor)
                                                             : second_moment(tensor);
  if (!context.on_cuda()) return write(elements(place));
  std::vector<float> numbers(tensor.elements());
  write(numbers);
  kernels::put(context, std::as_bytes(std::span(numbers)), place);
}

std::span<const std::byte> ParameterStore::staged(const StoredParameter& tensor, int slot) const {
  return {memory_.slot(MemoryKind::staging, no_stage, slot) + tensor.offset, tensor.bytes()};
}

std::span<const std::byte> ParameterStore::snapshot_master(const StoredParameter& tensor) const { return staged(tensor, 0); }
std::span<const std::byte> ParameterStore::snapshot_first_moment(const StoredParameter& tensor) const { return staged(tensor, 1); }
std::span<const std::byte> ParameterStore::snapshot_second_moment(const StoredParameter& tensor) const { return staged(tensor, 2); }

std::span<float> ParameterStore::master(std::string_view name) const { return elements(master(layout_.at(name))); }
std::span<float> ParameterStore::first_moment(std::string_view name) const { return elements(first_moment(layout_.at(name))); }
std::span<float> ParameterStore::second_moment(std::string_view name) const { return elements(second_moment(layout_.at(name))); }

}  // namespace millrace::runtime
