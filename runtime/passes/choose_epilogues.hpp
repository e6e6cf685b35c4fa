#pragma once

#include "runtime/program/program.hpp"

/// Decides which operations take over the work of another one (runtime/program/epilogue.hpp). A rule's epilogues() says what its
/// operations can take over.
namespace millrace::runtime {

/// Fuses an addition into the operation whose result only this addition reads:
///  * A bias, where kernels::products_add_bias says so: two operations become one, with the product's name and the sum's result.
///  * The other operand `a` of `s = add(a, p)`, if p is the result of an operation of the same decoder layer, so that the choice
///  does not depend on where the pipeline is cut. The operation moves to the position of the sum, where all operands exist, and
///  keeps its name. The sum gets p's labels; in bf16 it is rounded once instead of twice. This is done on F before anything is
///  derived from it, so that recomputed values have the same bits, and on I when it is derived.
void choose_epilogues(ProgramSet& set, ProgramKind kind, kernels::Device device);

/// Lets every product of a stage read its weight packed, where the processor's kernels do: its operand becomes a new value of the same
/// parameter in that form. The rank packs each form once after it changed (StageShard).
void choose_packed_weights(ProgramSet& set, kernels::Device device);

}  // namespace millrace::runtime
