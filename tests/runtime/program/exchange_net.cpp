#include "tests/runtime/program/exchange_net.hpp"

#include <algorithm>
#include <optional>

#include "tests/runtime/program/expert_nets.hpp"

namespace millrace::runtime::testing {

ForwardProgram exchange_net(const ExpertGroup& group, kernels::DType compute) {
  constexpr std::int64_t experts = exchange_experts, width = exchange_width, hidden = exchange_hidden, chosen = 2;
  ProgramBuilder b({.compute = compute, .rows = 2, .sequence = 4, .experts = group});
  const std::int64_t own = experts / group.members;
  const auto slice = [&](std::optional<kernels::DType> dtype = {}) {
    return ParameterForm{.dtype = dtype, .experts = {group.member * own, experts}};
  };
  const auto x = embedding(b, b.batch("tokens"), b.parameter("table", {11, width}), "embedding");
  b.enter(0, "layers.0");
  const auto sorted = sort_by_expert(b, experts_of_tokens(b, chosen, experts, "experts"), experts, "sort");
  ValueId received = sorted.offsets, beside;
  const auto append_beside = [&] {
    beside = activate(b, kernels::Activation::silu, linear(b, x, b.parameter("beside", {width, width}), "beside"), "beside.silu");
  };
  auto rows = gather_rows(b, x, sorted.places, "dispatch");
  const auto choices = b.type(rows).shape.dimension(0);
  if (group.members > 1) {
    received = group_offsets(b, await_rows(b, post_parts(b, group_counts(b, sorted.offsets, "counts"), "counts")), "groups");
    const auto capacity = b.bounded_by(received, group.members * b.tokens_count() * std::min(chosen, own), b.tokens_count() * chosen);
    const auto posted = post_rows(b, rows, {sorted.offsets, received}, capacity, "dispatch");
    append_beside();
    rows = await_rows(b, posted);
  }
  const auto wide = grouped_linear(b, rows, b.parameter("wide", {own, hidden, width}, slice()), received, "wide",
                                   b.parameter("wide.bias", {own, hidden}, slice(kernels::DType::f32)), 64);
  b.label(wide, "mlpwi_0");
  const auto activated = activate(b, kernels::Activation::silu, wide, "silu");
  auto back = grouped_linear(b, activated, b.parameter("back", {own, width, hidden}, slice()), received, "back", {}, 64);
  if (group.members > 1) back = exchange_rows(b, back, {received, sorted.offsets}, choices, "combine");
  const auto weights = leading_columns(b, x, chosen, "weights");
  const auto sum = combine_rows(b, back, sorted.places, "combine", weights);
  if (!beside.valid()) append_beside();
  const auto y = add(b, sum, beside, "sum");
  b.enter(-1, "");
  b.loss_term({.name = "lm_loss"}, linear_cross_entropy(b, y, b.parameter("head", {11, width}), b.batch("targets"), {}, "loss"));
  return b.finish();
}

}  // namespace millrace::runtime::testing
