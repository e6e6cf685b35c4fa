#pragma once

#include <cstdint>
#include <span>

#include "actors/rank/batch_provider.hpp"
#include "runtime/data/choice_file.hpp"

namespace millrace::actors {

/// The completions of a multiple-choice file as held-out microbatches of one row each: context and completion, where only the
/// completion's tokens are targets.
class ChoiceData : public BatchProvider {
 public:
  /// `file` must outlive this object. A row has file.longest() − 1 tokens, since the last token is only a target.
  explicit ChoiceData(const runtime::ChoiceFile& file) : file_(file) {}

  [[nodiscard]] std::int64_t sequence() const noexcept { return static_cast<std::int64_t>(file_.longest()) - 1; }

  void fill(std::int64_t, std::int64_t, const runtime::BatchView&) const override {}
  [[nodiscard]] std::int64_t valid_targets(std::int64_t) const override { return 0; }
  [[nodiscard]] std::int64_t evaluation_microbatches() const override { return static_cast<std::int64_t>(file_.completions().size()); }
  void fill_evaluation(std::int64_t microbatch, const runtime::BatchView& batch) const override;
  [[nodiscard]] std::int64_t evaluation_targets(std::int64_t microbatches) const override;

 private:
  const runtime::ChoiceFile& file_;
};

/// The number of examples whose right completion has the lowest mean loss per token (the first one if there is a tie). `losses`
/// has one sum per completion.
[[nodiscard]] std::int64_t count_right(const runtime::ChoiceFile& file, std::span<const double> losses);

}  // namespace millrace::actors
