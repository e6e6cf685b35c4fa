#pragma once

#include <string>

#include "runtime/program/memory_plan.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Formats one program as text: a line per operation with shapes, labels, FLOPs, bytes, and region and offset of each result;
/// totals and peak below.
[[nodiscard]] std::string print(const ProgramSet& programs, ProgramKind kind, const MemoryPlan& plan);

}  // namespace millrace::runtime
