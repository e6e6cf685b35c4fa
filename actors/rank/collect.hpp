#pragma once

#include <functional>

#include "actors/messages/messages.hpp"
#include "actors/rank/rank.hpp"

namespace millrace::actors {

/// Answers Collect: reports the `captured` tensors and then the parameters, or the gradients, that the rank owns, as f32; last a message
/// without a tensor. Large tensors are reported in parts, which leave room for heartbeats in between. Thread: the rank's worker, while no
/// list runs. Throws Error(internal) for gradients that replicas have divided between them.
void collect(Rank& rank, bool parameters, const std::vector<CapturedTensor>& captured,
             const std::function<void(const ToCoordinator&)>& report);

}  // namespace millrace::actors
