#include "layers/moe/mixture_of_experts.hpp"

#include <fmt/format.h>

#include "layers/activation.hpp"
#include "layers/moe/router_losses.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

/// The matrices `name` of all experts, each [outputs, inputs], as one parameter [E, outputs, inputs].
ValueId stack_of(ProgramBuilder& builder, const ExpertsSpec& spec, const std::string& module, const char* name, std::int64_t outputs,
                 std::int64_t inputs) {
  runtime::StoredForm stored{.shape = {outputs, inputs}};
  for (std::int64_t expert = 0; expert < spec.experts; ++expert)
    stored.parts.push_back(fmt::format("{}.experts.{}.{}.weight", module, expert, name));
  const double active = static_cast<double>(spec.route.experts_per_token) / static_cast<double>(spec.experts);
  return builder.parameter(fmt::format("{}.experts.{}.weight", module, name), {spec.experts, outputs, inputs},
                           {.stored = std::move(stored), .active = active});
}

}  // namespace

ValueId mixture_of_experts(ProgramBuilder& builder, ValueId x, const ModelSpec& model, const ExpertsSpec& spec, const ExpertNames& names,
                           const std::string& module) {
  const std::int64_t width = model.width;
  const ValueId router = builder.parameter(module + ".gate.weight", {spec.experts, width}, runtime::in_f32);
  const ValueId logits = runtime::linear(builder, runtime::to_f32(builder, x, "mlp.router_input"), router, "mlp.router");
  const runtime::Routing routing = runtime::route(builder, logits, spec.route, "mlp.route");
  router_losses(builder, logits, routing.experts, model);
  const runtime::ExpertPlaces sorted = runtime::sort_by_expert(builder, routing.experts, spec.experts, "mlp.sort");
  builder.observe(runtime::expert_load_name, runtime::copy(builder, sorted.offsets, "mlp.load"));

  const std::int64_t hidden_width = spec.expert.width;
  const ValueId rows = runtime::gather_rows(builder, x, sorted.places, "mlp.dispatch");
  const auto project = [&](ValueId from, const char* name, const char* operation, std::int64_t outputs, std::int64_t inputs) {
    return runtime::grouped_linear(builder, from, stack_of(builder, spec, module, name, outputs, inputs), sorted.offsets, operation);
  };
  const ValueId gate = project(rows, names.gate, "mlp.gate_proj", hidden_width, width);
  const ValueId up = project(rows, names.up, "mlp.up_proj", hidden_width, width);
  const auto learned = activation_parameters(builder, spec.expert.activation, module + ".experts.act_fn");
  const ValueId hidden = runtime::glu(builder, spec.expert.activation, gate, up, "mlp.glu", learned);
  const ValueId down = project(hidden, names.down, "mlp.down_proj", width, hidden_width);

  builder.label(rows, "moe_rows");
  for (const char* label : {"mlpwi_0", "moe_mlpwi_0"}) builder.label(gate, label);
  builder.label(up, "moe_mlpwi_1");
  for (const char* label : {"mlpwo", "moe_mlpwo"}) builder.label(down, label);
  return runtime::combine_rows(builder, down, sorted.places, "mlp.combine", routing.weights);
}

}  // namespace millrace::layers
