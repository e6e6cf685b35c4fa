#include "actors/rank/initial_state.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "kernels/transfer.hpp"
#include "layers/formats/model_weights.hpp"
#include "layers/initial_values.hpp"
#include "runtime/optimizers/stored_averages.hpp"

namespace millrace::actors {
namespace {

using layers::ParameterSpec;
using runtime::StageShard;
using runtime::StoredParameter;
using Numbers = std::span<float>;

/// The part of the model's parameter that a shard has: some of its experts, or all of it.
ParameterSpec part_of(const std::vector<ParameterSpec>& model, const StoredParameter& tensor) {
  const ParameterSpec& whole = model.at(static_cast<std::size_t>(tensor.order));
  return tensor.experts.present() ? layers::slice_of(whole, tensor.experts.first, tensor.shape[0]) : whole;
}

/// Calls fill(shard) for each of the rank's shards, on its worker.
template <class Fill>
void for_each_shard(Rank& rank, Fill fill) {
  rank.worker().run([&] {
    for (const runtime::Stage* stage : rank.compute().stages()) fill(stage->shard());
  });
}

}  // namespace

void fill_from_seed(const kernels::ExecutionContext& context, const StageShard& shard, const std::vector<ParameterSpec>& model,
                    double range, std::uint64_t seed) {
  constexpr std::int64_t grain = 4096;  // numbers; a value depends on its place alone, not on the thread
  for (const StoredParameter& tensor : shard.tensors()) {
    const ParameterSpec spec = part_of(model, tensor);
    if (tensor.held().empty()) continue;
    shard.fill(context, shard.master(tensor), [&](Numbers numbers) {
      context.team().for_ranges(std::ssize(numbers), grain, [&](std::int64_t begin, std::int64_t end) {
        layers::initial_values(spec, range, seed, tensor.held().first + begin,
                               numbers.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      });
    });
  }
  shard.refresh_copies(context);
  shard.begin_states(context);
}

void fill_from_weights(const kernels::ExecutionContext& context, const StageShard& shard, const std::vector<ParameterSpec>& model,
                       const layers::ModelWeights& weights) {
  for (const StoredParameter& tensor : shard.tensors()) {
    const ParameterSpec spec = part_of(model, tensor);
    const runtime::ElementRange held = tensor.held();
    if (held.empty()) continue;
    if (held == tensor.whole()) {
      shard.fill(context, shard.master(tensor), [&](Numbers numbers) { weights.read(spec, numbers); });
      continue;
    }
    std::vector<float> whole(tensor.elements());
    weights.read(spec, whole);
    shard.fill(context, shard.master(tensor), [&](Numbers numbers) {
      std::ranges::copy(Numbers(whole).subspan(static_cast<std::size_t>(held.first), numbers.size()), numbers.begin());
    });
  }
  shard.refresh_copies(context);
  shard.begin_states(context);
}

void fill_from_checkpoint(const kernels::ExecutionContext& context, const StageShard& shard, const runtime::CheckpointReader& checkpoint,
                          const Taken& taken) {
  for (const StoredParameter& tensor : shard.tensors()) {
    const auto part_with = [&](const runtime::ElementRange& own) {
      const runtime::ElementRange elements = tensor.in_model(own);
      return runtime::TensorPart{elements.first, elements.count, runtime::whole_shape(tensor.shape, tensor.experts).elements()};
    };
    const std::string name = taken.averages ? runtime::average_or_itself(checkpoint, tensor.name) : tensor.name;
    if (!tensor.held().empty())
      shard.fill(context, shard.master(tensor), [&](Numbers numbers) { checkpoint.read(name, numbers, part_with(tensor.held())); });
    if (tensor.owned.empty() || !taken.states) continue;
    const runtime::TensorPart owned = part_with(tensor.owned);
    for (std::size_t i = 0; i < shard.states().size(); ++i)
      if (tensor.has_state(i))
        kernels::fill(context, shard.state(tensor, i),
                      [&](std::span<std::byte> bytes) { checkpoint.read_bytes(shard.states()[i].tensor_name(tensor.name), bytes, owned); });
  }
  shard.refresh_copies(context);
  if (!taken.states) shard.begin_states(context);
}

void initialize_from_seed(Rank& rank, std::uint64_t seed) {
  for_each_shard(rank, [&](const StageShard& shard) {
    fill_from_seed(rank.context(), shard, rank.plan().parameters, rank.plan().model.initializer_range, seed);
  });
}

void initialize_from_folder(Rank& rank, const std::string& folder) {
  const auto weights = layers::open_weights(folder, rank.plan().model);
  for_each_shard(rank, [&](const StageShard& shard) { fill_from_weights(rank.context(), shard, rank.plan().parameters, *weights); });
}

void initialize_from_checkpoint(Rank& rank, const runtime::CheckpointReader& checkpoint, const Taken& taken) {
  for_each_shard(rank, [&](const StageShard& shard) { fill_from_checkpoint(rank.context(), shard, checkpoint, taken); });
}

}  // namespace millrace::actors
