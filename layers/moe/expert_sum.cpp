#include "layers/moe/expert_sum.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/base/activation.hpp"
#include "kernels/base/check.hpp"
#include "kernels/base/exchange_round_options.hpp"

namespace millrace::layers {
namespace {

using runtime::ProgramBuilder;
using runtime::ValueId;

constexpr const char* expert_sum_component = "layers.experts";

/// Throws Error(config) unless as many ranks can share the experts.
void check_group(const runtime::ExpertGroup& group, const ExpertsSpec& spec) {
  if (spec.experts % group.members != 0) {
    std::int64_t fewer = group.members, more = group.members;
    while (spec.experts % fewer != 0) --fewer;
    while (more < spec.experts && spec.experts % more != 0) ++more;
    const std::string nearest = more <= spec.experts ? std::to_string(fewer) + " and " + std::to_string(more) : std::to_string(fewer);
    fail(ExitCode::config, expert_sum_component, "{} ranks share {} experts, expected a number of ranks that divides {}; nearest: {}",
         group.members, spec.experts, spec.experts, nearest);
  }
  const bool learned = !spec.expert.clamp && kernels::activation_parameters(spec.expert.activation) > 0;
  MILLRACE_CHECK(
      group.members == 1 || !learned, ExitCode::config, expert_sum_component,
      "{} ranks share experts whose activation {} has learned numbers that all experts have in common, expected one rank with all "
      "experts",
      group.members, kernels::to_string(spec.expert.activation));
}

void label_values(ProgramBuilder& builder, ValueId rows, const ExpertValues& values) {
  builder.label(rows, "moe_rows");
  for (const char* label : {"mlpwi_0", "moe_mlpwi_0"}) builder.label(values.gate, label);
  builder.label(values.up, "moe_mlpwi_1");
  for (const char* label : {"mlpwo", "moe_mlpwo"}) builder.label(values.results, label);
}

/// The rows of a layer on their way to the owners of their experts, and the results on their way back.
class RowExchange {
 public:
  /// `offsets` i32 [E + 1]: where this rank's rows of every expert begin.
  RowExchange(ProgramBuilder& builder, const ExpertsSpec& spec, ValueId offsets, const std::string& module, const ExpertProducts& products)
      : builder_(builder),
        spec_(spec),
        offsets_(offsets),
        module_(module),
        products_(products),
        rows_(expert_rows(builder.tokens_count(), spec.route.experts_per_token, spec.experts, builder.options().experts)) {
    // In rounds all members know the counts of all, so that they find the same rounds.
    const std::int64_t copies = rows_.rounds > 1 ? builder.options().experts.members : 1;
    counts_ = post_parts(builder, group_counts(builder, offsets, module + ".counts", copies), module + ".counts");
  }

  /// The results [T·K, D] of what gather() yields, the rows of this rank's tokens.
  template <class Gather>
  [[nodiscard]] ValueId results(Gather&& gather, const std::function<void()>& meanwhile) {
    return rows_.rounds == 1 ? at_once(gather(), meanwhile) : in_rounds(gather, meanwhile);
  }

 private:
  ValueId at_once(ValueId sent, const std::function<void()>& meanwhile) {
    const ValueId groups = group_offsets(builder_, await_rows(builder_, counts_), module_ + ".groups");
    name_rows(groups);
    const auto dispatch =
        post_rows(builder_, sent, {offsets_, groups}, builder_.bounded_by(groups, rows_.room, rows_.mean), module_ + ".dispatch");
    meanwhile();
    const ValueId rows = await_rows(builder_, dispatch);
    const ExpertValues values = products_(rows, groups);
    label_values(builder_, rows, values);
    return exchange_rows(builder_, values.results, {groups, offsets_}, builder_.type(sent).shape.dimension(0), module_ + ".combine");
  }

  /// The last round comes first: gradients then begin with the first, and add to those of weights in the order of one exchange.
  template <class Gather>
  ValueId in_rounds(Gather&& gather, const std::function<void()>& meanwhile) {
    builder_.enter_round(-1, false);
    const ValueId sent = gather();
    builder_.leave_rounds();
    const ValueId counts = await_rows(builder_, counts_);
    const kernels::Dimension choices = builder_.type(sent).shape.dimension(0);
    const int layer = builder_.layer();
    const std::string scope = builder_.scope();
    std::vector<runtime::PostedExchange> parts;
    for (std::int64_t round = rows_.rounds - 1; round >= 0; --round) {
      if (round > 0) builder_.enter(layer, fmt::format("{}.round{}", scope, round));
      const runtime::ExpertGroup& group = builder_.options().experts;
      const auto tables = runtime::exchange_round(
          builder_, counts, {.group = group.members, .place = group.member, .room = rows_.room, .round = round}, module_ + ".round");
      name_rows(tables.groups);
      if (round == 0) builder_.observe(runtime::more_rounds_name, runtime::copy(builder_, tables.more, module_ + ".more_rounds"));
      builder_.enter_round(static_cast<int>(round), round == 0);
      const std::int64_t mean = std::clamp(rows_.mean - round * rows_.room, std::int64_t{0}, rows_.room);
      const auto dispatch = post_rows(builder_, sent, {tables.send, tables.receive}, builder_.bounded_by(tables.groups, rows_.room, mean),
                                      module_ + ".dispatch");
      if (round == 0) {
        builder_.leave_rounds();
        meanwhile();
        builder_.enter_round(0, true);
      }
      const ValueId rows = await_rows(builder_, dispatch);
      const ExpertValues values = products_(rows, tables.groups);
      if (round == 0) label_values(builder_, rows, values);
      parts.push_back(post_rows(builder_, values.results, {tables.receive, tables.send}, choices, module_ + ".combine"));
      if (round > 0) await_part(builder_, parts.back());
      builder_.leave_rounds();
      builder_.enter(layer, scope);
    }
    builder_.enter_round(0, true);
    const ValueId results = await_rows(builder_, parts.back(), std::span(parts).first(parts.size() - 1));
    builder_.leave_rounds();
    return results;
  }

  void name_rows(ValueId groups) {
    const OwnExperts own = own_experts(builder_, spec_);
    builder_.set_expert_rows(groups, {own.slice.first, own.count});
  }

  ProgramBuilder& builder_;
  const ExpertsSpec& spec_;
  const ValueId offsets_;
  const std::string& module_;
  const ExpertProducts& products_;
  const ExpertRowCounts rows_;
  runtime::PostedExchange counts_;
};

}  // namespace

OwnExperts own_experts(const ProgramBuilder& builder, const ExpertsSpec& spec) {
  const runtime::ExpertGroup& group = builder.options().experts;
  check_group(group, spec);
  const std::int64_t count = spec.experts / group.members;
  return {.count = count, .slice = {.first = group.member * count, .whole = spec.experts}};
}

ExpertRowCounts expert_rows(std::int64_t tokens, std::int64_t experts_per_token, std::int64_t experts, const runtime::ExpertGroup& group) {
  // A token has at most as many rows for one owner as the owner has experts, and one for an expert.
  const std::int64_t chosen = std::min(experts_per_token, experts / group.members);
  ExpertRowCounts rows{.most = group.members * tokens * chosen, .mean = tokens * experts_per_token};
  const double asked = group.capacity * static_cast<double>(rows.mean);
  const std::int64_t least = std::min(tokens, kernels::exchange_run_rows);
  rows.room = group.capacity == 0 ? rows.most : std::clamp(static_cast<std::int64_t>(std::ceil(asked)), least, rows.most);
  rows.rounds = kernels::most_rounds(rows.most, tokens, rows.room);
  return rows;
}

ValueId sum_of_experts(ProgramBuilder& builder, const ExpertsSpec& spec, const ExpertChoices& choices, const std::string& module,
                       const ExpertProducts& products, const std::function<void()>& meanwhile) {
  const runtime::ExpertPlaces sorted = runtime::sort_by_expert(builder, choices.experts, spec.experts, module + ".sort");
  builder.observe(runtime::expert_load_name, runtime::copy(builder, sorted.offsets, module + ".load"));
  const auto gather = [&] { return runtime::gather_rows(builder, choices.x, sorted.places, module + ".dispatch", choices.input_weights); };
  const auto combine = [&](ValueId results) {
    return runtime::combine_rows(builder, results, sorted.places, module + ".combine", choices.result_weights);
  };
  if (builder.options().experts.members == 1) {
    const ValueId rows = gather();
    const ExpertValues values = products(rows, sorted.offsets);
    label_values(builder, rows, values);
    const ValueId sum = combine(values.results);
    meanwhile();
    return sum;
  }
  RowExchange exchange(builder, spec, sorted.offsets, module, products);
  return combine(exchange.results(gather, meanwhile));
}

}  // namespace millrace::layers
