#pragma once

#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Puts values that the policy offloads out to the host's memory between F and I. F begins to copy a value out as soon as it is there and
/// takes its memory back a layer later; I begins to copy it in a layer before it is read. On a GPU the copies run beside what computes; on
/// a CPU they are plain copies, which change no bit. W reads what I brought in.
void insert_offload(ProgramSet& set, const RematerializationPolicy& policy);

}  // namespace millrace::runtime
