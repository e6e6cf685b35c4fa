#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "layers/layer_spec.hpp"
#include "runtime/program/operations.hpp"

namespace millrace::layers {

/// The experts that a program computes: all of them, or if the ranks of a group share them (ProgramBuilder::Options::experts) those of the
/// group's member.
struct OwnExperts {
  std::int64_t count = 0;
  runtime::ExpertSlice slice;  // of weights and biases that have a part for each of them
};
/// Throws Error(config) if the group cannot share the experts of `spec`.
[[nodiscard]] OwnExperts own_experts(const runtime::ProgramBuilder& builder, const ExpertsSpec& spec);

/// The rows that the owner of a layer's experts gets for a microbatch of every member.
struct ExpertRowCounts {
  std::int64_t most = 0;    // if all members choose its experts for all of their tokens
  std::int64_t mean = 0;    // T·K: if all experts are chosen equally often
  std::int64_t room = 0;    // that it has memory for
  std::int64_t rounds = 1;  // of exchanges that suffice for `most`
};
/// `tokens`: T of a microbatch, each with K different experts. The room is ExpertGroup::capacity times the mean, at least that of a run
/// (kernels/base/exchange_round_options.hpp).
[[nodiscard]] ExpertRowCounts expert_rows(std::int64_t tokens, std::int64_t experts_per_token, std::int64_t experts,
                                          const runtime::ExpertGroup& group);

/// The experts that a router chose for x [T, D], and how they are weighed: f32 [T, K] that multiply their inputs or their results.
struct ExpertChoices {
  runtime::ValueId x;
  runtime::ValueId experts;  // i32 [T, K]
  runtime::ValueId input_weights = {}, result_weights = {};
};

/// The values of experts that have labels: gate and up [R, F], results [R, D].
struct ExpertValues {
  runtime::ValueId gate, up, results;
};
/// What the experts compute of rows [R, D] in groups that begin at `offsets`: E groups, or of a group of ranks those of all members, one
/// after the other.
using ExpertProducts = std::function<ExpertValues(runtime::ValueId rows, runtime::ValueId offsets)>;

/// Each token's sum of its experts' results, in the order in which they were chosen: [T, D]. One rank with all experts gathers the rows of
/// each, computes and combines. The ranks of a group exchange: every one tells the others how many rows it has for each of their experts,
/// sends the rows to the owners of these experts, computes its own experts on the rows of all, and gets the results back. Rows are received
/// in the order of ranks, then of experts, so that an owner adds the gradients of its weights in the order of microbatches on one rank. If
/// an owner may get more rows than it has room for, they are exchanged and computed in rounds, of which most are empty if experts are
/// chosen about equally often. Only the first round's values are kept for gradients; others are exchanged and computed again.
///
/// `meanwhile` appends operations that do not depend on the experts' results, which a group computes while rows are on their way, and one
/// rank afterwards. `module` begins the operations' names. Observes the load of the experts by the rank's own tokens. Labels: moe_rows (the
/// rows that experts compute), mlpwi_0 and moe_mlpwi_0 (gate), moe_mlpwi_1 (up), mlpwo and moe_mlpwo (results).
[[nodiscard]] runtime::ValueId sum_of_experts(runtime::ProgramBuilder& builder, const ExpertsSpec& spec, const ExpertChoices& choices,
                                              const std::string& module, const ExpertProducts& products,
                                              const std::function<void()>& meanwhile);

}  // namespace millrace::layers
