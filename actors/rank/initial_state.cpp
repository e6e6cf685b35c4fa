#include "actors/rank/initial_state.hpp"

#include "layers/formats/model_weights.hpp"
#include "layers/initial_values.hpp"

namespace millrace::actors {
namespace {

/// Calls fill(spec, store) for each tensor of the rank, on its worker, then updates the bf16 copies.
template <class Fill>
void for_each_tensor(Rank& rank, Fill fill) {
  rank.worker().run([&] {
    const auto& store = rank.compute().store();
    for (const auto& tensor : rank.compute().parameters().tensors())
      fill(rank.plan().parameters.at(static_cast<std::size_t>(tensor.order)), store, rank.context());
    store.refresh_copies(rank.context());
  });
}

using Numbers = std::span<float>;

}  // namespace

void initialize_from_seed(Rank& rank, std::uint64_t seed) {
  for_each_tensor(
      rank, [&](const layers::ParameterSpec& spec, const runtime::ParameterStore& store, const kernels::ExecutionContext& context) {
        store.fill(context, store.master(store.layout().at(spec.name)),
                   [&](Numbers numbers) { layers::initial_values(spec, rank.plan().model.initializer_range, seed, 0, numbers); });
      });
}

void initialize_from_folder(Rank& rank, const std::string& folder) {
  const auto weights = layers::open_weights(folder, rank.plan().model);
  for_each_tensor(rank,
                  [&](const layers::ParameterSpec& spec, const runtime::ParameterStore& store, const kernels::ExecutionContext& context) {
                    store.fill(context, store.master(store.layout().at(spec.name)), [&](Numbers numbers) { weights->read(spec, numbers); });
                  });
}

void initialize_from_checkpoint(Rank& rank, const runtime::CheckpointReader& checkpoint) {
  for_each_tensor(rank,
                  [&](const layers::ParameterSpec& spec, const runtime::ParameterStore& store, const kernels::ExecutionContext& context) {
                    const auto& tensor = store.layout().at(spec.name);
                    store.fill(context, store.master(tensor), [&](Numbers numbers) { checkpoint.read(spec.name, numbers); });
                    for (std::size_t i = 0; i < store.states().size(); ++i)
                      store.fill(context, store.state(tensor, i),
                                 [&](Numbers numbers) { checkpoint.read(store.states()[i].tensor_name(spec.name), numbers); });
                  });
}

}  // namespace millrace::actors
