#include "runtime/engine/stage_shard.hpp"

#include <algorithm>
#include <utility>

#include "kernels/average.hpp"
#include "kernels/base/check.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/packing.hpp"
#include "kernels/transfer.hpp"
#include "runtime/optimizers/averaged.hpp"

namespace millrace::runtime {
namespace {

kernels::Tensor fp32(std::byte* place, const kernels::Shape& shape) { return {place, kernels::DType::f32, shape}; }

/// The kind of the sections with gradient sums, of weights of experts or of the others.
MemoryKind kind_of_sums(bool experts) { return experts ? MemoryKind::expert_accumulator : MemoryKind::accumulator; }

/// The shape of some elements of a tensor.
kernels::Shape shape_of(const kernels::Shape& whole, std::int64_t count) {
  if (whole.elements() == count) return whole;
  const std::int64_t row = whole.rank() == 0 || whole[0] == 0 ? 1 : whole.elements() / whole[0];
  if (row == 0 || count % row != 0) return {count};
  kernels::Shape shape{count / row};
  for (std::size_t axis = 1; axis < whole.rank(); ++axis) shape.push_back(whole.dimension(axis));
  return shape;
}

/// Elements of a tensor of which `kept` are there.
kernels::Tensor part_of_kept(const kernels::Tensor& values, const ElementRange& kept, const ElementRange& elements) {
  return part_of(values, {elements.first - kept.first, elements.count});
}

/// Appends the pieces of what the rank reports of a gradient.
void add_pieces(const StoredParameter& tensor, const kernels::Tensor& values, std::vector<kernels::Tensor>& list) {
  const Pieces pieces = tensor.pieces();
  const auto [first, end] = pieces.of(tensor.reported());
  for (std::int64_t piece = first; piece < end; ++piece) list.push_back(part_of_kept(values, tensor.kept(), pieces.range(piece)));
}

std::span<float> elements(const kernels::Tensor& tensor) { return {tensor.as<float>(), static_cast<std::size_t>(tensor.elements())}; }

}  // namespace

kernels::Tensor float_run(std::byte* place, std::size_t bytes) { return fp32(place, {static_cast<std::int64_t>(bytes / sizeof(float))}); }

kernels::Tensor part_of(const kernels::Tensor& tensor, const ElementRange& elements) {
  kernels::Tensor part = tensor;
  part.data = static_cast<std::byte*>(tensor.data) + static_cast<std::size_t>(elements.first) * kernels::size_of(tensor.dtype);
  part.shape = shape_of(tensor.shape, elements.count);
  return part;
}

StageShard::StageShard(const ShardLayout& layout, const RankMemory& memory, std::shared_ptr<const Optimizer> optimizer)
    : layout_(layout), memory_(memory), optimizer_(std::move(optimizer)) {
  for (const ShardLayout::Accumulator& place : layout_.accumulators) {
    const MemoryKind kind = kind_of_sums(place.experts);
    const MemorySection* section = memory_.plan().find(kind, layout_.stage);
    if (section == nullptr || place.kept.empty()) continue;
    Sum& sum = sums_.emplace_back();
    accumulators_.resize(std::max(accumulators_.size(), static_cast<std::size_t>(section->slots)));
    for (int set = 0; set < section->slots; ++set) {
      sum.sets.push_back(fp32(memory_.slot(kind, layout_.stage, set) + place.offset, shape_of(place.shape, place.kept.count)));
      accumulators_[static_cast<std::size_t>(set)].push_back(sum.sets.back());
    }
    const int copies = place.experts ? layout_.expert_copies : layout_.copies;
    const DividedSumTree tree = divide_sum_tree(section->slots * copies, copies);
    for (const PartAddition& parts : tree.own.front()) sum.additions.push_back({parts.into / copies, parts.from / copies});
  }
  for (const StoredParameter& tensor : tensors()) {
    packs_ = packs_ || std::ranges::count(tensor.packed, true) > 0;
    if (accumulators_.empty() || tensor.kept().empty()) continue;
    add_pieces(tensor, gradient(tensor), owned_gradients_);
    if (!tensor.trained) frozen_gradients_.push_back(gradient(tensor));
    if (!tensor.trained || tensor.owned.empty()) continue;
    auto& update = updates_.emplace_back();
    update.parameter = owned_master(tensor);
    update.gradient = owned_sum(tensor, tensor.uses.front().use);
    if (!tensor.divided) update.copy = copy(tensor);
    update.decays = tensor.decays;
    update_scalars_.push_back(tensor.group);
    update.matrices = tensor.matrices;
    update.matrices.count = tensor.matrices.count * tensor.owned.count / tensor.shape.elements();
    std::size_t next = 0;
    for (std::size_t i = 0; i < states().size(); ++i)
      if (tensor.has_state(i)) update.states.at(next++) = state(tensor, i);
  }
}

const Optimizer& StageShard::optimizer() const {
  MILLRACE_CHECK(optimizer_ != nullptr, ExitCode::internal, "runtime.stage_shard", "an update of stage {}, which has no optimizer",
                 layout_.stage);
  return *optimizer_;
}

std::span<const OptimizerState> StageShard::states() const noexcept {
  return optimizer_ == nullptr ? std::span<const OptimizerState>{} : optimizer_->states();
}

kernels::Tensor StageShard::square_sums() const {
  const MemorySection* section = memory_.plan().find(MemoryKind::square, layout_.stage);
  const auto count = static_cast<std::int64_t>(owned_gradients_.size());
  return {memory_.slot_or_null(MemoryKind::square, layout_.stage),
          kernels::DType::f64,
          {count},
          section == nullptr ? kernels::MemorySpace::host : section->space};
}

kernels::Tensor StageShard::master(const StoredParameter& tensor) const {
  return fp32(memory_.region(MemoryKind::master) + tensor.offset, shape_of(tensor.shape, tensor.held().count));
}

kernels::Tensor StageShard::owned_master(const StoredParameter& tensor) const {
  return part_of_kept(master(tensor), tensor.held(), tensor.owned);
}

kernels::Tensor StageShard::gathered(const StoredParameter& tensor) const {
  return {memory_.region(MemoryKind::copy) + tensor.first_use_by(layout_.stage).gathered, tensor.read_type(), tensor.shape};
}

kernels::Tensor StageShard::state(const StoredParameter& tensor, std::size_t state) const {
  MILLRACE_CHECK(tensor.has_state(state), ExitCode::internal, "runtime.stage_shard", "state {} of {}, which it does not have", state,
                 tensor.name);
  return {memory_.slot(MemoryKind::state, layout_.stage) + tensor.states[state], states()[state].dtype,
          shape_of(tensor.shape, tensor.owned.count)};
}

kernels::Tensor StageShard::copy(const StoredParameter& tensor) const {
  if (!tensor.copied) return {};
  return {memory_.region(MemoryKind::copy) + tensor.copy, kernels::DType::bf16, tensor.shape};
}

kernels::Tensor StageShard::accumulator(const StoredParameter& tensor, int use, int set) const {
  for (const StoredParameter::Use& each : tensor.uses) {
    if (each.use == use)
      return fp32(memory_.slot(kind_of_sums(tensor.experts.present()), each.stage, set) + each.kept,
                  shape_of(tensor.shape, tensor.kept().count));
  }
  fail(ExitCode::internal, "runtime.stage_shard", "use {} of {} is not on this rank", use, tensor.name);
}

kernels::Tensor StageShard::owned_sum(const StoredParameter& tensor, int use) const {
  return part_of_kept(accumulator(tensor, use), tensor.kept(), tensor.owned);
}

void StageShard::begin_leaf(const kernels::ExecutionContext& context, int leaf) const {
  if (layout_.accumulator_bytes > 0)
    kernels::fill_zero(context, float_run(memory_.slot(MemoryKind::leaf, no_stage, leaf), layout_.accumulator_bytes));
}

void StageShard::add_leaf(const kernels::ExecutionContext& context, int leaf) const {
  if (layout_.accumulator_bytes == 0) return;
  MILLRACE_CHECK(layout_.kept_bytes == layout_.accumulator_bytes, ExitCode::internal, "runtime.stage_shard",
                 "gradients of stage {} are added to sums that replicas divide", layout_.stage);
  kernels::accumulate(context, float_run(memory_.slot(MemoryKind::leaf, no_stage, leaf), layout_.accumulator_bytes),
                      float_run(memory_.slot(MemoryKind::accumulator, layout_.stage), layout_.kept_bytes));
}

void StageShard::zero_accumulators(const kernels::ExecutionContext& context) const {
  for (const auto& set : accumulators_)
    for (const kernels::Tensor& sum : set) kernels::fill_zero(context, sum);
}

void StageShard::add_accumulator_sets(const kernels::ExecutionContext& context) const {
  for (const Sum& sum : sums_) {
    for (const PartAddition& sets : sum.additions) {
      const kernels::Tensor& from = sum.sets[static_cast<std::size_t>(sets.from)];
      kernels::accumulate(context, from, sum.sets[static_cast<std::size_t>(sets.into)]);
      kernels::fill_zero(context, from);
    }
  }
}

void StageShard::add_local_uses(const kernels::ExecutionContext& context, const StoredParameter& tensor) const {
  for (std::size_t i = 1; i < tensor.uses.size(); ++i) {
    if (tensor.owned.empty()) return;
    const kernels::Tensor other = owned_sum(tensor, tensor.uses[i].use);
    kernels::accumulate(context, other, owned_sum(tensor, tensor.uses.front().use));
    kernels::fill_zero(context, other);
  }
}

void StageShard::begin_gather(const kernels::ExecutionContext& context, const ShardLayout::Bucket& bucket) const {
  for (const auto& [from, to, elements, type] : bucket.own)
    kernels::convert(context, fp32(memory_.region(MemoryKind::master) + from, {elements}),
                     {memory_.region(MemoryKind::copy) + to, type, {elements}});
}

void StageShard::end_gather(const kernels::ExecutionContext& context) const {
  for (const auto* tensors : {&layout_.tensors, &layout_.borrowed}) {
    for (const StoredParameter& tensor : *tensors) {
      if (!tensor.masters_divided) continue;
      const StoredParameter::Use& use = tensor.first_use_by(layout_.stage);
      for (std::size_t form = 0; form < use.packed.size(); ++form)
        if (use.packed[form])
          kernels::pack(context, gathered(tensor), form == 1, memory_.region(MemoryKind::copy) + use.packed_gathered[form]);
    }
  }
}

void StageShard::refresh_copies(const kernels::ExecutionContext& context, const StoredParameter& tensor) const {
  if (tensor.masters_divided) return;  // they are made whenever it is gathered
  if (tensor.copied) kernels::convert(context, master(tensor), copy(tensor));
  pack_copies(context, tensor);
}

void StageShard::refresh_copies(const kernels::ExecutionContext& context) const {
  for (const StoredParameter& tensor : tensors()) refresh_copies(context, tensor);
}

void StageShard::refresh_divided_copies(const kernels::ExecutionContext& context) const {
  for (const StoredParameter& tensor : tensors())
    if (tensor.divided) refresh_copies(context, tensor);
}

void StageShard::pack_copies(const kernels::ExecutionContext& context, const StoredParameter& tensor) const {
  for (std::size_t form = 0; form < tensor.packed.size(); ++form) {
    if (!tensor.packed[form]) continue;
    kernels::pack(context, tensor.copied ? copy(tensor) : master(tensor), form == 1,
                  memory_.region(MemoryKind::copy) + tensor.packed_copy[form]);
  }
}

void StageShard::take_snapshot(const kernels::ExecutionContext& context) const {
  if (layout_.staged_bytes == 0) return;
  auto& device = context.device_context();
  device.wait(kernels::StreamKind::background, kernels::StreamKind::compute);
  std::byte* staging = memory_.slot(MemoryKind::staging, layout_.stage);
  for (const auto& [from, to, bytes] : layout_.staged_runs)
    device.copy(kernels::StreamKind::background, staging + to, memory_.region(MemoryKind::master) + from, bytes);
  if (states().empty() || layout_.state_bytes == 0) return;
  device.copy(kernels::StreamKind::background, staging + layout_.staged_bytes, memory_.slot(MemoryKind::state, layout_.stage),
              layout_.state_bytes);
}

void StageShard::after_snapshot(const kernels::ExecutionContext& context) const {
  context.device_context().wait(kernels::StreamKind::compute, kernels::StreamKind::background);
}

void StageShard::fill(const kernels::ExecutionContext& context, const kernels::Tensor& place,
                      const std::function<void(std::span<float>)>& write) const {
  kernels::fill(context, place, [&](std::span<std::byte> bytes) {
    write({reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
  });
}

kernels::Scratch StageShard::scratch() const noexcept {
  const MemorySection* section = memory_.plan().find(MemoryKind::workspace);
  if (section == nullptr) return {};
  return {memory_.slot_or_null(MemoryKind::workspace), section->slot_bytes};
}

std::span<const std::byte> StageShard::snapshot_master(const StoredParameter& tensor) const {
  return {memory_.slot(MemoryKind::staging, layout_.stage) + tensor.staged, static_cast<std::size_t>(tensor.owned.count) * sizeof(float)};
}
std::span<const std::byte> StageShard::snapshot_state(const StoredParameter& tensor, std::size_t state) const {
  return {memory_.slot(MemoryKind::staging, layout_.stage) + layout_.staged_bytes + tensor.states.at(state),
          static_cast<std::size_t>(tensor.owned.count) * kernels::size_of(states()[state].dtype)};
}

std::span<float> StageShard::master(std::string_view name) const { return elements(master(layout_.at(name))); }
std::span<float> StageShard::state(std::string_view name, std::size_t index) const { return elements(state(layout_.at(name), index)); }

void StageShard::begin_states(const kernels::ExecutionContext& context) const {
  for (const StoredParameter& tensor : tensors())
    for (std::size_t i = 0; i < states().size(); ++i)
      if (tensor.has_state(i) && states()[i].begins_as_parameter && !tensor.owned.empty())
        kernels::convert(context, owned_master(tensor), state(tensor, i));
}

void StageShard::exchange_average(const kernels::ExecutionContext& context) const {
  for (const StoredParameter& tensor : tensors()) {
    const std::size_t last = states().size() - 1;
    if (states().empty() || states()[last].name != average_name || !tensor.has_state(last) || tensor.owned.empty()) continue;
    kernels::exchange(context, owned_master(tensor), state(tensor, last));
    if (!tensor.divided) refresh_copies(context, tensor);
  }
}

}  // namespace millrace::runtime
