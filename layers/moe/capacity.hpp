#pragma once

#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// The number of a sequence's choices that each of E experts takes: c = max(⌈S·K / E⌉ · factor, factor), whose fraction is cut off, so that
/// a factor below 1 can make it 0. S: tokens of a sequence, padding included; K: experts of a token. That is MaxText's rule.
[[nodiscard]] std::int64_t expert_capacity(std::int64_t tokens, std::int64_t experts_per_token, std::int64_t experts, double factor);

/// The weights f32 [T, K] by which the results of a token's experts are added: those of `routing`, but 0 for the choices that exceed the
/// capacity of their expert (kernels/capacity.hpp), if the spec has one. What is kept is not scaled up, and a token whose choices are all
/// dropped gets 0 from its experts. How many are dropped is observed (runtime/program/observation.hpp). `module` begins the operation's
/// name.
[[nodiscard]] runtime::ValueId weights_within_capacity(runtime::ProgramBuilder& builder, const runtime::Routing& routing,
                                                       const ExpertsSpec& spec, const std::string& module);

}  // namespace millrace::layers
