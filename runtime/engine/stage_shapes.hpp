#pragma once

#include "runtime/program/program.hpp"
#include "runtime/schedule/stage_shape.hpp"

namespace millrace::runtime {

/// The segments of a stage's actions in a training step, as its programs have them.
[[nodiscard]] StageShape training_shape(const ProgramSet& programs);
/// The same in a forward-only list, whose forwards run the whole forward program.
[[nodiscard]] StageShape forward_only_shape(const ProgramSet& programs);

}  // namespace millrace::runtime
