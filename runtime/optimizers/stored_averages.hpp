#pragma once

#include <string>

#include "runtime/checkpoint/checkpoint_reader.hpp"

namespace millrace::runtime {

/// Refuses a checkpoint that has no moving averages: Error(usage), with the component `component`.
void check_averages(const CheckpointReader& checkpoint, const char* component);

/// What a checkpoint calls the moving average of a parameter; the parameter's own name if that has no average, since it is not trained.
[[nodiscard]] std::string average_or_itself(const CheckpointReader& checkpoint, const std::string& parameter);

}  // namespace millrace::runtime
