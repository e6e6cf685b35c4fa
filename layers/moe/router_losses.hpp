#pragma once

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// Declares the loss terms of one router that model.losses asks for, each a mean over the model's layers with experts:
///   moe_lb_loss   weight · E · Σ_e f_e·m_e, a mean over sequences, K if the load is even (kernels/balance_loss.hpp)
///   moe_z_loss    weight · log(Σ_e eᵘ)², a mean over tokens (kernels/router_z_loss.hpp)
/// Both are auxiliary: part of a step's loss, and beside an evaluation's. logits [T, E], experts i32 [T, K].
void router_losses(runtime::ProgramBuilder& builder, runtime::ValueId logits, runtime::ValueId experts, const ModelSpec& model);

}  // namespace millrace::layers
