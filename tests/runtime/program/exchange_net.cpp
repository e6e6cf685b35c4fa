#include "tests/runtime/program/exchange_net.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

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
  ValueId beside;
  const auto append_beside = [&] {
    beside = activate(b, kernels::Activation::silu, linear(b, x, b.parameter("beside", {width, width}), "beside"), "beside.silu");
  };
  const auto products = [&](ValueId rows, ValueId groups) {
    const auto wide = grouped_linear(b, rows, b.parameter("wide", {own, hidden, width}, slice()), groups, "wide",
                                     b.parameter("wide.bias", {own, hidden}, slice(kernels::DType::f32)));
    b.label(wide, "mlpwi_0");
    const auto activated = activate(b, kernels::Activation::silu, wide, "silu");
    return grouped_linear(b, activated, b.parameter("back", {own, width, hidden}, slice()), groups, "back");
  };
  const std::int64_t tokens = b.tokens_count(), most = group.members * tokens * std::min(chosen, own), mean = tokens * chosen;
  const std::int64_t room =
      group.capacity == 0 ? most : std::max<std::int64_t>(tokens, std::llround(group.capacity * static_cast<double>(mean)));
  const std::int64_t rounds = kernels::most_rounds(most, tokens, room);
  if (rounds > 1) b.enter_round(-1, false);
  const auto sent = gather_rows(b, x, sorted.places, "dispatch");
  b.leave_rounds();
  const auto choices = b.type(sent).shape.dimension(0);
  ValueId back;
  if (group.members == 1) {
    back = products(sent, sorted.offsets);
  } else if (rounds == 1) {
    const auto received = group_offsets(b, await_rows(b, post_parts(b, group_counts(b, sorted.offsets, "counts"), "counts")), "groups");
    const auto posted = post_rows(b, sent, {sorted.offsets, received}, b.bounded_by(received, most, mean), "dispatch");
    append_beside();
    const auto results = products(await_rows(b, posted), received);
    back = exchange_rows(b, results, {received, sorted.offsets}, choices, "combine");
  } else {
    const auto counts = await_rows(b, post_parts(b, group_counts(b, sorted.offsets, "counts", group.members), "counts"));
    std::vector<PostedExchange> parts;
    for (std::int64_t round = rounds - 1; round >= 0; --round) {
      b.enter(0, "layers.0.round" + std::to_string(round));
      const auto tables =
          exchange_round(b, counts, {.group = group.members, .place = group.member, .room = room, .round = round}, "tables");
      b.enter_round(static_cast<int>(round), round == 0);
      const auto posted = post_rows(b, sent, {tables.send, tables.receive}, b.bounded_by(tables.groups, room, 0), "dispatch");
      const auto results = products(await_rows(b, posted), tables.groups);
      parts.push_back(post_rows(b, results, {tables.receive, tables.send}, choices, "combine"));
      if (round > 0) await_part(b, parts.back());
    }
    back = await_rows(b, parts.back(), std::span(parts).first(parts.size() - 1));
    b.leave_rounds();
    b.enter(0, "layers.0");
  }
  const auto weights = leading_columns(b, x, chosen, "weights");
  const auto sum = combine_rows(b, back, sorted.places, "combine", weights);
  if (!beside.valid()) append_beside();
  const auto y = add(b, sum, beside, "sum");
  b.enter(-1, "");
  b.loss_term({.name = "lm_loss"}, linear_cross_entropy(b, y, b.parameter("head", {11, width}), b.batch("targets"), {}, "loss"));
  return b.finish();
}

}  // namespace millrace::runtime::testing
