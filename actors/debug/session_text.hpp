#pragma once

#include <string>

#include "actors/debug/debug_cursor.hpp"
#include "actors/jobs/stepper.hpp"

namespace millrace::actors {

/// A line a rank: the actions around the one it stands at, and what that one waits for.
[[nodiscard]] std::string where_text(const actors::Stepper& stepper, const DebugCursor& standing);
/// A line an edge: how many tokens lie at the receiver, how many slots the sender has left.
[[nodiscard]] std::string queue_text(const actors::Stepper& stepper);
/// The program of the action at hand, an arrow before the operation that comes next.
[[nodiscard]] std::string operations_text(const actors::Stepper& stepper, const DebugCursor& standing);
/// "step 2, 2F1 on rank 2 (forward of stage 2, microbatch 1), before operation 4 of 15, layers.2.self_attn.q_rope"
[[nodiscard]] std::string standing_text(const actors::Stepper& stepper, const DebugCursor& standing);

}  // namespace millrace::actors
