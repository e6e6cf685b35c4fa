#pragma once

#include "actors/messages/messages.hpp"
#include "runtime/engine/step_breakdown.hpp"

namespace millrace::actors {

/// What a rank reports about its step. A wait is for a boundary that was produced and had not arrived, or for a slot that the
/// neighbour had not freed; an exchange is a wait for rows of the ranks that share its experts, a reduction one for gradient sums of other
/// replicas.
[[nodiscard]] inline StepTimes step_times(const runtime::StepBreakdown& shares) {
  return {shares.wall, shares.compute, shares.bubble, shares.transport + shares.credit, shares.exchange, shares.data, shares.reduction};
}

}  // namespace millrace::actors
