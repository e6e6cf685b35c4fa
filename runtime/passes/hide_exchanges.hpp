#pragma once

#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Lets weight gradients be computed while rows are on their way: in each segment of B, the operations of W that stand before its first
/// post move behind it, where the next await is still to come. (Megatron delays weight gradients for the same purpose; here they are
/// operations of their own anyway.) Nothing in a program reads an accumulator, and additions keep their order, so that no bit changes.
void hide_exchanges(ProgramSet& set);

}  // namespace millrace::runtime
