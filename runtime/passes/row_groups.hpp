#pragma once

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Finds the values whose rows are in the order of experts, and the tables that separate them (Value::rows_by, Value::expert_rows). Grouped
/// operations name their tables; between them, what has as many rows as an operand has its groups. Values that have a table keep it. The
/// groups are what ranks that share a layer's experts exchange, so that recordings name rows by expert and microbatch, whichever rank
/// computes them.
void find_row_groups(ProgramSet& set);

}  // namespace millrace::runtime
