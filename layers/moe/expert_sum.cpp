#include "layers/moe/expert_sum.hpp"

#include <algorithm>

#include "kernels/base/activation.hpp"
#include "kernels/base/check.hpp"

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

/// The exchanges of a layer among the ranks of a group.
class RowExchange {
 public:
  /// Tells the other ranks how many rows they get. `offsets` i32 [E + 1]: where this rank's rows of every expert begin.
  RowExchange(ProgramBuilder& builder, const ExpertsSpec& spec, ValueId offsets, const std::string& module)
      : builder_(builder),
        spec_(spec),
        offsets_(offsets),
        module_(module),
        members_(builder.options().experts.members),
        counts_(post_parts(builder, group_counts(builder, offsets, module + ".counts"), module + ".counts")) {
    // A token has at most as many rows for one owner as the owner has experts.
    const std::int64_t chosen = std::min(spec.route.experts_per_token, spec.experts / members_);
    capacity_ = members_ * builder.tokens_count() * chosen;
    mean_ = builder.tokens_count() * spec.route.experts_per_token;  // what all members receive together, shared out evenly
  }

  /// Posts the rows [T·K, D] of this rank's tokens. Where each group of the rows that it will receive begins is known from here on.
  [[nodiscard]] runtime::PostedExchange post_to_owners(ValueId rows) {
    received_ = group_offsets(builder_, await_rows(builder_, counts_), module_ + ".groups");
    const OwnExperts own = own_experts(builder_, spec_);
    builder_.set_expert_rows(received_, {own.slice.first, own.count});
    return post_rows(builder_, rows, {offsets_, received_}, builder_.bounded_by(received_, capacity_, mean_), module_ + ".dispatch");
  }
  [[nodiscard]] ValueId groups() const { return received_; }
  /// Sends the results back to where the rows came from.
  [[nodiscard]] ValueId return_results(ValueId results, const kernels::Dimension& rows) {
    return exchange_rows(builder_, results, {received_, offsets_}, rows, module_ + ".combine");
  }

 private:
  ProgramBuilder& builder_;
  const ExpertsSpec& spec_;
  ValueId offsets_, received_;
  const std::string& module_;
  std::int64_t members_, capacity_ = 0, mean_ = 0;
  runtime::PostedExchange counts_;
};

void label_values(ProgramBuilder& builder, ValueId rows, const ExpertValues& values) {
  builder.label(rows, "moe_rows");
  for (const char* label : {"mlpwi_0", "moe_mlpwi_0"}) builder.label(values.gate, label);
  builder.label(values.up, "moe_mlpwi_1");
  for (const char* label : {"mlpwo", "moe_mlpwo"}) builder.label(values.results, label);
}

}  // namespace

OwnExperts own_experts(const ProgramBuilder& builder, const ExpertsSpec& spec) {
  const runtime::ExpertGroup& group = builder.options().experts;
  check_group(group, spec);
  const std::int64_t count = spec.experts / group.members;
  return {.count = count,
          .slice = {.first = group.member * count, .whole = spec.experts},
          .tile = kernels::grouped_tile(builder.tokens_count() * spec.route.experts_per_token, spec.experts)};
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
  RowExchange exchange(builder, spec, sorted.offsets, module);
  const ValueId sent = gather();
  const runtime::PostedExchange dispatch = exchange.post_to_owners(sent);
  meanwhile();
  const ValueId rows = await_rows(builder, dispatch);
  const ExpertValues values = products(rows, exchange.groups());
  label_values(builder, rows, values);
  return combine(exchange.return_results(values.results, builder.type(sent).shape.dimension(0)));
}

}  // namespace millrace::layers
