#pragma once

#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Moves the values that the policy offloads to host memory between F and I. F begins to copy a value out as soon as it exists
/// and frees its memory one layer later; I begins to copy it back one layer before it is read. On a GPU the copies overlap with
/// computation; on a CPU they are plain copies, which change no bits. W reads what I copied back.
void insert_offload(ProgramSet& set, const RematerializationPolicy& policy);

}  // namespace millrace::runtime
