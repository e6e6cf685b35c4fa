#pragma once

#include <string>

#include "actors/debug/debug_cursor.hpp"
#include "actors/jobs/stepper.hpp"

namespace millrace::actors {

/// One line per rank: the actions around its current one, and what that one waits for.
[[nodiscard]] std::string where_text(const actors::Stepper& stepper, const DebugCursor& standing);
/// One line per edge: the number of boundaries at the receiver, and of free slots at the sender.
[[nodiscard]] std::string queue_text(const actors::Stepper& stepper);
/// The program of the current action, with an arrow before the next operation.
[[nodiscard]] std::string operations_text(const actors::Stepper& stepper, const DebugCursor& standing);
/// The program of any action of a step, "2F3". Throws Error(usage) if no rank runs it.
[[nodiscard]] std::string operations_text(const actors::Stepper& stepper, const std::string& action_text);
/// The rank that runs an action. Throws Error(usage) if there is none, naming the microbatches for which the stage has such actions.
[[nodiscard]] runtime::RankId rank_of(const PipelinePlan& plan, const runtime::Action& action);
/// Where the session stands: before an action, after one (with the next one of all ranks), or at an operation of one:
///   step 2, after 2F1 on rank 2 (forward of stage 2, microbatch 1); next 3F0 on rank 3
///   step 2, 2F1 on rank 2 (forward of stage 2, microbatch 1), before operation 4 of 15, layers.2.self_attn.q_rope
[[nodiscard]] std::string standing_text(const actors::Stepper& stepper, const DebugCursor& standing);

}  // namespace millrace::actors
