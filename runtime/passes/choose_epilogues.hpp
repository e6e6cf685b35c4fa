#pragma once

#include "runtime/program/program.hpp"

/// Where an operation takes over the work of another (runtime/program/epilogue.hpp). What each can take is its rule's answer, epilogues().
namespace millrace::runtime {

/// Lets operations of one program add what alone reads their result would add:
///  * A bias, where kernels::products_add_bias says so: two operations become one, with the product's name and the sum's result.
///  * The other operand of `s = add(a, p)`, p being the result of an operation of the same decoder layer, so that nothing depends on where
///  a
///    pipeline is cut. It takes the sum's place in the program, where all operands exist, and keeps its name.
/// The sum takes p's labels; in bf16 it is rounded once instead of twice. Done on F before anything is derived from it, so that what is
/// recomputed has the same bits, and on I when it is derived.
void choose_epilogues(ProgramSet& set, ProgramKind kind, kernels::Device device);

/// Lets every product of a stage read its weight packed, where the processor's kernels do: its operand becomes a new value of the same
/// parameter in that form. The rank packs each form once after it changed (StageShard).
void choose_packed_weights(ProgramSet& set, kernels::Device device);

}  // namespace millrace::runtime
