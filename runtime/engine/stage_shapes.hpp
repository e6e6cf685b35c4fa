#pragma once

#include "runtime/program/program.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// Work is counted in FLOPs. A usual machine computes this many of them while it reads or writes a byte, and while it sends a byte to
/// another host: 100 GFLOP/s beside 12 Gbit/s.
constexpr double usual_flops_per_byte = 8, usual_flops_per_sent_byte = 64;

/// The segments of a stage's actions in a training step, as its programs have them, with the work of each segment and exchange. `members`:
/// of the group of ranks that exchange rows. A member keeps its own rows, so an exchange moves (members - 1) / members of what is sent, or
/// received if that is more; tokens are taken to choose all experts equally often.
[[nodiscard]] StageShape training_shape(const ProgramSet& programs, int members);
/// The same in a forward-only list, whose forwards run the whole forward program.
[[nodiscard]] StageShape forward_only_shape(const ProgramSet& programs, int members);

}  // namespace millrace::runtime
