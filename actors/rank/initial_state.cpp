#include "actors/rank/initial_state.hpp"

#include <cstdint>
#include <iterator>

#include "kernels/transfer.hpp"
#include "layers/formats/model_weights.hpp"
#include "layers/initial_values.hpp"

namespace millrace::actors {
namespace {

using layers::ParameterSpec;
using runtime::StageShard;
using runtime::StoredParameter;
using Numbers = std::span<float>;

/// Calls fill(spec, tensor, shard) for each tensor of the rank's shards, on its worker, then updates the bf16 copies. `begins`: of a run,
/// whose states are not filled.
template <class Fill>
void for_each_tensor(Rank& rank, bool begins, Fill fill) {
  rank.worker().run([&] {
    for (const runtime::Stage* stage : rank.compute().stages()) {
      const StageShard& shard = stage->shard();
      for (const auto& tensor : shard.tensors()) fill(rank.plan().parameters.at(static_cast<std::size_t>(tensor.order)), tensor, shard);
      shard.refresh_copies(rank.context());
      if (begins) shard.begin_states(rank.context());
    }
  });
}

}  // namespace

void initialize_from_seed(Rank& rank, std::uint64_t seed) {
  constexpr std::int64_t grain = 4096;  // numbers; a value depends on its place alone, not on the thread
  for_each_tensor(rank, true, [&](const ParameterSpec& spec, const StoredParameter& tensor, const StageShard& shard) {
    shard.fill(rank.context(), shard.master(tensor), [&](Numbers numbers) {
      rank.context().team().for_ranges(std::ssize(numbers), grain, [&](std::int64_t begin, std::int64_t end) {
        layers::initial_values(spec, rank.plan().model.initializer_range, seed, begin,
                               numbers.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)));
      });
    });
  });
}

void initialize_from_folder(Rank& rank, const std::string& folder) {
  const auto weights = layers::open_weights(folder, rank.plan().model);
  for_each_tensor(rank, true, [&](const ParameterSpec& spec, const StoredParameter& tensor, const StageShard& shard) {
    shard.fill(rank.context(), shard.master(tensor), [&](Numbers numbers) { weights->read(spec, numbers); });
  });
}

void initialize_from_checkpoint(Rank& rank, const runtime::CheckpointReader& checkpoint) {
  for_each_tensor(rank, false, [&](const ParameterSpec& spec, const StoredParameter& tensor, const StageShard& shard) {
    shard.fill(rank.context(), shard.master(tensor), [&](Numbers numbers) { checkpoint.read(spec.name, numbers); });
    for (std::size_t i = 0; i < shard.states().size(); ++i)
      if (tensor.has_state(i))
        kernels::fill(rank.context(), shard.state(tensor, i),
                      [&](std::span<std::byte> bytes) { checkpoint.read_bytes(shard.states()[i].tensor_name(spec.name), bytes); });
  });
}

}  // namespace millrace::actors
