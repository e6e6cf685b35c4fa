#pragma once

#include <functional>
#include <string>

#include "layers/losses/cross_entropy.hpp"

/// The losses of output heads by name: what train.loss chooses. `cross_entropy` is one; a program of your own adds others.
namespace millrace::layers {

/// Appends the operations of a loss and returns its value, f64 [n], whose first entry is the sum over the valid targets of the microbatch.
/// `targets` i32 [T]: a negative one is masked, which means no loss and no gradient. The operation that computes the value reads
/// GradientBuilder::loss_scale() in its gradient rules, which divides by the valid targets of the whole step.
using OutputLoss = std::function<runtime::ValueId(runtime::ProgramBuilder& builder, const HeadOperands& head, runtime::ValueId targets)>;

/// Adds a loss that train.loss may name, in every process of the job. Not thread-safe: call it before a run is planned.
/// Errors: Error(config) if there is one of this name.
void add_output_loss(const std::string& name, OutputLoss loss);

/// The loss `name` of a head. Errors: Error(config) with the known names and the nearest one.
[[nodiscard]] runtime::ValueId output_loss(runtime::ProgramBuilder& builder, const std::string& name, const HeadOperands& head,
                                           runtime::ValueId targets);

/// Logits of a head for a loss of one's own, h · tableᵀ in fp32 [T, vocabulary], through which gradients flow (those of output_logits end
/// there). Errors: Error(model) if the head does more with its logits, which only `cross_entropy` supports: it scales or caps them, rounds
/// its table, or adds train.z_loss.
[[nodiscard]] runtime::ValueId trained_logits(runtime::ProgramBuilder& builder, const HeadOperands& head);

}  // namespace millrace::layers
