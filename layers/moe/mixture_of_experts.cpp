#include "layers/moe/mixture_of_experts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "layers/activation.hpp"
#include "layers/mlp.hpp"
#include "layers/moe/capacity.hpp"
#include "layers/moe/expert_sum.hpp"
#include "layers/moe/router_losses.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

/// The projections of all experts, of rows in the order of experts.
class ExpertProjections {
 public:
  ExpertProjections(ProgramBuilder& builder, const ExpertsSpec& spec, const ExpertNames& names, std::string experts, ValueId offsets)
      : builder_(builder),
        spec_(spec),
        names_(names),
        experts_(std::move(experts)),
        offsets_(offsets),
        own_(own_experts(builder, spec)),
        active_(static_cast<double>(spec.route.experts_per_token) / static_cast<double>(spec.experts)) {}

  /// rows [R, D] → gate and up [R, F].
  [[nodiscard]] std::pair<ValueId, ValueId> gate_and_up(ValueId rows, std::int64_t width) const {
    const std::int64_t hidden = spec_.expert.width;
    if (names_.storage == ExpertStorage::matrices) {
      const ValueId gate = project(rows, names_.gate, "mlp.gate_proj", hidden, width);
      return {gate, project(rows, names_.up, "mlp.up_proj", hidden, width)};
    }
    const ValueId both = project(rows, names_.gate_up, "mlp.gate_up_proj", 2 * hidden, width);
    const auto parts = names_.storage == ExpertStorage::interleaved_input_major
                           ? runtime::split_heads(builder_, both, hidden, {1, 1}, "mlp.split")
                           : runtime::split(builder_, both, {hidden, hidden}, "mlp.split");
    return {parts[0], parts[1]};
  }
  /// hidden [R, F] → [R, D].
  [[nodiscard]] ValueId down(ValueId hidden, std::int64_t width) const {
    return project(hidden, names_.down, "mlp.down_proj", width, spec_.expert.width);
  }

 private:
  [[nodiscard]] ValueId project(ValueId from, const char* name, const char* operation, std::int64_t outputs, std::int64_t inputs) const {
    const std::int64_t experts = own_.count;
    ValueId weight, bias;
    if (names_.storage == ExpertStorage::matrices) {
      weight = stack_of(fmt::format("{}.weight", name), {outputs, inputs}, {experts, outputs, inputs}, {});
      if (spec_.expert.bias) bias = stack_of(fmt::format("{}.bias", name), {outputs}, {experts, outputs}, kernels::DType::f32);
      return runtime::grouped_linear(builder_, from, weight, offsets_, operation, bias);
    }
    const std::string stack = experts_ + "." + name;
    if (spec_.expert.bias)
      bias =
          builder_.parameter(stack + "_bias", {experts, outputs}, {.dtype = kernels::DType::f32, .active = active_, .experts = own_.slice});
    if (names_.storage == ExpertStorage::stacks)
      return runtime::grouped_linear(builder_, from,
                                     builder_.parameter(stack, {experts, outputs, inputs}, {.active = active_, .experts = own_.slice}),
                                     offsets_, operation, bias);
    weight = builder_.parameter(stack, {experts, inputs, outputs}, {.active = active_, .experts = own_.slice});
    return runtime::grouped_linear_input_major(builder_, from, weight, offsets_, operation, bias);
  }

  /// The tensors `name` of experts, each of shape `part`, as one parameter: `own` is the shape of those that the program computes.
  [[nodiscard]] ValueId stack_of(const std::string& name, kernels::Shape part, kernels::Shape own,
                                 std::optional<kernels::DType> dtype) const {
    runtime::StoredForm stored{.shape = part};
    for (std::int64_t expert = 0; expert < spec_.experts; ++expert) stored.parts.push_back(fmt::format("{}.{}.{}", experts_, expert, name));
    return builder_.parameter(experts_ + "." + name, own,
                              {.dtype = dtype, .stored = std::move(stored), .active = active_, .experts = own_.slice});
  }

  ProgramBuilder& builder_;
  const ExpertsSpec& spec_;
  const ExpertNames& names_;
  std::string experts_;
  ValueId offsets_;
  OwnExperts own_;
  double active_;
};

/// logits f32 [T, E].
ValueId router_logits(ProgramBuilder& builder, ValueId x, std::int64_t width, const ExpertsSpec& spec, const std::string& router) {
  const ValueId weight = builder.parameter(router + ".weight", {spec.experts, width}, runtime::in_f32);
  const ValueId product = runtime::linear(builder, runtime::to_f32(builder, x, "mlp.router_input"), weight, "mlp.router");
  if (!spec.router_bias) return product;
  return runtime::add_bias(builder, product, builder.parameter(router + ".bias", {spec.experts}, runtime::in_f32), "mlp.router_bias");
}

/// The result of the expert that every token has.
ValueId shared_expert(ProgramBuilder& builder, ValueId x, std::int64_t width, const ExpertsSpec& spec, const ExpertNames& names,
                      const std::string& module) {
  const ValueId y = gated_mlp(builder, x, width, *spec.shared, module + "." + names.shared, "mlp.shared");
  if (!spec.shared_gate) return y;
  const ValueId weight = builder.parameter(fmt::format("{}.{}.weight", module, names.shared_gate), {1, width});
  const ValueId gate = runtime::linear(builder, x, weight, "mlp.shared_gate");
  // The one feature of the gate stands for every feature of y.
  const ValueId everywhere = runtime::join_heads(builder, {gate}, {.heads = width, .shared = 1}, "mlp.shared_gate_copies");
  return runtime::glu(builder, kernels::Activation::sigmoid, everywhere, y, "mlp.shared_gated");
}

}  // namespace

ValueId mixture_of_experts(ProgramBuilder& builder, ValueId x, const ModelSpec& model, const ExpertsSpec& spec, const ExpertNames& names,
                           const std::string& module, ValueId router_input) {
  const std::int64_t width = model.width;
  const ValueId logits = router_logits(builder, router_input.valid() ? router_input : x, width, spec, module + "." + names.router);
  ValueId route_bias;
  if (spec.route.bias != kernels::RouterBias::none)
    route_bias = builder.parameter(module + "." + names.route_bias, {spec.experts},
                                   {.dtype = kernels::DType::f32, .chooses_experts = true, .trained = spec.route_bias_trained});
  runtime::Routing routing = runtime::route(builder, logits, spec.route, "mlp.route", route_bias);
  if (spec.expert_scales) {
    const double active = static_cast<double>(spec.route.experts_per_token) / static_cast<double>(spec.experts);
    const ValueId scales =
        builder.parameter(module + "." + names.expert_scale, {spec.experts}, {.dtype = kernels::DType::f32, .active = active});
    routing.weights = runtime::learned_scale(builder, routing.weights, scales, "mlp.expert_scale", routing.experts);
  }
  router_losses(builder, {.logits = logits, .scores = logits, .experts = routing.experts}, model, "mlp");
  const ValueId weights = weights_within_capacity(builder, routing, spec, "mlp"), none;
  const ExpertChoices choices{.x = x,
                              .experts = routing.experts,
                              .input_weights = spec.scale_input ? weights : none,
                              .result_weights = spec.scale_input ? none : weights};
  const auto products = [&](ValueId rows, ValueId offsets) -> ExpertValues {
    const std::string experts = module + "." + names.experts;
    const ExpertProjections projections(builder, spec, names, experts, offsets);
    const auto [gate, up] = projections.gate_and_up(rows, width);
    return {gate, up, projections.down(gated(builder, spec.expert, gate, up, experts, "mlp.glu"), width)};
  };
  ValueId shared;
  const ValueId sum = sum_of_experts(builder, spec, choices, "mlp", products, [&] {
    if (spec.shared && !spec.branch) shared = shared_expert(builder, x, width, spec, names, module);
  });
  return shared.valid() ? runtime::add(builder, sum, shared, "mlp.shared_sum") : sum;
}

ValueId branch_router_input(ProgramBuilder& builder, ValueId x, const ModelSpec& model, const ExpertNames& names,
                            const std::string& module) {
  const ValueId scales = builder.parameter(module + "." + names.router_scale, {model.width}, runtime::in_f32);
  const ValueId normed = runtime::rms_norm(builder, runtime::to_f32(builder, x, "mlp.router_stream"), scales,
                                           {.epsilon = static_cast<float>(model.norm.epsilon)}, "mlp.router_norm");
  return runtime::scale(builder, normed, 1 / std::sqrt(static_cast<double>(model.width)), "mlp.router_scale");
}

}  // namespace millrace::layers
