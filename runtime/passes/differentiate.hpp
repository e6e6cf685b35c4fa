#pragma once

#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Derives F, I, W, B and the evaluation program from a stage's forward. Gradients of a value that several operations read are
/// added in the reverse order of those reads. Every real-valued port gets a gradient; that of an input which no gradient reaches in this
/// stage is zeros, so that the previous stage never reads memory that nobody wrote. The policy applies to operations of the decoder layers;
/// embedding, final norm and head keep their own residuals. A forward without loss terms and boundary_out (logits only) gets empty backward
/// programs. If the device multiplies packed weights faster, the programs read those.
[[nodiscard]] ProgramSet differentiate(ForwardProgram forward, const RematerializationPolicy& policy, kernels::Device device = {});

}  // namespace millrace::runtime
