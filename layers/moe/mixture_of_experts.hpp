#pragma once

#include <cstdint>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/builder.hpp"

namespace millrace::layers {

/// The names under which a family's checkpoints have a mixture of experts: a module of the layer with the router `gate` and the modules
/// `experts.0`, `experts.1`, …, each with three matrices.
struct ExpertNames {
  const char* module = "mlp";
  const char* gate = "gate_proj";
  const char* up = "up_proj";
  const char* down = "down_proj";
};

/// A mixture of experts: x [T, D] → [T, D], D = model.width, each token the sum of its experts' results, weighted by the router, in the
/// order in which they were chosen. The router computes in fp32. Weights under `module`: gate [E, D] and, in programs, one stack per matrix
/// of the experts, [E, F, D] and [E, D, F], F = spec.expert.width, whose parts are the tensors of files. An activation's learned numbers
/// are shared by all experts: experts.act_fn. Labels: moe_rows (the tokens in the order of experts), mlpwi_0 and moe_mlpwi_0 (gate),
/// moe_mlpwi_1 (up), mlpwo and moe_mlpwo (results of experts).
[[nodiscard]] runtime::ValueId mixture_of_experts(runtime::ProgramBuilder& builder, runtime::ValueId x, const ModelSpec& model,
                                                  const ExpertsSpec& spec, const ExpertNames& names, const std::string& module);

}  // namespace millrace::layers
