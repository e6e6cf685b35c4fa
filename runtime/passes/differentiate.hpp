#pragma once

#include "runtime/passes/rematerialize.hpp"
#include "runtime/program/program.hpp"

namespace millrace::runtime {

/// Derives F, I, W, B and the evaluation from what a stage's layers wrote. Gradients of a value that several operations read are added in
/// the order of those reads, last reader first. Operations of the decoder layers are subject to the policy; embedding, final norm and head
/// keep their own residuals. A forward without loss and boundary_out (logits only) gets empty backward programs. Where the device
/// multiplies packed weights faster, the programs read those.
[[nodiscard]] ProgramSet differentiate(ForwardProgram forward, const RematerializationPolicy& policy, kernels::Device device = {});

}  // namespace millrace::runtime
