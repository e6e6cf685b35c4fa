#include "actors/rank/initial_state.hpp"

#include "layers/formats/model_weights.hpp"
#include "layers/initial_values.hpp"

namespace millrace::actors {
namespace {

/// fill(spec, store) for each tensor of the rank, on its worker, then the bf16 copies.
template <class Fill>
void for_each_tensor(Rank& rank, Fill fill) {
  rank.worker().run([&] {
    const auto& store = rank.compute().store();
    for (const auto& tensor : rank.compute().parameters().tensors())
      fill(rank.plan().parameters.at(static_cast<std::size_t>(tensor.order)), store, rank.context());
    store.refresh_copies(rank.context());
  });
}

using Part = runtime::ParameterStore::Part;
using Numbers = std::span<float>;

}  // namespace

void initialize_from_seed(Rank& rank, std::uint64_t seed) {
  for_each_tensor(
      rank, [&](const layers::ParameterSpec& spec, const runtime::ParameterStore& store, const kernels::ExecutionContext& context) {
        store.fill(context, spec.name, Part::master,
                   [&](Numbers numbers) { layers::initial_values(spec, rank.plan().model.initializer_range, seed, 0, numbers); });
      });
}

void initialize_from_folder(Rank& rank, const std::string& folder) {
  const auto weights = layers::open_weights(folder, rank.plan().model);
  for_each_tensor(rank,
                  [&](const layers::ParameterSpec& spec, const runtime::ParameterStore& store, const kernels::ExecutionContext& context) {
                    store.fill(context, spec.name, Part::master, [&](Numbers numbers) { weights->read(spec, numbers); });
                  });
}

void initialize_from_checkpoint(Rank& rank, const runtime::CheckpointReader& checkpoint) {
  const bool trains = rank.compute().memory_plan().find(runtime::MemoryKind::first_moment) != nullptr;
  for_each_tensor(
      rank, [&](const layers::ParameterSpec& spec, const runtime::ParameterStore& store, const kernels::ExecutionContext& context) {
        store.fill(context, spec.name, Part::master, [&](Numbers numbers) { checkpoint.read(spec.name, numbers); });
        if (!trains) return;
        store.fill(context, spec.name, Part::first_moment, [&](Numbers numbers) { checkpoint.read("adamw.m/" + spec.name, numbers); });
        store.fill(context, spec.name, Part::second_moment, [&](Numbers numbers) { checkpoint.read("adamw.v/" + spec.name, numbers); });
      });
}

}  // namespace millrace::actors
