#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "actors/setup/run_settings.hpp"
#include "runtime/data/tokenizers/tokenizer.hpp"

namespace millrace::actors {

/// The prompt of a run's sample as tokens, and the sample as text, in process 0. The tokens of data.text are bytes; those of data.tokens
/// have the tokenizer in the run directory, else the one that find_run_tokenizer() finds.
class SampleText {
 public:
  /// Without a sample it reads nothing. Errors: Error(config) if no tokenizer is known or if the prompt does not fit the model's
  /// vocabulary, Error(data) for files that cannot be read.
  explicit SampleText(const RunSettings& settings);

  [[nodiscard]] const std::vector<std::int32_t>& prompt() const noexcept { return prompt_; }
  [[nodiscard]] std::string text_of(const std::vector<std::int32_t>& tokens) const;

 private:
  std::unique_ptr<const runtime::Tokenizer> tokenizer_;  // empty for bytes
  std::vector<std::int32_t> prompt_;
};

}  // namespace millrace::actors
