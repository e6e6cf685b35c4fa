#pragma once

#include <string>
#include <vector>

namespace millrace::tests {

/// The families of mixtures whose runs are compared between owners of experts: mixtral, qwen3_moe, gpt_oss, deepseek_v3, and maxtext, a
/// mixture of MaxText's.
[[nodiscard]] const std::vector<std::string>& expert_models();

/// Words for run_small() of a smallest model of the family, with eight microbatches in four gradient sums, and those of the layout.
[[nodiscard]] std::vector<std::string> expert_run(const std::string& model, const std::vector<std::string>& layout);

}  // namespace millrace::tests
