#include "layers/moe/router_losses.hpp"

#include <algorithm>

#include "runtime/program/operations.hpp"

namespace millrace::layers {

void router_losses(runtime::ProgramBuilder& builder, const RouterValues& router, const ModelSpec& model, const std::string& module) {
  const auto routers = static_cast<double>(
      std::ranges::count_if(model.layers, [](const LayerSpec& layer) { return std::holds_alternative<ExpertsSpec>(layer.ffn); }));
  const auto declare = [&](const char* name, double weight, std::int64_t of_a_microbatch, runtime::ValueId value) {
    builder.loss_term({.name = name,
                       .weight = weight,
                       .denominator = runtime::Denominator::microbatches,
                       .divisor = static_cast<double>(of_a_microbatch) * routers,
                       .auxiliary = true},
                      value);
  };
  const std::int64_t rows = builder.options().rows;
  if (model.losses.balance_loss > 0)
    declare("moe_lb_loss", model.losses.balance_loss, rows,
            runtime::balance_loss(builder, router.scores, router.experts, {.sequences = rows}, module + ".balance_loss"));
  if (model.losses.router_z_loss > 0)
    declare("moe_z_loss", model.losses.router_z_loss, builder.tokens_count(),
            runtime::router_z_loss(builder, router.logits, module + ".z_loss"));
}

}  // namespace millrace::layers
