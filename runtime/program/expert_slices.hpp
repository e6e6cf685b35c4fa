#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/program/value.hpp"

namespace millrace::runtime {

/// The rows of one expert and source in a value whose rows are in the order of experts.
struct ExpertRowRange {
  std::int64_t expert = 0;
  std::int64_t source = 0;
  std::int64_t first = 0, rows = 0;
};
/// All of them that have rows, in the order of the table. Throws Error(internal) for a table that is not ascending or ends beyond `rows`.
[[nodiscard]] std::vector<ExpertRowRange> expert_row_ranges(const ExpertRows& groups, std::span<const std::int32_t> table,
                                                            std::int64_t rows);

/// "layers.0.mlp.experts.gate_proj.weight#expert3": how recordings name an expert's part of a tensor, which does not depend on who has it.
[[nodiscard]] std::string expert_name(std::string_view tensor, std::int64_t expert);
/// The tensor and the expert of such a name; nothing for the name of a whole tensor.
struct NamedExpert {
  std::string_view tensor;
  std::int64_t expert = 0;
};
[[nodiscard]] std::optional<NamedExpert> named_expert(std::string_view name);

}  // namespace millrace::runtime
