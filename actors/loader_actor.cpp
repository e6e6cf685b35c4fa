#include "actors/loader_actor.hpp"

#include <utility>

#include "kernels/base/system_refusal.hpp"

namespace millrace::actors {

LoaderActor::LoaderActor(caf::actor_config& config, Rank& rank, const BatchProvider& batches, caf::actor rank_actor)
    : MessageActor(config), rank_(rank), batches_(batches), rank_actor_(std::move(rank_actor)) {}

caf::behavior LoaderActor::make_behavior() {
  return {[this](const LoadBatch& request) { load(request); }};
}

void LoaderActor::load(const LoadBatch& request) {
  try {
    const auto view = rank_.compute().batch(request.slot);
    if (request.held_out && rank_.is_empty(runtime::MicrobatchId(request.microbatch))) {
      runtime::pad(view);
    } else if (request.held_out) {
      batches_.fill_evaluation(request.microbatch, view);
    } else {
      batches_.fill(request.step, request.microbatch, view);
    }
    rank_.complete(view);
    send(rank_actor_, BatchReady{request});
  } catch (const std::exception& thrown) {
    const auto error = as_error(thrown, "actors.loader");
    send(rank_actor_, TaskFailed{{}, false, static_cast<std::int32_t>(error.code()), error.what()});
  }
}

}  // namespace millrace::actors
