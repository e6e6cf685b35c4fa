#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// How checkpoints store the matrices of E experts, each from D to F features and back. With biases a tensor has another one beside it:
/// `.bias` where matrices end in `.weight`, else the name with `_bias`.
enum class ExpertStorage : std::uint8_t {
  matrices,                 // <experts>.e.<gate>.weight and .<up>.weight [F, D], .<down>.weight [D, F] for every expert e
  stacks,                   // <experts>.<gate_up> [E, 2F, D], the rows of the gate before those of up, and .<down> [E, D, F]
  stacks_input_major,       // <experts>.<gate_up> [E, D, 2F], the columns of the gate before those of up, and .<down> [E, F, D]
  interleaved_input_major,  // the same with the columns of gate and up by turns, the gate's first
};

/// The names under which a family's checkpoints have a mixture of experts: modules and tensors of `module`, which is one of the layer.
struct ExpertNames {
  const char* module = "mlp";
  const char* router = "gate";  // .weight [E, D] and, if it has one, .bias [E]
  const char* experts = "experts";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
  const char* gate_up = "gate_up_proj";  // of stacks
  ExpertStorage storage = ExpertStorage::matrices;
  const char* route_bias = "gate.e_score_correction_bias";  // [E], of a route that has a bias
  const char* shared = "shared_experts";                    // a gated MLP
  const char* shared_gate = "shared_expert_gate";           // .weight [1, D]
  const char* router_scale = "router.scale";                // [D], of a router that is part of a branch
  const char* expert_scale = "router.per_expert_scale";     // [E], of experts with scales
};

/// A mixture of experts: x [T, D] → [T, D], D = model.width, each token the sum of its experts' results, weighted by the router, in the
/// order in which they were chosen, plus that of the shared expert, if there is one that is no branch of its own. The router computes in
/// fp32, from `router_input` f32 [T, D] if it is given, else from x. Weights under `module` (the full name): router [E, D] and, in
/// programs, one stack per matrix of the experts, [E, F, D] and [E, D, F], F = spec.expert.width, whose parts are the tensors of files;
/// stored stacks are used as they are. An activation's learned numbers are shared by all experts: <experts>.act_fn. Labels: moe_rows (the
/// tokens in the order of experts), mlpwi_0 and moe_mlpwi_0 (gate), moe_mlpwi_1 (up), mlpwo and moe_mlpwo (results of experts); those of
/// the shared expert are an MLP's.
[[nodiscard]] runtime::ValueId mixture_of_experts(runtime::ProgramBuilder& builder, runtime::ValueId x, const ModelSpec& model,
                                                  const ExpertsSpec& spec, const ExpertNames& names, const std::string& module,
                                                  runtime::ValueId router_input = {});

/// What the router of a branch reads of the residual stream x [T, D] → f32 [T, D]: x divided by its root mean square and by √D, times the
/// learned scales.
[[nodiscard]] runtime::ValueId branch_router_input(runtime::ProgramBuilder& builder, runtime::ValueId x, const ModelSpec& model,
                                                   const ExpertNames& names, const std::string& module);

}  // namespace millrace::layers
