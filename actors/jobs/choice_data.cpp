#include "actors/jobs/choice_data.hpp"

#include <algorithm>
#include <vector>

namespace millrace::actors {

void ChoiceData::fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const {
  const auto& completion = file_.completions().at(static_cast<std::size_t>(microbatch));
  std::vector<std::int32_t> tokens(completion.length());
  file_.read(completion, tokens);
  runtime::pad(batch);
  for (std::size_t t = 0; t + 1 < tokens.size(); ++t) {
    batch.tokens[t] = tokens[t];
    batch.positions[t] = static_cast<std::int32_t>(t);
    batch.segments[t] = 1;
    if (t + 1 >= completion.context_tokens) batch.targets[t] = tokens[t + 1];
  }
}

std::int64_t ChoiceData::evaluation_targets(std::int64_t microbatches) const {
  std::int64_t targets = 0;
  for (std::int64_t m = 0; m < microbatches; ++m)
    targets += static_cast<std::int64_t>(file_.completions()[static_cast<std::size_t>(m)].count);
  return targets;
}

std::int64_t count_right(const runtime::ChoiceFile& file, std::span<const double> losses) {
  std::int64_t right = 0;
  for (const auto& example : file.examples()) {
    std::vector<double> means;
    for (std::size_t i = example.first; i < example.first + example.count; ++i)
      means.push_back(losses[i] / static_cast<double>(file.completions()[i].count));
    const auto best = static_cast<std::size_t>(std::min_element(means.begin(), means.end()) - means.begin());
    right += best == example.right ? 1 : 0;
  }
  return right;
}

}  // namespace millrace::actors
