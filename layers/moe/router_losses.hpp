#pragma once

#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The values of a router that its loss terms read.
struct RouterValues {
  runtime::ValueId logits;   // u [T, E]
  runtime::ValueId scores;   // [T, E], of whose softmax m is the mean: the logits, or what a family takes for them
  runtime::ValueId experts;  // i32 [T, K]
};

/// Declares the loss terms of one router that model.losses asks for, each a mean over the model's layers with experts:
///   moe_lb_loss   weight · E · Σ_e f_e·m_e, a mean over sequences, K if the load is even (kernels/balance_loss.hpp)
///   moe_z_loss    weight · log(Σ_e eᵘ)², a mean over tokens (kernels/router_z_loss.hpp)
/// Both are auxiliary: part of a step's loss, and beside an evaluation's. `module` begins the operations' names.
void router_losses(runtime::ProgramBuilder& builder, const RouterValues& router, const ModelSpec& model, const std::string& module);

}  // namespace millrace::layers
