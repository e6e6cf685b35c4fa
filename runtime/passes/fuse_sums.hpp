#pragma once

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Lets an operation add what would be added to its result next: `s = add(a, p)` where p is the result of an operation whose rule can add
/// one operand more (OperationRule::plus), and nobody else reads p. The sum takes p's labels; in bf16 it is rounded once instead of twice.
/// Works on the program of one kind; both operations are of one decoder layer, so that nothing depends on where a pipeline is cut.
void fuse_sums(ProgramSet& set, ProgramKind kind);

}  // namespace millrace::runtime
